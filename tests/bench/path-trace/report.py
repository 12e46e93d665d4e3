#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Report what the probes' machine code does, from a trace of their calls: see tests/bench/path.

TRACE is the trace that trace.c has written, without the number of the vCPU; SAID is the guest's
output. Prints the report, writes its numbers to JSON, and to LISTING the code of the plain switch
with the number of runs of each instruction. Fails if a probe has written a line or called a
function that it must not, or if it takes another path while files are read.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Callable, Iterable

import calls
from calls import LINE, MODULES, READ, WRITTEN, Call
from machine import Kernel, Module, demangled, offset_of_pid, size_of_task

# A CPU's records: their size and their alignment, at defaults. See src/boundary/cpu_memory.rs.
RECORDS = 64 * 1024 // LINE


def is_next(at: int, to: int) -> bool:
    """Returns whether a branch is not taken: it is at most 6 bytes long, and execution goes on
    after it."""
    return 0 < to - at <= 6


def usual(those: list[Call]) -> list[Call]:
    """Returns the calls that take the most frequent path."""
    if not those:
        sys.exit("path: there was no plain switch")
    path, _ = Counter(call.path for call in those).most_common(1)[0]
    return [call for call in those if call.path == path]


class Report:
    def __init__(self, ko: str, trace: str, said: str) -> None:
        lines = Path(said).read_text().splitlines()
        self.module, self.kernel = Module(ko), Kernel(lines)
        self.status = dict(line.rsplit(" ", 1) for line in lines if " " in line)
        self.text = int(self.status["text"], 16)
        self.size = size_of_task(ko)
        pid = offset_of_pid(ko)
        self.calls = [call for file in sorted(Path(trace).parent.glob(Path(trace).name + ".[0-9]*"))
                      for call in calls.read(file, int(file.suffix[1:]), pid)]
        self.module.locate({self.place(at) for path in {call.path for call in self.calls}
                            for at in path if at >= MODULES})
        self.numbers: list[dict[str, str | float]] = []
        self.wrong: list[str] = []
        self.known: dict[tuple[tuple[int, ...], str], int] = {}
        self.records = self.find_records()
        self.states = self.find_states()

    def place(self, at: int) -> int:
        """Returns the module's own address of an instruction of it."""
        return self.module.address(at - self.text)

    # --- The kinds of memory --------------------------------------------------------------------

    def find_records(self) -> dict[int, int]:
        """Returns the first line of each CPU's records, the block that all its switches write."""
        found = {}
        for vcpu in {call.vcpu for call in self.calls}:
            common: set[int] | None = None
            for call in self.calls:
                if call.kind == "S" and call.vcpu == vcpu:
                    lines = {line for line, flags in call.module.items() if flags & WRITTEN}
                    common = lines if common is None else common & lines
            pieces = {line - line % RECORDS for line in common or set()}
            if len(pieces) != 1:
                sys.exit(f"path: all switches of CPU {vcpu} write {len(pieces)} pieces of memory")
            found[vcpu] = pieces.pop()
        return found

    def in_records(self, line: int) -> int | None:
        """Returns the CPU whose records a line is part of."""
        for vcpu, first in self.records.items():
            if first <= line < first + RECORDS:
                return vcpu
        return None

    def find_states(self) -> dict[int, set[int]]:
        """Returns the lines of tasks' states, with the tasks whose states they were."""
        states: dict[int, set[int]] = {}
        for call in self.calls:
            for line, task in call.named.items():
                if self.in_records(line) is None:
                    states.setdefault(line, set()).add(task)
        return states

    def what(self, call: Call, line: int) -> str:
        """Returns the kind of a line that the module's own code reads or writes."""
        if (vcpu := self.in_records(line)) is not None:
            return "records of the CPU" if vcpu == call.vcpu else "records of ANOTHER CPU"
        for task in call.tasks:
            if task // LINE <= line < (task + self.size) // LINE:
                return "task_struct"
        if line in self.states:
            return "state of the task"
        # The number of this CPU lies beside the preemption count, which the clock changes.
        if line in call.kernel:
            return "the kernel's clock and counters"
        return "what all CPUs share"

    # --- The counts -----------------------------------------------------------------------------

    def number(self, row: str, column: str, value: float, unit: str = "count") -> None:
        self.numbers.append({"part": "path", "row": row, "column": column, "value": round(value, 3),
                             "unit": unit})

    def table(self, rows: list[str], kinds: dict[str, list[Call]],
              count: Callable[[str, Call], float]) -> None:
        for row in rows:
            shown = ""
            for column, found in kinds.items():
                mean = sum(count(row, call) for call in found) / max(len(found), 1)
                shown += f"{mean:17.1f}"
                self.number(column, row.strip(), mean)
            print(f"{row:36}{shown}")

    def counted(self, row: str, call: Call) -> float:
        """Returns a count for a call; except for memory, it is the same for a path."""
        row = row.strip()
        if row in ("loads", "stores"):
            return getattr(call, row)
        key = call.path, row
        if key not in self.known:
            self.known[key] = self.count_path(row, call)
        return self.known[key]

    def count_path(self, row: str, call: Call) -> int:
        path, flows = call.path, call.flows
        flow = [chr(flow) if flow else "" for flow in flows]
        after = [*path[1:], 0]
        taken = [not is_next(at, to) for at, to in zip(path, after)]
        inside = [at >= MODULES for at in path]
        match row:
            case "instructions":
                return len(path)
            case "in schedhist.ko":
                return sum(inside)
            case "in the kernel's clock":
                return len(path) - sum(inside)
            case "conditional branches":
                return flow.count("b")
            case "taken":
                return sum(way == "b" and gone for way, gone in zip(flow, taken))
            case "of unsigned comparisons":
                return sum(way == "b" and mine and self.module.is_unsigned(self.place(at))
                           for way, mine, at in zip(flow, inside, path))
            case "calls within schedhist.ko":
                return sum(way == "c" and mine and to >= MODULES
                           for way, mine, to in zip(flow, inside, after))
            case "calls of the kernel":
                return sum(way == "c" and mine and to < MODULES
                           for way, mine, to in zip(flow, inside, after))
            case "lines of code":
                return len({at // LINE for at in path})
        raise KeyError(row)

    def lines(self, row: str, call: Call) -> float:
        row = row.strip()
        if row == "lines of data":
            return len(call.stack.keys() | call.module.keys() | call.kernel.keys())
        if row == "lines of data, written":
            return sum(flags & WRITTEN != 0 for lines in (call.stack, call.module, call.kernel)
                       for flags in lines.values())
        if row == "the stack":
            return len(call.stack)
        if row == "the kernel's clock and counters":
            return len(call.kernel)
        name, _, written = row.partition(", ")
        return sum(self.what(call, line) == name and (not written or flags & WRITTEN != 0)
                   for line, flags in call.module.items())

    # --- The report -----------------------------------------------------------------------------

    def pingpong(self, vcpu: int) -> tuple[list[Call], list[Call]]:
        """Returns the switches between the two tasks that switch to each other most on a CPU, and
        the wakeups of these."""
        pairs = Counter(frozenset(call.tasks) for call in self.calls if call.vcpu == vcpu
                        and call.kind == "S" and not call.prev_is_idle and not call.next_is_idle)
        if not pairs:
            sys.exit(f"path: no two tasks took turns on CPU {vcpu}")
        pair, _ = pairs.most_common(1)[0]
        mine = [call for call in self.calls if call.vcpu == vcpu and pair.issuperset(call.tasks)]
        return [call for call in mine if call.kind == "S"], [call for call in mine if call.kind == "W"]

    def per_call(self) -> None:
        # The CPUs on which tests/bench/path-trace/guest has pairs of tasks, without a reader and
        # with one.
        switches, wakeups = self.pingpong(1)
        blocks_read = [call for call in self.pingpong(2)[0] if not call.is_runnable]
        read = usual(blocks_read)
        blocks = [call for call in switches if not call.is_runnable]
        plain = usual(blocks)
        self.list_code(plain)
        # The number of other paths depends on what happens meanwhile: extremes, and a busy host.
        if read[0].path != plain[0].path:
            self.wrong.append("a switch does not go the same way while another CPU reads")
        if int(self.status["passes"]) < 3:
            self.wrong.append("nobody read meanwhile")
        mine = [call for call in self.calls if call.kind == "S"]
        kinds = {
            "plain switch": plain,
            "while being read": read,
            "its wakeup": wakeups,
            "task to idle": [call for call in mine if call.next_is_idle],
            "idle to task": [call for call in mine if call.prev_is_idle],
            "preempted": [call for call in mine if call.is_runnable and not call.prev_is_idle],
            "all switches": mine,
        }
        print(f"# what the probes do, for each call; {len(self.calls)} calls on {len(self.records)} CPUs")
        print("# plain switch: of two tasks that wake each other, from one that blocks to one that was woken;")
        print(f"# {len(plain)} of {len(blocks)} took the same way, which is the one shown")
        print("# while being read: the same, on a CPU of its own, while another one reads all files, "
              f"{self.status['passes']} times;\n# {len(read)} of {len(blocks_read)} took that way, too")
        print(f"\n{'':36}" + "".join(f"{kind:>17}" for kind in kinds))
        print(f"{'calls seen':36}" + "".join(f"{len(found):17}" for found in kinds.values()))
        self.table(["instructions", "  in schedhist.ko", "  in the kernel's clock",
                    "conditional branches", "  taken", "  of unsigned comparisons",
                    "calls within schedhist.ko", "calls of the kernel", "loads", "stores",
                    "lines of code"], kinds, self.counted)
        self.table(["lines of data", "lines of data, written", "  the stack", "  records of the CPU",
                    "  records of the CPU, written", "  state of the task",
                    "  state of the task, written", "  task_struct", "  task_struct, written",
                    "  what all CPUs share", "  what all CPUs share, written",
                    "  the kernel's clock and counters"], kinds, self.lines)
        both = len(plain[0].path) + len(usual(wakeups)[0].path)
        print(f"\nplain switch and its wakeup: {both} instructions")
        self.number("plain switch and its wakeup", "instructions", both)
        self.sources({"plain switch": plain, "its wakeup": wakeups})
        self.unsigned(plain, mine)
        self.called(mine + [call for call in self.calls if call.kind == "W"])

    def sources(self, kinds: dict[str, list[Call]]) -> None:
        print(f"\n{'instructions, by source':36}" + "".join(f"{kind:>17}" for kind in kinds))
        found: dict[str, dict[str, float]] = {}
        for kind, those in kinds.items():
            for path, times in Counter(call.path for call in those).items():
                for at in path:
                    source = (self.module.source(self.place(at)) if at >= MODULES
                              else f"kernel: {self.kernel.name(at)}")
                    mean = found.setdefault(source, dict.fromkeys(kinds, 0.0))
                    mean[kind] += times / len(those)
        for source, means in sorted(found.items(), key=lambda item: -sum(item[1].values())):
            print(f"{source:36}" + "".join(f"{mean:17.1f}" for mean in means.values()))
            for kind, mean in means.items():
                self.number(kind, f"instructions of {source}", mean)

    def unsigned(self, plain: list[Call], every: list[Call]) -> None:
        """Prints each branch that may be an index check: those of times look the same."""
        print("\nunsigned comparisons of the plain switch: of an index, of times, or of extremes")
        ran: Counter[int] = Counter()
        taken: Counter[int] = Counter()
        for path, times in Counter(call.path for call in every).items():
            for at, to in zip(path, path[1:]):
                ran[at] += times
                taken[at] += times * (not is_next(at, to))
        for at in sorted(set(plain[0].path)):
            if at >= MODULES and self.module.is_unsigned(self.place(at)):
                instruction = self.module.instructions[self.place(at)].text.split()[0]
                print(f"  {self.module.line(self.place(at)):34} {instruction:4}"
                      f"taken {taken[at]} times of {ran[at]}, in all switches")

    def called(self, those: Iterable[Call]) -> None:
        """Prints the functions called, over all calls. sites.py checks the possible ones, on any
        path."""
        found: Counter[str] = Counter()
        for path, flows, times in ((path, flows, times) for (path, flows), times in
                                   Counter((call.path, call.flows) for call in those).items()):
            for at, flow, to in zip(path, flows, path[1:]):
                if flow == ord("c") and at >= MODULES:
                    name = (demangled(self.module.functions[self.place(to)]) if to >= MODULES
                            else self.kernel.name(to))
                    found[name] += times
        print("\ncalled by the probes:")
        for name, times in found.most_common():
            print(f"  {times:8} {name}")
            if "panic" in name:
                self.wrong.append(f"{name} was called")

    def list_code(self, plain: list[Call]) -> None:
        ran = Counter(self.place(at) for call in plain for at in call.path if at >= MODULES)
        self.listing = [f"# the plain switch: runs of each instruction, of {len(plain)} calls"]
        last = ""
        for address in sorted(ran):
            if (source := self.module.source(address)) != last:
                self.listing.append(f"{source}:")
                last = source
            text = self.module.instructions[address].text.split(" <")[0]
            self.listing.append(f"{ran[address]:8} {address:6x}  {text}")

    # --- The writers of lines -------------------------------------------------------------------

    def sharing(self) -> None:
        """Prints the lines that more than one CPU has written, by their kind."""
        writers: dict[tuple[str, int], set[int]] = {}
        readers: dict[tuple[str, int], set[int]] = {}
        for call in self.calls:
            for where, lines in ("stack", call.stack), ("module", call.module), ("kernel", call.kernel):
                for line, flags in lines.items():
                    if flags & WRITTEN:
                        writers.setdefault((where, line), set()).add(call.vcpu)
                    if flags & READ:
                        readers.setdefault((where, line), set()).add(call.vcpu)
            self.check_writes(call)
        shared = [(where, line) for (where, line), who in writers.items() if len(who) > 1]
        states = [line for where, line in shared if where == "module" and line in self.states]
        others = [line for where, line in shared if where == "module" and line not in self.states]
        foreign = sum(self.in_records(line) not in (None, vcpu) for (where, line), who in
                      [*writers.items(), *readers.items()] if where == "module" for vcpu in who)
        rows = {
            "lines that the probes have written": len(writers),
            "  by more than one CPU": len(shared),
            "  of the state of a task, its own": len(states),
            "  of the stack of a task, its own": sum(where == "stack" for where, _ in shared),
            "  of the kernel's clock and counters": sum(where == "kernel" for where, _ in shared),
            "  any others": len(others),
            "uses of records by another CPU": foreign,
        }
        print(f"\nlines that {len(self.records)} CPUs write")
        for row, value in rows.items():
            print(f"{row:36}{value:17}")
            self.number("shared lines", row.strip(), value)
        if others:
            self.wrong.append(f"{len(others)} lines that are no task's own are written by several CPUs")
        if foreign:
            self.wrong.append("a CPU's records are used by the probe of another")

    def check_writes(self, call: Call) -> None:
        """A call writes only data of its CPU, and the states of its own tasks."""
        for line, flags in call.module.items():
            if not flags & WRITTEN or self.in_records(line) == call.vcpu:
                continue
            if not self.states.get(line, set()).intersection(call.tasks):
                self.wrong.append(f"{call.kind} on CPU {call.vcpu} writes the line {line * LINE:x}")

    def check_counts(self) -> None:
        """The trace has as many switches as the module counted."""
        for vcpu in self.records:
            seen = sum(call.kind == "S" and call.vcpu == vcpu for call in self.calls)
            if seen != int(self.status[f"cpu{vcpu} switches"]):
                self.wrong.append(f"CPU {vcpu}: {seen} switches were traced, not "
                                  + self.status[f"cpu{vcpu} switches"])


def main(ko: str, trace: str, said: str, output: str, listing: str) -> None:
    report = Report(ko, trace, said)
    report.per_call()
    report.sharing()
    report.check_counts()
    Path(output).write_text(json.dumps(report.numbers, indent=1) + "\n")
    Path(listing).write_text("\n".join(report.listing) + "\n")
    for text in sorted(set(report.wrong))[:20]:
        print(f"WRONG: {text}")
    sys.exit(bool(report.wrong))


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
for name, metavar in (("ko", "MODULE"), ("trace", "TRACE"), ("said", "SAID"), ("output", "JSON"),
                      ("listing", "LISTING")):
    parser.add_argument(name, metavar=metavar)
main(**vars(parser.parse_args()))
