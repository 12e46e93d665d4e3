#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Sets the traps of test_traps.sh, and checks that schedhist does not fall into them.

usage: traps.py TRAP

schedhist must be loaded, and off. The acting tasks take times on CLOCK_MONOTONIC: the lower bound
is the time within, the upper bound the time around, however long a busy host takes in between. 2 %
are for the clocks, which leaves no room for a wait that was cut off or counted twice. If a busy
host has spoilt the trap itself, it is set again.
"""

from __future__ import annotations

import mmap
import os
import resource
import sys
import time
from pathlib import Path
from typing import Callable

DEBUGFS = Path("/sys/kernel/debug/schedhist")
MS = 1_000_000
HOG, VICTIM, REFUGE = 1, 1, 0  # CPUs
now = time.monotonic_ns


def die(text: str) -> None:
    sys.exit(f"traps: {text}")


def note(text: str) -> None:
    print(f"# {text}", flush=True)


def measure(on: bool) -> None:
    (DEBUGFS / "enable").write_text(str(int(on)))


def reset() -> None:
    (DEBUGFS / "reset").write_text("1")


def histogram(metric: str, cpu: int | None = None) -> dict[str, int]:
    path = DEBUGFS / ("hist" if cpu is None else f"per_cpu/cpu{cpu}/hist") / metric
    words = (line.split() for line in path.read_text().splitlines())
    return {w[0]: int(w[1]) for w in words if len(w) >= 2 and w[1].isdigit() and w[0] != "bucket"}


def longest(metric: str, cpu: int) -> int:
    return histogram(metric, cpu).get("max", 0)


def counter(name: str) -> int:
    lines = (line.split() for line in (DEBUGFS / "status").read_text().splitlines())
    return next(int(w[1]) for w in lines if w[0] == name)


def within(what: str, low: float, value: int, high: float) -> None:
    note(f"{what}: {value} within {low:.0f} to {high:.0f}")
    if not low <= value <= high:
        die(f"{what}: {value} is not within {low:.0f} to {high:.0f}")


class Child:
    """A process that runs `work` when `go` tells it to, and then answers with numbers."""

    def __init__(self, work: Callable[[], tuple[int, ...]], cpus: set[int], fifo: int = 0) -> None:
        self.start_r, self.start_w = os.pipe()
        self.answer_r, self.answer_w = os.pipe()
        self.pid = os.fork()
        if self.pid:
            return
        os.sched_setaffinity(0, cpus)
        if fifo:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(fifo))
        os.write(self.answer_w, b"ready")
        os.read(self.start_r, 1)
        os.write(self.answer_w, " ".join(map(str, work())).encode())
        os._exit(0)

    def ready(self) -> None:
        """Waits until it is asleep."""
        os.read(self.answer_r, 5)
        while Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] != "S":
            time.sleep(0.01)

    def go(self) -> tuple[int, int]:
        """Wakes it; returns a time before the wakeup and one after."""
        before = now()
        os.write(self.start_w, b"x")
        return before, now()

    def answer(self) -> list[int]:
        numbers = [int(word) for word in os.read(self.answer_r, 100).split()]
        os.waitpid(self.pid, 0)
        for descriptor in self.start_r, self.start_w, self.answer_r, self.answer_w:
            os.close(descriptor)
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


def visit(cpus: int) -> None:
    for cpu in range(cpus):
        os.sched_setaffinity(0, {cpu})
        time.sleep(0.001)


def idle() -> None:
    cpus = os.cpu_count() or 1
    started = now()
    measure(True)
    # A stay is recorded when it ends, and one that lasts all the time never is: visit every CPU.
    visit(cpus)
    visited = now()
    time.sleep(3)
    visited = now() - visited
    visit(cpus)
    measure(False)
    wall = now() - started
    oncpu, stays = histogram("oncpu"), histogram("idle")
    within("idle and oncpu", 0.98 * visited * cpus, oncpu["sum"] + stays["sum"], wall * cpus)
    within("oncpu of an idle machine", 0, oncpu["sum"], 0.3 * wall * cpus)
    # Idle stays of the CPUs last longer than those of any task here.
    within("longest oncpu", 0, oncpu["max"], stays["max"])
    for metric in "offcpu", "runq", "blocked_interruptible", "blocked_uninterruptible":
        within(f"longest {metric}", 0, histogram(metric).get("max", 0), wall)


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
            die("too slow to tell old sleeps from new ones")


def wake_asleep(sleepers: list[Child]) -> int:
    """Measures while these tasks wake; returns for how long."""
    # Maxima of the last time must not be taken for those of this one.
    reset()
    unseen = counter("wait_unseen")
    started = now()
    measure(True)
    for sleeper in sleepers:
        sleeper.go()
    for sleeper in sleepers:
        sleeper.answer()
    measure(False)
    wall = now() - started
    within("waits not seen to begin", 20, counter("wait_unseen") - unseen, 10_000)
    for metric in "offcpu", "runq", "blocked_interruptible", "blocked_uninterruptible":
        within(f"longest {metric}", 0, histogram(metric).get("max", 0), wall)
    return wall


def others_waited(victim: Child, limit: float) -> bool:
    """Returns whether a task that waited before the hog came has waited for longer than that."""
    found = [histogram(metric, VICTIM) for metric in ("runq", "runq_wakeup")]
    return any(one.get("max", 0) > limit and one["max_pid"] != victim.pid for one in found)


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
    (end, stay), gone, (ran,) = hog.answer(), now(), victim.answer()
    measure(False)
    wait, there = min(end, ran) - woken, max(gone, ran) - began
    if wait < 100 * MS or others_waited(victim, 1.02 * there):
        return False
    note(f"the victim ran {(ran - end) // 1000} us after the end of the hog")
    # Another task may have waited for the hog, but no longer than the hog was there.
    within("runq_wakeup max", 0.98 * wait, longest("runq_wakeup", VICTIM), 1.02 * there)
    within("runq max", 0.98 * wait, longest("runq", VICTIM), 1.02 * there)
    within("oncpu max", 0.98 * stay, longest("oncpu", HOG), 1.02 * there)
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
    _, stay = hog.answer()
    done.set()
    victim.answer()
    there = now() - began
    measure(False)
    if stay < 100 * MS:
        return False
    within("runq_preempt max", 0.98 * stay, longest("runq_preempt", VICTIM), 1.02 * there)
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
    within("runq_wakeup max", 0.98 * (moved - woken), found, 1.02 * (ran - before))
    within("migrations", 1, counter("migrations"), 10_000)
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
    within("runq_wakeup max", 0.98 * wait, longest("runq_wakeup", VICTIM), 1.02 * there)
    return True


def main() -> None:
    traps = idle, asleep, hog_wakeup, hog_preempt, migrate, second_wakeup
    named = {trap.__name__: trap for trap in traps}
    if len(sys.argv) != 2 or sys.argv[1] not in named:
        die(f"usage: traps.py {'|'.join(named)}")
    for _ in range(10):
        # A trap that returns False could not be set.
        if named[sys.argv[1]]() is not False:
            return
        note("the host was too busy to set it: once more")
        reset()
    die("too busy a machine to set this trap")


if __name__ == "__main__":
    main()
