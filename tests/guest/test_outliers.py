# SPDX-License-Identifier: GPL-2.0
"""Samples above a threshold: whose they are, how long, and which tasks had the CPU meanwhile."""

import itertools
import os
import select
import threading
import time
from collections import Counter

from harness.outliers import (KEPT, Culprit, Outlier, Waiting, check_all_counted, read_text, read_trace,
                              report_all)
from harness.test import (DEBUGFS, METRICS, WORK, Wrong, about_numbers, cpu1, eq, helper, load, load_all, measure,
                          messages, note, read, reset, run, status, told, wait_until, within, write, write_file)
from harness.trace import TRACE, Instance, clear, enable
from replay.common import Interval
from replay.events import Switch
from replay.window import Event, Window

HOG = WORK / "hog"
MS = 1_000_000
CPU, LENGTH, THRESHOLD = 1, 700, 150 * MS
ATTEMPTS = 15

# --- a task is delayed by a known time ---
#
# The expected times come from the tasks that cause the delay, and from ftrace's stamps around those of
# schedhist, see replay/__init__.py: a busy host makes neither wrong.


def wait_of(outlier: Outlier, events: list[Switch | Event]) -> tuple[Interval, Interval]:
    """Returns when the wait began and when it ended; asserts that its own stamps lie within."""
    pid = outlier.pid
    switches = [one for one in events if isinstance(one, Switch)]
    ends = [(one.a, one.b) for one in switches if one.next == pid and one.a <= outlier.end_ns <= one.b]
    if not ends:
        raise Wrong(f"it ends at no switch to {pid}: {outlier}")
    end = ends[0]
    if outlier.cause == "preempted":
        begin = max((one.a, one.b) for one in switches if one.prev == pid and one.a < end[0])
    else:
        waking, wakeup = (max(one.time for one in events if isinstance(one, Event) and one.name == name
                              and one.values["pid"] == pid and one.time <= end[1])
                          for name in ("sched_waking", "sched_wakeup"))
        begin = waking, wakeup
    if not begin[0] <= outlier.start_ns <= begin[1]:
        raise Wrong(f"it does not begin within {begin}: {outlier}")
    return begin, end


def length(since: Interval, until: Interval) -> Interval:
    return max(0, until[0] - since[1]), max(0, until[1] - since[0])


def ran(pid: int, begin: Interval, end: Interval, events: list[Switch | Event]) -> Interval:
    """Returns how long a task had a CPU between two times."""
    low = high = 0
    switches = [one for one in events if isinstance(one, Switch)]
    leaves = [(one.a, one.b) for one in switches if one.prev == pid]
    for came in ((one.a, one.b) for one in switches if one.next == pid):
        left = next((time for time in leaves if time[0] >= came[0]), end)
        # Time before the first and after the last does not count.
        since = max(begin[0], came[0]), max(begin[1], came[1])
        least, most = length(since, (min(end[0], left[0]), min(end[1], left[1])))
        low, high = low + least, high + most
    return low, high


class TooEarly(Exception):
    """Another task waited for long before the victim did, as happens on a busy host."""


class Polling(threading.Thread):
    """Polls for the first outlier; `answer` is what poll() returns."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        before = status("outliers")
        self.fd = os.open(DEBUGFS / "outlier_pipe", os.O_RDONLY)
        self.poll = select.poll()
        self.poll.register(self.fd, select.POLLIN)
        if self.poll.poll(0):
            if status("outliers") == before:
                raise Wrong("there is something before anything happened")
            raise TooEarly
        self.answer: list[tuple[int, int]] = []
        self.start()

    def run(self) -> None:
        self.answer = self.poll.poll()


class Attempt:
    """One delay: what caused it, and what was observed."""

    def __init__(self, how: str) -> None:
        clear()
        before = status("outliers")
        waiting, polling = Waiting(), Polling()
        wait_until("the reader to be asleep", lambda: waiting.is_blocked() or waiting.texts)
        if status("outliers") != before:
            raise TooEarly
        if waiting.texts or polling.answer:
            raise Wrong("there was news without an outlier")
        hog = run(HOG, how, str(CPU), str(LENGTH))
        self.hog, self.victim, self.low, self.high = map(int, hog.split())
        wait_until("poll()", lambda: polling.answer)
        if polling.answer != [(polling.fd, select.POLLIN)]:
            raise Wrong(f"poll() says {polling.answer}")
        seen = read_trace(TRACE.read_text("latin-1"))
        victims = [outlier for outlier in seen if outlier.pid == self.victim]
        if not victims:
            raise Wrong(f"no outlier of {self.victim}")
        if any(one.end_ns > two.start_ns for one, two in itertools.pairwise(victims)):
            raise Wrong(f"one wait, two outliers: {victims[:2]}")
        # Another task may also have delayed the victim.
        traced = max(victims, key=lambda outlier: outlier.duration_ns)
        kept = self.find(read_text(read("outliers")), traced.id)
        wait_until("the reader", lambda: self.find(waiting.outliers(), traced.id))
        awaited = waiting.outliers()
        # All outliers, in order.
        numbers = [outlier.id for outlier in awaited]
        if numbers != list(range(numbers[0], numbers[0] + len(numbers))):
            raise Wrong(f"the reader got {numbers}")
        if not traced == kept == self.find(awaited, traced.id):
            raise Wrong(f"these differ: {traced}, {kept}, {awaited}")
        self.outlier: Outlier = traced
        self.events: list[Switch | Event] = []

    @staticmethod
    def find(outliers: list[Outlier], number: int) -> Outlier | None:
        return next((outlier for outlier in outliers if outlier.id == number), None)

    def culprit(self, comm: str) -> Culprit:
        found = [culprit for culprit in self.outlier.culprits if culprit.comm == comm]
        if len(found) != 1:
            raise Wrong(f"{comm} is not one of the culprits: {self.outlier}")
        return found[0]


def single(attempt: Attempt) -> None:
    """The hog alone had the CPU."""
    hog = attempt.culprit("hog")
    if (hog.pid, hog.prio) != (attempt.hog, 49):
        raise Wrong(f"the hog is {attempt.hog}: {hog}")
    low, high = ran(attempt.hog, *wait_of(attempt.outlier, attempt.events), attempt.events)
    told("the hog's time", low, hog.ran_ns, high)
    if attempt.outlier.missing_ns:
        raise Wrong(f"something is missing: {attempt.outlier}")


def delay(how: str) -> None:
    """Asserts that the trace, the file and its waiting readers report a delay as it was."""
    about_numbers()
    helper("hog")
    load()
    os.sched_setaffinity(0, {0})
    write("threshold_ns/runq", THRESHOLD)
    write("outlier_rate", "none")
    for event in ("outlier", "culprit"):
        enable(event)
    for _ in range(ATTEMPTS):
        measure(0)
        window = Window(WORK / "window", [f"sched/sched_{event}" for event in ("switch", "waking", "wakeup")],
                        lambda: measure(1))
        try:
            attempt = Attempt(how)
            break
        except TooEarly:
            note("an outlier before that of the victim: once more")
        finally:
            window.stop()
            events = window.saved()
    else:
        raise Wrong("something else always waits for long")
    outlier = attempt.outlier
    kind = ("runq_preempt", "preempted") if how == "preempt" else ("runq_wakeup", "wakeup")
    eq(f"the victim, {outlier}", (outlier.comm, outlier.cpu, outlier.prio, outlier.metric, outlier.cause),
       ("victim", CPU, 125, *kind))
    # schedhist's clock differs slightly from the one that the tasks read.
    told("the wait", 0.99 * attempt.low, outlier.duration_ns, 1.01 * attempt.high)
    attempt.events = events
    low, high = length(*wait_of(outlier, events))
    told("the wait, by ftrace", low, outlier.duration_ns, high)
    single(attempt)


def test_outlier_wakeup():
    delay("wakeup")


def test_outlier_preempt():
    delay("preempt")


# --- many outliers ---


def check_flood(instance: Instance) -> None:
    """Asserts that a trace holds all outliers since the load, each correct, and the file `outliers` the last
    of them."""
    instance.nothing_lost()
    number = status("outliers")
    traced = sorted(read_trace((instance.path / "trace").read_text("latin-1")), key=lambda outlier: outlier.id)
    eq("numbers of the outliers", [outlier.id for outlier in traced], list(range(1, number + 1)))
    last = []
    kept: Counter[int] = Counter()
    for outlier in reversed(traced):
        kept[outlier.cpu] += 1
        if kept[outlier.cpu] <= KEPT:
            last.append(outlier)
    eq("what is kept", read_text(read("outliers")), last[::-1])
    culprits = sorted(Counter(outlier.number for outlier in traced).items())
    note(f"{number} outliers: {dict(Counter(outlier.metric for outlier in traced))}")
    note(f"by number of culprits: {dict(culprits)}; something missing in {sum(o.missing_ns > 0 for o in traced)}")


def flood(instance: Instance, number: int | None) -> None:
    """Runs a workload. Asserts that there are this many outliers, if that is known, that every other sample is
    counted as suppressed, and that the trace has all outliers."""
    measure(1)
    messages(1)
    while status("outliers") < (number or 0):
        messages(1)
    measure(0)
    reported, _ = check_all_counted()
    if number is not None:
        eq("outliers", reported, number)
    check_flood(instance)


def test_outlier_flood():
    """If every sample is an outlier, as many are reported as allowed, and the machine survives."""
    load_all()
    measure(0)
    reset()
    report_all()
    instance = Instance("outlier", "culprit")
    write("outlier_rate", "none")
    write("outlier_limit", 1000)
    flood(instance, 1000)
    # Again, without any limit.
    write("outlier_limit", 500)
    flood(instance, 1500)
    before = status("outliers_suppressed")
    write("outlier_limit", "none")
    flood(instance, None)
    eq("suppressed without a limit", status("outliers_suppressed"), before)


def test_outlier_hotplug():
    """The laws also hold on a CPU that goes offline and returns."""
    online = cpu1()
    load_all()
    measure(0)
    for metric in METRICS:
        write(f"threshold_ns/{metric}", 10 * MS)
    write("outlier_rate", "none")
    instance = Instance("outlier", "culprit")
    measure(1)
    for _ in range(2):
        run("taskset", "--cpu-list", "1", "sleep", "0.05")
        write_file(online, "0")
        time.sleep(0.2)
        write_file(online, "1")
        run("taskset", "--cpu-list", "1", "sleep", "0.05")
    measure(0)
    # It also reported outliers after each return.
    number = sum(" outlier: " in line and "cpu=1 " in line for line in instance.lines())
    within("outliers of CPU 1", 4, number, 100_000_000)
    check_flood(instance)
