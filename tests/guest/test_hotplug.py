# SPDX-License-Identifier: GPL-2.0
"""CPUs go offline and online while everything is in use: a kernel with assertions checks the contexts in
which our callbacks run."""

import re
import subprocess
import time

from harness.test import (DEBUGFS, Wrong, busy, check_laws, count, cpu1, eq, load, measure, note, reset, start, stop,
                          wait_until, within, write, write_file)
from harness.trace import Instance


def test_hotplug():
    online = cpu1()
    load("metrics=all")
    with busy():
        write("outlier_rate", "none")
        write("threshold_ns/idle", 1)
        # A reader that is woken all the time.
        reader = start("bash", "-c", f"while cat {DEBUGFS}/outlier_pipe; do :; done", stdout=subprocess.DEVNULL)
        for is_reset in False, True, True:
            before = count("oncpu", 1)
            write_file(online, "0")
            away = count("oncpu", 1)
            within("slices on a CPU that went", before, away)
            time.sleep(0.3)
            eq("slices on a CPU that is away", count("oncpu", 1), away)
            # The records of an offline CPU can be read, and made the baseline.
            if is_reset:
                reset()
                eq("slices after a reset", count("oncpu", 1), away := 0)
            write_file(online, "1")
            wait_until("slices on a CPU that is back", lambda: count("oncpu", 1) > away)
        stop(reader)
    measure(0)
    check_laws()


def test_hotplug_stopper():
    """The kernel does not trace the last switch on a CPU that goes offline, which is from the stopper thread.
    When that thread runs again, its previous absence is not reported again: no two absences overlap."""
    online = cpu1()
    load()
    instance = Instance("offcpu", clock="perf")

    def absences():
        return [line for line in instance.lines() if " comm=migration/1 " in line]

    while len(absences()) < 2:
        time.sleep(1)
        write_file(online, "0")
        write_file(online, "1")
    time.sleep(1)
    measure(0)
    instance.nothing_lost()
    last = 0.0
    for line in absences():
        # The time stamp of the trace is taken on the CPU, before the task runs; it is rounded to microseconds.
        found = re.search(r" ([\d.]+): offcpu: .*duration_ns=(\d+)", line)
        end, away = float(found[1]), int(found[2]) / 1e9
        if end - away < last - 2e-6:
            raise Wrong(f"absences overlap: {line}")
        last = end
    note(f"{len(absences())} absences of migration/1")
    check_laws()
