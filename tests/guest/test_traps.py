# SPDX-License-Identifier: GPL-2.0
"""Mistakes that other tools made, each provoked on purpose.

The acting tasks take times on CLOCK_MONOTONIC: the lower bound is the time within, the upper bound the time
around, however long a busy host takes in between. 2 % are for the clocks, which leaves no room for a wait
that was cut off or counted twice. If a busy host has spoilt the trap itself, it is set again.
"""

import mmap
import os
import resource
import subprocess
import time
from pathlib import Path
from typing import Callable

from harness.test import (Histogram, Wrong, about_numbers, busy, check_laws, count, cpu1, cpus, eq, helper, histogram,
                          keep_pids, load_all, measure, note, reset, run, spawn, status, succeeds, within, write_file)

MS = 1_000_000
HOG, VICTIM, REFUGE = 1, 1, 0  # CPUs
now = time.monotonic_ns


def told(what: str, low: float, value: int, high: float) -> None:
    note(f"{what}: {value} within {low:.0f} to {high:.0f}")
    within(what, low, value, high)


def longest_in(found: Histogram) -> int:
    return found.max[0] if found.max else 0


def longest(metric: str, cpu: int | str = "all") -> int:
    return longest_in(histogram(metric, cpu))


def none_longer(wall: int) -> None:
    for metric in "offcpu", "runq", "blocked_interruptible", "blocked_uninterruptible":
        told(f"longest {metric}", 0, longest(metric), wall)


class Child:
    """A process that runs `work` when `go` tells it to, and then answers with numbers."""

    def __init__(self, work: Callable[[], tuple[int, ...]], cpus: set[int], fifo: int = 0) -> None:
        self.start_r, self.start_w = os.pipe()
        self.answer_r, self.answer_w = os.pipe()
        self.pid = spawn(self._child, work, cpus, fifo)
        # So that reading from a child that has died ends.
        os.close(self.start_r)
        os.close(self.answer_w)

    def _child(self, work: Callable[[], tuple[int, ...]], cpus: set[int], fifo: int) -> None:
        os.sched_setaffinity(0, cpus)
        if fifo:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(fifo))
        os.write(self.answer_w, b"ready")
        os.read(self.start_r, 1)
        os.write(self.answer_w, " ".join(map(str, work())).encode())

    def ready(self) -> None:
        """Waits until it is asleep."""
        eq("what a child says first", os.read(self.answer_r, 5), b"ready")
        while Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] != "S":
            time.sleep(0.01)

    def go(self) -> tuple[int, int]:
        """Wakes it; returns a time before the wakeup and one after."""
        before = now()
        os.write(self.start_w, b"x")
        return before, now()

    def answer(self) -> list[int]:
        numbers = [int(word) for word in os.read(self.answer_r, 100).split()]
        succeeds(self.pid)
        os.close(self.start_w)
        os.close(self.answer_r)
        return numbers


def present() -> tuple[int]:
    """Returns the time."""
    return (now(),)


class Flag:
    """A flag that processes share."""

    def __init__(self) -> None:
        self.page = mmap.mmap(-1, mmap.PAGESIZE)

    def set(self) -> None:
        self.page[0] = 1

    def is_set(self) -> bool:
        return bool(self.page[0])


def spin(length: int, begun: Flag | None = None, done: Flag | None = None) -> tuple[int, int]:
    """Keeps the CPU for `length` ns, or until `done`. Returns the time of the end, and the longest
    time that it ran without a break.

    The kernel lets other tasks run now and then, even if a real-time task wants to run.
    """
    preemptions, longest_stay = -1, 0
    began = time_is = now()
    end = began + length
    if begun:
        begun.set()
    while time_is < end and not (done and done.is_set()):
        before, preemptions = preemptions, resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw
        if preemptions != before:
            began = now()
        else:
            longest_stay = max(longest_stay, time_is - began)
        time_is = now()
    return time_is, longest_stay


def prepare() -> None:
    os.sched_setaffinity(0, {0})
    # So that schedhist sees all fall asleep.
    measure(True)


def visit(number: int) -> None:
    for cpu in range(number):
        os.sched_setaffinity(0, {cpu})
        time.sleep(0.001)


def idle() -> None:
    number = cpus()
    started = now()
    measure(True)
    # A slice is recorded when it ends, and one that lasts all the time never is: visit every CPU.
    visit(number)
    visited = now()
    time.sleep(3)
    visited = now() - visited
    visit(number)
    measure(False)
    wall = now() - started
    oncpu, idle = histogram("oncpu"), histogram("idle")
    told("idle and oncpu", 0.98 * visited * number, oncpu.sum + idle.sum, wall * number)
    told("oncpu of an idle machine", 0, oncpu.sum, 0.3 * wall * number)
    # Idle periods of the CPUs last longer than those of any task here.
    told("longest oncpu", 0, oncpu.max[0], idle.max[0])
    none_longer(wall)


def sleepers_for(seconds: int) -> list[Child]:
    """Returns tasks, on any CPU, that have been asleep for this long."""
    sleepers = [Child(present, os.sched_getaffinity(0)) for _ in range(20)]
    for sleeper in sleepers:
        sleeper.ready()
    time.sleep(seconds)
    return sleepers


def asleep() -> None:
    """Tasks that were asleep when measuring began, and wake soon after."""
    # Twice: the second time must not show what is remembered of the first, either.
    for _ in range(2):
        # A sleep must be longer than the whole time that is measured.
        for seconds in 2, 4, 8, 16:
            if wake_asleep(sleepers_for(seconds)) < 950 * seconds * MS:
                break
        else:
            raise Wrong("too slow to tell old sleeps from new ones")


def wake_asleep(sleepers: list[Child]) -> int:
    """Measures while these tasks wake; returns for how long."""
    # Maxima of the last time must not be taken for those of this one.
    reset()
    unseen = status("wait_unseen")
    started = now()
    measure(True)
    for sleeper in sleepers:
        sleeper.go()
    for sleeper in sleepers:
        sleeper.answer()
    measure(False)
    wall = now() - started
    told("waits not seen to begin", 20, status("wait_unseen") - unseen, 10_000)
    none_longer(wall)
    return wall


def others_waited(victim: Child, limit: float) -> bool:
    """Returns whether a task that waited before the hog came has waited for longer than that."""
    found = [histogram(metric, VICTIM) for metric in ("runq", "runq_wakeup")]
    return any(longest_in(one) > limit and int(one.values["max_pid"]) != victim.pid for one in found)


def hogged(length: int, done: Flag | None = None) -> tuple[Child, Child, int]:
    """Returns a real-time task that keeps its CPU, for `length` ns or until `done`, a task that
    sleeps there, and a time before the first one began."""
    begun = Flag()
    hog, victim = Child(lambda: spin(length, begun, done), {HOG}, 50), Child(present, {VICTIM})
    hog.ready()
    victim.ready()
    began, _ = hog.go()
    while not begun.is_set():
        time.sleep(0.005)
    return hog, victim, began


def hog_wakeup() -> bool:
    """A task is woken on a CPU that a real-time task keeps for 300 ms."""
    prepare()
    hog, victim, began = hogged(300 * MS)
    _, woken = victim.go()
    (end, slice_ns), gone, (ran,) = hog.answer(), now(), victim.answer()
    measure(False)
    wait, there = min(end, ran) - woken, max(gone, ran) - began
    if wait < 100 * MS or others_waited(victim, 1.02 * there):
        return False
    note(f"the victim ran {(ran - end) // 1000} us after the end of the hog")
    # Another task may have waited for the hog, but no longer than the hog was there.
    told("runq_wakeup max", 0.98 * wait, longest("runq_wakeup", VICTIM), 1.02 * there)
    told("runq max", 0.98 * wait, longest("runq", VICTIM), 1.02 * there)
    told("oncpu max", 0.98 * slice_ns, longest("oncpu", HOG), 1.02 * there)
    return True


def hog_preempt() -> bool:
    """A running task is preempted by a real-time task for 300 ms."""
    prepare()
    begun, done = Flag(), Flag()
    hog = Child(lambda: spin(300 * MS), {HOG}, 50)
    victim = Child(lambda: spin(60_000 * MS, begun, done), {VICTIM})
    hog.ready()
    victim.ready()
    victim.go()
    while not begun.is_set():
        time.sleep(0.005)
    began, _ = hog.go()
    _, slice_ns = hog.answer()
    done.set()
    victim.answer()
    there = now() - began
    measure(False)
    if slice_ns < 100 * MS:
        return False
    told("runq_preempt max", 0.98 * slice_ns, longest("runq_preempt", VICTIM), 1.02 * there)
    return True


def migrate() -> bool:
    """A task waits for 200 ms behind a real-time task, and is then moved to a free CPU."""
    prepare()
    done = Flag()
    hog, victim, _ = hogged(600 * MS, done)
    before, woken = victim.go()
    time.sleep(0.2)
    moved = now()
    os.sched_setaffinity(victim.pid, {REFUGE})
    (ran,) = victim.answer()
    done.set()
    hog.answer()
    measure(False)
    # The task must be moved while it waits.
    if ran < moved:
        return False
    found = longest("runq_wakeup", REFUGE)
    told("runq_wakeup max", 0.98 * (moved - woken), found, 1.02 * (ran - before))
    told("migrations", 1, status("migrations"), 10_000)
    return True


def second_wakeup() -> bool:
    """A task that already waits is woken again, and again."""
    prepare()
    hog, victim, began = hogged(300 * MS)
    _, woken = victim.go()
    for _ in range(10):
        time.sleep(0.015)
        os.write(victim.start_w, b"again")
        os.kill(victim.pid, 18)  # SIGCONT wakes what sleeps
    (end, _), gone, (ran,) = hog.answer(), now(), victim.answer()
    measure(False)
    wait, there = min(end, ran) - woken, max(gone, ran) - began
    if wait < 200 * MS or others_waited(victim, 1.02 * there):
        return False
    told("runq_wakeup max", 0.98 * wait, longest("runq_wakeup", VICTIM), 1.02 * there)
    return True


# --- the tests ---


def trap(set_it: Callable[[], bool | None]) -> None:
    """Sets a trap, and checks the laws."""
    about_numbers()
    load_all()
    measure(False)
    for _ in range(10):
        # Measuring was on after loading, too.
        reset()
        # A trap that returns False could not be set.
        if set_it() is not False:
            check_laws()
            return
        note("the host was too busy to set it: once more")
    raise Wrong("too busy a machine to set this trap")


def test_trap_idle():
    """Idle time belongs to no task."""
    trap(idle)


def test_trap_asleep():
    """Sleeps from before measuring began are not samples."""
    trap(asleep)


def test_trap_hog_wakeup():
    """A wait behind a real-time task lasts as long as that task runs."""
    trap(hog_wakeup)


def test_trap_hog_preempt():
    trap(hog_preempt)


def test_trap_migrate():
    """A wait that is moved to another CPU counts as a whole."""
    trap(migrate)


def test_trap_second_wakeup():
    """A second wakeup does not shorten a wait."""
    trap(second_wakeup)


def test_trap_pid_reuse():
    """PIDs are reused 2 s after their last owner left: the new tasks inherit nothing."""
    pause = 2000
    load_all()
    storm = helper("storm")
    measure(0)
    keep_pids(300)
    measure(1)
    wraps = int(run(storm, "400", str(pause)))
    measure(0)
    note(f"the PIDs wrapped {wraps} times")
    within("times that the PIDs wrapped", 2, wraps, 1000)
    # Only tasks that slept through the pause: the storm itself, and about 50 of the system. All 300 free
    # PIDs were used before the pause, and are used again after it.
    for metric in "offcpu", "blocked_interruptible", "blocked_uninterruptible", "runq":
        above = sum(n for lower, (_, n) in histogram(metric).buckets.items() if lower > pause * 950000)
        note(f"{metric}: {above} samples of more than 0.95 of the pause")
        within(f"{metric} longer than the pause", 0, above, 150)
    check_laws(untracked=0)


def test_trap_fork_storm():
    """Every child is seen to start and to end."""
    number = 600
    load_all()
    storm = helper("storm")
    measure(0)
    measure(1)
    subprocess.run([storm, str(number)], check=True, stdout=subprocess.DEVNULL)
    measure(0)
    check_laws(untracked=0, clock_backwards=0)
    within("switch-outs for good", number, status("voluntary"))
    within("first waits and others", number, count("runq_wakeup"))


def test_trap_hotplug():
    """The counts of a CPU that goes offline stay, and continue when it returns."""
    online, visit = cpu1(), ["taskset", "--cpu-list", "1", "sleep", "0.05"]
    load_all()
    with busy():
        for i in range(3):
            subprocess.run(visit, check=True)
            before = count("oncpu", 1)
            write_file(online, "0")
            away = count("oncpu", 1)
            within(f"count of the CPU that went, round {i}", before, away)
            time.sleep(0.5)
            eq("count of the CPU that is away", count("oncpu", 1), away)
            write_file(online, "1")
            subprocess.run(visit, check=True)
            within("count of the CPU that returned", away + 1, count("oncpu", 1))
    measure(0)
    check_laws(untracked=0)
    note(f"cpu1: longest idle {longest('idle', 1)} ns, clock_backwards {status('clock_backwards', 'cpu1')}")
