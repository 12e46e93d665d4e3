# SPDX-License-Identifier: GPL-2.0
"""What has not ended yet: the time of a CPU adds up at any moment, and a task that holds a CPU, or waits for
one, is seen while it does."""

import os
import re
import time
from pathlib import Path

from harness import raw
from harness.test import (DEBUG, WORK, Wrong, busy, check_laws, cpus, defer, eq, hog, kill_group, load, measure, needs,
                          skip, spawn, status, unload, wait_until, within, write, write_file)
from harness.tool import Job, begin, objects, says, tool

MASK = (1 << 64) - 1
IDLE, BUSY, UNSEEN = (raw.NUMBERS[f"IS_{name}"] for name in ("IDLE", "BUSY", "UNSEEN"))
# What the kernel does for other tasks beside a real-time task.
LIMITS = [Path("/proc/sys/kernel/sched_rt_runtime_us"), Path("/sys/kernel/debug/sched/fair_server/cpu1/runtime")]


def times(snapshot):
    """Returns the time of each CPU that was spent in tasks, in idle, and unseen, up to now."""
    found = {}
    for cpu, current in snapshot.slices.items():
        oncpu, idle = (snapshot.merged(name, [cpu]).sum for name in ("oncpu", "idle"))
        so_far, unseen, now = current.now_ns - current.since_ns, current.unseen_ns, current.now_ns
        oncpu += so_far if current.occupancy == BUSY else 0
        idle += so_far if current.occupancy == IDLE else 0
        eq(f"cpu {cpu}: time that is nowhere ({oncpu}, {idle}, {unseen})", (oncpu + idle + unseen - now) & MASK, 0)
        found[cpu] = oncpu, idle, unseen, now
    return found


def check_time(number):
    """Checks snapshots: each by itself, and each with the one before."""
    last, slices = {}, 0
    for _ in range(number):
        snapshot = raw.Snapshot()
        found = times(snapshot)
        slices += sum(current.occupancy != UNSEEN for current in snapshot.slices.values())
        for cpu, (oncpu, idle, unseen, now) in found.items():
            if cpu in last and unseen == last[cpu][2]:
                for what, more in ("oncpu", oncpu - last[cpu][0]), ("idle", idle - last[cpu][1]):
                    within(f"cpu {cpu}: growth of {what}", 0, more, now - last[cpu][3])
        last = found
    # Kernels that check all that they do are slow, and see more switches within a snapshot.
    share = 4 if DEBUG else 8
    within(f"slices in {number} snapshots", number * len(os.sched_getaffinity(1)) * share // 10, slices)


def test_in_progress_law():
    """The law of time, while the CPUs switch all the time, measuring is switched off and on, and groups begin."""

    def wait_for_switches(times):
        """Waits until each CPU has switched since measuring began, for each time that it did."""
        wait_until("a switch on each CPU", lambda: status("start_unseen") >= times * cpus())

    load()
    with busy():
        wait_for_switches(1)
        check_time(20)
        write("group_by", "comm")
        check_time(20)
        measure(0)
        time.sleep(0.3)
        measure(1)
        wait_for_switches(2)
        check_time(20)
        write("group_by", "none")
    measure(0)
    check_laws()
    snapshot = raw.Snapshot()
    eq("what is in progress while measuring is off", (snapshot.slices, snapshot.waiting, snapshot.tasks), ({}, [], []))
    unload()


def call_this(name):
    """Gives this task a name, and CPU 1."""
    write_file("/proc/self/comm", name)
    os.sched_setaffinity(0, {1})


def begin_on_cpu0(*parameters):
    """Loads the module, and keeps this task and what it starts off CPU 1. What needs a grace period still waits for
    a hog there: the timer of its work may expire on the CPU that is busy."""
    os.sched_setaffinity(0, {0})
    begin(*parameters)


class Hog:
    """A real-time task that never leaves CPU 1, and that nothing takes from there."""

    def __init__(self):
        if cpus() == 1:
            skip("it needs two CPUs")
        if not LIMITS[1].exists():
            skip("the kernel's server of fair tasks cannot be switched off")
        for limit, text in zip(LIMITS, ("-1", "0")):
            defer(write_file, limit, limit.read_text())
            write_file(limit, text)
        hogs = WORK / "hogs"
        hogs.unlink(missing_ok=True)
        self.pid = spawn(self._hold, hogs, leads=True)
        defer(self.end)
        wait_until("the hog", hogs.exists)

    @staticmethod
    def _hold(hogs):
        call_this("hog")
        hog(1000, hogs)

    def end(self):
        if self.pid:
            kill_group(self.pid)
            self.pid = 0


def nap():
    """Sleeps and wakes up, on CPU 1."""
    call_this("nap")
    while True:
        time.sleep(0.01)


def is_busy(what):
    """Asserts that CPU 1 is busy, and that the group of the hog runs. The stopper may end a slice of the hog: if
    that was not seen to begin, it is lost, so this looks again. It can happen once to each CPU."""
    unseen = status("start_unseen")
    found = re.findall(r"CPU 1 [^%]* (\d+)%", tool("top", "--once", "-d", "1").out)
    rows = objects(tool("groups", "-j", "1", "1").out)
    group = [100 * row["oncpu_ns"] // row["span_ns"] for row in rows if row["name"] == "hog"]
    if status("start_unseen") != unseen:
        return is_busy(what)
    within(f"{what}, percent of CPU 1", 90, int(found[-1]) if found else -1, 100)
    within(f"{what}, percent of its group", 90, group[-1] if group else -1, 101)
    return None


def test_in_progress_hog():
    """A task that holds a CPU, be it since before measuring began: the CPU is busy, its group runs."""
    needs("grace-periods")
    begin_on_cpu0("group_by=comm")
    hog = Hog()
    is_busy("seen")
    snapshot = raw.Snapshot()
    [oncpu] = snapshot.shown["oncpu"]
    found = [(task.metric, task.flags & 1, task.cpu) for task in snapshot.tasks if task.pid == hog.pid]
    eq("the hog in raw, and that its beginning was seen", found, [(oncpu, 0, 1)])
    hog.end()
    unload()
    # Measuring begins while it runs. It began first, since only the end of probes needs grace periods.
    hog = Hog()
    load("group_by=comm")
    is_busy("unseen")
    said = tool("watch", "oncpu", "-T", "1000000", "-d", "60s", status=3)
    says(said.out, f"oncpu of hog:{hog.pid}")
    hog.end()
    measure(0)
    check_laws()
    unload()


def test_in_progress_starved():
    """A task that waits for a CPU which it does not get: once, before the wait ends or at its end."""
    needs("grace-periods")
    begin_on_cpu0()
    hog = Hog()
    pid = hog.pid
    victim = spawn(nap, leads=True)
    defer(kill_group, victim)
    # First, as the victim cannot end without its CPU.
    defer(hog.end)
    wait_until("it to wait", lambda: re.search(r"^State:.*running", Path(f"/proc/{victim}/status").read_text(), re.M))
    time.sleep(0.5)
    # Kernel threads wait there, too.
    said = tool("watch", "runq", "-T", "100000", "-d", "120s", status=3).out
    says(said, "still waiting", f"hog:{pid} has had the CPU")
    says(tool("watch", "runq", "-T", "100000", "-d", "120s", "-j", status=3).out, '"schema":"schedhist.in_progress.v1"')
    watch = Job("watch", "runq", "-T", "100000", "--on-threshold", "continue")
    wait_until("its wait", lambda: re.search(rf"runq of nap:{victim}: .*, still waiting", watch.said().out))
    hog.end()
    ended = rf"runq_.* of nap:{victim}: "
    wait_until("the end of its wait", lambda: re.search(ended, watch.said().out))
    time.sleep(1)
    lines = watch.interrupt(3).out.splitlines()
    for number, line in enumerate(lines):
        if re.search(ended, line) and any("reported before its end" in other for other in lines[number:number + 10]):
            break
    else:
        raise Wrong(f"its end counts: {lines}")
    kill_group(victim)
    measure(0)
    check_laws()
    unload()
