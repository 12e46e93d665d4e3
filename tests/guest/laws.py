#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Whether all that schedhist shows adds up, on each CPU. Exact while measuring is off.

usage: laws.py [KEY=VALUE...]

With KEY=VALUE a counter or the count of a metric, over all CPUs, must be VALUE.
"""

from __future__ import annotations

import sys
from pathlib import Path

DEBUGFS = Path("/sys/kernel/debug/schedhist")
LAWS = [
    ("switches", ["oncpu", "idle", "start_unseen"]),
    ("switches", ["to_idle", "runq", "wait_unseen", "untracked"]),
    ("offcpu", ["blocked_interruptible", "blocked_uninterruptible", "blocked_other"]),
    ("runq", ["runq_wakeup", "runq_preempt"]),
    # Where wakeups are asked for.
    ("offcpu", ["wakeup", "wake_unseen"]),
]
problems: list[str] = []


def same(what: str, found: int, wanted: int) -> None:
    if found != wanted:
        problems.append(f"{what}: {found} is not {wanted}")


def read(file: Path) -> dict[str, int]:
    values, total = {}, 0
    for line in file.read_text().splitlines():
        words = line.split()
        if words[0] == "bucket":
            total += int(words[3])
        elif len(words) == 2 and words[1].isdigit():
            values[words[0]] = int(words[1])
    same(f"{file}: buckets", total, values["count"])
    return values


counts: dict[str, dict[str, int]] = {}
for line in (DEBUGFS / "status").read_text().splitlines():
    words = line.split()
    if len(words) in (2, 3) and words[-1].isdigit():
        scope = words[0] if len(words) == 3 else "all"
        counts.setdefault(scope, {})[words[-2]] = int(words[-1])
counters = set(counts["cpu0"])
for metric in (DEBUGFS / "hist").iterdir():
    counts["all"][metric.name] = read(metric)["count"]
    for scope in counts:
        if scope != "all":
            counts[scope][metric.name] = read(DEBUGFS / "per_cpu" / scope / metric.name)["count"]
    counters.add(metric.name)
for key in sorted(counters):
    parts = (counts[scope][key] for scope in counts if scope != "all")
    same(f"{key} of all CPUs", counts["all"][key], sum(parts))
for scope, values in counts.items():
    for whole, parts in LAWS:
        if not values.keys() >= set(parts):
            continue
        total = sum(values[part] for part in parts)
        same(f"{scope}: {whole} and {' + '.join(parts)}", values[whole], total)
    # A stay whose start was not seen may have been a task's.
    tasks = values["voluntary"] + values["involuntary"]
    if not values["oncpu"] <= tasks <= values["oncpu"] + values["start_unseen"]:
        problems.append(f"{scope}: {tasks} switch-outs of tasks, oncpu {values['oncpu']}")
for argument in sys.argv[1:]:
    key, value = argument.split("=")
    same(key, counts["all"][key], int(value))
if not counts["all"]["switches"]:
    problems.append("no switch")
print(*problems, sep="\n")
sys.exit(bool(problems))
