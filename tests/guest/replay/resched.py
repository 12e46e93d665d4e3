# SPDX-License-Identifier: GPL-2.0
"""An independent reference for requests to reschedule a CPU.

Computed from the kernel's tracepoints alone, of which ftrace records those without an event by probes: a request
begins at sched_set_need_resched_tp, and ends at the CPU's next sched_switch. The scheduler withdraws it between
sched_entry_tp and a sched_exit_tp that tells of no switch; that it was withdrawn shows in a further request, too,
since the kernel makes none while one of that kind is pending.

What is made between these two may be from before the scheduler decided or from after: it is `undecided`, and so is
what was made before measuring was on. All else must agree, each sample and each counter.

As in the rest of this package, times are intervals: schedhist sees a request before ftrace does, whose probe has a
lower priority, and after whatever ftrace has recorded before on the CPU that makes it.
"""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, NamedTuple

from harness.kernel import TRACEFS
from harness.ktap import defer, skip
from harness.process import append_file

from .common import Interval
from .events import Switch
from .window import Event, Window, time_of

DYNAMIC = TRACEFS / "dynamic_events"
PROBES = {"set": "sched_set_need_resched_tp cpu=$arg2:s32 tif=$arg3:s32 pid=tsk->pid",
          "entry": "sched_entry_tp", "stay": "sched_exit_tp switched=$arg1:u8"}
METRICS = ("resched", "resched_lazy")
# Most of them only bound the times of requests.
EVENTS = ["sched/sched_switch", *(f"schedhist_replay/{name}" for name in PROBES), "sched/sched_waking",
          "irq_vectors/local_timer_entry", *(f"schedhist/{name}" for name in METRICS)]
# TIF_NEED_RESCHED, of x86.
FULL = 4
# Clocks of CPUs differ by less.
ROUNDED = 1000


def needs_probes() -> None:
    """Makes the events that the kernel lacks, or skips the test."""
    for name, probe in PROBES.items():
        try:
            append_file(DYNAMIC, f"t:schedhist_replay/{name} {probe}")
        except OSError:
            skip("the kernel has no probes of tracepoints")
        defer(append_file, DYNAMIC, f"-:schedhist_replay/{name}")


class Sample(NamedTuple):
    metric: str
    found: int
    wanted: Interval

    def agrees(self) -> bool:
        return self.wanted[0] - ROUNDED <= self.found <= self.wanted[1] + ROUNDED


class Request(NamedTuple):
    time: Interval
    decided: bool


@dataclass
class Result:
    """What was compared."""

    samples: list[Sample] = field(default_factory=list)
    # Samples that one of the two lacks.
    wrong: list[str] = field(default_factory=list)
    # How requests ended that led to no switch; and how those did that schedhist may have seen or not, as measuring
    # was being switched.
    ends: Counter[str] = field(default_factory=Counter)
    edges: Counter[str] = field(default_factory=Counter)
    undecided: int = 0


class Replay:
    def __init__(self) -> None:
        self.result = Result()
        self.is_on = False
        self.entered: dict[int, int] = {}
        self.pending: dict[tuple[int, str], Request] = {}
        # What the last switch of a CPU ended, until its samples have come.
        self.due: dict[tuple[int, str], tuple[Interval, bool]] = {}

    def end(self, how: str) -> None:
        (self.result.ends if self.is_on else self.result.edges)[how] += 1

    def set(self, event: Event, since: int) -> None:
        cpu, pid = event.values["cpu"], event.values["pid"]
        key = cpu, METRICS[event.values["tif"] != FULL]
        if pid == 0:
            self.end("resched_idle")
        elif event.cpu == cpu and pid != event.values["common_pid"]:
            # For the task that is to come.
            self.end("resched_unused")
        else:
            self.withdraw(key)
            self.pending[key] = Request((since, event.time), self.is_on)

    def withdraw(self, key: tuple[int, str]) -> None:
        if self.pending.pop(key, None):
            self.end("resched_unused")

    def stay(self, event: Event) -> None:
        for metric in METRICS:
            key = event.cpu, metric
            if request := self.pending.get(key):
                if request.time[1] < self.entered.get(event.cpu, 0):
                    self.withdraw(key)
                else:
                    self.pending[key] = request._replace(decided=False)

    def switch(self, switch: Switch) -> None:
        for metric in METRICS:
            key = switch.cpu, metric
            wanted, decided = self.due.pop(key, ((0, 0), False))
            if self.is_on and decided:
                self.result.wrong.append(f"no sample of {key} before {switch.a}, the reference has {wanted} ns")
            if request := self.pending.pop(key, None):
                low, high = request.time
                self.due[key] = (max(switch.a - high, 0), switch.b - low), request.decided
                self.result.undecided += self.is_on and not request.decided

    def sample(self, event: Event) -> None:
        duration = event.values["duration_ns"]
        wanted, _ = self.due.pop((event.cpu, event.name), (None, True))
        if wanted:
            self.result.samples.append(Sample(event.name, duration, wanted))
        else:
            self.result.wrong.append(f"a sample of {event.name} on {event.cpu} before {event.time}: {duration} ns")

    def see(self, event: Switch | Event, since: int) -> None:
        if isinstance(event, Switch):
            self.switch(event)
            return
        match event.name:
            case "set": self.set(event, since)
            case "entry": self.entered[event.cpu] = event.time
            case "stay" if not event.values["switched"]: self.stay(event)
            case "resched" | "resched_lazy": self.sample(event)
            case "print": self.is_on = not self.is_on


def compare(events: list[Switch | Event]) -> Result:
    """Compares a window. Its marks are written once measuring is on, and before it is off."""
    replay, last = Replay(), {}
    for event in events:
        replay.see(event, last.get(event.cpu, 0))
        last[event.cpu] = time_of(event)
    return replay.result


def begin(folder: Path, measure: Callable[[], object]) -> Window:
    return Window(folder, EVENTS, measure)
