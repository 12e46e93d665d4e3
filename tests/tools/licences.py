#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Checks the licences, sources and versions of all crates, from the output of cargo metadata.

usage: cargo metadata --format-version 1 --filter-platform x86_64-unknown-linux-gnu | licences.py DENY_TOML

The command is GPL-2.0-only, so that a crate under the Apache licence alone may not be in it. The file
deny.toml lists what is allowed, for cargo deny, too, which also knows of security advisories, but needs
the network.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections import Counter
from pathlib import Path

DENY = tomllib.loads(Path(sys.argv[1]).read_text())
ALLOWED = set(DENY["licenses"]["allow"])


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
    skipped = {skip["crate"] for skip in DENY["bans"]["skip"]}
    versions = Counter(package["name"] for package in packages if package["name"] not in skipped)
    wrong += [f"{name}: {count} versions" for name, count in versions.items() if count > 1]
    print(f"{len(packages)} crates")
    if wrong or len(packages) < 5:
        sys.exit("\n".join(["licences: not allowed:", *wrong]))


if __name__ == "__main__":
    main()
