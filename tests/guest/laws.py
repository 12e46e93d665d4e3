#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Checks that everything that schedhist shows adds up, on each CPU and over all. Exact while
measuring is off.

usage: laws.py [KEY=VALUE...]

With KEY=VALUE, a counter or the count of a metric, over all CPUs, must equal VALUE.
"""

from __future__ import annotations

# Imports only these: this runs after most tests, and each import takes long on an emulated machine.
import os
import sys

DEBUGFS = "/sys/kernel/debug/schedhist"
# Equal sums: each holds if these metrics are measured.
LAWS = [
    ("switches", ["oncpu", "idle", "start_unseen"], {"oncpu", "idle"}),
    ("switches", ["to_idle", "runq", "throttled", "wait_unseen", "untracked"],
     {"runq_wakeup", "runq_preempt"}),
    ("runq", ["runq_wakeup", "runq_preempt"], set()),
    ("offcpu", ["blocked_interruptible", "blocked_uninterruptible", "blocked_idle",
                "blocked_stopped", "blocked_traced", "blocked_parked", "blocked_frozen",
                "blocked_other"], set()),
    ("offcpu", ["wakeup", "wake_unseen"], {"wakeup"}),
]
problems: list[str] = []


def same(what: str, found: object, wanted: object) -> None:
    if found != wanted:
        problems.append(f"{what}: {found} is not {wanted}")


class Histogram:
    """The contents of a histogram file. The lists of extremes are empty if there is no sample."""

    def __init__(self, file: str) -> None:
        values: dict[str, int] = {}
        self.buckets: dict[str, int] = {}
        for line in lines_of(file):
            words = line.split()
            if words[0] == "bucket" and words[3] != "0":
                self.buckets[words[1]] = int(words[3])
            elif len(words) == 2 and words[1].isdigit():
                values[words[0]] = int(words[1])
        self.count, self.sum = values["count"], values["sum"]
        self.min, self.max = ([values[key]] if key in values else [] for key in ("min", "max"))
        same(f"{file}: buckets", sum(self.buckets.values()), self.count)


def lines_of(file: str) -> list[str]:
    with open(f"{DEBUGFS}/{file}", encoding="ascii") as opened:
        return opened.read().splitlines()


def check_merged(metric: str, merged: Histogram, of_cpus: list[Histogram]) -> None:
    same(f"{metric} merged, sum", merged.sum, sum(one.sum for one in of_cpus))
    same(f"{metric} merged, min", merged.min, sorted(v for one in of_cpus for v in one.min)[:1])
    same(f"{metric} merged, max", merged.max, sorted(v for one in of_cpus for v in one.max)[-1:])
    buckets: dict[str, int] = {}
    for one in of_cpus:
        for bound, count in one.buckets.items():
            buckets[bound] = buckets.get(bound, 0) + count
    same(f"{metric} merged, buckets", merged.buckets, buckets)


# Counters, and the counts of metrics: for each CPU, and for all.
counts: dict[str, dict[str, int]] = {}
measured: set[str] | None = None
for line in lines_of("status"):
    words = line.split()
    if words[0] == "metrics":
        measured = set(words[1:])
    elif len(words) in (2, 3) and words[-1].isdigit():
        scope = words[0] if len(words) == 3 else "all"
        counts.setdefault(scope, {})[words[-2]] = int(words[-1])
if measured is None:
    sys.exit("status does not say what is measured")
cpus = [scope for scope in counts if scope != "all"]
counters = set(counts["cpu0"])
for metric in os.listdir(f"{DEBUGFS}/hist"):
    merged = Histogram(f"hist/{metric}")
    of_cpus = [Histogram(f"per_cpu/{cpu}/hist/{metric}") for cpu in cpus]
    check_merged(metric, merged, of_cpus)
    for scope, histogram in zip(["all", *cpus], [merged, *of_cpus]):
        if metric in counts[scope]:
            # The counter of the same name counts even while the metric is off.
            if metric in measured:
                same(f"{scope}: the counter {metric}", counts[scope][metric], histogram.count)
            continue
        counts[scope][metric] = histogram.count
    counters.add(metric)
for key in sorted(counters):
    same(f"{key} of all CPUs", counts["all"][key], sum(counts[cpu][key] for cpu in cpus))
for scope, values in counts.items():
    for whole, parts, metrics in LAWS:
        if metrics <= measured:
            total = sum(values[part] for part in parts)
            same(f"{scope}: {whole} and {' + '.join(parts)}", values[whole], total)
    # A stay whose start was not seen may have been one of a task.
    tasks = values["voluntary"] + values["involuntary"]
    if not values["oncpu"] <= tasks <= values["oncpu"] + values["start_unseen"]:
        problems.append(f"{scope}: {tasks} switch-outs of tasks, oncpu {values['oncpu']}")
for argument in sys.argv[1:]:
    key, value = argument.split("=")
    same(key, counts["all"][key], int(value))
if not counts["all"]["switches"]:
    problems.append("no switch")
for problem in problems:
    print(problem)
sys.exit(bool(problems))
