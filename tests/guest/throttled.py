#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Checks the events of a task that spends its quota again and again.

usage: throttled.py PID PERIOD_NS < TRACE

Each stay of the task that ended because its quota was spent must be followed by an absence of the
metric `throttled`, and every other one by no such absence. Prints the number of the absences, their
sum in nanoseconds, and the least and the greatest number of periods that may have begun in them.
"""

from __future__ import annotations

import re
import sys

EVENT = re.compile(
    r": (oncpu|runq|offcpu|throttled): +comm=.* pid=(\d+) prio=-?\d+ cpu=\d+ duration_ns=(\d+) cause=([a-z_]+) group=\d+$"
)


def main(pid: str, period: int) -> int:
    absences: list[int] = []
    preempted = 0
    left = None
    for line in sys.stdin:
        match = EVENT.search(line)
        if not match or match[2] != pid:
            continue
        event, duration, cause = match[1], int(match[3]), match[4]
        if event == "oncpu":
            left = cause
            continue
        wanted = {"throttled": "throttled", "preempted": "runq"}.get(left or "")
        if left and (event == "throttled" or wanted):
            if event != wanted or cause != left:
                sys.exit(f"the task left as {left}, and then: {line}")
        if event == "throttled":
            absences.append(duration)
        elif cause == "preempted":
            preempted += duration
        # A task that had blocked has two events.
        left = None
    # What another task causes on this CPU is little.
    if preempted * 4 > sum(absences):
        sys.exit(f"throttled for {sum(absences)} ns, but waiting after preemptions for {preempted} ns")
    least = sum(absence // period for absence in absences)
    print(len(absences), sum(absences), least, least + len(absences))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
