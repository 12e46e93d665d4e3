#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Delays a task by a known time, and checks what schedhist reports about it.

usage: delays.py wakeup|preempt|turns|crowd

schedhist must be loaded, and $SCHEDHIST_TEST_WORK must contain the helper `hog`. The expected times
come from the tasks that cause the delay, and from ftrace's stamps around those of schedhist: a busy
host makes neither wrong.
"""

from __future__ import annotations

import itertools
import os
import select
import subprocess
import sys
import threading
from pathlib import Path

from outlier_text import STAYS, Culprit, Outlier, Wrong, read_text, read_trace
from stamps import Stamps
from waiting import DEBUGFS, Waiting, until

TRACEFS = Path("/sys/kernel/tracing")
HOG = Path(os.environ["SCHEDHIST_TEST_WORK"]) / "hog"
MS = 1_000_000
CPU, LENGTH, THRESHOLD = 1, 700, 150 * MS
ATTEMPTS = 15


def note(text: str) -> None:
    print(f"# {text}", flush=True)


def within(what: str, low: float, value: int, high: float) -> None:
    note(f"{what}: {value} within {low:.0f} to {high:.0f}")
    if not low <= value <= high:
        raise Wrong(f"{what}: {value} is not within {low:.0f} to {high:.0f}")


class TooEarly(Exception):
    """Another task waited for long before the victim did, as happens on a busy host."""


def outliers() -> int:
    """Returns the number of outliers reported so far."""
    words = map(str.split, (DEBUGFS / "status").read_text().splitlines())
    return next(int(word[1]) for word in words if word[0] == "outliers")


class Polling(threading.Thread):
    """Polls for the first outlier; `answer` is what poll() returns."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        before = outliers()
        self.fd = os.open(DEBUGFS / "outlier_pipe", os.O_RDONLY)
        self.poll = select.poll()
        self.poll.register(self.fd, select.POLLIN)
        if self.poll.poll(0):
            if outliers() == before:
                raise Wrong("there is something before anything happened")
            raise TooEarly
        self.answer: list[tuple[int, int]] = []
        self.start()

    def run(self) -> None:
        self.answer = self.poll.poll()


class Attempt:
    """One delay: what caused it, and what was observed."""

    def __init__(self, how: str, stamps: Stamps) -> None:
        (TRACEFS / "trace").write_text("")
        stamps.clear()
        before = outliers()
        waiting, polling = Waiting(), Polling()
        until("the reader to be asleep", lambda: waiting.is_blocked() or waiting.texts)
        if outliers() != before:
            raise TooEarly
        if waiting.texts or polling.answer:
            raise Wrong("there was news without an outlier")
        hog = subprocess.run([HOG, how, str(CPU), str(LENGTH)], check=True, stdout=subprocess.PIPE)
        self.hog, self.victim, self.low, self.high = map(int, hog.stdout.split())
        until("poll()", lambda: polling.answer)
        if polling.answer != [(polling.fd, select.POLLIN)]:
            raise Wrong(f"poll() says {polling.answer}")
        seen = read_trace((TRACEFS / "trace").read_text("latin-1"))
        victims = [outlier for outlier in seen if outlier.pid == self.victim]
        if not victims:
            raise Wrong(f"no outlier of {self.victim}")
        if any(one.end_ns > two.start_ns for one, two in itertools.pairwise(victims)):
            raise Wrong(f"one wait, two outliers: {victims[:2]}")
        # Another task may also have delayed the victim.
        traced = max(victims, key=lambda outlier: outlier.duration_ns)
        kept = self.find(read_text((DEBUGFS / "outliers").read_text()), traced.id)
        until("the reader", lambda: self.find(waiting.outliers(), traced.id))
        awaited = waiting.outliers()
        # All outliers, in order.
        numbers = [outlier.id for outlier in awaited]
        if numbers != list(range(numbers[0], numbers[0] + len(numbers))):
            raise Wrong(f"the reader got {numbers}")
        if not traced == kept == self.find(awaited, traced.id):
            raise Wrong(f"these differ: {traced}, {kept}, {awaited}")
        self.outlier: Outlier = traced
        stamps.read()
        self.stamps = stamps
        self.begin, self.end = stamps.wait(traced)

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
    ran = attempt.stamps.ran(attempt.hog, attempt.begin, attempt.end)
    within("the hog's time", ran.low, hog.ran_ns, ran.high)
    if attempt.outlier.missing_ns:
        raise Wrong(f"something is missing: {attempt.outlier}")


def turns(attempt: Attempt) -> None:
    """More stays than schedhist remembers, all of them during the outlier."""
    hog, partner = attempt.culprit("hog"), attempt.culprit("partner")
    stays = sum(culprit.slices for culprit in attempt.outlier.culprits)
    within("stays remembered", STAYS, stays, STAYS)
    within("those of the hog and its partner", STAYS - 10, hog.slices + partner.slices, STAYS)
    # There were 1000 stays of about the same length.
    within("missing", 0.3 * attempt.low, attempt.outlier.missing_ns, 0.99 * attempt.outlier.duration_ns)


def crowd(attempt: Attempt) -> None:
    """More tasks than an outlier names: the hog, and 40 for 10 ms each."""
    within("culprits", 32, attempt.outlier.number, 32)
    within("missing", 9 * 9.8 * MS, attempt.outlier.missing_ns, attempt.high)
    named = [culprit for culprit in attempt.outlier.culprits if culprit.comm == "crowd"]
    within("of the crowd", 25, len(named), 31)


def main() -> None:
    how = sys.argv[1]
    looks = {"wakeup": single, "preempt": single, "turns": turns, "crowd": crowd}
    os.sched_setaffinity(0, {0})
    (DEBUGFS / "threshold_ns/runq").write_text(str(THRESHOLD))
    (DEBUGFS / "outlier_rate").write_text("none")
    for event in "outlier", "culprit":
        (TRACEFS / f"events/schedhist/{event}/enable").write_text("1")
    stamps = Stamps()
    for _ in range(ATTEMPTS):
        try:
            attempt = Attempt(how, stamps)
            break
        except TooEarly:
            note("an outlier before that of the victim: once more")
    else:
        raise Wrong("something else always waits for long")
    outlier = attempt.outlier
    kind = ("runq_preempt", "preempted") if how == "preempt" else ("runq_wakeup", "wakeup")
    if (outlier.comm, outlier.cpu, outlier.prio, outlier.metric, outlier.cause) != ("victim", CPU, 125, *kind):
        raise Wrong(f"that is not the victim: {outlier}")
    # schedhist's clock differs slightly from the one that the tasks read.
    within("the wait", 0.99 * attempt.low, outlier.duration_ns, 1.01 * attempt.high)
    wait = attempt.begin.to(attempt.end)
    within("the wait, by ftrace", wait.low, outlier.duration_ns, wait.high)
    looks[how](attempt)


if __name__ == "__main__":
    try:
        main()
    except Wrong as wrong:
        sys.exit(f"delays: {wrong}")
    # Threads may still be waiting for more outliers.
    sys.stdout.flush()
    os._exit(0)
