#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""An independent reference for what schedhist records.

usage: replay.py record DIR [--running SECONDS] -- COMMAND...
       replay.py check DIR

`record` measures a window with schedhist (which must be loaded, and off) while ftrace records the
scheduler's events, and keeps in DIR what both saw. COMMAND runs within the window; with --running
the window lies within COMMAND, which is ended after it.

`check` computes every metric and counter from the events alone, by the definitions, and compares
them with what schedhist recorded, CPU by CPU:

 - counts and counters must be equal;
 - every histogram, sum, minimum and maximum must be possible.

What is possible is not a matter of taste. A tracepoint calls its probes in the order in which they
were registered. We put schedhist between two ftrace instances, A before it and B after it, on
trace_clock `perf`, which is local_clock(), the clock that schedhist reads. So of every switch we
know that A's stamp <= schedhist's <= B's, on the same CPU and clock, however long the emulator
dawdles in between. The start of a wait, which schedhist takes from the kernel's enqueue stamp, lies
between the events sched_waking (or sched_process_fork) and sched_wakeup (or sched_wakeup_new). This
gives an interval for each sample, and with them a band in which the cumulative histogram must lie.

Three kinds of samples have wider intervals, and are few, which is checked:
 - Until B is on, a switch has no stamp of B's: then the next stamp of A on this CPU bounds it.
 - A wait that was moved to another run queue: the kernel does not count the time between the two
   queues, and stamps may be stale there. It lies between 0 and the whole absence.
 - A task forked while measuring was being switched on: whether its wait is a sample is open.

Which switches were seen: on each CPU all from some first one, as many as `switches` says. The first
and the last one lie between the marks that we write before and after switching on and off. Of the
few candidates those are taken whose sums are possible: stays on a CPU add up to the time between
the first and the last switch, to within a microsecond or so.
"""

from __future__ import annotations

import bisect
import itertools
import os
import signal
import struct
import subprocess
import sys
import time
from collections import Counter as Tally
from dataclasses import dataclass, field
from pathlib import Path
from typing import Iterator, NamedTuple

TRACEFS = Path("/sys/kernel/tracing")
DEBUGFS = Path("/sys/kernel/debug/schedhist")
EVENTS_A = [
    "sched_switch",
    "sched_waking",
    "sched_wakeup",
    "sched_wakeup_new",
    "sched_process_fork",
    "sched_process_exit",
    "sched_migrate_task",
]
EVENTS_B = ["sched_switch"]
BUFFER_KB = 24 * 1024

Interval = tuple[int, int]


def die(text: str) -> None:
    sys.exit(f"replay: {text}")


# --- recording ---------------------------------------------------------------


class Instance:
    """A buffer of ftrace's of our own."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.path = TRACEFS / "instances" / f"schedhist_{name}"
        self.remove()
        self.path.mkdir()
        self.write("tracing_on", "0")
        self.write("trace_clock", "perf")
        self.write("options/overwrite", "0")
        self.write("buffer_size_kb", str(BUFFER_KB))

    def write(self, file: str, text: str) -> None:
        (self.path / file).write_text(text)

    def start(self, events: list[str]) -> None:
        self.write("tracing_on", "1")
        for event in events:
            self.write(f"events/sched/{event}/enable", "1")

    def stop(self) -> None:
        self.write("tracing_on", "0")
        self.write("events/enable", "0")

    def save(self, folder: Path) -> None:
        for cpu in (self.path / "per_cpu").iterdir():
            stats = dict(
                line.split(":", 1) for line in (cpu / "stats").read_text().splitlines()
            )
            for key in "overrun", "commit overrun", "dropped events":
                if int(stats[key]):
                    die(f"ftrace lost events: {self.name} {cpu.name}: {key} {stats[key]}")
            source = os.open(cpu / "trace_pipe_raw", os.O_RDONLY | os.O_NONBLOCK)
            with open(folder / f"{self.name}.{cpu.name}", "wb") as target:
                while True:
                    try:
                        page = os.read(source, 4096)
                    except BlockingIOError:
                        break
                    if not page:
                        break
                    target.write(page.ljust(4096, b"\0"))
            os.close(source)

    def remove(self) -> None:
        if self.path.exists():
            self.stop()
            self.path.rmdir()


def save_module(folder: Path) -> None:
    for file in [DEBUGFS / "status", *sorted(DEBUGFS.glob("per_cpu/cpu*/*"))]:
        if file.name != "status" and not file.read_text().startswith("# schedhist histogram"):
            continue
        target = folder / file.relative_to(DEBUGFS)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(file.read_text())


def record(folder: Path, running: float | None, command: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    before, after = Instance("a"), Instance("b")
    null = subprocess.DEVNULL
    workload = None
    try:
        names = [f"sched/{event}" for event in EVENTS_A] + ["ftrace/print"]
        formats = [(before.path / "events" / name / "format").read_text() for name in names]
        (folder / "formats").write_text("\n".join(formats))
        marker = os.open(before.path / "trace_marker", os.O_WRONLY)
        enable = os.open(DEBUGFS / "enable", os.O_WRONLY)

        save_module(folder / "before")

        # The order is the point: A, schedhist, B.
        before.start(EVENTS_A)
        if running is not None:
            workload = subprocess.Popen(command, stdout=null, stderr=null, start_new_session=True)
            time.sleep(0.3)
        os.write(marker, b"schedhist on")
        os.write(enable, b"1")
        os.write(marker, b"schedhist is on")
        after.start(EVENTS_B)
        if running is not None:
            time.sleep(running)
        else:
            subprocess.run(command, stdout=null, stderr=null, check=True)
        os.write(marker, b"schedhist off")
        os.write(enable, b"0")
        os.write(marker, b"schedhist is off")
        after.stop()
        before.stop()
        os.close(marker)
        os.close(enable)
        save_module(folder / "after")
        before.save(folder)
        after.save(folder)
    finally:
        if workload:
            os.killpg(workload.pid, signal.SIGKILL)
            workload.wait()
        before.remove()
        after.remove()


# --- reading what was recorded -----------------------------------------------


class Format(NamedTuple):
    """Where the fields of an event lie."""

    name: str
    fields: dict[str, struct.Struct]
    offsets: dict[str, int]


def read_formats(text: str) -> dict[int, Format]:
    formats: dict[int, Format] = {}
    name, number = "", 0
    for line in text.splitlines():
        words = line.split()
        if line.startswith("name:"):
            name = words[1]
        elif line.startswith("ID:"):
            number = int(words[1])
            formats[number] = Format(name, {}, {})
        elif words and words[0].startswith("field:"):
            parts = dict(p.strip().split(":", 1) for p in line.split(";") if ":" in p)
            key = parts["field"].split()[-1].split("[")[0]
            code = {"1": "b", "2": "h", "4": "i", "8": "q"}.get(parts["size"])
            formats[number].offsets[key] = int(parts["offset"])
            if code and "[" not in parts["field"]:
                if parts["signed"] == "0":
                    code = code.upper()
                formats[number].fields[key] = struct.Struct("<" + code)
    return formats


def raw_events(data: bytes) -> Iterator[tuple[int, int, int]]:
    """The time, offset and length of each event in pages of the ring buffer (see its header_page
    and kernel/trace/ring_buffer.c)."""
    u32 = struct.Struct("<I").unpack_from
    for page in range(0, len(data), 4096):
        stamp, commit = struct.unpack_from("<QQ", data, page)
        if commit >> 30 & 3:
            die("ftrace lost events: a page says so")
        at, end = page + 16, page + 16 + (commit & 0xFFFFF)
        while at < end:
            (head,) = u32(data, at)
            kind, delta = head & 31, head >> 5
            at += 4
            if kind <= 28:
                if kind:
                    length = kind * 4
                    start = at
                else:
                    length = u32(data, at)[0]
                    start = at + 4
                stamp += delta
                yield stamp, start, length
                at += length
            elif kind == 29:
                if delta:
                    die("an event was discarded: not expected")
                break
            elif kind == 30:
                stamp += delta + (u32(data, at)[0] << 27)
                at += 4
            else:
                low = delta + (u32(data, at)[0] << 27)
                stamp = (stamp >> 59 << 59) | low
                at += 4


@dataclass(slots=True)
class Switch:
    """A context switch. schedhist saw it at a time within `a` to `b`."""

    cpu: int
    a: int
    prev: int
    state: int
    next: int
    b: int = 0
    exact: bool = False
    seen: bool = False


class Other(NamedTuple):
    """Any other event."""

    time: int
    kind: str
    pid: int


@dataclass
class Trace:
    """All events of A, with B's stamps."""

    switches: dict[int, list[Switch]]
    others: list[Other]
    marks: dict[str, int]


PID_FIELD = {
    "sched_waking": "pid",
    "sched_wakeup": "pid",
    "sched_wakeup_new": "pid",
    "sched_process_fork": "child_pid",
    "sched_process_exit": "pid",
    "sched_migrate_task": "pid",
}


def read_switches(
    data: bytes, cpu: int, formats: dict[int, Format], trace: Trace | None
) -> list[Switch]:
    """The switches of a CPU; all other events go to `trace`."""
    switches = []
    u16 = struct.Struct("<H").unpack_from
    layout = next(f for f in formats.values() if f.name == "sched_switch")
    prev, prev_at = layout.fields["prev_pid"].unpack_from, layout.offsets["prev_pid"]
    state, state_at = layout.fields["prev_state"].unpack_from, layout.offsets["prev_state"]
    following, next_at = layout.fields["next_pid"].unpack_from, layout.offsets["next_pid"]
    pids = {
        number: (f.name, f.fields[PID_FIELD[f.name]].unpack_from, f.offsets[PID_FIELD[f.name]])
        for number, f in formats.items()
        if f.name in PID_FIELD
    }
    for stamp, start, length in raw_events(data):
        (number,) = u16(data, start)
        if number in pids:
            name, unpack, offset = pids[number]
            if trace:
                trace.others.append(Other(stamp, name, unpack(data, start + offset)[0]))
        elif formats[number].name == "sched_switch":
            switches.append(
                Switch(
                    cpu,
                    stamp,
                    prev(data, start + prev_at)[0],
                    state(data, start + state_at)[0],
                    following(data, start + next_at)[0],
                )
            )
        elif trace:
            text = data[start + formats[number].offsets["buf"] : start + length]
            trace.marks[text.split(b"\0")[0].decode().strip()] = stamp
    return switches


def bracket(first: list[Switch], second: list[Switch]) -> None:
    """Gives the switches `first` of A the stamps of those of B.

    Both lost none, so that B's are some of A's in a row. Times alone do not tell which: where the
    clock is not stable it stands still at times.
    """
    pids = [(switch.prev, switch.next) for switch in first]
    late = [(switch.prev, switch.next) for switch in second]
    times = [switch.a for switch in first]
    at = bisect.bisect_right(times, second[0].a) - 1 if second else 0
    while at >= 0 and pids[at : at + len(late)] != late:
        at -= 1
    if at < 0 or any(one.a > two.a for one, two in zip(first[at:], second)):
        die("the two instances disagree")
    for switch, two in zip(first[at:], second):
        switch.b, switch.exact = two.a, True
    for i, switch in enumerate(first):
        if not switch.exact:
            switch.b = first[i + 1].a if i + 1 < len(first) else switch.a + 10**9


def read_trace(folder: Path) -> Trace:
    formats = read_formats((folder / "formats").read_text())
    trace = Trace({}, [], {})
    for file in sorted(folder.glob("a.cpu*")):
        cpu = int(file.name[5:])
        first = read_switches(file.read_bytes(), cpu, formats, trace)
        second = read_switches((folder / f"b.cpu{cpu}").read_bytes(), cpu, formats, None)
        for one, two in itertools.pairwise(first):
            if one.next != two.prev or one.a > two.a:
                die(f"ftrace lost a switch on cpu {cpu} at {two.a}")
        bracket(first, second)
        trace.switches[cpu] = first
    return trace


@dataclass
class Histogram:
    """A histogram file of schedhist."""

    values: dict[str, int] = field(default_factory=dict)
    buckets: list[tuple[int, int, int]] = field(default_factory=list)


def read_histogram(file: Path) -> Histogram:
    histogram = Histogram()
    for line in file.read_text().splitlines():
        words = line.split()
        if words[0] == "bucket":
            upper = 2**64 - 1 if words[2] == "inf" else int(words[2])
            histogram.buckets.append((int(words[1]), upper, int(words[3])))
        elif len(words) == 2 and words[1].isdigit():
            histogram.values[words[0]] = int(words[1])
    return histogram


def subtract(after: Histogram, before: Histogram) -> Histogram:
    """What has come since `before`. The extremes are those of all time: `compare_histogram` takes
    those of before, which it finds under other names, into account."""
    values = dict(after.values)
    for key in "count", "sum":
        values[key] -= before.values[key]
    for key in "min", "max":
        if key in before.values:
            values[f"{key} before"] = before.values[key]
    counts = {(lower, upper): count for lower, upper, count in before.buckets}
    buckets = [(*bounds, n - counts.pop(tuple(bounds), 0)) for *bounds, n in after.buckets]
    if counts or any(count < 0 for _, _, count in buckets):
        die("a bucket has shrunk")
    return Histogram(values, buckets)


@dataclass
class Module:
    """What schedhist recorded."""

    counters: dict[int, dict[str, int]]
    histograms: dict[int, dict[str, Histogram]]


def read_counters(folder: Path) -> dict[int, dict[str, int]]:
    counters: dict[int, dict[str, int]] = {}
    for line in (folder / "status").read_text().splitlines():
        words = line.split()
        if len(words) == 3 and words[0].startswith("cpu") and words[2].isdigit():
            counters.setdefault(int(words[0][3:]), {})[words[1]] = int(words[2])
    return counters


def read_module(folder: Path) -> Module:
    before, after = read_counters(folder / "before"), read_counters(folder / "after")
    module = Module({}, {})
    for cpu, counters in after.items():
        module.counters[cpu] = {key: n - before[cpu][key] for key, n in counters.items()}
        module.histograms[cpu] = {
            file.name: subtract(
                read_histogram(file),
                read_histogram(folder / f"before/per_cpu/cpu{cpu}" / file.name),
            )
            for file in (folder / "after/per_cpu" / f"cpu{cpu}").iterdir()
        }
    return module


# --- the reference -----------------------------------------------------------

# prev_state of sched_switch: include/trace/events/sched.h. Preempted is TASK_REPORT_MAX.
INTERRUPTIBLE = 0x01
UNINTERRUPTIBLE = 0x02
DEAD = 0x10 | 0x20
IDLE_WAIT = 0x80
PREEMPTED = 0x100


def manner(state: int) -> str:
    """How a task left its CPU."""
    if state in (0, PREEMPTED):
        return "preempt"
    if state == INTERRUPTIBLE:
        return "blocked_interruptible"
    if state in (UNINTERRUPTIBLE, IDLE_WAIT):
        return "blocked_uninterruptible"
    return "dead" if state & DEAD else "other"


@dataclass(slots=True)
class Task:
    """What the reference knows of a task."""

    # Its last switch-out that schedhist saw, if it has not run since.
    out: Switch | None = None
    forked: int | None = None
    waking: int = 0
    waking_between: Interval | None = None
    # Between when it was put on a run queue.
    queued: Interval | None = None
    moved: bool = False
    runs: bool = False


@dataclass
class Result:
    """What one CPU should have recorded."""

    counters: Tally[str] = field(default_factory=Tally)
    samples: dict[str, list[Interval]] = field(default_factory=dict)
    # Waits of which it is open whether they are samples, with when they began.
    open: list[tuple[int, Interval]] = field(default_factory=list)
    # Absences of zombies that came back: the event shows that state instead of the one they had.
    hidden: int = 0
    wide: int = 0

    def add(self, metric: str, low: int, high: int) -> None:
        self.samples.setdefault(metric, []).append((max(low, 0), max(high, 0)))


def stays(seen: list[Switch], result: Result) -> None:
    """The stays on a CPU, which end with all switches seen but the first."""
    result.counters["start_unseen"] += bool(seen)
    for one, two in itertools.pairwise(seen):
        metric = "oncpu" if two.prev else "idle"
        result.add(metric, two.a - one.b, two.b - one.a)


def leave(switch: Switch, tasks: dict[int, Task], result: Result | None) -> None:
    task = tasks.setdefault(switch.prev, Task())
    task.out = switch if result else None
    task.queued = None
    task.waking_between = None
    task.moved = False
    task.runs = False
    if result:
        voluntary = manner(switch.state) != "preempt"
        result.counters["voluntary" if voluntary else "involuntary"] += 1


def enter(switch: Switch, tasks: dict[int, Task], result: Result | None, on: Interval) -> None:
    task = tasks.setdefault(switch.next, Task())
    if task.runs:
        die(f"pid {switch.next} runs twice at {switch.a}")
    if result:
        wait(switch, task, result, on)
    task.out = None
    task.forked = None
    task.runs = True


def wait(switch: Switch, task: Task, result: Result, on: Interval) -> None:
    """The end of a wait, by the definitions."""
    counters = result.counters
    if task.forked is not None:
        low, high = task.queued or die(f"pid {switch.next} was never woken")
        if high < on[0]:
            counters["wait_unseen"] += 1
        elif low > on[1]:
            if task.moved:
                low, high, result.wide = task.forked, switch.b, result.wide + 1
            result.add("runq_wakeup", switch.a - high, switch.b - low)
        else:
            result.open.append((high, (switch.a - high, switch.b - low)))
        return
    out = task.out
    if out is None:
        counters["wait_unseen"] += 1
        return
    counters["migrations"] += out.cpu != switch.cpu
    away = switch.a - out.b, switch.b - out.a
    how = manner(out.state)
    if how == "preempt":
        result.add("runq_preempt", *away)
        return
    result.add("offcpu", *away)
    if task.queued is None:
        die(f"pid {switch.next} got cpu {switch.cpu} at {switch.a} without a wakeup")
    low, high = task.queued
    if task.moved:
        low, high, result.wide = out.a, switch.b, result.wide + 1
    result.add("runq_wakeup", switch.a - high, switch.b - low)
    if task.waking_between:
        result.add("wakeup", switch.a - task.waking_between[1], switch.b - task.waking_between[0])
    if how.startswith("blocked"):
        result.add(how, low - out.b, high - out.a)
    elif how == "dead":
        result.hidden += 1
    else:
        counters["blocked_other"] += 1


def note(event: Other, tasks: dict[int, Task]) -> None:
    """Any event but a switch."""
    task = tasks.setdefault(event.pid, Task())
    if event.kind == "sched_process_fork":
        # A PID that is used again is another task.
        tasks[event.pid] = Task(forked=event.time)
    elif event.kind == "sched_waking":
        task.waking = event.time
    elif event.kind == "sched_wakeup_new":
        # Forked before the trace began?
        if task.forked is not None:
            task.queued = (task.forked, event.time)
    elif event.kind == "sched_wakeup":
        # Only the first one puts it on a queue; of a task that has not left there is none to do.
        if not task.runs and task.queued is None:
            # It may overtake the task's way off its CPU, but the queueing does not.
            left = task.out.a if task.out else 0
            task.queued = (max(task.waking, left), event.time)
            # This one may have begun before the task was off its CPU.
            task.waking_between = (task.waking, event.time)
    elif event.kind == "sched_migrate_task" and task.queued:
        task.moved = True


def replay(trace: Trace, module: Module, order: list[Switch | Other]) -> dict[int, Result]:
    """Computes what should have been recorded of the switches that are marked as seen."""
    results = {cpu: Result() for cpu in trace.switches}
    for cpu, switches in trace.switches.items():
        stays([switch for switch in switches if switch.seen], results[cpu])
    on = trace.marks["schedhist on"], trace.marks["schedhist is on"]
    tasks: dict[int, Task] = {}
    for event in order:
        if isinstance(event, Other):
            note(event, tasks)
            continue
        result = results[event.cpu] if event.seen else None
        if result:
            result.counters["switches"] += 1
            result.counters["to_idle"] += event.next == 0
        if event.prev:
            leave(event, tasks, result)
        if event.next:
            enter(event, tasks, result, on)
    close(module, results)
    for result in results.values():
        waits = result.samples.get("runq_wakeup", []) + result.samples.get("runq_preempt", [])
        result.samples["runq"] = waits
    return results


def close(module: Module, results: dict[int, Result]) -> None:
    """Decides on the waits that are open. Those that began last are samples, as many as there are:
    from the one moment on at which measuring began."""
    for cpu, result in results.items():
        known = len(result.samples.get("runq_wakeup", []))
        late = module.histograms[cpu]["runq_wakeup"].values["count"] - known
        late = min(max(late, 0), len(result.open))
        result.open.sort(reverse=True)
        for _, interval in result.open[:late]:
            result.add("runq_wakeup", *interval)
        result.counters["wait_unseen"] += len(result.open) - late


# --- comparing ---------------------------------------------------------------

# Those that must be 0: there is no reason for them here.
NEVER = ["untracked", "clock_backwards", "wake_unseen"]
PREDICTED = [
    "switches",
    "voluntary",
    "involuntary",
    "start_unseen",
    "to_idle",
    "wait_unseen",
    "blocked_other",
    "migrations",
]


def candidates(cpu: int, trace: Trace, module: Module) -> list[int]:
    """The first switches with which the stays on this CPU come out as recorded."""
    switches = trace.switches[cpu]
    counters, histograms = module.counters[cpu], module.histograms[cpu]
    number = counters["switches"]
    times = [switch.a for switch in switches]
    low = bisect.bisect_left(times, trace.marks["schedhist on"])
    # A switch may be under way when the mark is made.
    high = bisect.bisect_right(times, trace.marks["schedhist is on"]) + 1
    end = bisect.bisect_left(times, trace.marks["schedhist off"])
    last = bisect.bisect_right(times, trace.marks["schedhist is off"]) + 1
    low = max(low, end - number)
    high = min(high, last - number, len(switches) - number)
    if not number:
        return [0]
    # Sums up to each switch, so that every candidate takes a moment only.
    oncpu_low, oncpu_high, ends = [0], [0], [0]
    for one, two in itertools.pairwise(switches):
        task = bool(two.prev)
        oncpu_low.append(oncpu_low[-1] + task * max(two.a - one.b, 0))
        oncpu_high.append(oncpu_high[-1] + task * (two.b - one.a))
        ends.append(ends[-1] + task)
    found = []
    total = histograms["oncpu"].values["sum"] + histograms["idle"].values["sum"]
    for k in range(low, high + 1):
        z = k + number - 1
        first, final = switches[k], switches[z]
        if (
            ends[z] - ends[k] == histograms["oncpu"].values["count"]
            and final.a - first.b <= total <= final.b - first.a
            and oncpu_low[z] - oncpu_low[k]
            <= histograms["oncpu"].values["sum"]
            <= oncpu_high[z] - oncpu_high[k]
        ):
            found.append(k)
    if not found:
        die(
            f"cpu {cpu}: no {number} switches in a row, the first of {low} to {high}, have stays "
            f"that add up to {total} ns"
        )
    return found


def width_of(value: int, precision: int) -> int:
    """The width of the bucket of a value: H2."""
    return 1 << max(value.bit_length() - 1 - precision, 0)


def compare_histogram(where: str, histogram: Histogram, samples: list[Interval]) -> Iterator[str]:
    values = histogram.values
    if values["count"] != len(samples):
        yield f"{where}: count {values['count']}, the reference has {len(samples)}"
        return
    lows = sorted(low for low, _ in samples)
    highs = sorted(high for _, high in samples)
    if not sum(lows) <= values["sum"] <= sum(highs):
        yield f"{where}: sum {values['sum']} is not within {sum(lows)} to {sum(highs)}"
    if samples:
        for key, best, i in ("min", min, 0), ("max", max, -1):
            low, high = lows[i], highs[i]
            if (old := values.get(f"{key} before")) is not None:
                low, high = best(low, old), best(high, old)
            if not low <= values[key] <= high:
                yield f"{where}: {key} {values[key]} is not within {low} to {high}"
    total = 0
    for lower, upper, count in histogram.buckets:
        if upper < 2**64 - 1:
            width = width_of(lower, values["precision"])
            if lower % width or upper != lower + width - 1:
                yield f"{where}: {lower} to {upper} is no bucket"
        # What lies below the bucket, and then also what lies in it.
        for bound, below in (lower - 1, total), (upper, total + count):
            least, most = bisect.bisect_right(highs, bound), bisect.bisect_right(lows, bound)
            if not least <= below <= most:
                yield f"{where}: {below} of at most {bound} ns, not {least} to {most}"
        total += count
    if total != len(samples):
        yield f"{where}: the buckets add up to {total}, not {len(samples)}"


def compare_hidden(where: str, module: Module, cpu: int, result: Result) -> Iterator[str]:
    """Counts of the three kinds of blocking, when of some it is not known which one it was."""
    kinds = "blocked_interruptible", "blocked_uninterruptible"
    found = [module.histograms[cpu][kind].values["count"] for kind in kinds]
    known = [len(result.samples.get(kind, [])) for kind in kinds]
    found.append(module.counters[cpu]["blocked_other"])
    known.append(result.counters["blocked_other"])
    if sum(found) != sum(known) + result.hidden or any(a < b for a, b in zip(found, known)):
        yield f"{where}: blocked {found}, the reference has {known} and {result.hidden} zombies'"


def compare(module: Module, results: dict[int, Result]) -> list[str]:
    problems: list[str] = []
    for cpu, result in sorted(results.items()):
        counters = module.counters[cpu]
        if result.hidden:
            problems += compare_hidden(f"cpu {cpu}", module, cpu, result)
        for name in PREDICTED:
            if result.hidden and name == "blocked_other":
                continue
            if counters[name] != result.counters[name]:
                problems.append(
                    f"cpu {cpu}: {name} {counters[name]}, the reference has {result.counters[name]}"
                )
        for name in NEVER:
            if counters.get(name):
                problems.append(f"cpu {cpu}: {name} {counters[name]}")
        for metric, histogram in sorted(module.histograms[cpu].items()):
            if result.hidden and metric.startswith("blocked"):
                continue
            samples = result.samples.get(metric, [])
            problems += compare_histogram(f"cpu {cpu}: {metric}", histogram, samples)
    return problems


def report(module: Module, results: dict[int, Result], trace: Trace) -> None:
    """How much was compared, and how wide the bands are."""
    number = sum(result.counters["switches"] for result in results.values())
    seen = [s for switches in trace.switches.values() for s in switches if s.seen]
    gaps = sorted(switch.b - switch.a for switch in seen)
    loose = sum(not switch.exact for switch in seen)
    wide = sum(result.wide for result in results.values())
    hidden = sum(result.hidden for result in results.values())
    unseen = sum(result.counters["wait_unseen"] for result in results.values())
    print(
        f"# {number} switches; schedhist's clock read within {gaps[len(gaps) // 2]} ns (median), "
        f"{gaps[-1 - len(gaps) // 100]} ns (p99) of ftrace's; {loose} not enclosed, {wide} waits "
        f"moved, {unseen} waits not seen to begin, {hidden} waits of zombies"
    )
    for metric in sorted(module.histograms[0]):
        pairs = [pair for result in results.values() for pair in result.samples.get(metric, [])]
        if not pairs:
            continue
        low, high = sum(p[0] for p in pairs), sum(p[1] for p in pairs)
        total = sum(cpu[metric].values["sum"] for cpu in module.histograms.values())
        place = (total - low) / (high - low) if high > low else 0.5
        widths = sorted(p[1] - p[0] for p in pairs)
        print(
            f"# {metric}: {len(pairs)} samples, sum {total} ns; {low} to {high} is possible "
            f"(at {place:.0%}); median width of a sample {widths[len(widths) // 2]} ns"
        )
    undecided = sum(len(result.open) for result in results.values())
    if loose > 0.05 * number + 20 or wide > 0.05 * number + 20 or undecided > 8:
        die("too many intervals are wide to prove much")


def check(folder: Path) -> None:
    trace, module = read_trace(folder), read_module(folder)
    if set(trace.switches) != set(module.counters):
        die("ftrace and schedhist have different CPUs")
    order: list[Switch | Other] = [s for switches in trace.switches.values() for s in switches]
    order += trace.others
    order.sort(key=lambda event: event.a if isinstance(event, Switch) else event.time)
    choices = {cpu: candidates(cpu, trace, module) for cpu in trace.switches}
    if len(list(itertools.product(*choices.values()))) > 16:
        die(f"which switches were seen is not clear: {choices}")
    problems: list[str] = []
    for firsts in itertools.product(*choices.values()):
        for (cpu, switches), first in zip(trace.switches.items(), firsts, strict=True):
            number = module.counters[cpu]["switches"]
            for i, switch in enumerate(switches):
                switch.seen = first <= i < first + number
        results = replay(trace, module, order)
        found = compare(module, results)
        if not found:
            report(module, results, trace)
            return
        if not problems or len(found) < len(problems):
            problems = found
    print(*problems[:40], sep="\n")
    die(f"{len(problems)} differences")


def main() -> None:
    arguments = sys.argv[1:]
    if len(arguments) >= 4 and arguments[0] == "record" and "--" in arguments:
        split = arguments.index("--")
        options = arguments[2:split]
        running = float(options[1]) if options[:1] == ["--running"] else None
        record(Path(arguments[1]), running, arguments[split + 1 :])
    elif len(arguments) == 2 and arguments[0] == "check":
        check(Path(arguments[1]))
    else:
        die((__doc__ or "").split("\n\n")[1])


if __name__ == "__main__":
    main()
