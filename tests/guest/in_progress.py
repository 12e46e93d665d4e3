#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""What is in progress.

usage: in_progress.py law TIMES          check the law of time in snapshots
       in_progress.py hog SECONDS FILE   hold CPU 1 as a real-time task; FILE is there once it does
       in_progress.py nap                sleep and wake up on CPU 1
"""

import importlib.machinery
import importlib.util
import os
import sys
import time

MASK = (1 << 64) - 1
IDLE, BUSY, UNSEEN = range(3)


def rawdump():
    """Returns the program as a module."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../rawdump")
    loader = importlib.machinery.SourceFileLoader("rawdump", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("rawdump", loader))
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


def times(snapshot):
    """Returns the time of each CPU that was spent in tasks, in idle, and unseen, up to now."""
    found = {}
    for cpu, (occupancy, now, since, unseen) in snapshot.slices.items():
        oncpu, idle = (snapshot.merged(name, [cpu]).sum for name in ("oncpu", "idle"))
        if occupancy == BUSY:
            oncpu += now - since
        elif occupancy == IDLE:
            idle += now - since
        if (oncpu + idle + unseen - now) & MASK:
            sys.exit(f"cpu {cpu}: {now} is not {oncpu} + {idle} + {unseen}")
        found[cpu] = (oncpu, idle, unseen, now)
    return found


def law(number):
    """Checks snapshots: each by itself, and each with the one before."""
    program, last, slices = rawdump(), {}, 0
    for _ in range(number):
        with open("/sys/kernel/debug/schedhist/raw", "rb") as file:
            snapshot = program.Snapshot(file.read())
        found = times(snapshot)
        slices += sum(1 for current in snapshot.slices.values() if current[0] != UNSEEN)
        for cpu, (oncpu, idle, unseen, now) in found.items():
            if cpu in last and unseen == last[cpu][2]:
                span = now - last[cpu][3]
                for what, more in (("oncpu", oncpu - last[cpu][0]), ("idle", idle - last[cpu][1])):
                    if not 0 <= more <= span:
                        sys.exit(f"cpu {cpu}: {what} has grown by {more} in {span} ns")
        last = found
    cpus = len(os.sched_getaffinity(1))
    if slices < number * cpus * 9 // 10:
        sys.exit(f"only {slices} slices in {number} snapshots of {cpus} CPUs")


def call(name):
    """Gives this task a name."""
    with open("/proc/self/comm", "w", encoding="ascii") as file:
        file.write(name)


def hog(seconds, path):
    """Holds CPU 1."""
    call("hog")
    os.sched_setaffinity(0, {1})
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
    with open(path, "w", encoding="ascii"):
        pass
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def nap():
    """Sleeps and wakes up, on CPU 1."""
    call("nap")
    os.sched_setaffinity(0, {1})
    while True:
        time.sleep(0.01)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["law", number]:
            law(int(number))
        case ["hog", seconds, path]:
            hog(float(seconds), path)
        case ["nap"]:
            nap()
        case _:
            sys.exit(__doc__)
