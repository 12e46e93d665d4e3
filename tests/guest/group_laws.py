#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Checks that the groups of schedhist add up to the machine. Exact while measuring is off, if the
groups and the machine's counts begin at the same time.

usage: group_laws.py
"""

from __future__ import annotations

import sys

from group_files import METRICS, Group, groups, lines_of

COUNTERS = "voluntary", "involuntary", "migrations", "throttled"
CULPRITS = "own", "other", "kernel", "idle"
problems: list[str] = []


def same(what: str, found: object, wanted: object) -> None:
    if found != wanted:
        problems.append(f"{what}: {found} is not {wanted}")


def pairs(lines: list[str]) -> dict[str, int]:
    words = [line.split() for line in lines]
    return {word[0]: int(word[1]) for word in words if len(word) == 2 and word[1].isdigit()}


all_groups = groups()
machine = {metric: pairs(lines_of(f"hist/{metric}")) for metric in (*METRICS, "runq_preempt")}
status = pairs(lines_of("status"))


def total(key: str) -> int:
    return sum(group.values[key] for group in all_groups.values())


def check_group(group: Group) -> None:
    """Checks that the parts of a group add up."""
    values = group.values
    ended = [values[f"ended_by_{culprit}"] for culprit in CULPRITS]
    same(f"{group.name}: ended_by", sum(ended), values["runq_count"])
    ended = [values[f"ended_by_{culprit}_ns"] for culprit in CULPRITS]
    same(f"{group.name}: ended_by_ns", sum(ended), values["runq_sum_ns"])
    count = sum(count for count, _ in group.neighbours.values())
    time = sum(time for _, time in group.neighbours.values())
    if count > values["ended_by_other"] or time > values["ended_by_other_ns"]:
        problems.append(f"{group.name}: neighbours ended {count} waits, {time} ns")


def check_histograms() -> None:
    """Checks that each sample is in a histogram, or is counted as being in none."""
    missing = {number: group.values["not_in_histogram"] for number, group in all_groups.items()}
    for metric in METRICS:
        seen: set[int] = set()
        number = count = 0
        for line in lines_of(f"group_hist/{metric}"):
            key, _, value = line.partition(" ")
            if key == "group":
                same(f"{metric}: buckets of {number}", count, 0)
                number = int(value)
                seen.add(number)
            elif key == "count":
                count = int(value)
                missing[number] -= all_groups[number].values[f"{metric}_count"] - count
            elif key == "sum":
                wanted = all_groups[number].values[f"{metric}_sum_ns"]
                same(f"{metric}: sum of {number}", int(value), wanted)
            elif key == "bucket":
                count -= int(value.split()[2])
        same(f"{metric}: buckets of {number}", count, 0)
        same(f"{metric}: groups", seen, set(all_groups))
    for number, group in all_groups.items():
        same(f"{group.name}: not_in_histogram", missing[number], 0)


for metric in METRICS:
    same(metric, total(f"{metric}_count"), machine[metric]["count"])
    same(f"{metric}, sum", total(f"{metric}_sum_ns"), machine[metric]["sum"])
    longest = max(group.values[f"{metric}_max_ns"] for group in all_groups.values())
    same(f"{metric}, max", longest, machine[metric].get("max", 0))
for counter in COUNTERS:
    same(counter, total(counter), status[counter])
preempted = sum(total(f"preempted_by_{culprit}") for culprit in CULPRITS)
same("preempted_by", preempted, machine["runq_preempt"]["count"])
preempted = sum(total(f"preempted_by_{culprit}_ns") for culprit in CULPRITS)
same("preempted_by_ns", preempted, machine["runq_preempt"]["sum"])
for one in all_groups.values():
    check_group(one)
check_histograms()
if not machine["oncpu"]["count"]:
    problems.append("nothing was measured")
busy = sum(group.values["oncpu_count"] > 0 for group in all_groups.values())
print(f"# {len(all_groups)} groups, {busy} of them with samples, {machine['oncpu']['count']} stays,", end=" ")
print(f"{total('not_in_histogram')} samples in no histogram")
for problem in problems[:20]:
    print(problem)
sys.exit(bool(problems))
