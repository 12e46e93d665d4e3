# SPDX-License-Identifier: GPL-2.0
"""Groups that are gone."""

import errno
import os
import re
import subprocess
import time
from pathlib import Path

from harness import cgroup, raw
from harness.groups import begin, check_group_laws, group_of, groups, head_of, names, of_group
from harness.test import (CULPRITS, GROUP_COUNTERS, GROUP_METRICS, THOROUGH, TRACEFS, WORK, Wrong, allow, amount,
                          check_laws, cpus, eq, hog, load, measure, needs, note, read, run, skip, spawn, start, stop,
                          task_ids, wait_until, within, write, write_file)
from harness.trace import clear, enable, lines
from storm import storm
from test_group_list import refused, rule


def processes():
    return sum(map(str.isdigit, os.listdir("/proc")))


def check_raw_groups():
    """Asserts that the groups in `raw` are those of the text."""
    found = raw.Groups(raw.Snapshot())
    numbers = {}
    for number, group in found.groups.items():
        values = numbers[number] = {"live": group.live}
        for name, metric in zip(GROUP_METRICS, group.metric):
            values |= {f"{name}_count": metric.count, f"{name}_sum_ns": metric.sum_high_ns << 64 | metric.sum_low_ns}
        values |= zip([*GROUP_COUNTERS, "throttled_ns"], group.counter)
        for what in "ended_by", "preempted_by":
            for culprit, waits in zip(CULPRITS, getattr(group, what)):
                values |= {f"{what}_{culprit}": waits.count, f"{what}_{culprit}_ns": waits.sum_ns}
    shown = groups()
    eq("names in raw", {number: os.fsdecode(name) for number, name in found.names.items()},
       {number: group.name for number, group in shown.items()})
    eq("values in raw", numbers, {number: {key: group.values[key] for key in numbers[number]}
                                  for number, group in shown.items()})


def test_group_gone():
    """Groups that are dead give up their places when others want them, and nothing is lost."""
    cgroup.on()
    load()
    write("group_limit", 20)
    # Cgroups that are removed, and one that is not.
    [folder] = cgroup.make("live")
    begin("cgroup under /schedhist")
    live = start("sleep", "1000").pid
    cgroup.move(live, folder)
    cgroup.run_in("live", "hackbench", "--groups", "1", "--loops", "5")
    service = of_group("/schedhist/live", "id")
    visits = 0
    # On a busy host the sweep may come late.
    while head_of("gone") < 100 and visits < 3000:
        cgroup.visit(300, keep=False)
        visits += 300
    measure(0)
    eq("id of a live group", of_group("/schedhist/live", "id"), service)
    within("places that were given up", 100, head_of("gone"), visits)
    within("refused", 0, head_of("refused"), visits * 2 // 3)
    within("slices of groups that are gone", 100, of_group("gone", "oncpu_count"), 1000000)
    eq("state of gone", (of_group("gone", "tasks"), of_group("gone", "live")), (0, 0))
    eq("state of live", (of_group("/schedhist/live", "tasks"), of_group("/schedhist/live", "live")), (1, 1))
    check_group_laws()
    check_raw_groups()
    # Processes that end. All others are live.
    write("group_limit", processes() + 20)
    begin("process")
    for _ in range(200):
        subprocess.run(["/bin/true"], check=True)
    measure(0)
    within("places that were given up", 20, head_of("gone"), 1000)
    check_group_laws()
    # Rules that are removed, while measuring is on and off.
    write("group_limit", 2)
    begin("list")
    for i in range(5):
        rule(f"add a{i} pid {live}")
        rule(f"add b{i} pid {os.getpid()}")
        refused(errno.ENOSPC, "too many rules, groups", "add c comm x")
        if i == 2:
            measure(0)
        rule(f"remove a{i}")
        rule(f"remove b{i}")
    eq("names", sorted(names()), ["a4", "b4", "gone", "other"])
    measure(1)
    measure(0)
    check_group_laws()


def spin_when_told():
    """Spins on CPU 1 as a real-time task once WORK/spin is there."""
    os.sched_setaffinity(0, {0})
    while not (WORK / "spin").exists():
        time.sleep(0.01)
    hog(1000, WORK / "spins", 10)


def test_group_gone_busy():
    """A group that is dead gives up no place while its last task has a CPU. What the task did on other CPUs
    counts as gone meanwhile, and so does the group."""
    if cpus() == 1:
        skip("it takes two CPUs")
    needs("grace-periods")
    load()
    write("group_limit", 1)

    def add_b():
        try:
            rule("add b comm x")
            return True
        except OSError:
            return False

    for _ in range(10):
        for name in "spin", "spins":
            (WORK / name).unlink(missing_ok=True)
        # The kernel lets no real-time task run for ever, so this may come too late.
        spinner = spawn(spin_when_told)
        begin("list")
        rule(f"add a pid {spinner}")
        wait_until("stays", lambda: of_group("a", "oncpu_count") >= 20)
        (WORK / "spin").touch()
        wait_until("it to spin", (WORK / "spins").exists)
        before = of_group("a", "oncpu_count")
        rule("remove a")
        early = add_b()
        if not early:
            eq("groups while one gives up its place", names(), ["other", "gone"])
            within("slices of the dead group", before, of_group("gone", "oncpu_count"), before + 10)
        os.kill(spinner, 9)
        os.waitpid(spinner, 0)
        if early:
            write("group_by", "none")
            continue
        wait_until("its place", add_b)
        measure(0)
        eq("groups", names(), ["other", "gone", "b"])
        check_group_laws()
        return
    raise Wrong("the task did not keep its CPU in ten tries")


def test_group_gone_quietly():
    """A user who renames a thread on one CPU, again and again, makes other CPUs do nothing: dead groups give up
    their places without a call on another CPU."""
    if cpus() == 1:
        skip("it takes two CPUs")
    if not (TRACEFS / "events/csd/csd_queue_cpu").exists():
        skip("the kernel has no csd:csd_queue_cpu")
    load()
    comms = {Path(f"/proc/{task}/comm").read_text() for task in task_ids() if os.path.exists(f"/proc/{task}/comm")}
    write("group_limit", len(comms) + 20)
    begin("comm")
    os.sched_setaffinity(0, {0})
    clear()
    enable("csd/csd_queue_cpu")
    for i in range(3000):
        write_file("/proc/self/comm", f"name{i}")
        time.sleep(0.001)
    enable("csd/csd_queue_cpu", False)
    measure(0)
    within("places that were given up", 40, head_of("gone"), 3000)
    # The module names its own functions, and it is the caller.
    eq("calls on other CPUs", [line for line in lines() if "[schedhist]" in line], [])
    check_group_laws()


def test_group_refused_again():
    """Tasks for which there was no place get one soon after there is room, though no other task asks for one."""

    def sleeping(pattern):
        return [int(pid) for pid in re.findall(rf"^task pid (\d+) group {pattern} comm sleep$", read("group_tasks"),
                                               re.MULTILINE)]

    load()
    write("group_limit", 10)
    started = {process.pid: process for process in (start("sleep", "1000") for _ in range(35))}
    begin(f"process {' '.join(map(str, started))}")
    for number in 25, 15, 5, 0:
        wait_until(f"{number} that are refused", lambda number=number: len(sleeping("0")) == number)
        # Nobody who is refused makes room.
        if number == 25:
            time.sleep(1)
        grouped = sleeping(r"[1-9]\d*")
        eq("tasks that have a group", len(grouped), 10 if number else 5)
        for pid in grouped:
            stop(started[pid])
    measure(0)
    check_group_laws()


def test_group_gone_storm():
    """The same amid a storm, with few places."""
    cgroup.on()
    load()
    all_at_once = storm("fork", "into", "exec", "rename", "mkdir")
    write("group_limit", processes() + 40)
    for by in "process", "cgroup", "comm":
        begin(by)
        time.sleep(amount(1, 4, 20))
        # How many depends on how fast the storm is.
        if by == "process":
            wait_until("a group that is gone", lambda: head_of("gone") >= 1)
        measure(0)
        all_at_once.pause()
        note(f"by {by}: {head_of('gone')} gone, {head_of('refused')} refused")
        check_group_laws()
        check_laws()
        all_at_once.resume()
    all_at_once.stop()


def test_group_hybrid():
    """Hierarchies of v1 do not matter, whatever their cgroups are called: on a host that has both kinds, the
    group of a task is that of its cgroup in v2."""
    v1 = WORK / "v1"
    v1.mkdir(exist_ok=True)
    if subprocess.run(["mount", "-t", "cgroup", "-o", "none,name=schedhist", "none", v1], check=False).returncode:
        skip("this kernel has no cgroups of v1")
    cgroup.on()
    load()
    in_v1 = [v1 / "one", v1 / "two"]
    for folder in in_v1:
        folder.mkdir()
    one, both = cgroup.make("one", "both")
    task = start("sleep", "1000")
    cgroup.move(task.pid, one)
    begin("cgroup")
    for _ in range(20):
        for folder in in_v1:
            cgroup.move(task.pid, folder)
    eq("group of a task that moved in v1", group_of(task.pid), "/schedhist/one")
    eq("v1 groups", [name for name in names() if re.match("/(one|two)", name)], [])
    cgroup.move(task.pid, both)
    eq("group of a task that moved in v2", group_of(task.pid), "/schedhist/both")
    measure(0)
    check_group_laws()
    write("group_by", "none")
    write("group_by", "list")
    refused(errno.ENOENT, "no such cgroup in the default hierarchy (v2)", "add x cgroup /one")
    stop(task)
    for folder in in_v1:
        folder.rmdir()
    run("umount", v1)


# --- one read of raw ---

COUNTERS = [counter for counter in GROUP_COUNTERS if counter != "throttled"]
SUMS = [*COUNTERS, *GROUP_METRICS[:2]]


class Moment:
    """A read of raw: sums of the machine, and of all groups, of the same counters and samples."""

    def __init__(self):
        snapshot = raw.Snapshot()
        self.groups = raw.Groups(snapshot)
        self.enabled, self.cpus = snapshot.header.flags & raw.NUMBERS["ENABLED"], snapshot.header.cpus
        places = {name: number for number, name in snapshot.counter_names.items()}
        self.machine = [sum(cpu[places[name]] for cpu in snapshot.counters.values()) for name in COUNTERS]
        self.machine += [sum(snapshot.merged(name, snapshot.cpus()).buckets.values()) for name in GROUP_METRICS[:2]]
        found = self.groups.groups.values()
        self.of_groups = [sum(group.counter[i] for group in found) for i in range(len(COUNTERS))]
        self.of_groups += [sum(group.metric[i].count for group in found) for i in range(2)]
        # Each record is of a group that is there, and none is there twice: raw.Groups says so.
        named = {number for number, _ in self.groups.buckets}
        for number, neighbours in self.groups.neighbours.items():
            named |= {number, *(one.other for one in neighbours)}
        eq("records of groups that are not there", named - set(self.groups.groups), set())


@allow(1800 if THOROUGH else 300)
def test_group_reads():
    """One read of raw is of one moment: groups that come and go meanwhile are in it once, and all groups
    together have what the machine has. The groups are read after the CPUs: they have at least what these had,
    and at most what the CPUs have at the next read. Each CPU may be amid a switch that it has counted in one
    of the two only."""
    enough = WORK / "enough"

    def visit_until_enough():
        while not enough.exists():
            cgroup.visit(20, keep=False)

    cgroup.on()
    load()
    write("group_limit", 20)
    measure(0)
    write("group_by", "cgroup under /schedhist")
    enough.unlink(missing_ok=True)
    visitor = spawn(visit_until_enough)
    first = Moment()
    eq("measuring", first.enabled, 0)
    base = [machine - of_groups for machine, of_groups in zip(first.machine, first.of_groups)]
    last, ahead = first.of_groups, 0
    measure(1)
    for _ in range(amount(150, 1000, 10000)):
        moment = Moment()
        eq("the groups began", moment.groups.grouping.since_ns, first.groups.grouping.since_ns)
        machine = [count - before for count, before in zip(moment.machine, base)]
        for what, before, whole, now in zip(SUMS, last, machine, moment.of_groups):
            within(f"{what} of the machine, after the groups", before - first.cpus, whole, now + first.cpus)
            ahead += now != whole
        last = moment.of_groups
    note(f"{ahead} sums were ahead of the machine's")
    enough.touch()
    eq("status of what comes and goes", os.waitpid(visitor, 0)[1], 0)
    measure(0)
    within("places that were given up", 50, head_of("gone"), 1000000)
