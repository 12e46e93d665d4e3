# SPDX-License-Identifier: GPL-2.0
"""Reads what schedhist recorded."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from common import die


@dataclass
class Histogram:
    """A histogram file of schedhist."""

    values: dict[str, int] = field(default_factory=dict)
    buckets: list[tuple[int, int, int]] = field(default_factory=list)


def read_histogram(file: Path) -> Histogram:
    histogram = Histogram()
    for line in file.read_text().splitlines():
        words = line.split()
        if words[0] == "bucket":
            upper = 2**64 - 1 if words[2] == "inf" else int(words[2])
            histogram.buckets.append((int(words[1]), upper, int(words[3])))
        elif len(words) == 2 and words[1].isdigit():
            histogram.values[words[0]] = int(words[1])
    return histogram


def subtract(after: Histogram, before: Histogram) -> Histogram:
    """Returns the samples since `before`. The extremes are those of all time: `compare_histogram`
    allows for the earlier ones, which are under other names."""
    values = dict(after.values)
    for key in "count", "sum":
        values[key] -= before.values[key]
    for key in "min", "max":
        if key in before.values:
            values[f"{key} before"] = before.values[key]
    counts = {(lower, upper): count for lower, upper, count in before.buckets}
    buckets = [(*bounds, n - counts.pop(tuple(bounds), 0)) for *bounds, n in after.buckets]
    if counts or any(count < 0 for _, _, count in buckets):
        die("a bucket has shrunk")
    return Histogram(values, buckets)


@dataclass
class Module:
    """The recordings of schedhist."""

    counters: dict[int, dict[str, int]]
    histograms: dict[int, dict[str, Histogram]]


def read_counters(folder: Path) -> dict[int, dict[str, int]]:
    counters: dict[int, dict[str, int]] = {}
    for line in (folder / "status").read_text().splitlines():
        words = line.split()
        if len(words) == 3 and words[0].startswith("cpu") and words[2].isdigit():
            counters.setdefault(int(words[0][3:]), {})[words[1]] = int(words[2])
    return counters


def read_module(folder: Path) -> Module:
    before, after = read_counters(folder / "before"), read_counters(folder / "after")
    module = Module({}, {})
    for cpu, counters in after.items():
        module.counters[cpu] = {key: n - before[cpu][key] for key, n in counters.items()}
        module.histograms[cpu] = {
            file.name: subtract(
                read_histogram(file),
                read_histogram(folder / f"before/per_cpu/cpu{cpu}/hist" / file.name),
            )
            for file in (folder / "after/per_cpu" / f"cpu{cpu}" / "hist").iterdir()
        }
    return module
