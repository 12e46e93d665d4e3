# SPDX-License-Identifier: GPL-2.0
"""A mistake that other tools made, provoked on purpose.

The acting tasks take times on CLOCK_MONOTONIC: the lower bound is the time within, the upper bound the time
around, however long a busy host takes in between. 2 % are for the clocks, which leaves no room for a wait
that was cut off or counted twice. If a busy host has spoilt the trap itself, it is set again.
"""

import mmap
import os
import time
from typing import Callable

from harness.test import (Wrong, about_numbers, check_laws, eq, histogram, load_all, measure, note, reset, spawn,
                          state_of, status, succeeds, told)

HOG, VICTIM, REFUGE = 1, 1, 0  # CPUs
now = time.monotonic_ns


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


def migrate() -> bool:
    """A task waits for 700 ms behind a real-time task, and is then moved to a free CPU. Returns False if it was not
    moved while it waited."""
    os.sched_setaffinity(0, {0})
    # So that schedhist sees all fall asleep.
    measure(True)
    begun, done = mmap.mmap(-1, 1), mmap.mmap(-1, 1)

    def spin() -> tuple[int]:
        # The kernel lets other tasks run now and then, even if a real-time task wants to run.
        end = now() + 900_000_000
        begun[0] = 1
        while now() < end and not done[0]:
            pass
        return present()

    hog, victim = Child(spin, {HOG}, 50), Child(present, {VICTIM})
    hog.ready()
    victim.ready()
    hog.go()
    while not begun[0]:
        time.sleep(0.005)
    before, woken = victim.go()
    time.sleep(0.7)
    moved = now()
    os.sched_setaffinity(victim.pid, {REFUGE})
    (ran,) = victim.answer()
    done[0] = 1
    hog.answer()
    measure(False)
    if ran < moved:
        return False
    found = histogram("runq_wakeup", REFUGE)
    told("runq_wakeup max", 0.98 * (moved - woken), found.max[0] if found.max else 0, 1.02 * (ran - before))
    told("migrations", 1, status("migrations"), 10_000)
    return True


def test_trap_migrate():
    """A wait that is moved to another CPU counts as a whole."""
    about_numbers()
    load_all()
    measure(False)
    for _ in range(10):
        # Measuring was on after loading, too.
        reset()
        if migrate():
            check_laws()
            return
        note("the host was too busy to set it: once more")
    raise Wrong("too busy a machine to set this trap")
