# SPDX-License-Identifier: GPL-2.0
"""An independent reference for chains, from the kernel's own events.

As in the rest of this package, ftrace's instances A and B record the events before and after schedhist,
so that each stamp of schedhist has an interval. What a CPU was doing when it woke a task is what ftrace
wrote into each event. From the events alone follow all slices of tasks, what led to each, and so the
chain of an outlier, of which only the interval is schedhist's.
"""

from __future__ import annotations

import dataclasses
import os
import time
from bisect import bisect_left, bisect_right
from collections import Counter as Tally
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Union

from harness import raw
from harness.chains import ENDS, PARTS
from harness.module import status

from .common import Interval, die
from .events import Other, Switch, Trace, in_order, read_trace
from .recording import EVENTS_A, EVENTS_B, background, recorders
from .reference import manner, unhide

EVENTS = [*EVENTS_A, "irq/softirq_raise", "irq/softirq_entry", "timer/hrtimer_expire_entry", "timer/hrtimer_expire_exit"]
# TRACE_FLAG_* in include/linux/trace_events.h.
HARD = 0x08 | 0x40
SOFTIRQ = 0x10
RCU_SOFTIRQ = 9
TIMER_SOFTIRQS = 1, 8
VIAS = ("task", "softirq", "fork")


@dataclass(slots=True, eq=False)
class Slice:
    """A slice of a task on a CPU."""

    pid: int
    since: Interval
    # woken, forked, preempted or unknown.
    start: str
    # When the task began to wait for the CPU.
    waiting: Interval
    link: Link
    # It or what led to it began when schedhist did not measure yet.
    is_early: bool = False


# How a task was woken, and in which slice; or how a chain ends.
Link = Union[tuple[str, Slice], str]


@dataclass(slots=True)
class Task:
    out: Interval | None = None
    last: Slice | None = None
    how: str = "unknown"
    runs: bool = False
    forked: int | None = None
    waking: Interval | None = None
    waker: Link = "unknown"
    moved: bool = False


@dataclass
class Cpu:
    # The slice in progress; None while the CPU is idle, or before its first switch.
    now: Slice | None = None
    is_idle: bool = False
    softirq: Link = "unknown_softirq"
    # What wakes a task in a hard interrupt.
    hard: str = "interrupt"
    raised: dict[int, list[Link]] = field(default_factory=dict)

    def raiser(self, raised: list[Link]) -> Link:
        """Returns who raised a softirq, if that was one, and has not left the CPU since."""
        if not raised or any(by != raised[0] for by in raised):
            return "unknown_softirq"
        has_left = isinstance(raised[0], tuple) and raised[0][1] is not self.now
        return "unknown_softirq" if has_left else raised[0]


@dataclass
class Reference:
    """All slices, by the CPU."""

    threads: set[int]
    # When schedhist had begun.
    on: int
    tasks: dict[int, Task] = field(default_factory=dict)
    cpus: dict[int, Cpu] = field(default_factory=dict)
    slices: dict[int, list[Slice]] = field(default_factory=dict)

    def context(self, event: Other) -> Link:
        """Returns who causes an event."""
        cpu = self.cpus.setdefault(event.cpu, Cpu())
        if event.flags & HARD:
            return cpu.hard
        if event.kind == "sched_waking" and event.pid in self.threads:
            # It is woken for the softirqs that have not run, at the end of an interrupt, too.
            return cpu.raiser([by for all_ in cpu.raised.values() for by in all_])
        is_thread = cpu.now is not None and cpu.now.pid in self.threads
        if event.flags & SOFTIRQ and not is_thread:
            return cpu.softirq
        return "idle" if cpu.is_idle else ("task", cpu.now) if cpu.now else "unknown"

    def raise_softirq(self, event: Other) -> None:
        by = self.context(event)
        if isinstance(by, tuple):
            by = "softirq", by[1]
        elif event.flags & HARD:
            by = "interrupt_softirq"
        elif not event.flags & SOFTIRQ:
            by = "unknown_softirq"
        # RCU's callbacks are everybody's.
        if event.pid == RCU_SOFTIRQ and isinstance(by, tuple):
            by = "unknown_softirq"
        self.cpus[event.cpu].raised.setdefault(event.pid, []).append(by)

    def run_softirq(self, event: Other) -> None:
        cpu = self.cpus.setdefault(event.cpu, Cpu())
        raised = cpu.raised.pop(event.pid, [])
        if cpu.now and cpu.now.pid in self.threads:
            cpu.softirq = "task", cpu.now
        else:
            cpu.softirq = "timer" if event.pid in TIMER_SOFTIRQS else cpu.raiser(raised)

    def switch(self, event: Switch) -> None:
        cpu = self.cpus.setdefault(event.cpu, Cpu())
        if event.prev:
            self.leave(event, cpu)
        cpu.now, cpu.is_idle, cpu.softirq = None, not event.next, "unknown_softirq"
        if event.next:
            cpu.now = self.enter(event)
            self.slices.setdefault(event.cpu, []).append(cpu.now)

    def leave(self, event: Switch, cpu: Cpu) -> None:
        task = self.tasks.setdefault(event.prev, Task())
        if task.forked is not None and not task.runs:
            return  # The PID is another task's already.
        task.how = manner(event.state)
        task.out, task.last, task.runs, task.moved = (event.a, event.b), cpu.now, False, False

    def enter(self, event: Switch) -> Slice:
        task = self.tasks.setdefault(event.next, Task())
        since, out = (event.a, event.b), task.out
        if task.forked is not None and task.waking:
            start, waiting, link = "forked", task.waking, task.waker
        elif task.out is None:
            start, waiting, link = "unknown", since, "unknown"
        elif task.how == "preempt":
            start, waiting = "preempted", task.out
            link = ("task", task.last) if task.last else "unknown"
        else:
            start, link = "woken", task.waker
            low, high = task.waking or (task.out[0], event.b)
            # A waker may be earlier than the switch.
            waiting = max(low, task.out[0]), max(high, task.out[1])
        if task.moved:
            # The kernel does not count the time between two queues.
            waiting = waiting[0], event.b
        task.runs, task.forked, task.waking, task.waker, task.moved = True, None, None, "unknown", False
        is_early = event.a <= self.on or (start != "forked" and (out is None or out[0] <= self.on))
        return Slice(event.next, since, start, waiting, link, is_early)

    def other(self, event: Other) -> None:
        if event.kind == "softirq_raise":
            self.raise_softirq(event)
        elif event.kind == "softirq_entry":
            self.run_softirq(event)
        elif event.kind.startswith("hrtimer"):
            if event.flags & HARD:
                cpu = self.cpus.setdefault(event.cpu, Cpu())
                cpu.hard = "timer" if event.kind == "hrtimer_expire_entry" else "interrupt"
        elif event.kind == "sched_process_fork":
            self.tasks[event.pid] = Task(forked=event.time)
        else:
            self.of_task(event, self.tasks.setdefault(event.pid, Task()))

    def of_task(self, event: Other, task: Task) -> None:
        match event.kind:
            case "sched_waking":
                # Until it is on a queue.
                task.waking, task.waker, task.moved = (event.time, 1 << 63), self.context(event), False
            case "sched_wakeup" if task.waking and task.waking[1] == 1 << 63:
                task.waking, task.moved = (task.waking[0], event.time), False
            case "sched_wakeup_new":
                by = self.context(event)
                task.waker = ("fork", by[1]) if isinstance(by, tuple) and by[0] == "task" else by
                task.waking = task.forked or event.time, event.time
            case "sched_migrate_task":
                task.moved = True

    def replay(self, order: list[Switch | Other]) -> None:
        for event in order:
            if isinstance(event, Switch):
                self.switch(event)
            else:
                self.other(event)


@dataclass
class Chain:
    """A chain of schedhist: its record, and those of its hops."""

    fields: Any
    hops: list[Any]


def record(folder: Path, command: list[str], seconds: float) -> None:
    """Records what goes on, and the chains of all outliers, while a command runs for so long."""
    with recorders(folder, EVENTS) as (before, after, marker, enable), background(command):
        time.sleep(0.5)
        # The order matters: A, schedhist, B.
        before.start(EVENTS)
        os.write(enable, b"1")
        os.write(marker, b"schedhist is on")
        after.start(EVENTS_B)
        begin = time.monotonic()
        number = 0
        # A guest that its host seldom runs has few outliers in that time.
        while ((past := time.monotonic() - begin) < seconds or number < 5
               or status("outliers") < 100 and past < seconds + 30):
            (folder / f"raw{number}").write_bytes(raw.read())
            number += 1
            time.sleep(0.01)
        os.write(enable, b"0")
        after.stop()
        before.stop()
        threads = [path.parent.name for path in Path("/proc").glob("[0-9]*/comm")
                   if path.read_text().startswith(("ksoftirqd/", "ktimers/"))]
        (folder / "threads").write_text(" ".join(threads))


def read_chains(folder: Path) -> dict[int, Chain]:
    chains: dict[int, Chain] = {}
    for file in folder.glob("raw*"):
        data = file.read_bytes()
        for _, found in raw.records(data, raw.header_of(data).header_length):
            if isinstance(found, raw.Record) and found.kind == "CHAIN":
                chains[found.fields.outlier] = Chain(found.fields, [])
            elif isinstance(found, raw.Record) and found.kind == "HOP":
                chains[found.fields.outlier].hops.append(found.fields)
    return chains


@dataclass
class Result:
    """What was compared: `hops` and `chains`, of which so many agree."""

    hops: int = 0
    hops_agree: int = 0
    chains: int = 0
    chains_agree: int = 0
    ends: Tally[str] = field(default_factory=Tally)
    differences: list[str] = field(default_factory=list)


def minus(one: Interval, two: Interval) -> Interval:
    return max(one[0] - two[1], 0), max(one[1] - two[0], 0)


def clamp(value: Interval, least: int, most: Interval) -> Interval:
    return max(min(value[0], most[0]), least), max(min(value[1], most[1]), least)


class Walk:
    """Follows a chain of schedhist through the slices of the reference."""

    def __init__(self, chain: Chain, first: Slice) -> None:
        self.chain = chain
        self.start = chain.fields.time_ns - chain.fields.duration_ns
        self.until: Interval = chain.fields.time_ns, chain.fields.time_ns
        self.link: Link = "-", first
        self.agree = 0

    def is_over(self, certainly: bool) -> bool:
        return self.until[certainly] <= self.start

    def hop(self, hop: Any) -> str | None:
        """Compares a hop; returns the difference."""
        if not isinstance(self.link, tuple):
            return f"the chain ends at {self.link}, not at {hop.pid}"
        via, at = self.link
        found = "-" if hop.number == 0 else VIAS[hop.via]
        if (via, at.pid) != (found, hop.pid):
            return f"{via} {at.pid}, not {found} {hop.pid}"
        parts = {part: (0, 0) for part in PARTS}

        def add(part: str, time: Interval) -> None:
            parts[part] = parts[part][0] + time[0], parts[part][1] + time[1]

        while True:
            since = clamp(at.since, self.start, self.until)
            if at.is_early and ENDS[self.chain.fields.end] == "unknown" and hop.slices == 1:
                at = dataclasses.replace(at, waiting=at.since, link="unknown")
            waiting = clamp(at.waiting, self.start, since)
            add("ran_ns", minus(self.until, since))
            add("preempted_ns" if at.start == "preempted" else "waited_ns", minus(since, waiting))
            self.until, self.link = waiting, at.link
            hop.slices -= 1
            if at.start != "preempted" or hop.slices == 0 or not isinstance(at.link, tuple):
                break
            at = at.link[1]
        for part, (low, high) in parts.items():
            value = getattr(hop, part)
            # A throttled task was preempted, for all that the event says.
            if part == "preempted_ns":
                value += hop.throttled_ns
            if part != "throttled_ns" and not low <= value <= high:
                return f"{part} {value} of {hop.pid} is not in {low} to {high}"
        return None if hop.slices == 0 else f"{hop.pid} had {hop.slices} slices less"

    def end(self) -> str | None:
        """Compares the end; returns the difference."""
        fields = self.chain.fields
        match end := ENDS[fields.end]:
            case "start":
                holds = self.is_over(certainly=False)
            case "overwritten" | "limit":
                holds = True
            case "unknown":
                holds = self.link == end or (isinstance(self.link, tuple) and self.link[1].is_early)
            case _:
                holds = self.link == end
        link = self.link if isinstance(self.link, str) else f"{self.link[0]} {self.link[1].pid}"
        if not holds:
            return f"it ends at {link}, not in {end}"
        low, high = minus(self.until, (self.start, self.start))
        rest = fields.blocked_ns + fields.missing_ns
        return None if low <= rest <= high else f"the rest {rest} is not in {low} to {high}"


def compare(chain: Chain, first: Slice, result: Result) -> None:
    walk = Walk(chain, first)
    result.chains += 1
    result.hops += len(chain.hops)
    for number, hop in enumerate(chain.hops):
        if walk.is_over(certainly=True) and number:
            difference: str | None = "the interval begins later"
        else:
            difference = walk.hop(hop)
        if difference:
            break
        result.hops_agree += 1
    else:
        difference = walk.end()
    result.ends[ENDS[chain.fields.end]] += 1
    if difference:
        hops = [(VIAS[hop.via] if hop.number else "-", hop.comm.decode(), hop.pid) for hop in chain.hops]
        result.differences.append(f"{chain.fields.outlier} of {chain.fields.duration_ns}, {hops}: {difference}")
    else:
        result.chains_agree += 1


def check(folder: Path) -> Result:
    """Compares all chains with the reference."""
    trace: Trace = read_trace(folder)
    order = in_order(trace)
    unhide(order)
    threads = {int(pid) for pid in (folder / "threads").read_text().split()}
    reference = Reference(threads, trace.marks["schedhist is on"])
    reference.replay(order)
    result = Result()
    chains = read_chains(folder)
    for chain in chains.values():
        fields = chain.fields
        times = [hop.ran_ns + hop.waited_ns + hop.preempted_ns + hop.throttled_ns for hop in chain.hops]
        if sum(times) + fields.blocked_ns + fields.missing_ns != fields.duration_ns:
            die(f"the times of chain {fields.outlier} do not add up")
        slices = reference.slices.get(fields.cpu, [])
        # Those that may have begun at that moment.
        low = bisect_left(slices, fields.time_ns, key=lambda one: one.since[1])
        high = bisect_right(slices, fields.time_ns, key=lambda one: one.since[0])
        found = [one for one in slices[low:high] if one.pid == chain.hops[0].pid]
        if not found:
            result.differences.append(f"{fields.outlier}: no such slice")
            result.chains += 1
            continue
        compare(chain, found[0], result)
    return result
