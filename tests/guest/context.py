#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Checks that each event is in the context of the task that it is about.

usage: context.py all TRACE
       context.py same TRACE PID EVENTS FILE...
       context.py shares NAPS PERCENT FILE...
       context.py stacks SYMBOLS FILE

TRACE is a trace of ftrace. `all` checks each of its lines: the PID in the record's common fields is
that of the task, 0 for an idle CPU; a culprit comes in the context of its outlier.

`same` checks that each FILE has the events of the thread PID in TRACE, of the kinds EVENTS (with
commas between), in the same order, and no others. The lines of a FILE are those of ftrace, or
"TID schedhist:EVENT: TEXT" as perf script -F tid,event,trace prints them.

`shares` checks that each FILE has the places where a helper sleeps or waits with the shares that NAPS,
its output, says, to within PERCENT of the whole, and almost nothing else. A FILE is the histogram of a hist
trigger, folded stacks, the output of offcputime, or that of bpftrace, with stacks of addresses.

`stacks` checks stacks of addresses, of the kernel and of user space, in a FILE of bpftrace. SYMBOLS has
the functions of the helper naps. If it is the victim's, both are of the same sleep; if it is not, the
user stack is of none.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from collections import Counter
from pathlib import Path
from typing import Iterator

FTRACE = re.compile(r".*-(?P<tid>\d+) +\[\d+\] \S+ +[\d.]+: (?P<event>[a-z]+): +(?P<text>.*)")
PERF = re.compile(r" *(?P<tid>-?\d+) +schedhist:(?P<event>[a-z]+): +(?P<text>.*)")
PID, ID = re.compile(r" pid=(\d+) prio="), re.compile(r"\bid=(\d+) ")
# In kernel stacks a sleep is known by a function of the system call.
SLEEPS = {
    "nap_futex": re.compile(r"\bfutex_|nap_futex"),
    "nap_pipe": re.compile(r"pipe_read|nap_pipe"),
    "nap_timer": re.compile(r"nanosleep|nap_timer"),
}
Event = tuple[int, str, str]


def events(path: str) -> Iterator[Event]:
    for line in Path(path).read_text(errors="replace").splitlines():
        match = FTRACE.fullmatch(line) or PERF.fullmatch(line)
        if match:
            yield int(match["tid"]), match["event"], match["text"]
        elif line.strip() and not line.startswith(("#", " => ", "CPU:")) and "<stack trace>" not in line:
            sys.exit(f"context: what is this? {line}")


def pid_of(text: str) -> int:
    match = PID.search(" " + text)
    if not match:
        sys.exit(f"context: whose is this? {text}")
    return int(match[1])


def check_all(path: str) -> list[str]:
    wrong, counts, victims = [], Counter(), {}
    for tid, event, text in events(path):
        if event == "idle":
            wanted = 0
        elif event == "culprit":
            wanted = victims.get(ID.search(text)[1], -1)  # type: ignore[index]
        else:
            wanted = pid_of(text)
        if event == "outlier":
            victims[ID.search(text)[1]] = tid  # type: ignore[index]
        counts[event] += 1
        if tid != wanted:
            wrong.append(f"in the context of {tid}: {event}: {text}")
    print("# in the right context:", ", ".join(f"{counts[event]} {event}" for event in sorted(counts)))
    if len(wrong) < 20 and (few := [event for event in ("oncpu", "runq", "offcpu", "blocked") if counts[event] < 50]):
        wrong.append(f"too few to tell: {few}")
    return wrong


def check_same(trace: str, pid: int, kinds: list[str], files: list[str]) -> list[str]:
    wanted = [it for it in events(trace) if it[1] in kinds and pid_of(it[2]) == pid]
    wrong = [] if len(wanted) >= 50 else [f"only {len(wanted)} events of {pid}"]
    for file in files:
        found = list(events(file))
        foreign = [it for it in found if it[0] != pid or pid_of(it[2]) != pid]
        print(f"# {Path(file).name}: {len(found)} events of {len(wanted)}, {len(foreign)} foreign")
        if found != wanted:
            wrong += [f"{file}: foreign: {it}" for it in foreign[:5]]
            wrong += [f"{file}: more: {it}" for it in (Counter(found) - Counter(wanted))][:5]
            wrong += [f"{file}: missing: {it}" for it in (Counter(wanted) - Counter(found))][:5]
            wrong.append(f"{file}: these are not the same {len(wanted)} events in the same order")
    return wrong


def weights(path: str) -> Iterator[tuple[str, int]]:
    """Yields stacks with their weights."""
    text = Path(path).read_text(errors="replace")
    if "# event histogram" in text:
        for entry in re.split(r"^\{", text, flags=re.MULTILINE)[1:]:
            if match := re.search(r"duration_ns: +(\d+)", entry):
                yield entry, int(match[1])
    elif stacks := re.findall(r"^@ns\[([0-9a-f\s]+)\]: (\d+)$", text, re.MULTILINE):
        functions = functions_of_kernel()
        for stack, weight in stacks:
            yield "\n".join(function_at(address, functions) for address in stack.split()), int(weight)
    elif "Tracing off-CPU time" in text:
        for entry in text.split("\n\n"):
            if match := re.search(r"^ +(\d+)\s*$", entry, re.MULTILINE):
                yield entry, int(match[1]) * 1000
    else:
        for line in text.splitlines():
            stack, weight = line.rsplit(" ", 1)
            yield stack, int(weight)


def functions_of_kernel() -> list[tuple[int, str]]:
    return functions_of("/proc/kallsyms")


def functions_of(path: str) -> list[tuple[int, str]]:
    with open(path, encoding="ascii") as symbols:
        return sorted((int(words[0], 16), words[2]) for words in map(str.split, symbols))


def function_at(address: str, functions: list[tuple[int, str]]) -> str:
    return functions[bisect_right(functions, (int(address, 16), "\x7f")) - 1][1]


def check_stacks(symbols: str, path: str) -> list[str]:
    kernel, user, wrong, counts = functions_of_kernel(), functions_of(symbols), [], Counter()
    text = Path(path).read_text(errors="replace")
    for is_victim, in_kernel, in_user, number in re.findall(
        r"^@stacks\[([01]),\s*([0-9a-f\s]*),\s*([0-9a-f\s]*)\]: (\d+)$", text, re.MULTILINE
    ):
        functions = "\n".join(function_at(address, kernel) for address in in_kernel.split())
        callers = [function_at(address, user) for address in in_user.split()]
        asleep = {name for name, pattern in SLEEPS.items() if pattern.search(functions)}
        here = set(SLEEPS) & set(callers)
        if is_victim == "0":
            kind, is_right = "of others", not here
        else:
            kind = "of the victim's sleeps" if asleep else "of the victim, elsewhere"
            is_right = len(here) <= 1 and asleep <= here
        counts[kind] += int(number)
        if not is_right:
            wrong.append(f"{path}: {number} {kind}: {functions.split()} and {callers}")
    print("# user stacks:", ", ".join(f"{counts[kind]} {kind}" for kind in sorted(counts)))
    if counts["of the victim's sleeps"] < 50 or counts["of others"] < 50:
        wrong.append(f"{path}: too few to tell")
    return wrong


def check_shares(naps: str, percent: float, path: str) -> list[str]:
    told = dict(line.split() for line in Path(naps).read_text().splitlines())
    slept = {name: int(time) for name, time in told.items()}
    patterns = {name: SLEEPS.get(name) or re.compile(rf"\b{name}\b") for name in slept}
    found: Counter[str] = Counter()
    for stack, weight in weights(path):
        names = [name for name, pattern in patterns.items() if pattern.search(stack)]
        found[names[0] if len(names) == 1 else "others"] += weight
    wrong, told_shares = [], []
    for name in (*slept, "others"):
        share = 100 * found[name] / max(sum(found.values()), 1)
        wanted = 100 * slept.get(name, 0) / sum(slept.values())
        told_shares.append(f"{name} {share:.2f} % of {wanted:.2f} %")
        if abs(share - wanted) > (percent if name in slept else 2):
            wrong.append(f"{path}: {name}: {share:.2f} %, not {wanted:.2f} %")
    print(f"# {Path(path).name}: {sum(found.values())} ns: {', '.join(told_shares)}")
    if sum(found.values()) < 10**9:
        wrong.append(f"{path}: {sum(found.values())} ns is too little to tell")
    return wrong


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["all"] and len(arguments) == 2:
        wrong = check_all(arguments[1])
    elif arguments[:1] == ["same"] and len(arguments) >= 5:
        wrong = check_same(arguments[1], int(arguments[2]), arguments[3].split(","), arguments[4:])
    elif arguments[:1] == ["stacks"] and len(arguments) == 3:
        wrong = check_stacks(arguments[1], arguments[2])
    elif arguments[:1] == ["shares"] and len(arguments) >= 4:
        percent = float(arguments[2])
        wrong = [it for file in arguments[3:] for it in check_shares(arguments[1], percent, file)]
    else:
        print((__doc__ or "").split("\n\n")[1], file=sys.stdout if "--help" in arguments else sys.stderr)
        return 0 if "--help" in arguments else 2
    print(*wrong[:20], sep="\n", end="\n" if wrong else "")
    return bool(wrong)


sys.exit(main(sys.argv[1:]))
