# SPDX-License-Identifier: GPL-2.0
"""Reads the file `raw` by the layout that include/uapi/schedhist_raw.h has: no size, offset or number of a
record is written down here."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path
from typing import Any, Iterator, NamedTuple

FILE = Path("/sys/kernel/debug/schedhist/raw")
HEADER = Path(__file__).parents[2] / "include/uapi/schedhist_raw.h"
PREFIX = "schedhist_raw_"
TYPES = {"__u32": ctypes.c_uint32, "__u64": ctypes.c_uint64, "__s32": ctypes.c_int32, "__u8": ctypes.c_uint8,
         "char": ctypes.c_char}
NONE = (1 << 64) - 1


class DecodeError(Exception):
    """The input is not a snapshot, or not a whole one."""


def _read_header(text: str) -> tuple[dict[str, int], dict[str, str], dict[str, Any]]:
    """Returns the numbers that the header defines, the struct of each type of record, and the structs."""
    numbers, of_type, structs = {}, {}, {}
    for name, number, comment in re.findall(r"^#define SCHEDHIST_RAW_(\w+)\s+(\d\w*)\b(.*)", text, re.MULTILINE):
        numbers[name] = int(number, 0)
        if kind := re.match(rf"\s*/\* (?:a )?struct {PREFIX}(\w+)", comment):
            of_type[name] = kind[1]
    for name, body in re.findall(rf"^struct {PREFIX}(\w+) \{{\n(.*?)^\}};", text, re.MULTILINE | re.DOTALL):
        fields = []
        for kind, field, array, size in re.findall(r"^\t(?:struct )?(\w+) (\w+)(\[(\w*)\])?;", body, re.MULTILINE):
            one = TYPES[kind] if kind in TYPES else structs[kind.removeprefix(PREFIX)]
            if array:
                # What follows a record has no size of its own.
                one *= numbers[size.removeprefix("SCHEDHIST_RAW_")] if size and not size.isdigit() else int(size or 0)
            fields.append((field, one))
        structs[name] = type(name, (ctypes.LittleEndianStructure,), {"_fields_": fields})
    return numbers, of_type, structs


NUMBERS, OF_TYPE, STRUCTS = _read_header(HEADER.read_text(encoding="utf-8"))
NAMES = {NUMBERS[name]: name for name in OF_TYPE}
RECORD, PAIR = STRUCTS["record"], STRUCTS["pair"]
NAME = dict(STRUCTS["name"]._fields_)["name"]


def read() -> bytes:
    return FILE.read_bytes()


class Record(NamedTuple):
    kind: str
    # The fields of its struct, and the bytes that follow them.
    fields: Any
    rest: bytes

    def pairs(self) -> dict[int, int]:
        """Returns the number of samples in each of its buckets."""
        end = ctypes.sizeof(PAIR) * self.fields.pairs
        if end > len(self.rest):
            raise ValueError(f"{self.fields.pairs} buckets do not fit into it")
        pairs = (PAIR * self.fields.pairs).from_buffer_copy(self.rest) if end else ()
        return {pair.index: pair.count_high << 32 | pair.count_low for pair in pairs}

    def text(self, length: int) -> bytes:
        if length > len(self.rest):
            raise ValueError(f"a text of {length} bytes does not fit into it")
        return self.rest[:length]


def header_of(data: bytes) -> Any:
    """Returns the fields of the header."""
    kind = STRUCTS["header"]
    if len(data) < ctypes.sizeof(kind) or not data.startswith(b"SCHDHIST"):
        raise DecodeError("not a snapshot of schedhist")
    header = kind.from_buffer_copy(data)
    if header.version != 1:
        raise DecodeError(f"version {header.version}: this program knows only 1")
    start = header.header_length
    if not ctypes.sizeof(kind) <= start <= len(data) or start % 8:
        raise DecodeError(f"header of {start} bytes")
    # Reject exponents that would make shifts huge.
    bits, precision = header.value_bits, header.precision
    if not (precision < bits < 64 and header.buckets == ((bits - precision + 1) << precision) + 1):
        raise DecodeError(f"{header.buckets} buckets of precision {precision} up to 2^{bits}")
    return header


def records(data: bytes, offset: int) -> Iterator[tuple[int, Record | DecodeError]]:
    """Yields the offset of each record of a known type, and the record, or why it is broken."""
    while True:
        if offset + ctypes.sizeof(RECORD) > len(data):
            raise DecodeError(f"cut off: no end after {len(data)} bytes")
        head = RECORD.from_buffer_copy(data, offset)
        if head.length < ctypes.sizeof(RECORD) or head.length % 8:
            raise DecodeError(f"record of {head.length} bytes at offset {offset}")
        if offset + head.length > len(data):
            raise DecodeError(f"cut off: record of {head.length} bytes at offset {offset}")
        name = NAMES.get(head.type)
        if name == "END":
            if offset + head.length != len(data):
                raise DecodeError(f"something after the end at offset {offset}")
            return
        if name:
            kind = STRUCTS[OF_TYPE[name]]
            if ctypes.sizeof(kind) > head.length:
                yield offset, DecodeError("it is too short")
            else:
                rest = data[offset + ctypes.sizeof(kind):offset + head.length]
                yield offset, Record(name, kind.from_buffer_copy(data, offset), rest)
        offset += head.length


class Histogram:
    """Buckets, totals and the worst sample, of one CPU or of several."""

    def __init__(self) -> None:
        self.buckets: dict[int, int] = {}
        self.sum = 0
        self.min = NONE
        self.worst: Any = None  # a record WORST

    def add(self, other: Histogram) -> None:
        for index, count in other.buckets.items():
            self.buckets[index] = (self.buckets.get(index, 0) + count) & NONE
        self.sum += other.sum
        self.min = min(self.min, other.min)
        if other.worst and (not self.worst or other.worst.value_ns > self.worst.value_ns):
            self.worst = other.worst


class Snapshot:
    """What a snapshot has of the machine, and its records of groups."""

    def __init__(self, data: bytes | None = None) -> None:
        data = read() if data is None else data
        self.header = header_of(data)
        self.shown: dict[str, list[int]] = {}  # name -> numbers of the metrics that it is the sum of
        self.counter_names: dict[int, str] = {}
        self.counters: dict[int, list[int]] = {}  # by CPU
        self.histograms: dict[tuple[int, int], Histogram] = {}  # by CPU and number of the metric
        self.slices: dict[int, Any] = {}  # by CPU
        self.tasks: list[Any] = []
        self.waiting: list[Any] = []
        self.of_groups: list[Record | DecodeError] = []
        cpus = 0
        for offset, record in records(data, self.header.header_length):
            try:
                if isinstance(record, DecodeError):
                    raise ValueError(str(record))
                self._record(record)
            except ValueError as error:
                raise DecodeError(f"record at offset {offset}: {error}") from None
            cpus += record.kind == "CPU"
        if cpus != self.header.cpus:
            raise DecodeError(f"{self.header.cpus} CPUs, but records of {cpus}")

    def _record(self, record: Record) -> None:
        kind, fields = record.kind, record.fields
        if kind in ("METRIC", "COUNTER", "SUM"):
            name = fields.name.decode("ascii")
            if len(name) == ctypes.sizeof(NAME):
                raise ValueError("a name without an end")
            if kind == "COUNTER":
                self.counter_names[fields.number] = name
            else:
                bits = [bit for bit in range(32) if fields.number >> bit & 1]
                self.shown[name] = bits if kind == "SUM" else [fields.number]
        elif kind == "CPU":
            if 8 * fields.counters > len(record.rest):
                raise ValueError(f"{fields.counters} counters do not fit into it")
            self.counters[fields.cpu] = list((ctypes.c_uint64 * fields.counters).from_buffer_copy(record.rest))
        elif kind == "HISTOGRAM":
            one = self._histogram(fields)
            one.sum, one.min = fields.sum_high_ns << 64 | fields.sum_low_ns, fields.min_ns
        elif kind == "WORST":
            self._histogram(fields).worst = fields
        elif kind == "BUCKETS":
            pairs = record.pairs()
            if wrong := [index for index in pairs if index >= self.header.buckets]:
                raise ValueError(f"bucket {wrong[0]} of {self.header.buckets}")
            self._histogram(fields).buckets |= pairs
        elif kind == "SLICE":
            self.slices[fields.cpu] = fields
        elif kind == "TASK":
            self.tasks.append(fields)
        elif kind == "WAITING":
            self.waiting.append(fields)
        elif kind in GROUP_KINDS:
            self.of_groups.append(record)

    def _histogram(self, fields: Any) -> Histogram:
        return self.histograms.setdefault((fields.cpu, fields.metric), Histogram())

    def cpus(self) -> list[int]:
        return sorted(self.counters)

    def bounds(self, index: int) -> tuple[int, float]:
        """Returns the inclusive bounds of a bucket."""
        return self._lower(index), float("inf") if index + 1 >= self.header.buckets else self._lower(index + 1) - 1

    def _lower(self, index: int) -> int:
        precision = self.header.precision
        shift = max((index >> precision) - 1, 0)
        return (index - (shift << precision)) << shift

    def merged(self, name: str, cpus: list[int]) -> Histogram:
        """Returns the histogram of a metric, added up over CPUs."""
        merged = Histogram()
        for cpu in cpus:
            for part in self.shown[name]:
                if (cpu, part) in self.histograms:
                    merged.add(self.histograms[cpu, part])
        return merged

    def on(self, name: str) -> bool:
        """Returns whether all parts of a metric are on."""
        return all(self.header.metrics_on >> part & 1 for part in self.shown[name])


GROUP_KINDS = "GROUPING", "GROUP", "GROUP_BUCKETS", "NEIGHBOUR", "GROUP_SLICES", "GROUP_WAITING", "GROUP_UNSEEN"


class Groups:
    """What a snapshot has of groups. Whoever does not want these need not care whether they are whole."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.grouping: Any = None
        self.rule: bytes | None = None
        self.groups: dict[int, Any] = {}  # the fields of each, by number
        self.names: dict[int, bytes] = {}
        self.buckets: dict[tuple[int, int], dict[int, int]] = {}  # by group and metric
        self.neighbours: dict[int, list[Any]] = {}  # by the group that waited
        self.progress: dict[str, dict[int, Any]] = {}  # by kind and group
        try:
            for record in snapshot.of_groups:
                self._record(record)
        except ValueError as error:
            raise DecodeError(f"record of a group: {error}") from None

    def _record(self, record: Record) -> None:
        kind, fields = record.kind, record.fields
        if kind == "GROUPING":
            self.grouping, self.rule = fields, record.text(fields.rule_length)
        elif kind == "GROUP":
            if fields.group in self.groups:
                raise ValueError(f"group {fields.group} is there twice")
            self.groups[fields.group], self.names[fields.group] = fields, record.text(fields.name_length)
        elif kind == "GROUP_BUCKETS":
            self.buckets.setdefault((fields.group, fields.metric), {}).update(record.pairs())
        elif kind == "NEIGHBOUR":
            self.neighbours.setdefault(fields.group, []).append(fields)
        else:
            self.progress.setdefault(kind, {})[fields.group] = fields
