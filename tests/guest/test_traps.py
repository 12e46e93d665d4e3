# SPDX-License-Identifier: GPL-2.0
"""Mistakes that other tools made, each provoked on purpose.

The acting tasks take times on CLOCK_MONOTONIC: the lower bound is the time within, the upper bound the time
around, however long a busy host takes in between. 2 % are for the clocks, which leaves no room for a wait
that was cut off or counted twice. If a busy host has spoilt the trap itself, it is set again.
"""

import mmap
import os
import time
from typing import Callable

from harness.test import (Wrong, about_numbers, check_laws, eq, histogram, load_all, measure, note, reset, spawn,
                          state_of, status, succeeds, within)

MS = 1_000_000
HOG, VICTIM, REFUGE = 1, 1, 0  # CPUs
now = time.monotonic_ns


def told(what: str, low: float, value: int, high: float) -> None:
    note(f"{what}: {value} within {low:.0f} to {high:.0f}")
    within(what, low, value, high)


def longest(metric: str, cpu: int) -> int:
    found = histogram(metric, cpu)
    return found.max[0] if found.max else 0


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
        while state_of(self.pid) != "S":
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


def spin(length: int, begun: Flag, done: Flag | None = None) -> tuple[int]:
    """Keeps the CPU for `length` ns, or until `done`. Returns the time of the end.

    The kernel lets other tasks run now and then, even if a real-time task wants to run.
    """
    end = now() + length
    begun.set()
    while now() < end and not (done and done.is_set()):
        pass
    return present()


def prepare() -> None:
    os.sched_setaffinity(0, {0})
    # So that schedhist sees all fall asleep.
    measure(True)


def others_waited(victim: Child, limit: float) -> bool:
    """Returns whether a task that waited before the hog came has waited for longer than that."""
    found = [histogram(metric, VICTIM) for metric in ("runq", "runq_wakeup")]
    return any(one.max and one.max[0] > limit and int(one.values["max_pid"]) != victim.pid for one in found)


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


def migrate() -> bool:
    """A task waits for 700 ms behind a real-time task, and is then moved to a free CPU."""
    prepare()
    done = Flag()
    hog, victim, _ = hogged(900 * MS, done)
    before, woken = victim.go()
    time.sleep(0.7)
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
    (end,), gone, (ran,) = hog.answer(), now(), victim.answer()
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


def test_trap_migrate():
    """A wait that is moved to another CPU counts as a whole."""
    trap(migrate)


def test_trap_second_wakeup():
    """A second wakeup does not shorten a wait."""
    trap(second_wakeup)
