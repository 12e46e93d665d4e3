#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Checks that the trace events of a window are its samples, bucket by bucket, on each CPU.

usage: samples.py BEFORE AFTER EVENTS

BEFORE and AFTER are directories with copies of the histograms, PER_CPU/METRIC; EVENTS holds a line
for each event: its name, a colon, and its text. Measuring must have been off at both ends.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from collections import Counter, defaultdict
from pathlib import Path

VALUES = r"cpu=(?P<cpu>\d+) duration_ns=(?P<ns>\d+)"
SAMPLE = re.compile(r"(?P<event>[a-z]+): comm=.* pid=\d+ prio=-?\d+ " + VALUES + r" cause=(?P<cause>[a-z_]+) group=\d+")
IDLE = re.compile(r"(?P<event>idle): " + VALUES + r" next_comm=.* next_pid=\d+ next_prio=-?\d+(?P<cause>)")
METRICS_OF_BLOCKED = "blocked_interruptible", "blocked_uninterruptible"
METRICS = "oncpu", "runq", "runq_wakeup", "runq_preempt", *METRICS_OF_BLOCKED, "offcpu", "idle", "wakeup", "throttled"


def metrics_of(event: str, cause: str) -> list[str]:
    """Returns the histograms that count an event."""
    if event == "runq":
        return ["runq", "runq_preempt" if cause == "preempted" else "runq_wakeup"]
    return [f"blocked_{cause}"] if event == "blocked" else [event]


class Histogram:
    """The buckets by their lower bounds, and the sum."""

    def __init__(self, path: Path) -> None:
        self.buckets: Counter[int] = Counter()
        for words in map(str.split, path.read_text().splitlines()):
            if words[0] == "bucket":
                self.buckets[int(words[1])] = int(words[3])
            elif words[0] == "sum":
                self.sum = int(words[1])


def main(before: Path, after: Path, events: Path) -> int:
    samples: dict[tuple[str, str], list[int]] = defaultdict(list)
    for line in events.read_text(errors="replace").splitlines():
        if line.startswith(("outlier: ", "culprit: ")):
            continue
        match = SAMPLE.fullmatch(line) or IDLE.fullmatch(line)
        if not match:
            sys.exit(f"samples: what is this? {line}")
        for metric in metrics_of(match["event"], match["cause"]):
            samples[f"cpu{match['cpu']}", metric].append(int(match["ns"]))
    wrong, checked, buckets = [], 0, 0
    for folder in after.iterdir():
        for metric in METRICS:
            old, new = (
                Histogram(path / folder.name / "hist" / metric) for path in (before, after)
            )
            grown = new.buckets - old.buckets
            lower = sorted(new.buckets)
            found: Counter[int] = Counter()
            values = samples.pop((folder.name, metric), [])
            for value in values:
                # The last nonempty bucket that begins no later than the value.
                index = bisect_right(lower, value) - 1
                found[lower[index] if index >= 0 else -1] += 1
            if found != grown:
                wrong.append(f"{folder.name} {metric}: events {dict(found - grown)}, buckets {dict(grown - found)}")
            if sum(values) != new.sum - old.sum:
                wrong.append(f"{folder.name} {metric}: {sum(values)} ns, the histogram has {new.sum - old.sum}")
            checked += len(values)
            buckets += len(grown)
    wrong += [f"{where}: events of no histogram" for where in samples]
    print(f"# {checked} samples in {buckets} buckets")
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return bool(wrong) or checked < 1000


sys.exit(main(*map(Path, sys.argv[1:4])))
