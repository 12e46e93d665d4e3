#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Show the instructions that callgrind has counted: see tests/bench/host.

COUNTS has a file SUBJECT.OPERATION of callgrind for each line of its file `list`, all other instructions
in its file `others`, and the size of the command in `size`. Prints tables, and writes the numbers to
JSON. Fails if recording takes the engine more instructions than a crate that does no more.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

# The subjects that do no more than the crate beside them: see src/lib.rs.
PAIRS = {
    "schedhist, the bucket alone": "histogram (H2)",
    "schedhist, all of a slice": "hdrhistogram, 2 digits",
}
WHAT = {
    "record": "to record a value",
    "merge": "to add a histogram to another",
    "quantiles": "to find five quantiles",
}


def counted(file: Path, times: int) -> float:
    lines = dict(line.split(": ", 1) for line in file.read_text().splitlines() if ": " in line)
    return int(lines["totals"]) / times


def read(counts: Path) -> dict[tuple[str, str], float]:
    """The instructions of each operation and subject."""
    rows = {}
    for line in (counts / "list").read_text().splitlines():
        subject, operation, times = line.split("\t")
        rows[operation, subject] = counted(counts / f"{subject}.{operation}", int(times))
    return rows


def others(counts: Path) -> dict[str, int]:
    lines = (line.split("\t") for line in (counts / "others").read_text().splitlines())
    return {name: int(instructions) for name, instructions in lines}


def show(rows: dict[tuple[str, str], float]) -> None:
    for wanted, what in WHAT.items():
        print(f"{what:40}{'instructions':>13}")
        for (operation, subject), count in rows.items():
            if operation == wanted:
                print(f"{subject:40}{count:13.{1 if operation == 'record' else 0}f}")
        print()


def verdict(rows: dict[tuple[str, str], float]) -> bool:
    good = True
    for pair in PAIRS.items():
        ours, theirs = (rows["record", subject] for subject in pair)
        word = "not more than" if ours <= theirs else "MORE than"
        print(f"{pair[0]}: {ours:.1f} instructions, {word} {pair[1]}: {theirs:.1f}")
        good &= ours <= theirs
    return good


def figure(row: str, value: float, unit: str = "instructions") -> dict[str, str | float]:
    return {"part": "host", "row": row, "column": unit, "value": round(value, 3), "unit": unit}


def main(counts: Path, output: Path) -> None:
    rows = read(counts)
    show(rows)
    figures = [figure(f"{operation}: {subject}", count) for (operation, subject), count in rows.items()]
    print(f"{'':40}{'instructions':>13}")
    for name, count in others(counts).items():
        print(f"{name:40}{count:13}")
        figures.append(figure(name, count))
    size = int((counts / "size").read_text())
    print(f"{'command: its size, bytes':40}{size:13}\n")
    figures.append(figure("command: its size", size, "bytes"))
    output.write_text(json.dumps(figures, indent=1) + "\n")
    sys.exit(not verdict(rows))


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("counts", metavar="COUNTS", type=Path)
parser.add_argument("output", metavar="JSON", type=Path)
main(**vars(parser.parse_args()))
