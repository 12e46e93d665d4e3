#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Print the layout of the module's structures that tests/bench/native fills, as a C header."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys

FIELDS = {
    "CpuRecorder": ["records", "tasks"],
    "Recorder": ["tasks"],
    "Header": ["totals"],
    "Totals": ["ranges"],
    "Range": ["minus_min"],
}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("module", metavar="SCHEDHIST.KO")
    module = arguments.parse_args().module
    command = ["pahole", "-C", ",".join(FIELDS), module]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    for struct, fields in FIELDS.items():
        found = re.search(rf"^struct {struct} {{$(.*?)^}}", text, re.M | re.S)
        size = found and re.search(r"/\* size: (\d+),", found[1])
        if not size:
            sys.exit(f"layout.py: {module} has no struct {struct}")
        print(f"#define SIZEOF_{struct.upper()} {size[1]}")
        for field in fields:
            name = rf"\b{field}(?:\[\d+\])?(?: __attribute__\S+)?; +/\* +(\d+) +(\d+) \*/"
            place = re.search(name, found[1])
            if not place:
                sys.exit(f"layout.py: struct {struct} has no field {field}")
            name = f"{struct}_{field}".upper()
            print(f"#define OFFSET_{name} {place[1]}\n#define SIZEOF_{name} {place[2]}")


main()
