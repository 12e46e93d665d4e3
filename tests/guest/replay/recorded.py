# SPDX-License-Identifier: GPL-2.0
"""Reads what schedhist recorded."""

from dataclasses import dataclass
from pathlib import Path

from harness import module

from .common import die


@dataclass
class Histogram:
    """The samples of a metric in a window. The extremes are those of all time, and `* before` the earlier ones,
    for which `compare_histogram` allows."""

    values: dict[str, int]
    buckets: list[tuple[int, float, int]]


def read_histogram(folder: Path, cpu: int, metric: str) -> module.Histogram:
    file = folder / f"per_cpu/cpu{cpu}/hist/{metric}"
    return module.Histogram(file.read_text(), str(file))


def subtract(after: module.Histogram, before: module.Histogram) -> Histogram:
    """Returns the samples since `before`."""
    values = {"precision": after.precision, "count": after.count - before.count, "sum": after.sum - before.sum}
    for key, now, then in ("min", after.min, before.min), ("max", after.max, before.max):
        values |= {key: value for value in now} | {f"{key} before": value for value in then}
    counts = {lower: count for lower, (_, count) in before.buckets.items()}
    buckets = [(lower, upper, n - counts.pop(lower, 0)) for lower, (upper, n) in after.buckets.items()]
    if counts or any(count < 0 for _, _, count in buckets):
        die("a bucket has shrunk")
    return Histogram(values, buckets)


@dataclass
class Module:
    """The recordings of schedhist."""

    counters: dict[int, dict[str, int]]
    histograms: dict[int, dict[str, Histogram]]


def read_module(folder: Path) -> Module:
    before, after = (module.Status((folder / when / "status").read_text()) for when in ("before", "after"))
    found = Module({}, {})
    for scope in after.cpus:
        cpu = int(scope[3:])
        found.counters[cpu] = {key: n - before.counters[scope][key] for key, n in after.counters[scope].items()}
        found.histograms[cpu] = {
            file.name: subtract(*(read_histogram(folder / when, cpu, file.name) for when in ("after", "before")))
            for file in (folder / f"after/per_cpu/{scope}/hist").iterdir()
        }
    return found
