# SPDX-License-Identifier: GPL-2.0
"""The number of outliers reported: a rate that recovers, and a total."""

import os
import re
import time

from harness import log
from harness.outliers import check_all_counted, report_all
from harness.test import (WORK, bursts, busy, cpus, eq, hog, load, load_all, measure, note, read, reset, skip, spawn,
                          state_of, status, succeeds, wait_for_count, wait_until, within, write)


def said(mark: log.Mark, number: int, pattern: str) -> None:
    """Waits until the log has the pattern this often."""

    def found() -> int:
        return sum(bool(re.match(f"schedhist: {pattern}", line)) for line in mark.ours())

    wait_until(f"lines about {pattern}", lambda: found() >= number)
    eq(f"lines about {pattern}", found(), number)


def never_said(mark: log.Mark, text: str) -> None:
    eq(f"lines about {text}", [line for line in mark.ours() if text in line], [])


def exported(name: str) -> int:
    return int(re.findall(rf"^schedhist_{name}_total (\d+)$", read("openmetrics"), re.MULTILINE)[0])


def test_outlier_rate():
    """The first burst uses up the outliers of a second, then each one comes at its time; suppressed outliers
    are counted."""
    load_all()
    measure(0)
    mark = log.Mark()
    write("outlier_rate", 20)
    report_all()
    with busy():
        reset()
        begin = time.monotonic()
        measure(1)
        sure = time.monotonic()
        wait_for_count("outliers", 20)
        wait_for_count("outliers_suppressed", 1)
        wait_for_count("outliers", 40)
        sure = time.monotonic() - sure
        measure(0)
        elapsed = time.monotonic() - begin
    reported, suppressed = check_all_counted()
    note(f"in {elapsed:.2f} s")
    within("outliers reported", 20 + int(sure * 16), reported, 20 + elapsed * 20)
    eq("reported, for a monitoring system", exported("outliers"), reported)
    eq("suppressed, for a monitoring system", exported("outliers_suppressed"), suppressed)
    eq("the last number", int(re.findall(r"^outlier id (\d+)", read("outliers"), re.MULTILINE)[-1]), reported)
    said(mark, 1, "outlier_rate: limit of 20 per second reached, suppressing more")
    never_said(mark, "outlier_limit")
    # A reset starts the status from 0, and does not change what a monitoring system reads.
    reset()
    eq("after a reset", (status("outliers"), status("outliers_suppressed")), (0, 0))
    eq("for a monitoring system", exported("outliers"), reported)


def overdue():
    """A task sleeps uninterruptibly for 300 ms, and then waits for its CPU for 700 ms, which a real-time task has."""
    fifo = WORK / "fifo"
    fifo.unlink(missing_ok=True)
    os.mkfifo(fifo)
    # It sleeps until its child, which waits for a writer, executes a program.
    opens = os.POSIX_SPAWN_OPEN, 0, fifo, os.O_RDONLY, 0
    victim = spawn(lambda: os.waitpid(os.posix_spawn("/bin/true", ["true"], {}, file_actions=[opens]), 0))
    wait_until("its sleep", lambda: state_of(victim) == "D")
    # Its child, which can run, keeps CPU 0.
    os.sched_setaffinity(victim, {1})
    time.sleep(0.2)
    spinner = spawn(hog, 0.8)
    time.sleep(0.1)
    os.close(os.open(fifo, os.O_WRONLY))
    succeeds(spinner)
    succeeds(victim)


def test_outlier_rate_late():
    """A task that was blocked is reported when it runs again, and takes its turn of the rate then, however
    long ago it was woken."""
    if cpus() < 2:
        skip("it needs two CPUs")
    os.sched_setaffinity(0, {0})
    rate = 6
    load()
    measure(0)
    write("threshold_ns/runq_wakeup", 500_000_000)
    write("threshold_ns/blocked_uninterruptible", 200_000_000)
    for _ in range(20):
        write("outlier_rate", rate)
        reset()
        measure(1)
        overdue()
        measure(0)
        reported, suppressed = status("outliers"), status("outliers_suppressed")
        note(f"{reported} reported, {suppressed} suppressed")
        # Other tasks may have waited as long, and exceeded the rate. Or the sleep began so late that the wait
        # was short.
        if reported + suppressed >= 2 and (not suppressed or reported + suppressed <= rate):
            break
    within("outliers, all of them reported", 2, reported, 1000)
    eq("suppressed", suppressed, 0)


def more_suppressed(number: int) -> None:
    wait_for_count("outliers_suppressed", number + status("outliers_suppressed"))


def test_outlier_said():
    """The log says once that a limit is reached, and again after the limit or a threshold was written."""
    load()
    mark = log.Mark()
    with bursts():
        write("outlier_rate", 1_000_000)
        write("outlier_limit", 5)
        write("threshold_ns/oncpu", 1)
        wait_for_count("outliers_suppressed", 100)
        said(mark, 1, "outlier_limit: limit of 5 reached, suppressing more")
        eq("outliers", status("outliers"), 5)
        for i, control in enumerate(["outlier_limit", "threshold_ns/oncpu"], 1):
            write(control, 7)
            more_suppressed(i * 500)
            said(mark, 1 + i, "outlier_limit: limit of [57] reached, suppressing more")
            eq("outliers", status("outliers"), 12)
        never_said(mark, "outlier_rate")
        for number in (1, 2):
            write("outlier_rate", 3)
            if number == 1:
                write("outlier_limit", "none")
            more_suppressed(500)
            said(mark, number, "outlier_rate: limit of 3 per second reached")
        # A rate of `none` is never reached.
        write("outlier_rate", "none")
        wait_for_count("outliers", 1000 + status("outliers"))
    measure(0)
    said(mark, 2, "outlier_rate: ")
    said(mark, 3, "outlier_limit: ")
