# SPDX-License-Identifier: GPL-2.0
"""The controls `threshold_ns`, `outlier_rate`, `outlier_limit` and `on_outlier`."""

import errno
import os
import re

from harness import log
from harness.test import (DEBUGFS, METRICS, eq, fails, helper, load, measure, messages, note, read, run, status, value,
                          within, write, write_file)
from test_controls import LACKS


def threshold(metric: str, ns: str | int) -> None:
    write(f"threshold_ns/{metric}", ns)


def metrics_after(number: int) -> set[str]:
    """Returns the metrics of the kept outliers after this number."""
    found = re.findall(r"^outlier id (\d+) metric (\S+) ", read("outliers"), re.MULTILINE)
    return {metric for id_, metric in found if int(id_) > number}


def test_outlier_defaults():
    """By default no sample is checked, and no memory is allocated for outliers."""
    load()
    for metric in METRICS:
        eq(f"threshold of {metric}", value(f"threshold_ns/{metric}"), "none")
    controls = {"outlier_rate": "100", "outlier_limit": "none", "on_outlier": "none"}
    eq("controls", {name: value(name) for name in controls}, controls)
    eq("outlier_memory_bytes", status("outlier_memory_bytes"), 0)
    eq("the file", read("outliers"), "# schedhist outliers version 1\n")
    messages(1)
    eq("outliers", (status("outliers"), status("outliers_suppressed")), (0, 0))
    threshold("idle", 1)
    size = status("outlier_memory_bytes")
    within("outlier_memory_bytes for each CPU", 1, size // status("cpus_possible"), 131072)
    note(f"{size} bytes of outliers")


def test_outlier_thresholds():
    hog = helper("hog")
    load()
    write("outlier_rate", "none")
    for text in ("18446744073709551615", "1", "  42 ", "none"):
        threshold("wakeup", text)
        eq("threshold", value("threshold_ns/wakeup"), text.strip())
    # The threshold of the whole applies to each of its parts, and the lower one counts.
    threshold("runq", 5_000_000)
    threshold("runq_wakeup", 1_000_000_000_000)
    run(hog, "wakeup", "1", "50")
    run(hog, "preempt", "1", "50")
    measure(0)
    eq("metrics of the outliers", metrics_after(0), {"runq_preempt", "runq_wakeup"})
    before = status("outliers")
    threshold("runq", 1_000_000_000_000)
    threshold("runq_wakeup", 1)
    measure(1)
    messages(2)
    measure(0)
    eq("metrics of the outliers", metrics_after(before), {"runq_wakeup"})
    # A metric that is off has no samples, and so no outliers.
    before = status("outliers")
    threshold("runq_wakeup", "none")
    threshold("wakeup", 1)
    measure(1)
    messages(2)
    eq("outliers of a metric that is off", status("outliers"), before)
    write("metrics", "all")
    messages(2)
    measure(0)
    eq("metrics of the outliers", metrics_after(before), {"wakeup"})
    within("outliers of a metric that is on", before + 1, status("outliers"))
    threshold("wakeup", "none")
    before = status("outliers")
    measure(1)
    messages(2)
    eq("outliers without a threshold", status("outliers"), before)
    for metric in METRICS:
        if metric != "runq":
            eq(f"threshold of {metric}", value(f"threshold_ns/{metric}"), "none")


def test_outlier_refused():
    """The log quotes refused input as it was written."""
    load()
    fd = os.open(DEBUGFS / "enable", os.O_RDWR)
    mark = log.Mark()
    for file, text in [
        ("threshold_ns/runq", "0\n"), ("threshold_ns/idle", b'1\xff "2"\\\n'), ("outlier_rate", "0\n"),
        ("on_outlier", "nothing\n"), ("enable", f"{7:0200d}"), ("reset", "2\n"), ("metrics", "oncpu;idle\n"),
        ("metrics", "1" * 257),
    ]:
        fails(errno.EINVAL, write_file, DEBUGFS / file, text)
    os.lseek(fd, 1, os.SEEK_SET)
    fails(errno.EINVAL, os.write, fd, b"1")
    os.close(fd)
    eq("the log", mark.ours(), [
        'schedhist: threshold_ns/runq: "0": expected a number of nanoseconds (1 or more), or none',
        r'schedhist: threshold_ns/idle: "1\xff \x222\x22\x5c": expected a number of nanoseconds (1 or more), or none',
        'schedhist: outlier_rate: "0": expected outliers per second, 1 to 1000000000, or none',
        'schedhist: on_outlier: "nothing": expected none, tracing_off, snapshot, or both words',
        f'schedhist: enable: "{0:064d}"...: expected 0 or 1',
        'schedhist: reset: "2": expected 1',
        'schedhist: metrics: "oncpu;idle": expected metric names (see hist/), or all, default, none' + LACKS,
        f'schedhist: metrics: "{"1" * 64}"...: longer than 256 bytes',
        'schedhist: enable: "1": written at offset 1, must start at offset 0',
    ])
