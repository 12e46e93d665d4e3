#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Extracts the commands of documents: indented blocks with a line that begins with "schedhist ", and
those of a chapter "Recipes" that use tracefs.

usage: doc_commands.py FOLDER DOCUMENT...

Writes each block as it stands to FOLDER/NN.sh, in the order of the documents, and prints their number.
"""

from __future__ import annotations

import re
import sys


def blocks(path: str) -> list[str]:
    found, block, chapter = [], [], ""
    fenced = False
    with open(path, encoding="utf-8") as opened:
        lines = opened.read().split("\n")
    for line in [*lines, ""]:
        if line.startswith("```"):
            fenced = not fenced
        elif line.startswith("## ") and not fenced:
            chapter = line
        if line.startswith("    ") and not fenced:
            block.append(line[4:])
            continue
        text = "\n".join(block)
        traces = "/sys/kernel/tracing" in text or "trace_clock" in text
        if (chapter == "## Recipes" and traces) or re.search(r"^\s*schedhist ", text, re.M):
            found.append(text)
        block = []
    return found


def main() -> None:
    if len(sys.argv) < 3 or sys.argv[1].startswith("-"):
        print(__doc__)
        sys.exit(0 if sys.argv[1:] in (["--help"], ["-h"]) else 2)
    number = 0
    for path in sys.argv[2:]:
        for block in blocks(path):
            with open(f"{sys.argv[1]}/{number:02}.sh", "w", encoding="utf-8") as out:
                out.write(block + "\n")
            number += 1
    print(number)


if __name__ == "__main__":
    main()
