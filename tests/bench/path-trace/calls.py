# SPDX-License-Identifier: GPL-2.0
"""Reads the calls of the probes that trace.c has recorded."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Iterator

RECORD = struct.Struct("<QQII")
REGISTERS = "rdi", "rsi", "rdx", "rcx", "r8", "rsp"
LINE = 64
# More stack than the probes and their callees use.
STACK = 8192
# The end of the kernel's own code, and the beginning of the modules'.
MODULES = 0xffffffffc0000000

READ, WRITTEN = 1, 2


@dataclass
class Call:
    """A call of a probe, from its first instruction to its return."""

    kind: str
    vcpu: int
    registers: dict[str, int] = field(default_factory=dict)
    # The address of each instruction, and how it branches: see flow_of() in trace.c.
    path: tuple[int, ...] = ()
    flows: tuple[int, ...] = ()
    loads: int = 0
    stores: int = 0
    # READ and WRITTEN, by line: on the stack, by the module, and by the kernel on its behalf.
    stack: dict[int, int] = field(default_factory=dict)
    module: dict[int, int] = field(default_factory=dict)
    kernel: dict[int, int] = field(default_factory=dict)
    # The lines in which the module read or wrote the address of a task, with that task.
    named: dict[int, int] = field(default_factory=dict)
    prev_is_idle: bool = False
    next_is_idle: bool = False

    @property
    def prev(self) -> int:
        return self.registers["rdx"] if self.kind == "S" else 0

    @property
    def next(self) -> int:
        return self.registers["rcx"] if self.kind == "S" else 0

    @property
    def woken(self) -> int:
        return self.registers["rsi"] if self.kind == "W" else 0

    @property
    def tasks(self) -> tuple[int, ...]:
        return (self.prev, self.next) if self.kind == "S" else (self.woken,)

    @property
    def is_runnable(self) -> bool:
        """Returns whether the task that leaves the CPU stays runnable."""
        return bool(self.registers["rsi"] & 0xff) or not self.registers["r8"] & 0xffffffff


def read(file: Path, vcpu: int, pid: int) -> Iterator[Call]:
    """Yields all completed calls on a vCPU. `pid` is the offset of the PID in task_struct."""
    call, path, flows, at = None, [], [], 0
    for address, value, size, number in RECORD.iter_unpack(file.read_bytes()):
        kind = chr(number)
        if kind == "I":
            path.append(address)
            flows.append(value)
            at = address
        elif kind in "rw":
            flag = READ if kind == "r" else WRITTEN
            if kind == "r":
                call.loads += 1
            else:
                call.stores += 1
            line = address // LINE
            if -STACK <= address - stack < LINE:
                lines = call.stack
            elif at < MODULES:
                lines = call.kernel
            else:
                lines = call.module
                if size == 8 and value in tasks:
                    call.named[line] = value
                elif size == 4 and value == 0 and call.kind == "S":
                    call.prev_is_idle |= address == call.prev + pid
                    call.next_is_idle |= address == call.next + pid
            lines[line] = lines.get(line, 0) | flag
        elif kind in "SW":
            call, path, flows = Call(kind, vcpu), [], []
        elif "a" <= kind <= "f":
            call.registers[REGISTERS[number - ord("a")]] = value
            if kind == "f":
                stack, tasks = value, call.tasks
        else:
            call.path, call.flows = tuple(path), tuple(flows)
            yield call
