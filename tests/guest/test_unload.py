# SPDX-License-Identifier: GPL-2.0
"""Unloading, again and again, while everything runs.

SCHEDHIST_CYCLES  how often unload_often loads and unloads
"""

import errno
import os
import time
from pathlib import Path

from harness.test import (DEBUGFS, EVENTFS, THOROUGH, TRACEFS, allow, append_file, assert_gone, assert_no_growth,
                          bursts, cpus, fails, kernel_memory, load, measure, note, perf_event_open, read, seeks_leaks,
                          spawn, succeeds, unload, within, write, write_file)
from harness.trace import enable


def in_use():
    fails(errno.EAGAIN, unload)


def all_events():
    write_file(EVENTFS / "enable", "1")
    time.sleep(0.05)
    write_file(EVENTFS / "enable", "0")


def off_and_on():
    measure(0)
    measure(1)


def set_event():
    append_file(TRACEFS / "set_event", "schedhist:oncpu")
    read("summary")
    in_use()
    measure(0)
    append_file(TRACEFS / "set_event", "!schedhist:oncpu")


def trigger():
    # Not each kernel has hist triggers.
    text = "hist:keys=cause" if (EVENTFS / "runq/hist").exists() else "traceon"
    append_file(EVENTFS / "runq/trigger", text)
    time.sleep(0.05)
    in_use()
    append_file(EVENTFS / "runq/trigger", f"!{text}")


def perf():
    """Counts on all CPUs, like perf stat."""
    if not Path("/proc/sys/kernel/perf_event_paranoid").exists():
        return
    number = int((EVENTFS / "runq/id").read_text())
    for event in [perf_event_open(number, -1, cpu) for cpu in range(cpus())]:
        os.close(event)


def outlier():
    """Another process waits for an outlier, of which there are soon many."""
    write_file(EVENTFS / "enable", "1")
    write("outlier_rate", "none")
    # Before the fork, because no reader waits if no outlier can come.
    write("threshold_ns/runq", 1)
    succeeds(spawn(wait_for_outlier))
    write_file(EVENTFS / "enable", "0")


def wait_for_outlier():
    within("bytes of an outlier", 1, len(os.read(os.open(DEBUGFS / "outlier_pipe", os.O_RDONLY), 512)))


def outliers_until_the_end():
    write("threshold_ns/idle", 1)
    time.sleep(0.05)


# The first way is none: it is unloaded at once.
WAYS = [lambda: None, all_events, off_and_on, set_event, trigger, perf, outlier, outliers_until_the_end]


def live(first, last):
    """Loads, uses and unloads the module, one life after the other, in all ways in turn."""
    for life in range(first, last + 1):
        # Most lives are fast; each way also runs at normal speed.
        write_file("/sys/kernel/rcu_expedited", str(int(life % 20 >= 4)))
        load("precision=7")
        WAYS[life % len(WAYS)]()
        unload()
        assert_gone()


@seeks_leaks
@allow(4500 if THOROUGH else 600)
def test_unload_often():
    first, cycles = 15, int(os.environ.get("SCHEDHIST_CYCLES", 1000 if THOROUGH else 40))
    within("SCHEDHIST_CYCLES", first + 1, cycles)
    enable("sched/sched_switch")
    with bursts():
        live(1, first)
    before = kernel_memory()
    with bursts():
        live(first + 1, cycles)
    after = kernel_memory()
    note(f"{cycles} load/unload cycles, in order")
    assert_no_growth(before, after, cycles - first)
