# SPDX-License-Identifier: GPL-2.0
"""A task that leaves its CPU because its quota is spent does not wait for a CPU."""

import os
import re
import time

from harness import cgroup
from harness.test import (WORK, Wrong, about_numbers, check_laws, cpus, eq, has_symbol, histogram, let_count, load,
                          matches, measure, note, read, reset, skip, start, status, wait_until, within, write)
from harness.trace import Instance

# Runs in user space until the file is there. Starts no process: a deadline task may not.
SPINS = f"until [[ -e {WORK}/stop ]]; do for i in {{1..200}}; do :; done; done"
EVENT = re.compile(r": (oncpu|runq|offcpu|throttled): +comm=.* pid=(\d+) prio=-?\d+ cpu=\d+ duration_ns=(\d+)"
                   r" cause=([a-z_]+) group=\d+$")


def throttle_begin(metrics):
    """Loads the module with these metrics, and traces the events of all tasks."""
    load(f"metrics={metrics}")
    measure(0)
    reset()
    write("threshold_ns/throttled", 1000000)
    write("outlier_rate", "none")
    trace = Instance("oncpu", "runq", "offcpu", "throttled", "outlier")
    measure(1)
    return trace


def throttle_end(trace, spinner):
    """Ends the task, and measuring. Returns its absences."""
    (WORK / "stop").touch()
    eq("status of the spinner", spinner.wait(), 0)
    measure(0)
    check_laws()
    trace.nothing_lost()
    found = set(re.findall(r"^outlier id \d+ metric (\S+) cause (\S+) ", read("outliers"), re.MULTILINE))
    eq("metrics of the outliers", found, {("throttled", "throttled")})
    matches("events of outliers", "outlier: id=.* metric=throttled .* cause=throttled ", "\n".join(trace.lines()))
    return absences(trace.lines(), spinner.pid)


def runq_of(lines, pid):
    """Returns how long the task waited for a CPU."""
    found = filter(None, map(EVENT.search, lines))
    return sum(int(match[3]) for match in found if (match[1], match[2]) == ("runq", str(pid)))


def absences(lines, pid):
    """Returns the absences of a task because its quota was spent. Each slice that ended so must be followed by
    such an absence, and every other one by none."""
    found, preempted, left = [], 0, None
    for match in filter(None, map(EVENT.search, lines)):
        event, duration, cause = match[1], int(match[3]), match[4]
        if match[2] != str(pid):
            continue
        if event == "oncpu":
            left = cause
            continue
        wanted = {"throttled": "throttled", "preempted": "runq"}.get(left or "")
        if left and (event == "throttled" or wanted) and (event != wanted or cause != left):
            raise Wrong(f"the task left as {left}, and then: {match[0]}")
        if event == "throttled":
            found.append(duration)
        elif cause == "preempted":
            preempted += duration
        # A task that had blocked has two events.
        left = None
    # What another task causes on this CPU is little.
    if preempted * 4 > sum(found):
        raise Wrong(f"throttled for {sum(found)} ns, but waiting after preemptions for {preempted} ns")
    return found


def assert_samples(found):
    one = histogram("throttled")
    within("absences", 5, len(found), 1000)
    eq("samples", (one.count, one.sum), (len(found), sum(found)))


def quota_begin():
    """Runs a task in a cgroup, on CPU 1: half of a CPU, in periods of 100 ms."""
    cgroup.on()
    group = cgroup.with_quota("service", "50000 100000")
    return group, spin(f"taskset --pid --cpu-list 1 $$ > /dev/null; echo $$ > {group}/cgroup.procs; ")


def spin(before="", *prefix):
    (WORK / "stop").unlink(missing_ok=True)
    return start(*prefix, "bash", "-c", before + SPINS)


def two_cpus():
    about_numbers()
    if cpus() == 1:
        skip("it takes two CPUs")
    # The other one is the spinner's.
    os.sched_setaffinity(0, {0})


def test_throttled_quota():
    """cpu.max: as often, and as long, as the kernel itself counts it. The kernel counts a period if the group
    is throttled when the next one begins: each absence has at least one, and a long one several. A timer that
    is late, as on a busy host, counts all periods that it has missed."""
    period = 100000000
    two_cpus()
    trace = throttle_begin("default,throttled")
    group, spinner = quota_begin()
    time.sleep(4)
    let_count("throttled", 6)
    found = throttle_end(trace, spinner)
    number, total, least = len(found), sum(found), sum(absence // period for absence in found)
    stat = dict(line.split() for line in (group / "cpu.stat").read_text().splitlines())
    usec, periods = int(stat["throttled_usec"]), int(stat["nr_throttled"])
    note(f"{number} absences, {total} ns, {least} to {least + number} periods; the kernel: {periods}, {usec} us")
    assert_samples(found)
    eq("the counter", status("throttled"), number)
    within("absences", 5, number, periods + 1)
    within("periods", least - 1, periods, 2 * (least + number))
    # The kernel's time ends when the quota returns, ours when the task runs again. A group whose quota ends
    # while its last task exits is throttled, but nobody is absent.
    # An older kernel throttles a run queue: tasks that are woken into it go on waiting.
    at_exit = period if periods > number else 0
    waited = 0 if has_symbol("throttle_cfs_rq_work") else runq_of(trace.lines(), spinner.pid)
    within("throttled time, ns", usec * 980 - at_exit - waited, total, usec * 1100 + number * 20000000)


def test_throttled_deadline():
    """SCHED_DEADLINE: 20 ms in each 100 ms."""
    begin = time.monotonic_ns()
    about_numbers()
    trace = throttle_begin("all")
    spinner = spin("", "chrt", "--deadline", "--sched-runtime", "20000000", "--sched-period", "100000000", "0")
    let_count("throttled", 6)
    wait_until("its absences", lambda: histogram("throttled").sum > 1500000000)
    found = throttle_end(trace, spinner)
    note(f"{len(found)} absences, {sum(found)} ns")
    assert_samples(found)
    # It may have a fifth of the time, and wants all of it.
    within("throttled time, ns", 1500000000, sum(found), time.monotonic_ns() - begin)
