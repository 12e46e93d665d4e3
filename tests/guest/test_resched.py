# SPDX-License-Identifier: GPL-2.0
"""Requests to reschedule a CPU: each ends in a switch, at an idle CPU, or without effect."""

import errno
import re
import time
from pathlib import Path

from harness.test import (HAS_RESCHED, RESCHED_OTHERWISE, Status, bursts, check_laws, count, defer, eq, fails, load,
                          measure, note, reset, skip, start, status, wait_until, within, write, write_file)

METRICS = ("resched", "resched_lazy")
PREEMPT = Path("/sys/kernel/debug/sched/preempt")


def load_resched(metrics="all"):
    if not HAS_RESCHED:
        skip("the kernel does not tell what it requests")
    load(f"metrics={metrics}")


def hogs(number, cpu):
    for _ in range(number):
        start("taskset", "-c", str(cpu), "sh", "-c", "while :; do :; done")


def preempt(mode):
    """Sets how the kernel preempts."""
    if not PREEMPT.exists() or mode not in PREEMPT.read_text():
        skip(f"the kernel has no {mode} preemption")
    before = re.search(r"\((\w+)\)", PREEMPT.read_text())[1]
    write_file(PREEMPT, mode)
    defer(write_file, PREEMPT, before)


def ends():
    """Returns how the requests ended, once measuring is off: all of them did."""
    check_laws()
    found = {name: count(name) for name in METRICS} | {
        name: status(name) for name in ("resched_set", "resched_idle", "resched_unused")}
    note(str(found))
    return found


def test_resched_refused():
    if HAS_RESCHED:
        skip("the kernel tells what it requests")
    load("metrics=all")
    fails(errno.EINVAL, write, "metrics", "resched")
    fails(errno.EINVAL, write, "metrics", "oncpu,resched_lazy")


def preempted():
    """Waits until tasks were preempted, each at some request."""
    wait_until("preemptions", lambda: count("runq_preempt") >= 20)


def test_resched_one_of_them():
    """Only the kind that is on is counted."""
    load_resched("default,resched")
    hogs(2, 0)
    preempted()
    measure(0)
    eq("lazy requests", ends()["resched_lazy"], 0)
    seen = ends()["resched"]
    reset()
    write("metrics", "default resched_lazy")
    measure(1)
    preempted()
    measure(0)
    found = ends()
    eq("full requests", (found["resched"], found["resched_idle"]), (0, 0))
    within("requests of either kind", 1, seen + found["resched_lazy"])


def test_resched_toggled():
    """Requests that are pending while probes come and go are not counted, or counted once."""
    load_resched()
    with bursts():
        for _ in range(10):
            reset()
            measure(0)
            measure(1)
            time.sleep(0.3)
        measure(0)
    within("requests", 1, ends()["resched_set"])
    with bursts():
        for _ in range(10):
            write("metrics", "resched runq")
            measure(1)
            write("metrics", "all")
        measure(0)
    # The other laws need metrics that were off.
    for scope, counters in Status().counters.items():
        parts = sum(counters[name] for name in RESCHED_OTHERWISE)
        parts += sum(count(name, scope.removeprefix("cpu")) for name in METRICS)
        eq(f"law on {scope}", counters["resched_set"], parts)
