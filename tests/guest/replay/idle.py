# SPDX-License-Identifier: GPL-2.0
"""An independent reference for long waits: what other CPUs did meanwhile.

Computed from the scheduler's own events alone: sched_switch says when each CPU was idle, and when a task
left it or got it; sched_waking, sched_process_fork and sched_wakeup, between which times a wait began;
sched_migrate_task, since when the task was in the last queue. The masks of affinity are read from the kernel
before and after the recording, and tasks left out whose mask has changed.

As in the rest of this package, one instance of ftrace records each switch before schedhist does, and one
after it. So all times are intervals, and so is what the reference expects, however long the host of an emulated
guest stops one of its CPUs. A wait agrees if it lies within.
"""

import os
from pathlib import Path
from typing import Callable, NamedTuple

from harness.kernel import IS_RT

from .common import Interval
from .events import Switch
from .window import Event, Window

EVENTS = ["sched/sched_switch", "sched/sched_waking", "sched/sched_wakeup", "sched/sched_wakeup_new",
          "sched/sched_process_fork", "sched/sched_migrate_task", "schedhist/long_wait"]
# TASK_REPORT_MAX: the task was preempted.
RUNNABLE = (0, 0x100)
# Clocks of CPUs differ by less, and so do two that read one after the other.
ROUNDED = 1000


class Parts(NamedTuple):
    """The parts of a wait, in nanoseconds."""

    own: int
    elsewhere: int
    unknown: int


class Compared(NamedTuple):
    """A long wait as schedhist saw it; how long it lasted, its own CPU was idle, and any CPU, by the reference."""

    pid: int
    waited: int
    found: Parts
    lasted: Interval
    own: Interval
    idle: Interval
    idle_cpu: int

    def agrees(self) -> bool:
        return self.agrees_with(self.idle)

    def agrees_if_pinned(self) -> bool:
        """Of PREEMPT_RT: whether it agrees if the task held a lock, with which it must not migrate."""
        return IS_RT and self.agrees_with(self.own)

    def agrees_with(self, idle: Interval) -> bool:
        own, elsewhere, unknown = self.found
        # What is not known may have been idle.
        pairs = (self.waited, self.lasted, 0), (own, self.own, unknown), (own + elsewhere, idle, unknown)
        return all(low - room - ROUNDED <= value <= high + ROUNDED for value, (low, high), room in pairs)


class Recording(Window):
    def __init__(self, folder: Path, measure: Callable[[], object]) -> None:
        self.before = affinities()
        super().__init__(folder, EVENTS, measure)
        self.masks: dict[int, set[int]] = {}

    def stop(self) -> None:
        super().stop()
        # Before their tasks are gone.
        self.masks = {pid: mask for pid, mask in affinities().items() if self.before.get(pid, mask) == mask}

    def end(self) -> list[Compared]:
        return compare(self.saved(), self.masks)


def cpu_list(text: str) -> set[int]:
    """Returns the CPUs of a list such as "0-2,5"."""
    ranges = [part.partition("-") for part in text.strip().split(",") if part]
    return {cpu for first, _, last in ranges for cpu in range(int(first), int(last or first) + 1)}


def affinities() -> dict[int, set[int]]:
    """Returns the CPUs that each task may use, and that are not isolated."""
    isolated = cpu_list(Path("/sys/devices/system/cpu/isolated").read_text())
    found = {}
    for folder in Path("/proc").glob("[0-9]*/task/[0-9]*"):
        try:
            found[int(folder.name)] = os.sched_getaffinity(int(folder.name)) - isolated
        except ProcessLookupError:
            pass
    return found


class Period(NamedTuple):
    """A period of a CPU in its idle task, of which both ends are intervals."""

    since: Interval
    until: Interval


def length(intervals: list[Interval], start: int, end: int) -> int:
    """The length of their union between two times."""
    total, last = 0, start
    for since, until in sorted(intervals):
        total += max(min(until, end) - max(since, last), 0)
        last = max(last, until)
    return total


def least(periods: list[Period]) -> list[Interval]:
    return [(period.since[1], period.until[0]) for period in periods]


def most(periods: list[Period]) -> list[Interval]:
    return [(period.since[0], period.until[1]) for period in periods]


class Wait(NamedTuple):
    start: Interval
    # Since when the task was in the last queue.
    queued: Interval
    end: Interval
    moved: bool


class State:
    """What is known so far."""

    def __init__(self) -> None:
        self.periods: dict[int, list[Period]] = {}
        # Since when a CPU is idle, and since when that is known.
        self.idle_since: dict[int, Interval] = {}
        self.known: dict[int, int] = {}
        self.waking: dict[int, int] = {}
        # When a task's wait began, and when it was moved to its queue; what it has waited.
        self.waiting: dict[int, Interval] = {}
        self.moved: dict[int, int] = {}
        self.waited: dict[int, Wait] = {}

    def switch(self, switch: Switch) -> None:
        cpu, prev, following, time = switch.cpu, switch.prev, switch.next, (switch.a, switch.b)
        self.known.setdefault(cpu, switch.b)
        if prev == 0:
            if since := self.idle_since.pop(cpu, None):
                self.periods.setdefault(cpu, []).append(Period(since, time))
        elif switch.state in RUNNABLE:
            self.begin(prev, time)
        else:
            self.waiting.pop(prev, None)
        if following == 0:
            self.idle_since[cpu] = time
        elif start := self.waiting.pop(following, None):
            moved = self.moved.pop(following, 0)
            # The second queue may have got it as late as at the end.
            queued = (moved, switch.b) if moved else start
            self.waited[following] = Wait(start, queued, time, bool(moved))

    def begin(self, pid: int, time: Interval) -> None:
        self.waiting[pid] = time
        self.moved.pop(pid, None)

    def other(self, event: Event) -> None:
        pid = event.values["child_pid" if event.name == "sched_process_fork" else "pid"]
        match event.name:
            case "sched_waking" | "sched_process_fork":
                self.waking[pid] = event.time
            # A second wakeup does not begin the wait anew.
            case "sched_wakeup" | "sched_wakeup_new" if pid not in self.waiting:
                self.begin(pid, (self.waking.get(pid, event.time), event.time))
            case "sched_migrate_task" if pid in self.waiting:
                self.moved[pid] = event.time

    def compared(self, event: Event, mask: set[int]) -> Compared | None:
        """Splits the wait that a task has just ended on a CPU."""
        values, duration = event.values, event.values["duration_ns"]
        if not (wait := self.waited.pop(values["pid"], None)):
            return None
        start, end = wait.start, wait.end
        if any(self.known.get(cpu, end[0]) > start[0] for cpu in mask):
            return None
        # The time between two queues does not count.
        lasted = 0 if wait.moved else end[0] - start[1], end[1] - start[0]
        # Its start has closer bounds, as is known how long it was.
        start = max(start[0], end[0] - duration), end[1] - duration if wait.moved else min(start[1], end[1] - duration)
        queued = max(wait.queued[0], start[0]), max(wait.queued[1], start[1])
        periods = {cpu: self.periods.get(cpu, [])[-200:] + [Period(since, end)] * bool(since)
                 for cpu in mask for since in [self.idle_since.get(cpu)]}
        every = [period for found in periods.values() for period in found]
        own = periods.get(event.cpu, [])
        return Compared(
            values["pid"], duration, Parts(values["own_idle_ns"], values["idle_elsewhere_ns"], values["unknown_ns"]),
            lasted, (length(least(own), queued[1], end[0]), length(most(own), queued[0], end[1])),
            (length(least(every), start[1], end[0]), length(most(every), start[0], end[1])), values["idle_cpu"])


def compare(events: list[Switch | Event], masks: dict[int, set[int]]) -> list[Compared]:
    """Returns each long wait of a task whose mask is known, and whose beginning was recorded."""
    state, found = State(), []
    for event in events:
        if isinstance(event, Switch):
            state.switch(event)
        elif event.name != "long_wait":
            state.other(event)
        elif (mask := masks.get(event.values["pid"])) and event.cpu in mask:
            if one := state.compared(event, mask):
                found.append(one)
    return found
