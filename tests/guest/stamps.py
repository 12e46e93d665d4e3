# SPDX-License-Identifier: GPL-2.0
"""Bounds for the times that schedhist stamps, from ftrace: exact, however busy the host is.

A tracepoint calls its probes in the order in which they were registered. With schedhist between two
ftrace instances, on the clock that schedhist reads, the stamp of a switch is no earlier than that
of the first instance and no later than that of the second. A wait after a wakeup begins between
sched_waking and sched_wakeup. See replay/__main__.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from harness.outliers import Outlier
from harness.test import Wrong, measure
from harness.trace import Instance, clear

ROUNDED = 1000  # A trace shows microseconds.
EVENT = re.compile(r".* (\d+)\.(\d{6}): (sched_\w+): (.*)")
SWITCH = re.compile(
    r"prev_comm=.* prev_pid=(\d+) prev_prio=-?\d+ prev_state=(\S+) ==> next_comm=.* next_pid=(\d+) next_prio=-?\d+"
)
WAKEUP = re.compile(r"comm=.* pid=(\d+) prio=-?\d+ target_cpu=\d+")


@dataclass
class Span:
    """A time that lies between two known times, in nanoseconds."""

    low: int
    high: int

    def to(self, end: Span) -> Span:
        """Returns the bounds of the duration from this time to `end`."""
        return Span(max(0, end.low - self.high), max(0, end.high - self.low))


def events(instance: Instance) -> list[tuple[int, str, str]]:
    """Returns the time, the name and the text of each event; asserts that none was overwritten."""
    instance.nothing_lost()
    found = map(EVENT.fullmatch, instance.lines())
    return [(int(m[1]) * 10**9 + int(m[2]) * 1000, m[3], m[4]) for m in found if m]


class Stamps:
    """The times when tasks came to a CPU and left it, and when they were woken."""

    def __init__(self) -> None:
        # The order of registration matters.
        measure(0)
        traced = [f"sched/sched_{event}" for event in ("switch", "waking", "wakeup")]
        self.before = Instance(*traced, clock="perf", name="schedhist_before", kilobytes=4096)
        measure(1)
        self.after = Instance(traced[0], clock="perf", name="schedhist_after", kilobytes=4096)

    def clear(self) -> None:
        for instance in (self.before, self.after):
            clear(instance.path)

    def read(self) -> None:
        self.woken = [(at, name, int(match[1])) for at, name, text in events(self.before)
                      if (match := WAKEUP.fullmatch(text)) and name != "sched_switch"]
        self.first, self.second = (
            [(at, int(match[1]), match[2], int(match[3])) for at, name, text in events(instance)
             if name == "sched_switch" and (match := SWITCH.fullmatch(text))]
            for instance in (self.before, self.after)
        )

    def switches(self, pid: int, field: int) -> list[Span]:
        """Returns the switches to a task (field 3) or from it (field 1) that did not exist before
        the last clear()."""
        one, two = ([switch[0] for switch in switches if switch[field] == pid]
                    for switches in (self.first, self.second))
        # The system may have gone on between reading the two instances.
        if len(one) > len(two):
            raise Wrong(f"the two instances disagree about {pid}: {one} and {two}")
        return [Span(a - ROUNDED, b + ROUNDED) for a, b in zip(one, two)]

    def wait(self, outlier: Outlier) -> tuple[Span, Span]:
        """Returns when the wait began and when it ended; asserts that its own stamps lie within."""
        pid = outlier.pid
        ends = [end for end in self.switches(pid, 3) if end.low <= outlier.end_ns <= end.high]
        if not ends:
            raise Wrong(f"it ends at no switch to {pid}: {outlier}")
        end = ends[0]
        if outlier.cause == "preempted":
            begin = max((out for out in self.switches(pid, 1) if out.low < end.low), key=lambda span: span.low)
        else:
            waking, wakeup = (max(at for at, name, woken in self.woken
                                  if name == wanted and woken == pid and at <= end.high)
                              for wanted in ("sched_waking", "sched_wakeup"))
            begin = Span(waking - ROUNDED, wakeup + ROUNDED)
        if not begin.low <= outlier.start_ns <= begin.high:
            raise Wrong(f"it does not begin within {begin}: {outlier}")
        return begin, end

    def ran(self, pid: int, begin: Span, end: Span) -> Span:
        """Returns how long a task had a CPU between two times."""
        total = Span(0, 0)
        leaves = self.switches(pid, 1)
        for came in self.switches(pid, 3):
            left = next((span for span in leaves if span.low >= came.low), end)
            # Time before the first and after the last does not count.
            since = Span(max(begin.low, came.low), max(begin.high, came.high))
            until = Span(min(end.low, left.low), min(end.high, left.high))
            span = since.to(until)
            total = Span(total.low + span.low, total.high + span.high)
        return total
