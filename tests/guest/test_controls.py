# SPDX-License-Identifier: GPL-2.0
"""The controls `metrics` and `reset`, and the parameter `metrics`."""

import errno
import time

from harness import log
from harness.test import (DEBUGFS, DEFAULT, HAS_RESCHED, METRICS, RECORDED, Histogram, Status, assert_gone, busy,
                          check_laws, count, cpus, eq, fails, histogram, lines_of, load, measure, messages, note, read,
                          reset, status, unload, value, within, write)


OFFERED = [name for name in RECORDED if HAS_RESCHED or not name.startswith("resched")]
LACKS = "" if HAS_RESCHED else ("; this kernel has no tracepoint sched_set_need_resched_tp for resched and "
                                "resched_lazy")


def test_metrics():
    load()
    eq("default", value("metrics"), " ".join(DEFAULT))
    write("metrics", "all")
    eq("all", value("metrics"), " ".join(OFFERED))
    write("metrics", "none")
    eq("none", value("metrics"), "none")
    write("metrics", "runq,idle")
    eq("some of them", value("metrics"), "runq_wakeup runq_preempt idle")
    write("metrics", "default")
    eq("default again", value("metrics"), " ".join(DEFAULT))
    eq("status", Status().settings["metrics"], " ".join(DEFAULT))


def test_metrics_parameter():
    load("metrics=oncpu,wakeup")
    eq("metrics", value("metrics"), "oncpu wakeup")
    unload()
    mark = log.Mark()
    fails(errno.EINVAL, load, "metrics=oncpu,bogus")
    eq("the log", mark.ours(),
       ['schedhist: metrics: "oncpu,bogus": expected metric names (see hist/), or all, default, none' + LACKS])
    assert_gone()


def test_metrics_are_off():
    """A metric that is off does not grow, one that is switched on counts from then on, and if all are off
    nothing is probed."""
    load("metrics=idle")
    messages(1)
    measure(0)
    eq("requests to reschedule", status("resched_set"), 0)
    for metric in METRICS:
        if metric != "idle":
            eq(f"count of {metric}", count(metric), 0)
    within("count of idle", 1, count("idle"))
    write("metrics", "none")
    measure(1)
    before = status("switches")
    time.sleep(0.5)
    eq("switches with no metric on", status("switches"), before)
    write("metrics", "all")
    reset()
    messages(1)
    measure(0)
    within("count of wakeup", 1, count("wakeup"))


def test_reset():
    """A reset is a baseline, taken on all CPUs at once: right after it the same amount is missing on both
    sides of a law, however busy the machine is."""
    load("metrics=all")
    with busy():
        time.sleep(0.3)
        for _ in range(10):
            reset()
        time.sleep(0.3)
        measure(0)
    check_laws()
    within("switches", 1, status("switches"))
    reset()
    eq("switches after a reset", status("switches"), 0)
    for metric in METRICS:
        eq(f"samples of {metric} after a reset", count(metric), 0)
        eq(f"maximum of {metric} after a reset", histogram(metric).max, [])
    for line in lines_of("summary")[4:]:
        eq("count and mean in the summary", line.split()[1:3], ["0", "-"])


def test_reset_read():
    """A file read during resets is from one side of each: no samples exceed the maximum, except those that
    the CPUs are just recording."""
    load()
    script = f"""while echo 1 > {DEBUGFS}/reset; do sleep 0.02; done &
        exec hackbench --groups 1 --loops 100000000"""
    with busy("bash", "-c", script):
        found = [Histogram(read("hist/oncpu")) for _ in range(800)]
        # The load may begin late.
        for _ in range(20):
            if sum(one.count >= 100 for one in found) >= 100:
                break
            found += [Histogram(read("hist/oncpu")) for _ in range(400)]
    reads = sum(one.count >= 100 for one in found)
    cut = sum(sum(number for lower, (_, number) in one.buckets.items() if [lower] > one.max) > cpus()
              for one in found)
    note(f"{reads} reads, {cut} of them cut in two")
    within("reads that found samples", 100, reads)
    eq("reads that a reset has cut in two", cut, 0)
