#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Compares whom groups blame for their waits with the kernel's own trace of switches and forks. All
tasks of these groups must have begun after measuring and the trace did, and have ended.

usage: group_blame.py TRACE PIDS

PIDS has a line for each kernel thread that ran when the trace began, for the first process of each
group, and for each process that was created in it from elsewhere: the name of the group ("kernel"
for kernel threads), and the PID.
"""

from __future__ import annotations

import re
import sys
from collections import Counter

from group_files import groups

FORK = re.compile(r" sched_process_fork: .* pid=(\d+) child_comm=.* child_pid=(\d+)$")
SWITCH = re.compile(
    r" sched_switch: prev_comm=.* prev_pid=(\d+) prev_prio=\d+ prev_state=(\S+) ==> "
    r"next_comm=.* next_pid=(\d+) next_prio=\d+$"
)
problems: list[str] = []


def within(what: str, found: int, low: int, high: int) -> None:
    if not low <= found <= high:
        problems.append(f"{what}: {found} is not within {low} to {high}")


trace_file, pids_file = sys.argv[1:]
# The group of each task: its name, or "kernel". The tests themselves are in the root.
group_of = {0: "idle"}
with open(pids_file, encoding="ascii") as pids:
    for line in pids:
        name, pid = line.split()
        group_of[int(pid)] = name
names = set(group_of.values()) - {"kernel", "idle"}


def culprit(group: str, pid: int) -> str:
    """Returns what a task is to a task of `group`."""
    other = group_of.get(pid, "/")
    return other if other in ("kernel", "idle") else "own" if other == group else "other"


ended: dict[str, Counter[str]] = {name: Counter() for name in names}
preempted: dict[str, Counter[str]] = {name: Counter() for name in names}
neighbours: dict[str, Counter[str]] = {name: Counter() for name in names}
preempter: dict[int, str] = {}
with open(trace_file, encoding="utf-8", errors="replace") as trace:
    for line in trace:
        if fork := FORK.search(line):
            parent, child = map(int, fork.groups())
            # Children in a cgroup of their own are in PIDS.
            if parent in group_of and group_of.get(child) not in names:
                group_of[child] = group_of[parent]
            continue
        switch = SWITCH.search(line)
        if not switch:
            continue
        prev, state, after = int(switch[1]), switch[2], int(switch[3])
        if group_of.get(prev) in names and state in ("R", "R+"):
            preempter[prev] = culprit(group_of[prev], after)
        group = group_of.get(after, "/")
        if group not in names:
            continue
        ended[group][culprit(group, prev)] += 1
        if culprit(group, prev) == "other":
            neighbours[group][group_of.get(prev, "/")] += 1
        if after in preempter:
            preempted[group][preempter.pop(after)] += 1

all_groups = groups()
by_name = {group.name: group for group in all_groups.values()}
for name in sorted(names):
    group = by_name[name]
    print(f"# {name}: ended by {dict(ended[name])}, preempted by {dict(preempted[name])}")
    for kind in ("own", "other", "kernel", "idle"):
        for what, counted in (("ended_by", ended), ("preempted_by", preempted)):
            found, wanted = group.values[f"{what}_{kind}"], counted[name][kind]
            within(f"{name}: {what}_{kind}", found, wanted, wanted)
    for number, (count, _) in group.neighbours.items():
        other = all_groups[number].name
        within(f"{name}: waits ended by {other}", count, *[neighbours[name][other]] * 2)
sleeper, hog = by_name["/schedhist/sleeper"], by_name["/schedhist/hog"]
_, time = sleeper.neighbours.get(hog.values["id"], (0, 0))
total = sleeper.values["ended_by_other_ns"]
named = sum(other_time for _, other_time in sleeper.neighbours.values())
within("time by all neighbours that have a name", named, total * 9 // 10, total)
print(f"# the hog ended {time * 100 // total} % of the time that others kept the sleepers waiting")
within("time by the hog", time, total // 2, total)
for kind in ("own", "other"):
    within(f"waits of the sleepers ended by {kind}", sleeper.values[f"ended_by_{kind}"], 10, 1 << 60)
for problem in problems:
    print(problem)
sys.exit(bool(problems))
