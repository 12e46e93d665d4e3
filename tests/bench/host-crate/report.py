#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Combine the counts of callgrind and the times of Criterion: see tests/bench/host.

COUNTS has a file SUBJECT.OPERATION of callgrind for each line of its file `list`, all other instructions
in its file `others`, and the size of the command in `size`; CRITERION has the results of Criterion.
Prints tables, and writes the numbers to JSON. Fails if recording takes the engine more instructions
than a crate that does no more.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path

# Loads and stores are those of callgrind: one for each instruction that reads, or writes.
EVENTS = {"instructions": ["Ir"], "loads": ["Dr"], "stores": ["Dw"], "branches": ["Bc", "Bi"]}
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


@dataclass
class Row:
    subject: str
    operation: str
    counts: dict[str, float]
    # Nanoseconds: the mean, and its 95 % confidence interval.
    time: tuple[float, float, float]


def counted(file: Path, times: int) -> dict[str, float]:
    lines = dict(line.split(": ", 1) for line in file.read_text().splitlines() if ": " in line)
    events = dict(zip(lines["events"].split(), map(int, lines["totals"].split())))
    return {name: sum(events[part] for part in parts) / times for name, parts in EVENTS.items()}


def timed(file: Path, times: int) -> tuple[float, float, float]:
    mean = json.loads(file.read_text())["mean"]
    interval = mean["confidence_interval"]
    found = mean["point_estimate"], interval["lower_bound"], interval["upper_bound"]
    return tuple(time / times for time in found)


def read(counts: Path, criterion: Path) -> list[Row]:
    rows = []
    for line in (counts / "list").read_text().splitlines():
        subject, operation, times = line.split("\t")
        rows.append(Row(subject, operation, counted(counts / f"{subject}.{operation}", int(times)),
                        timed(criterion / operation / subject / "new/estimates.json", int(times))))
    return rows


def others(counts: Path) -> dict[str, int]:
    lines = (line.split("\t") for line in (counts / "others").read_text().splitlines())
    return {name: int(instructions) for name, instructions in lines}


def show(rows: list[Row]) -> None:
    print("# histograms on this machine; instructions, loads, stores and branches repeat, times do not")
    for operation, what in WHAT.items():
        print(f"\n{what:32}" + "".join(f"{name:>13}" for name in EVENTS) + f"{'ns':>11}  (95 %)")
        for row in filter(lambda row: row.operation == operation, rows):
            digits = 1 if operation == "record" else 0
            mean, low, high = (f"{time:.2f}" for time in row.time)
            print(f"{row.subject:32}" + "".join(f"{count:13.{digits}f}" for count in row.counts.values())
                  + f"{mean:>11}  ({low} to {high})")


def verdict(rows: list[Row]) -> bool:
    recorded = {row.subject: row.counts["instructions"] for row in rows if row.operation == "record"}
    print()
    for ours, theirs in PAIRS.items():
        word = "not more than" if recorded[ours] <= recorded[theirs] else "MORE than"
        print(f"{ours}: {recorded[ours]:.1f} instructions, {word} {theirs}: {recorded[theirs]:.1f}")
    return all(recorded[ours] <= recorded[theirs] for ours, theirs in PAIRS.items())


def numbers(rows: list[Row]) -> list[dict[str, str | float]]:
    found = []
    for row in rows:
        units = [(name, count, name) for name, count in row.counts.items()]
        units.append(("time", row.time[0], "ns"))
        for column, value, unit in units:
            found.append({"part": "host", "row": f"{row.operation}: {row.subject}", "column": column,
                          "value": round(value, 3), "unit": unit})
    return found


def main(counts: str, criterion: str, output: str) -> None:
    rows = read(Path(counts), Path(criterion))
    show(rows)
    print(f"\n{'':40}{'instructions':>13}")
    figures = numbers(rows)
    for name, count in others(Path(counts)).items():
        print(f"{name:40}{count:13}")
        figures.append({"part": "host", "row": name, "column": "instructions", "value": count,
                        "unit": "instructions"})
    size = int((Path(counts) / "size").read_text())
    print(f"{'command: its size, bytes':40}{size:13}")
    figures.append({"part": "host", "row": "command: its size", "column": "bytes", "value": size, "unit": "bytes"})
    Path(output).write_text(json.dumps(figures, indent=1) + "\n")
    sys.exit(not verdict(rows))


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
for name in ("counts", "criterion", "output"):
    parser.add_argument(name, metavar="JSON" if name == "output" else name.upper())
main(**vars(parser.parse_args()))
