# SPDX-License-Identifier: GPL-2.0
"""Data races, on a kernel that looks for them: KCSAN stops at one access in some thousands, and waits for
another CPU to access the same data. In a guest this happens too seldom to find much."""

import itertools
import re
import time
from pathlib import Path

from harness.test import (DEBUGFS, assert_gone, busy, check_laws, defer, is_beyond, load, measure, note, reset, unload,
                          write, write_file)

SKIP_WATCH = Path("/sys/module/kcsan/parameters/skip_watch")


def watched():
    return int(re.search(r"setup_watchpoints: *(\d+)", Path("/sys/kernel/debug/kcsan").read_text())[1])


def test_races():
    """Uses all data that CPUs share at once: probes, readers, outliers, baselines, switching off and on."""
    if not SKIP_WATCH.exists():
        is_beyond("kcsan", "the kernel does not look for data races")
    load("metrics=all")
    write("outlier_rate", "none")
    write("threshold_ns/runq", 1000000)
    script = f"""
        cd {DEBUGFS}
        for name in summary raw outliers openmetrics outlier_pipe; do
            while :; do timeout 1 cat $name; done &
        done
        exec hackbench --groups 1 --loops 100000000"""
    with busy("bash", "-c", script):
        before, usual = watched(), SKIP_WATCH.read_text()
        defer(write_file, SKIP_WATCH, usual)
        # One access in this many.
        write_file(SKIP_WATCH, "400")
        for i in itertools.count():
            if i >= 20 and watched() - before >= 10000:
                break
            time.sleep(1)
            reset()
            if i % 4 == 3:
                measure(0)
                measure(1)
        write_file(SKIP_WATCH, usual)
    note(f"one access in 400: {watched() - before} of them looked at")
    measure(0)
    check_laws()
    unload()
    assert_gone()
