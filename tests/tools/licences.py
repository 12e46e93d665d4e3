#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Checks the licences and the sources of all crates, from the output of cargo metadata.

usage: cargo metadata --format-version 1 | licences.py

The command is GPL-2.0-only, so that a crate under the Apache licence alone may not be in it. The file
deny.toml says the same for cargo deny, which also knows of security advisories, but needs the network.
"""

from __future__ import annotations

import json
import re
import sys

ALLOWED = {
    "0BSD",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "GPL-2.0-only",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
}

def is_allowed(expression: str) -> bool:
    """Whether one of the alternatives of an SPDX expression has only licences that are allowed."""
    words = expression.replace("(", " ").replace(")", " ")
    alternatives = re.split(r"/| OR ", words)
    return any(
        all(part.strip() in ALLOWED for part in alternative.split(" AND "))
        for alternative in alternatives
    )


def main() -> None:
    if not is_allowed("MIT OR Apache-2.0") or is_allowed("Apache-2.0"):
        sys.exit("licences: the check is wrong")
    packages = json.load(sys.stdin)["packages"]
    wrong = [
        f"{package['name']} {package['version']}: {package['license']} from {package['source']}"
        for package in packages
        if not is_allowed(package["license"] or "")
        # Crates of this workspace have no source; no other may come from git or a folder.
        or not (package["source"] or "registry+").startswith("registry+")
    ]
    print(f"{len(packages)} crates")
    if wrong or len(packages) < 5:
        sys.exit("\n".join(["licences: not allowed:", *wrong]))


if __name__ == "__main__":
    main()
