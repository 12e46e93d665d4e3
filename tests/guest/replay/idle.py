# SPDX-License-Identifier: GPL-2.0
"""An independent reference for long waits: what other CPUs did meanwhile.

Computed from the scheduler's own events alone: sched_switch says when each CPU was idle, and when a task
left it or got it; sched_wakeup, when a wait began; sched_migrate_task, since when the task was in the last
queue. The masks of affinity are read from the kernel after the recording.
"""

import os
import struct
from pathlib import Path
from typing import NamedTuple

from harness.trace import enable

from .common import Interval
from .events import raw_events, read_formats
from .recording import Recorder

EVENTS = ["sched/sched_switch", "sched/sched_wakeup", "sched/sched_wakeup_new", "sched/sched_migrate_task",
          "schedhist/long_wait"]
# TASK_REPORT_MAX: the task was preempted.
RUNNABLE = (0, 0x100)


class Parts(NamedTuple):
    """The parts of a wait, in nanoseconds."""

    own: int
    elsewhere: int
    unknown: int


class Compared(NamedTuple):
    """A long wait as schedhist saw it, and as the reference does."""

    pid: int
    waited: int
    found: Parts
    wanted: Parts
    idle_cpu: int


class Recording(Recorder):
    """The events of a window. `folder` gets the pages of each CPU."""

    def __init__(self, folder: Path) -> None:
        super().__init__("idle")
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        formats = [(self.path / "events" / name / "format").read_text() for name in EVENTS]
        (folder / "formats").write_text("\n".join(formats))
        (self.path / "tracing_on").write_text("1")
        for name in EVENTS:
            enable(name, tracing=self.path)

    def end(self) -> list[Compared]:
        self.stop()
        # Before their tasks are gone.
        masks = affinities()
        self.save(self.folder)
        self.remove()
        return compare(self.folder, masks)


def affinities() -> dict[int, set[int]]:
    """Returns the CPUs that each task may use."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*/task/[0-9]*"):
        try:
            found[int(folder.name)] = os.sched_getaffinity(int(folder.name))
        except ProcessLookupError:
            pass
    return found


class Event(NamedTuple):
    time: int
    cpu: int
    name: str
    values: dict[str, int]


def read_events(folder: Path) -> list[Event]:
    """Returns all events of all CPUs, by time."""
    formats = read_formats((folder / "formats").read_text())
    found = []
    for file in sorted(folder.glob("idle.cpu*")):
        data, cpu = file.read_bytes(), int(file.name[8:])
        for time, start, _ in raw_events(data):
            layout = formats[struct.unpack_from("<H", data, start)[0]]
            values = {key: field.unpack_from(data, start + layout.offsets[key])[0]
                      for key, field in layout.fields.items()}
            found.append(Event(time, cpu, layout.name, values))
    # Stable: events of one CPU stay in their order.
    return sorted(found, key=lambda event: event.time)


def overlap(periods: list[Interval], start: int, end: int) -> list[Interval]:
    return [(max(a, start), min(b, end)) for a, b in periods if a < end and b > start]


def length(intervals: list[Interval]) -> int:
    """The length of a union."""
    total, last = 0, 0
    for start, end in sorted(intervals):
        total += max(end - max(start, last), 0)
        last = max(last, end)
    return total


class State:
    """What is known so far."""

    def __init__(self) -> None:
        self.periods: dict[int, list[Interval]] = {}
        # Since when a CPU is idle, and since when that is known.
        self.idle_since: dict[int, int] = {}
        self.known: dict[int, int] = {}
        # When a task's wait began, and when it was moved to its queue; when it got a CPU.
        self.waiting: dict[int, int] = {}
        self.moved: dict[int, int] = {}
        self.waited: dict[int, tuple[int, int, int]] = {}

    def switch(self, event: Event) -> None:
        time, cpu, values = event.time, event.cpu, event.values
        self.known.setdefault(cpu, time)
        if values["prev_pid"] == 0:
            if since := self.idle_since.pop(cpu, None):
                self.periods.setdefault(cpu, []).append((since, time))
        elif values["prev_state"] in RUNNABLE:
            self.waiting[values["prev_pid"]] = time
        else:
            self.waiting.pop(values["prev_pid"], None)
        if values["next_pid"] == 0:
            self.idle_since[cpu] = time
        elif (start := self.waiting.pop(values["next_pid"], None)) is not None:
            queued = max(start, self.moved.get(values["next_pid"], 0))
            self.waited[values["next_pid"]] = (start, queued, time)

    def parts(self, pid: int, cpu: int, mask: set[int]) -> Parts | None:
        """Splits the wait that a task has just ended on a CPU."""
        if pid not in self.waited:
            return None
        start, queued, end = self.waited[pid]
        if any(self.known.get(other, end) > start for other in mask):
            return None
        # A period in progress lasts on.
        periods = {other: overlap(self.periods.get(other, [])[-200:] + [(since, end)] * bool(since), start, end)
                 for other in mask for since in [self.idle_since.get(other, 0)]}
        own = overlap(periods[cpu], queued, end)
        others = overlap(periods.pop(cpu), start, queued) + [period for part in periods.values() for period in part]
        return Parts(length(own), length(own + others) - length(own), 0)


def compare(folder: Path, masks: dict[int, set[int]]) -> list[Compared]:
    """Returns each long wait of a task whose mask is known, and whose beginning was recorded."""
    state, found = State(), []
    for event in read_events(folder):
        values = event.values
        if event.name == "sched_switch":
            state.switch(event)
        elif event.name == "sched_migrate_task":
            state.moved[values["pid"]] = event.time
        elif event.name in ("sched_wakeup", "sched_wakeup_new"):
            # A second wakeup does not begin the wait anew.
            state.waiting.setdefault(values["pid"], event.time)
        elif (mask := masks.get(values["pid"])) and event.cpu in mask:
            if wanted := state.parts(values["pid"], event.cpu, mask):
                parts = Parts(values["own_idle_ns"], values["idle_elsewhere_ns"], values["unknown_ns"])
                found.append(Compared(values["pid"], values["duration_ns"], parts, wanted, values["idle_cpu"]))
    return found
