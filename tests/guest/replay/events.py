# SPDX-License-Identifier: GPL-2.0
"""Reads the events of both ftrace instances."""

import bisect
import itertools
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator, NamedTuple

from .common import die


class Format(NamedTuple):
    """The position of each field of an event."""

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
    """Yields the time, offset and length of each event in pages of the ring buffer (see its
    header_page and kernel/trace/ring_buffer.c)."""
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
                # The rest of the page. rb_reset_tail() fills it with a discarded event, which readers
                # see if an interrupt moved the tail between two steps of another event.
                if delta and at + u32(data, at)[0] != end:
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
    """A context switch. schedhist's stamp lies within `a` to `b`."""

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
    # Of the task that it is about; the vector of a softirq, a timer.
    pid: int
    cpu: int
    # What the CPU was doing: TRACE_FLAG_* in include/linux/trace_events.h.
    flags: int


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
    "softirq_raise": "vec",
    "softirq_entry": "vec",
    "hrtimer_expire_entry": "hrtimer",
    "hrtimer_expire_exit": "hrtimer",
}


def read_switches(
    data: bytes, cpu: int, formats: dict[int, Format], trace: Trace | None
) -> list[Switch]:
    """Returns the switches of a CPU; adds all other events to `trace`."""
    switches = []
    u16 = struct.Struct("<H").unpack_from
    layout = next(f for f in formats.values() if f.name == "sched_switch")
    prev, prev_at = layout.fields["prev_pid"].unpack_from, layout.offsets["prev_pid"]
    state, state_at = layout.fields["prev_state"].unpack_from, layout.offsets["prev_state"]
    following, next_at = layout.fields["next_pid"].unpack_from, layout.offsets["next_pid"]
    flags_at = layout.offsets["common_flags"]
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
                flags = data[start + flags_at]
                trace.others.append(Other(stamp, name, unpack(data, start + offset)[0], cpu, flags))
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
    """Gives A's switches `first` the stamps of B's switches `second`.

    Neither lost an event, so that B's switches are consecutive ones of A's. Times alone do not tell
    which: an unstable clock stands still at times.
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


def in_order(trace: Trace) -> list[Switch | Other]:
    """Returns all events of all CPUs, by time."""
    order: list[Switch | Other] = [s for switches in trace.switches.values() for s in switches]
    order += trace.others
    order.sort(key=lambda event: event.a if isinstance(event, Switch) else event.time)
    return order
