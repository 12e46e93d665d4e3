# SPDX-License-Identifier: GPL-2.0
"""A mistake that other tools made, provoked on purpose.

The acting tasks take times on CLOCK_MONOTONIC: the lower bound is the time within, the upper bound the time
around, however long a busy host takes in between. 2 % are for the clocks, which leaves no room for a wait
that was cut off or counted twice. If a busy host has spoilt the trap itself, it is set again.
"""

import os
import signal
import time

from harness.test import (WORK, Wrong, about_numbers, check_laws, histogram, hog, load_all, measure, note, reset, spawn,
                          state_of, status, succeeds, told, wait_until)

VICTIM, REFUGE = 1, 0  # CPUs; the hog has the victim's.
BEGUN = WORK / "begun"
now = time.monotonic_ns


def migrate() -> bool:
    """A task waits for 700 ms behind a real-time task, and is then moved to a free CPU. Returns False if it was not
    moved while it waited."""
    os.sched_setaffinity(0, {0})
    # So that schedhist sees it fall asleep.
    measure(True)
    BEGUN.unlink(missing_ok=True)
    (start, go), (answers, answer) = os.pipe(), os.pipe()

    def wait() -> None:
        os.sched_setaffinity(0, {VICTIM})
        os.read(start, 1)
        os.write(answer, str(now()).encode())

    victim = spawn(wait)
    wait_until("the victim to sleep", lambda: os.sched_getaffinity(victim) == {VICTIM} and state_of(victim) == "S")
    # The kernel lets other tasks run now and then, even if a real-time task wants to run.
    spinner = spawn(hog, 0.9, BEGUN)
    wait_until("the hog", BEGUN.exists, 0.005)
    before = now()
    os.write(go, b"x")
    woken = now()
    time.sleep(0.7)
    moved = now()
    os.sched_setaffinity(victim, {REFUGE})
    ran = int(os.read(answers, 100))
    os.kill(spinner, signal.SIGKILL)
    os.waitpid(spinner, 0)
    succeeds(victim)
    for fd in start, go, answers, answer:
        os.close(fd)
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
