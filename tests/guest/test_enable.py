# SPDX-License-Identifier: GPL-2.0
"""The control `enable`."""

import time

from harness.test import (METRICS, OF_CPU, busy, check_laws, cpus, eq, let_count, load, measure, possible_cpus, read,
                          status, value, wait_until, within)


def wait_for_unseen(number):
    """Waits until so many CPUs have switched since measuring began, for each time that it did."""
    wait_until(f"start_unseen {number}", lambda: status("start_unseen") >= number)


def all_texts():
    names = [f"hist/{metric}" for metric in METRICS]
    of_cpus = [f"per_cpu/cpu{cpu}/{name}" for cpu in possible_cpus() for name in (*names, *OF_CPU)]
    return [read(name) for name in ("status", *names, *of_cpus)]


def test_enable():
    """Nothing is counted while measuring is off. A slice that began then is not a sample, on any CPU."""
    load()
    with busy():
        eq("enable", value("enable"), "1")
        wait_for_unseen(cpus())
        measure(0)
        eq("enable", value("enable"), "0")
        before = all_texts()
        time.sleep(0.3)
        eq("counters while measuring is off", all_texts(), before)
        least = status("switches") + 100
        measure(1)
        let_count("switches", least)
        wait_for_unseen(2 * cpus())
        measure(0)
    within("switches after measuring again", least, status("switches"))
    check_laws()
    within("start_unseen", 2 * cpus(), status("start_unseen"), 2 * cpus() + status("clock_backwards"))
