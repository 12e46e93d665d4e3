# SPDX-License-Identifier: GPL-2.0
"""Requests to reschedule are those that a reference finds in the kernel's tracepoints: see replay/resched.py."""

import shutil

from harness.test import (HAS_RESCHED, WORK, about_numbers, allow, check_laws, count, eq, histogram, load, measure,
                          messages, note, reset, skip, start, status, wait_until, within)
from replay import resched
from test_resched import hogs, preempt

FOLDER = WORK / "replay_resched"


def check(work):
    """Compares what is recorded while a function runs."""
    about_numbers()
    if not HAS_RESCHED:
        skip("the kernel does not tell what it requests")
    resched.needs_probes()
    load("metrics=all")
    measure(0)
    reset()
    shutil.rmtree(FOLDER, ignore_errors=True)
    window = resched.begin(FOLDER, lambda: measure(1))
    window.mark()
    work()
    window.mark()
    measure(0)
    window.stop()
    check_laws()
    result = resched.compare(window.saved())
    wrong = [*result.wrong, *(f"differs: {sample}" for sample in result.samples if not sample.agrees())]
    for text in wrong[:20]:
        note(text)
    note(f"{len(result.samples)} samples, {len(wrong)} wrong, {result.undecided} undecided; "
         f"{dict(result.ends)}, {dict(result.edges)} as measuring was switched")
    for metric in resched.METRICS:
        samples = [sample for sample in result.samples if sample.metric == metric]
        total, (low, high) = sum(one.found for one in samples), (sum(one.wanted[i] for one in samples) for i in (0, 1))
        widths = sorted(one.wanted[1] - one.wanted[0] for one in samples)[len(samples) // 2:]
        note(f"{metric}: {len(samples)} samples of {total} ns, by the reference {low} to {high} ns; an interval "
             f"has {widths[:1]} ns")
        eq(f"samples and events of {metric}", (histogram(metric).count, histogram(metric).sum), (len(samples), total))
    for name in ("resched_idle", "resched_unused"):
        low = result.ends[name]
        within(name, low - result.undecided, status(name), low + result.undecided + result.edges[name])
    eq("samples that differ", wrong, [])
    within("samples", 50, len(result.samples))
    # A slow machine has more interrupts within the scheduler.
    within("undecided", 0, result.undecided, 4 + len(result.samples) // 25)
    return result


def crowd(lazy=0):
    """Hogs that are preempted, tasks that sleep, and such as are forked; with so many lazy requests."""
    hogs(2, 0)
    start("stress-ng", "--temp-path", "/tmp", "--quiet", "--timeout", "60", "--nanosleep", "1", "--fork", "1")
    wait_until("samples", lambda: count("resched_lazy") >= lazy and count("resched") + count("resched_lazy") >= 60)


@allow(900)
def test_replay_resched_lazy():
    preempt("lazy")
    check(lambda: crowd(10))


@allow(900)
def test_replay_resched_full():
    preempt("full")
    check(crowd)


@allow(900)
def test_replay_resched_messages():
    result = check(lambda: messages(1))
    within("requests to idle CPUs", 1, result.ends["resched_idle"])
