#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Reads raw again and again while groups come and go. What one read has must be of one moment: all groups
that a record names are there, none twice, and together they have what the machine has.

usage: group_reads.py READS
"""

from __future__ import annotations

import sys

from in_progress import rawdump

COUNTERS = "voluntary", "involuntary", "migrations"
raw = rawdump()


def read() -> raw.Snapshot:
    with open("/sys/kernel/debug/schedhist/raw", "rb") as file:
        snapshot = raw.Snapshot(file.read())
    numbers = [raw.GROUP_HEAD.unpack_from(record)[0] for kind, record in snapshot.group_records
               if kind == raw.GROUP]
    assert len(numbers) == len(set(numbers)), f"a group twice: {numbers}"
    snapshot.read_groups()
    return snapshot


def of_machine(snapshot: raw.Snapshot) -> list[int]:
    """Returns the counters of all CPUs, and the numbers of slices and waits."""
    places = {name: number for number, name in snapshot.counter_names.items()}
    counters = [sum(cpu[places[name]] for cpu in snapshot.counters.values()) for name in COUNTERS]
    samples = [sum(snapshot.merged(name, snapshot.cpus()).buckets.values()) for name in ("oncpu", "runq")]
    return counters + samples


def of_groups(snapshot: raw.Snapshot) -> list[int]:
    """Returns the same of all groups."""
    keys = *COUNTERS, "oncpu_count", "runq_count"
    return [sum(group[key] for group in snapshot.groups.values()) for key in keys]


def check(snapshot: raw.Snapshot) -> None:
    """Checks that each record is of a group that is there."""
    there = set(snapshot.groups)
    named = {group for group, _ in snapshot.group_buckets}
    for group, neighbours in snapshot.neighbours.items():
        named |= {group, *(other for other, _, _ in neighbours)}
    assert named <= there, f"records of groups that are not there: {named - there}"


def main() -> None:
    """The groups are read after the CPUs: they have at least what these had, and at most what the CPUs have
    at the next read. Each CPU may be amid a switch that it has counted in one of the two only."""
    first = read()
    assert not first.enabled
    since = raw.GROUPING_HEAD.unpack_from(first.group_records[0][1])[0]
    base = [machine - groups for machine, groups in zip(of_machine(first), of_groups(first))]
    last, ahead = of_groups(first), 0
    with open("/sys/kernel/debug/schedhist/enable", "w", encoding="ascii") as enable:
        enable.write("1")
    for _ in range(int(sys.argv[1])):
        snapshot = read()
        check(snapshot)
        assert raw.GROUPING_HEAD.unpack_from(snapshot.group_records[0][1])[0] == since
        machine = [count - before for count, before in zip(of_machine(snapshot), base)]
        groups = of_groups(snapshot)
        for before, whole, now in zip(last, machine, groups):
            assert before <= whole + first.cpu_count, f"groups had {last}, then the machine {machine}"
            assert whole <= now + first.cpu_count, f"the machine has {machine}, its groups {groups}"
            ahead += now != whole
        last = groups
    print(f"{ahead} sums were ahead of the machine's")


main()
