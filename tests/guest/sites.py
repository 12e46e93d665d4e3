#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Checks the cost of the events while nobody listens, in the disassembly of the module.

usage: sites.py MODULE [EVENT...]

The events are by default those of tests/harness/names.py.

- Each place where an event can be switched on is a single nop, which the kernel patches into a
  jump.
- Each event has such a place.
- A context switch, while nothing is in use, passes exactly one of them, for all events and the
  outliers, and calls no function of either.
- Neither a switch nor a wakeup then takes a lock, uses an instruction that is atomic across CPUs on
  shared data, or calls any function of the kernel but its clock.
- No probe, and no function that the kernel's macros generate for our events, can reach a panic, a
  BUG() or a WARN() in the module's code, in use or not; the kernel functions that they call are a
  known list.
"""

import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Collection, Iterable

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from harness.names import EVENTS  # noqa: E402

# An entry of the jump table, as in arch/x86/include/asm/jump_label.h: two offsets of 4 bytes, to
# the code and to the target of the jump, and one of 8 to the key, whose two lowest bits are flags.
ENTRY, CODE, TARGET, KEY, FLAGS = 16, 0, 4, 8, 3
# A key of the kernel in its inline functions that copy to users, which the helpers of the crates call.
OF_HELPERS = {"validate_usercopy_range"}
KEY_OF_TRACEPOINT = 8
NOPS = {2: "66 90", 5: "0f 1f 44 00 00"}
SYSTEM = "schedhist_trace_any"
SWITCH, TRACED = re.compile(r"16SchedSwitchProbe(?!.*11SlowVariant).*5probe"), re.compile(r"12traced_probe")
WAKING, NEWTASK = re.compile(r"16SchedWakingProbe(?!.*7Chained).*5probe"), re.compile(r"16TaskNewtaskProbe.*5probe")
# Registered only for chains and for requests to reschedule. One observes switches of any settings as the one that
# is traced.
CHAINED = re.compile(r"(11SlowVariant|16SchedWakingProbe.*7Chained|19SchedWakeupNewProbe|17Softirq\w+Probe|2[23]Hrtimer\w+Probe"
                     r"|24SchedSetNeedReschedProbe|14SchedStayProbe).*5probe")
# Registered only while somebody listens: it delivers what the switch left. 6.12 has no such
# tracepoint.
EXIT, STABLE = re.compile(r"14SchedExitProbe.*5probe"), "vermagic=6.12."
# Functions that observe a switch, and those that emit events. The compiler merges equal closures, under the name of
# any: this one compares stamps.
OUTSIDE = re.compile(r"^(?!.*11end_absence.*9call_once).*(SampleTracer|traced|record_any|outlier|events|trace|tp_func)")
# Kernel functions called while nothing is in use: the clock, and calls that the compiler inserts.
OF_KERNEL = {"local_clock", "__fentry__", "__x86_return_thunk"}
DECIDES = re.compile(r"6Groups(?:6decide|4fork)")
# For groups: the first sample of a group on a CPU requests its histograms.
OF_GROUPS = {"irq_work_queue"}
# `Variant` has three constants, with groups, with long waits and with chains. Two refer back to the first if all
# are false.
PLAIN = re.compile(r"7Variant.*Kb0_(KB\w{1,3}_)\1E")
# For chains: tells a thread for softirqs by its name.
OF_CHAINS = {"strncmp"}
# For long waits: goes through the CPUs that the task may use.
OF_WAITS = {
    "housekeeping_cpumask",
    "rust_helper_cpumask_test_cpu",
    # Of a CPU's number, by which the kernel's macros index an array.
    "__ubsan_handle_out_of_bounds",
}
# Kernel functions that a probe may also call while in use, on rare paths and for the events.
IN_USE = {
    "rust_helper_atomic_read",
    "rust_helper_atomic_read_acquire",
    "rust_helper_atomic_try_cmpxchg_relaxed",
    # For a new task: allocates its state, by a helper of the kernel or of the module.
    "rust_helper_krealloc_node_align",
    "krealloc_node_align_noprof",
    # For an outlier: wakes its readers, names its culprit, and does what `on_outlier` asks for.
    "irq_work_queue",
    "queue_delayed_work_on",
    "__msecs_to_jiffies",
    "tracing_off",
    "tracing_snapshot",
}
# The same on 6.12: an event that is emitted switches preemption off and on again, though it is off
# already in a probe; and what allocates for Rust is in the module.
IN_USE_ON_STABLE = {"__SCT__preempt_schedule_notrace", "__kmalloc_node_noprof", "krealloc_noprof"}
# Functions that TRACE_EVENT generates for ftrace, perf and BPF, and their callees. They have an
# array on the stack, and so the kernel's stack protector.
MADE = re.compile(r"(trace_event_raw_event|perf_trace|__bpf_trace)_")
BY_MADE = {
    "__SCT__preempt_schedule_notrace",
    "__stack_chk_fail",
    "__trace_trigger_soft_disabled",
    "perf_trace_buf_alloc",
    "perf_trace_run_bpf_submit",
    "trace_event_buffer_commit",
    "trace_event_buffer_reserve",
    *(f"bpf_trace_run{arguments}" for arguments in range(1, 13)),
}
# Prefixes that do not change a jump; the compiler puts one before a thunk, for its length.
PREFIXES = re.compile(r"(?:(?:cs|ds|bnd|notrack) )+(?=call|j)")
LOCKED, STOPS = re.compile(r"lock |xchg .*\("), re.compile(r"ud2|int3")
INDIRECT = re.compile(r"(call|jmp) +\*")
# Interrupts off and on again, for an outlier that is reported after the switch. Where there is no
# Xen, the kernel replaces these calls by the instructions themselves when it loads the module.
OF_XEN = re.compile(r"pv_ops\+0x[0-9a-f]+")


# What is rarely called may be in a section of its own. Its addresses are shown as far away from
# the others.
SECTIONS = {".text": 0, ".text.unlikely.": 1 << 30}


def tool(*command: str) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def die(text: str) -> None:
    sys.exit(f"sites: {text}")


@dataclass(frozen=True)
class Site:
    """A place in the code where a jump can be patched in, according to its key."""

    address: int
    target: int
    key: str


@dataclass
class Instruction:
    address: int
    bytes: str
    text: str
    # The target, or the symbol that the linker is to insert.
    symbol: str = ""


Function = dict[int, Instruction]
Functions = dict[str, Function]


def sites(module: str) -> list[Site]:
    entries: dict[int, dict[int, tuple[str, int]]] = {}
    table = False
    for line in tool("readelf", "--relocs", "--wide", module).splitlines():
        if line.startswith("Relocation section"):
            table = "'.rela__jump_table'" in line
        elif table and (match := re.match(r"([0-9a-f]+) .* ([^ ]+) ([+-]) ([0-9a-f]+)$", line)):
            offset, addend = int(match[1], 16), int(match[3] + match[4], 16)
            entries.setdefault(offset // ENTRY, {})[offset % ENTRY] = match[2], addend
    found = []
    for entry in entries.values():
        (code, address), (other, target), (key, offset) = entry[CODE], entry[TARGET], entry[KEY]
        if not {code, other} <= SECTIONS.keys():
            die(f"a site in {code}, to {other}")
        if key in OF_HELPERS:
            continue
        wanted = KEY_OF_TRACEPOINT if key.startswith("__tracepoint_") else 0
        if offset & ~FLAGS != wanted or offset & 1:
            die(f"the key at {address:x} is {key} + {offset}, or is on by default")
        found.append(Site(SECTIONS[code] + address, SECTIONS[other] + target, key))
    return found


def disassembly(module: str) -> Functions:
    """Returns all functions, by name and address."""
    functions: Functions = {}
    last = None
    sections = tool("readelf", "--sections", "--wide", module)
    text = "".join(tool("objdump", "--disassemble", "--reloc", "--insn-width=16", f"--section={section}",
                        f"--adjust-vma={start}", module)
                   for section, start in SECTIONS.items() if f" {section} " in sections)
    for line in text.splitlines():
        if match := re.fullmatch(r"[0-9a-f]+ <(.+)>:", line):
            function = functions.setdefault(match[1], {})
        elif match := re.fullmatch(r" *([0-9a-f]+):\t((?:[0-9a-f]{2} )+) *\t(.*)", line):
            last = Instruction(int(match[1], 16), match[2].strip(), PREFIXES.sub("", match[3].strip()))
            function[last.address] = last
        elif last and (match := re.search(r"R_X86_64_[A-Z0-9]+\t([^-]+)", line)):
            last.symbol = match[1]
    # Targets in the same section may be given as offsets, or be linked already.
    starts = {min(function): name for name, function in functions.items() if function}
    for name, function in functions.items():
        for at in function.values():
            if not at.text.startswith(("j", "call")):
                continue
            if match := re.fullmatch(r"(\.text(?:\.unlikely\.)?)\+(0x[0-9a-f]+)", at.symbol):
                at.symbol = starts.get(SECTIONS[match[1]] + int(match[2], 16) + 4, at.symbol)
            elif not at.symbol and (match := re.match(r"[a-z]+ +([0-9a-f]+) <", at.text)):
                other = starts.get(int(match[1], 16), name)
                at.symbol = "" if other == name else other
    return functions


def reached(function: Function) -> list[Instruction]:
    """Returns the instructions that a function can reach while no nop is patched."""
    seen: dict[int, Instruction] = {}
    todo = [min(function)]
    while todo:
        address = todo.pop()
        if address in seen:
            continue
        at = function.get(address)
        if not at:
            # A jump out of the function ends it.
            continue
        seen[address] = at
        operation, *operands = at.text.split()
        after = address + len(at.bytes.split())
        if operation.startswith("j"):
            if operands[0].startswith("*"):
                die(f"a jump to who knows where: {at.text}")
            # A target that is not linked yet is outside the function.
            if not at.symbol:
                todo.append(int(operands[0], 16))
            if operation != "jmp":
                todo.append(after)
        elif not operation.startswith(("ret", "ud2")):
            todo.append(after)
    return list(seen.values())


def called(instructions: Iterable[Instruction]) -> set[str]:
    return {at.symbol or at.text for at in instructions if at.text.startswith("call")}


def main(module: str, events: list[str] = EVENTS) -> None:
    found = sites(module)
    functions = disassembly(module)
    by_address = {at.address: at for function in functions.values() for at in function.values()}
    for site in found:
        at = by_address.get(site.address)
        if not at or at.bytes not in NOPS.values():
            die(f"at {site.address:x}, of {site.key}: {at.bytes + ' ' + at.text if at else 'no instruction'}")
        if site.target not in by_address:
            die(f"the jump at {site.address:x} leads nowhere")
    keys = Counter(site.key for site in found)
    if missing := {f"__tracepoint_{event}" for event in events} - keys.keys():
        die(f"no site of {missing}")
    if others := keys.keys() - {f"__tracepoint_{event}" for event in events} - {SYSTEM}:
        die(f"sites of {others}")
    print(f"# {len(found)} sites: {dict(sorted(keys.items()))}")
    switch, waking, newtask, traced = (named(pattern, functions) for pattern in (SWITCH, WAKING, NEWTASK, TRACED))
    is_stable = STABLE in tool("readelf", "--string-dump=.modinfo", module)
    leaving, in_use = ({}, IN_USE | IN_USE_ON_STABLE) if is_stable else (named(EXIT, functions), IN_USE)
    for probe in switch.values():
        check(probe, found, traced.keys())
    quiet = run_by([*switch.values(), *waking.values()], functions, reached)
    plain = [probe for name, probe in switch.items() if PLAIN.search(name)]
    chained = named(CHAINED, functions)
    quiet += run_by([probe for name, probe in chained.items() if "Waking" in name], functions, reached)
    without = run_by([*plain, *waking.values()], functions, reached)
    if wrong := symbols(without) - functions.keys() - OF_KERNEL:
        die(f"a probe calls {wrong} of the kernel")
    if locked := [at.text for at in quiet if LOCKED.match(at.text)]:
        die(f"a probe runs {locked}")
    probes = switch | waking | newtask | traced | leaving | chained
    # What decides a task's group is not followed: it runs in process context, and allocates.
    followed = {name: each for name, each in functions.items() if not DECIDES.search(name)}
    at_all = run_by(list(probes.values()), followed, dict.values)
    emits = {f"__SCT__tp_func_{event}" for event in events}
    never_stops("a probe", at_all, functions.keys() | OF_KERNEL | OF_WAITS | OF_CHAINS | in_use | emits)
    if wrong := symbols(quiet) - functions.keys() - OF_KERNEL - OF_GROUPS - OF_WAITS - OF_CHAINS:
        die(f"a probe with groups, long waits or chains calls {wrong} of the kernel")
    made = run_by(list(named(MADE, functions).values()), functions, dict.values)
    never_stops("an event", made, functions.keys() | OF_KERNEL | BY_MADE)
    print(f"# {len(switch | waking)} probes call, by whatever way: {', '.join(sorted(symbols(quiet)))}")
    print(f"# {len(probes)} functions never come to a panic, nor do the {len(symbols(at_all))} that they call")


def never_stops(who: str, instructions: list[Instruction], known: set[str]) -> None:
    """Asserts that the instructions call only known functions, and reach no trap."""
    instructions = [at for at in instructions if not OF_XEN.fullmatch(at.symbol)]
    if wrong := symbols(instructions) - known:
        die(f"{who} may come to {wrong}")
    if indirect := [at.text for at in instructions if INDIRECT.match(at.text)]:
        die(f"{who} calls who knows what: {indirect}")
    if stops := [hex(at.address) for at in instructions if STOPS.match(at.text)]:
        die(f"{who} may stop at {stops}")


def named(pattern: re.Pattern[str], functions: Functions) -> Functions:
    found = {
        name: function
        for name, function in functions.items()
        if pattern.search(name) and not name.startswith("__pfx")
    }
    if not found:
        die(f"no function has {pattern.pattern} in its name")
    return found


def symbols(instructions: Iterable[Instruction]) -> set[str]:
    """Returns the functions that are called or jumped to."""
    return {at.symbol for at in instructions if at.text.startswith(("call", "j")) and at.symbol}


def run_by(
    todo: list[Function], functions: Functions, ways: Callable[[Function], Iterable[Instruction]]
) -> list[Instruction]:
    """Returns the instructions of some functions and of all module functions that they reach.
    `ways` returns those of one function."""
    seen: set[str] = set()
    instructions: list[Instruction] = []
    while todo:
        those = list(ways(todo.pop()))
        instructions += those
        names = symbols(those) - seen
        seen |= names
        todo += [functions[name] for name in names if name in functions]
    return instructions


def check(probe: Function, found: list[Site], traced: Collection[str]) -> None:
    """Asserts that a probe passes only the site of the system, and calls no observer or event."""
    plain = reached(probe)
    addresses = {at.address for at in plain}
    passed = sorted(site.key for site in found if site.address in addresses)
    if passed != [SYSTEM]:
        die(f"a switch passes the sites of {passed}")
    calls = called(plain)
    if wrong := set(filter(OUTSIDE.search, calls)):
        die(f"a switch calls {wrong}")
    others = {at.symbol for at in probe.values() if at.address not in addresses}
    if others.isdisjoint(traced):
        die(f"no site leads to what is traced: {others}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:] or EVENTS)
