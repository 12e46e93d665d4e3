# SPDX-License-Identifier: GPL-2.0
"""The control `enable`."""

import errno
import time

from harness import log
from harness.test import (METRICS, OF_CPU, THOROUGH, as_nobody, bursts, busy, check_laws, cpus, eq, expedite_rcu, fails,
                          let_count, load, matches, measure, possible_cpus, read, refuses_all, status, value,
                          wait_until, within)


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


def test_enable_often():
    number = 400 if THOROUGH else 80
    load()
    expedite_rcu()
    with bursts():
        for i in range(number):
            measure(i % 2)
        measure(0)
    check_laws()
    # At most one for each CPU and each time; none if the CPU did not switch before measuring went off.
    within("start_unseen", 1, status("start_unseen"), (number // 2 + 1) * cpus() + status("clock_backwards"))


def test_enable_bad_input():
    load()
    measure(0)
    mark = log.Mark()
    with log.quiet():
        number = refuses_all("enable")
    eq("enable", value("enable"), "0")
    matches("the log", '^schedhist: enable: "2": expected 0 or 1$', "\n".join(mark.ours()))
    # At most one line for each.
    within("lines in the log", 1, len(mark.ours()), number)
    measure(1)
    eq("enable", value("enable"), "1")
    fails(errno.EACCES, as_nobody, read, "enable")
