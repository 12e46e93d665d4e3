# SPDX-License-Identifier: GPL-2.0
"""In whose context events are: whatever a listener takes from the context is of the task that the event is
about. With a victim that sleeps in known ways, a hog and a storm."""

import contextlib
import os
import platform
import re
import shutil
import subprocess
import time
import xml.dom.minidom
from bisect import bisect_right
from collections import Counter
from pathlib import Path
from typing import Iterator

from harness import cgroup
from harness.groups import of_group
from harness.kernel import has_symbol
from harness.listeners import BTF, NO_SYMBOLS, Bpftrace, Held, Listener, scratch, script, shown
from harness.outliers import check_all_counted, report_all
from harness.test import (CPU1, DEBUG, EVENTS, RELEASE, TRACEFS, Wrong, allow, append_file, assert_gone, busy,
                          check_laws, count, defer, eq, helper, histogram, load, load_all, load_helper, measure,
                          messages, needs, note, parameter, remove, reset, run, skip, start, switches_of, unload,
                          wait_until, within, write, write_file)
from harness.trace import Instance, enable, hits, outliers_of

# The events of the task that gets the CPU.
INCOMING = ["runq", "offcpu", "blocked", "wakeup"]

# --- the victim and the others ---


class Victim:
    """A helper that naps or waits until `end`."""

    def __init__(self, name: str, *arguments: str) -> None:
        self.program, self.out = helper(name), scratch() / name
        with open(self.out, "w", encoding="ascii") as out:
            self.process = start(self.program, *arguments, stdin=subprocess.PIPE, stdout=out)
        self.pid = self.process.pid
        if name == "naps":
            # So that its child is not born in the cgroup that the victim will be moved to.
            children = Path(f"/proc/{self.pid}/task/{self.pid}/children")
            wait_until("the victim's child", lambda: children.read_text())

    def tell(self, byte: bytes) -> None:
        assert self.process.stdin
        self.process.stdin.write(byte)
        self.process.stdin.flush()

    def begin(self) -> None:
        self.tell(b"\n")

    def switches(self) -> int:
        return switches_of(self.pid)[0]

    def halt(self) -> dict[str, int]:
        """Returns how long it slept or waited at each place. It stays, asleep."""
        self.tell(b"s")
        wait_until("what the victim says", self.out.read_text)
        return {name: int(ns) for name, ns in map(str.split, self.out.read_text().splitlines())}

    def end(self) -> dict[str, int]:
        """The same, and it is gone."""
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()
        return {name: int(ns) for name, ns in map(str.split, self.out.read_text().splitlines())}


@contextlib.contextmanager
def others() -> Iterator[None]:
    """A hog on each CPU, and a storm of messages."""
    flag = scratch() / "others"
    work = """for cpu in 0 1; do taskset --cpu-list "$cpu" bash -c "while :; do :; done" & done
        hackbench --groups 1 --loops 2
        : > "$0"
        while :; do sleep 0.3; hackbench --groups 1 --loops 2; done"""
    with busy("bash", "-c", work, str(flag)):
        wait_until("the storm", flag.exists)
        yield


def window(victim: Victim) -> None:
    """Measures while the victim sleeps sixty times, for two seconds in all."""
    slept = victim.switches() + 60
    measure(1)
    wait_until("the victim's sleeps", lambda: victim.switches() >= slept)
    measure(0)


# --- whose an event is ---

FTRACE = re.compile(r".*-(?P<tid>\d+) +\[\d+\] \S+ +[\d.]+: (?P<event>[a-z_]+): +(?P<text>.*)")
PERF = re.compile(r" *(?P<tid>-?\d+) +schedhist:(?P<event>[a-z_]+): +(?P<text>.*)")
PID, ID = re.compile(r" pid=(\d+) (?:prio|cpu)="), re.compile(r"\bid=(\d+) ")
# In kernel stacks a sleep is known by a function of the system call.
SLEEPS = {
    "nap_futex": re.compile(r"\bfutex_|nap_futex"),
    "nap_pipe": re.compile(r"pipe_read|nap_pipe"),
    "nap_timer": re.compile(r"nanosleep|nap_timer"),
}


def events(lines: list[str]) -> Iterator[tuple[int, str, str]]:
    """Yields the thread in whose context an event is, its name and its text, from the lines of ftrace or of
    perf script -F tid,event,trace."""
    for line in lines:
        match = FTRACE.fullmatch(line) or PERF.fullmatch(line)
        if match:
            yield int(match["tid"]), match["event"], match["text"]
        elif line.strip() and not line.startswith(("#", " => ", "CPU:")) and "<stack trace>" not in line:
            raise Wrong(f"what is this? {line}")


def pid_of(text: str) -> int:
    match = PID.search(" " + text)
    if not match:
        raise Wrong(f"whose is this? {text}")
    return int(match[1])


def check_all(lines: list[str]) -> None:
    """Asserts that the PID in each record's common fields is that of the task, 0 for an idle CPU; a culprit
    or a hop comes in the context of its outlier."""
    wrong, counts, victims = [], Counter(), {}
    for tid, event, text in events(lines):
        if event == "idle":
            wanted = 0
        elif event in ("culprit", "hop"):
            wanted = victims.get(ID.search(text)[1], -1)  # type: ignore[index]
        else:
            wanted = pid_of(text)
        if event == "outlier":
            victims[ID.search(text)[1]] = tid  # type: ignore[index]
        counts[event] += 1
        if tid != wanted:
            wrong.append(f"in the context of {tid}: {event}: {text}")
    note("in the right context: " + ", ".join(f"{counts[event]} {event}" for event in sorted(counts)))
    eq("events in the wrong context", wrong[:20], [])
    for event in ("oncpu", "runq", "offcpu", "blocked"):
        within(f"events {event}", 50, counts[event])


def check_same(lines: list[str], pid: int, kinds: list[str], found: dict[str, list[str]]) -> None:
    """Asserts that each listener has the events of the thread in the trace, of these kinds, in the same order,
    and no others."""
    wanted = [it for it in events(lines) if it[1] in kinds and pid_of(it[2]) == pid]
    within(f"events of {pid}", 50, len(wanted))
    for name, of in found.items():
        seen = list(events(of))
        foreign = [it for it in seen if it[0] != pid or pid_of(it[2]) != pid]
        note(f"{name}: {len(seen)} events of {len(wanted)}, {len(foreign)} foreign")
        if seen != wanted:
            more, missing = Counter(seen) - Counter(wanted), Counter(wanted) - Counter(seen)
            raise Wrong(f"{name}: not the same {len(wanted)} events in the same order: foreign: {foreign[:5]}, "
                        f"more: {list(more)[:5]}, missing: {list(missing)[:5]}")


def weights(text: str) -> Iterator[tuple[str, int]]:
    """Yields stacks with their weights, of the histogram of a hist trigger, of bpftrace with stacks of
    addresses, of offcputime, or folded ones."""
    if "# event histogram" in text:
        for entry in re.split(r"^\{", text, flags=re.MULTILINE)[1:]:
            if match := re.search(r"duration_ns: +(\d+)", entry):
                yield entry, int(match[1])
    elif stacks := re.findall(r"^@ns\[([0-9a-f\s]+)\]: (\d+)$", text, re.MULTILINE):
        functions = functions_of(Path("/proc/kallsyms").read_text())
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


def functions_of(symbols: str) -> list[tuple[int, str]]:
    return sorted((int(words[0], 16), words[2]) for words in map(str.split, symbols.splitlines()))


def function_at(address: str, functions: list[tuple[int, str]]) -> str:
    return functions[bisect_right(functions, (int(address, 16), "\x7f")) - 1][1]


def check_stacks(symbols: str, text: str) -> None:
    """Asserts that stacks of addresses by bpftrace, of the kernel and of user space, are of the same sleep if
    they are the victim's, which has these symbols; if not, that the user stack is of none."""
    kernel, user, wrong, counts = functions_of(Path("/proc/kallsyms").read_text()), functions_of(symbols), [], Counter()
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
            wrong.append(f"{number} {kind}: {functions.split()} and {callers}")
    note("user stacks: " + ", ".join(f"{counts[kind]} {kind}" for kind in sorted(counts)))
    eq("user stacks", wrong[:20], [])
    for kind in ("of the victim's sleeps", "of others"):
        within(f"user stacks {kind}", 50, counts[kind])


def check_shares(slept: dict[str, int], percent: float, what: str, text: str) -> None:
    """Asserts that the stacks have each place where a helper slept or waited, with these shares, to within
    `percent` of the whole, and almost nothing else."""
    patterns = {name: SLEEPS.get(name) or re.compile(rf"\b{name}\b") for name in slept}
    found: Counter[str] = Counter()
    for stack, weight in weights(text):
        names = [name for name, pattern in patterns.items() if pattern.search(stack)]
        found[names[0] if len(names) == 1 else "others"] += weight
    shares = {name: 100 * found[name] / max(sum(found.values()), 1) for name in (*slept, "others")}
    wanted = {name: 100 * slept.get(name, 0) / sum(slept.values()) for name in shares}
    told = [f"{name} {share:.2f} % of {wanted[name]:.2f} %" for name, share in shares.items()]
    note(f"{what}: {sum(found.values())} ns of {sum(slept.values())}: {', '.join(told)}")
    for name, share in shares.items():
        near = percent if name in slept else 2
        low = max(wanted[name] - near, 0.1) if name in slept else 0
        within(f"{what}: per cent of {name}", low, share, wanted[name] + near)
    within(f"{what}, in ns", 10**9, sum(found.values()), 1 << 62)


# --- ftrace ---


def hist_of(instance: Instance, event: str) -> str:
    return (instance.path / "events/schedhist" / event / "hist").read_text(errors="replace")


def trigger(instance: Instance, event: str, text: str) -> None:
    write_file(instance.path / "events/schedhist" / event / "trigger", text)


def wrong_task(text: str) -> list[tuple[str, str]]:
    """Returns the entries of a trigger's histogram in which the keys common_pid and pid differ."""
    found = re.findall(r"^\{ common_pid: +(\d+), pid: +(\d+)", text, re.MULTILINE)
    within("entries of the trigger's histogram", 1, len(found))
    return [pair for pair in found if pair[0] != pair[1]]


def outliers_have_stacks(lines: list[str], pid: int) -> None:
    """Each outlier of the victim has the stack where it slept: of the functions of its three sleeps that has
    those of one. Events of other CPUs may come between an outlier and its stack; only the victim's outliers
    trigger stacks."""
    number, stacks = 0, []
    for line in lines:
        if ": outlier: " in line:
            number += f" pid={pid} " in line
        elif "<stack trace>" in line:
            stacks.append(set())
        elif line.startswith(" => ") and stacks:
            stacks[-1] |= {kind for kind in ("futex_", "pipe_read", "nanosleep") if kind in line}
    known = [stack for stack in stacks if len(stack) == 1]
    note(f"{number} outliers of the victim, {len(known)} with the stack of a sleep")
    within("outliers of the victim", 20, number)
    eq("those with the stack of one sleep", len(known), number)
    eq("sleeps with outliers", set().union(*known), {"futex_", "pipe_read", "nanosleep"})


def test_context_ftrace():
    """The records themselves, set_event_pid, the stacks of hist triggers and of outliers."""
    needs("hist")
    load_all()
    measure(0)
    victim = Victim("naps")
    with others():
        outliers_of("offcpu")
        write("threshold_ns/offcpu", 10_000_000)
        instance = Instance(*EVENTS)
        trigger(instance, "offcpu", f"hist:keys=common_stacktrace:vals=duration_ns if pid == {victim.pid}")
        trigger(instance, "runq", "hist:keys=common_pid,pid:size=4096")
        trigger(instance, "outlier", f"stacktrace if pid == {victim.pid}")
        of_pid = Instance(name="schedhist_pids")
        write_file(of_pid.path / "set_event_pid", str(victim.pid))
        for event in INCOMING:
            enable(event, tracing=of_pid.path)
        window(victim)
        instance.nothing_lost()
        lines, of_victim = instance.lines(), of_pid.lines()
        sleeps, waits = hist_of(instance, "offcpu"), hist_of(instance, "runq")
    slept = victim.end()
    plain = [line for line in lines if not line.startswith(" => ")]
    check_all(plain)
    check_same(plain, victim.pid, INCOMING, {"set_event_pid": of_victim})
    eq("events counted for the wrong task", wrong_task(waits), [])
    eq("events counted by a trigger", hits(waits), [sum(": runq: " in line for line in lines)])
    if platform.machine() == "aarch64" and not has_symbol("__tracepoint_sched_exit_tp"):
        within("stacks that end in the interrupt", 1, sleeps.count("el1_interrupt+"))
    else:
        # With hogs in it, the window is not like the victim's whole life.
        check_shares(slept, 100, "the trigger", sleeps)
    outliers_have_stacks(lines, victim.pid)


def test_context_toggled():
    """Listeners come and go under load, forks and hotplug, and with them the probe that runs after each switch.
    Whether an outlier is reported at the switch or after it, each is reported, and once; and a listener that
    was there all the time has seen each sample."""
    needs("clock")
    storm = helper("storm")
    load_all()
    measure(0)
    reset()
    write("outlier_rate", "none")
    report_all()
    instance = Instance()

    def plug(on: int) -> None:
        if CPU1.exists():
            write_file(CPU1, str(on))

    with busy("bash", "-c", f"while :; do hackbench --groups 1 --loops 1; {storm} 60; done"):
        measure(1)
        for number in range(1, 16):
            enable("runq", tracing=instance.path)
            if number == 5:
                plug(0)
            enable("outlier", tracing=instance.path)
            write_file(instance.path / "events/schedhist/enable", "0")
            if number == 8:
                plug(1)
            if number == 11:
                measure(0)
                measure(1)
        measure(0)
    reported, _ = check_all_counted()
    within("outliers", 1000, reported, 10_000_000)
    check_laws()
    unload()
    assert_gone()


def test_context_late():
    """Without sched_exit_tp an interrupt calls the probe after a switch. It may come late, after more switches:
    each sample has one event all the same, in the right context, and each outlier is reported once."""
    load_all()
    load_helper("late")
    measure(0)
    reset()
    write("outlier_rate", "none")
    write("threshold_ns/offcpu", 1)
    instance = Instance(*EVENTS)
    with others():
        measure(1)
        time.sleep(4)
        wait_until("late calls", lambda: int(parameter("late", "calls")) >= 100)
        # The last samples are to be delivered before their tasks leave.
        late = int(parameter("late", "calls"))
        remove("late")
        measure(0)
        instance.nothing_lost()
        lines = [line for line in instance.lines() if not line.startswith(" => ")]
    check_all(lines)
    found = Counter(event for _, event, _ in events(lines))
    wanted = {event: count(event) for event in ("oncpu", "runq", "offcpu", "wakeup", "idle")}
    wanted["blocked"] = count("blocked_interruptible") + count("blocked_uninterruptible")
    eq("events", {event: found[event] for event in wanted}, wanted)
    reported, _ = check_all_counted(["offcpu"])
    eq("events of outliers", found["outlier"], reported)
    note(f"{late} calls came late")
    check_laws()


def test_context_raw():
    """A probe that is on the tracepoint itself, as raw tracepoints of BPF and fprobes are, sees each sample,
    too; and once the module has noticed it, in the right context."""
    needs("hist")
    load_all()
    measure(0)
    dynamic, raw = TRACEFS / "dynamic_events", TRACEFS / "events/schedhist_raw/runq"
    count_pids = "hist:keys=common_pid,pid:size=4096"
    try:
        write_file(dynamic, "t:schedhist_raw/runq runq pid=$arg1:s32")
    except OSError:
        skip("the kernel has no such probes")

    def off() -> None:
        if raw.exists():
            write_file(raw / "trigger", f"!{count_pids}")
            write_file(dynamic, "\n")

    defer(off)
    write_file(raw / "trigger", count_pids)

    def all_right() -> bool:
        """Returns whether all events are in the right context: the module notices the probe in a work queue."""
        append_file(raw / "trigger", f"{count_pids}:clear")
        before = count("runq")
        measure(1)
        messages(1)
        measure(0)
        text = (raw / "hist").read_text()
        eq("events", hits(text), [count("runq") - before])
        within("events", 100, hits(text)[0], 1_000_000)
        return not wrong_task(text)

    wait_until("events in the right context", all_right)
    off()
    unload()
    assert_gone()


# --- perf ---


class Recording(Held):
    """`perf record` of these of our events, until `off`."""

    def __init__(self, symbols: list[str], wanted: list[str], *options: str) -> None:
        self.data = scratch() / "data"
        super().__init__(*symbols, "perf", "record", "-q", "-e", ",".join(f"schedhist:{event}" for event in wanted),
                         "-m", "512", "--no-buildid", "--no-buildid-cache", "-o", self.data, *options,
                         "--", "bash", "-c", self.CHILD)


def some_symbols() -> list[str]:
    """Returns a prefix: programs see only some of the kernel's symbols."""
    wanted = re.compile(r" (_text|_stext|_etext|_end|__schedule|schedule|schedule_tail|.*futex.*|.*pipe_.*|"
                        r".*nanosleep.*|do_syscall_64|entry_SYSCALL_64)$")
    file = scratch() / "kallsyms"
    with open("/proc/kallsyms", encoding="ascii") as symbols:
        file.write_text("".join(line for line in symbols if wanted.search(line)))
    return shown(file)


def victim_in_cgroup() -> tuple[Victim, Path, Instance]:
    """Returns a victim in a cgroup of its own, and a trace of all events, with measuring off."""
    load_all()
    measure(0)
    cgroup.on()
    # The kernel gives no cgroup its part of perf before this file of the root is written first.
    for change in ("+cpu", "-cpu"):
        write_file(cgroup.ROOT / "cgroup.subtree_control", change)
    [folder] = cgroup.make("victim")
    victim = Victim("naps")
    cgroup.move(victim.pid, folder)
    return victim, folder, Instance(*EVENTS)


@allow(480)
def test_context_perf():
    """-p and -G see the events of the task or cgroup, all of them and no others. The sum of a cgroup's waits is
    that of its events."""
    needs("perf")
    victim, _, instance = victim_in_cgroup()
    kinds = ["oncpu", *INCOMING]
    recordings = {"pid": Recording(NO_SYMBOLS, kinds, "-p", str(victim.pid))}
    listeners: list[Held] = list(recordings.values())
    # Kernels of ours have no CONFIG_CGROUP_PERF.
    if not DEBUG:
        recordings["cgroup"] = Recording(NO_SYMBOLS, kinds, "-a", "-G", "schedhist/victim")
        waits = scratch() / "sum"
        listeners += [recordings["cgroup"], Held(
            *NO_SYMBOLS, "perf", "stat", "-x", ",", "-a", "-e", "schedhist:runq", "--for-each-cgroup",
            "schedhist/victim", "-o", waits, "--", "bash", "-c", Held.CHILD)]
    for listener in listeners:
        listener.wait()
    # Only now, for the listeners to start sooner.
    with others():
        window(victim)
        instance.nothing_lost()
        lines = instance.lines()
    for listener in listeners:
        listener.off()
    victim.end()
    check_all(lines)
    check_same(lines, victim.pid, kinds, {
        name: script(recording.data, "-F", "tid,event,trace").splitlines() for name, recording in recordings.items()})
    if not DEBUG:
        summed = [line.split(",") for line in waits.read_text().splitlines()]
        found = re.findall(rf": runq: .* pid={victim.pid} .* duration_ns=(\d+) ", "\n".join(lines))
        eq("the waits of the cgroup, in ns", [int(words[0]) for words in summed if "schedhist:runq" in words[2:3]],
           [sum(map(int, found))])


# --- bpftrace ---


def symbols_of(victim: Victim) -> str:
    """Returns where its functions are, in the form of /proc/kallsyms. Several parts of a small program may be
    mapped from the beginning of its file; it begins with the first one."""
    base = 0
    if re.search("Type: .*DYN", run("readelf", "--file-header", victim.program)):
        maps = Path(f"/proc/{victim.pid}/maps").read_text()
        base = int(re.findall(rf"^([0-9a-f]+)-.*/{victim.program.name}$", maps, re.MULTILINE)[0], 16)
    words = map(str.split, run("nm", "--defined-only", victim.program).splitlines())
    return "".join(f"{int(value, 16) + base:x} {kind} {name}\n" for value, kind, name in words)


@allow(480)
def test_context_bpftrace():
    """pid, tid, comm, cgroup, kstack and ustack. The kernel stack of a sleep of the victim belongs to the same
    sleep as the user stack, and no other task has such a user stack. A cgroup's waits add up to those of its
    group."""
    needs("bpftrace")
    victim, folder, instance = victim_in_cgroup()
    number, pid = folder.stat().st_ino, victim.pid
    kinds = ["oncpu", *INCOMING]
    program = "".join(f"""tracepoint:schedhist:{event} {{
            if ((int32)tid == args.pid && comm == args.comm) {{ @right = count(); }} else {{ @wrong = count(); }}
            if (args.pid == {pid}) {{
                @victim = count();
                if (pid != {pid} || cgroup != {number}) {{ @outside = count(); }}
            }} else if (cgroup == {number}) {{ @outside = count(); }}
        }}
        """ for event in kinds)
    program += f"""tracepoint:schedhist:offcpu /args.pid == {pid}/ {{ @ns[kstack(raw, 16)] = sum(args.duration_ns); }}
        tracepoint:schedhist:offcpu, tracepoint:schedhist:blocked, tracepoint:schedhist:wakeup {{
            @stacks[args.pid == {pid} ? 1 : 0, kstack(raw, 16), ustack(raw, 8)] = count();
        }}
        tracepoint:schedhist:runq /cgroup == {number}/ {{ @waited = sum(args.duration_ns); }}"""
    write("group_by", "cgroup")
    symbols = symbols_of(victim)
    bpftrace = Bpftrace(program)
    bpftrace.wait()
    with others():
        window(victim)
        missed = bpftrace.missed()
        instance.nothing_lost()
        lines = instance.lines()
    bpftrace.off()
    waited = of_group("/schedhist/victim", "runq_sum_ns")
    slept = victim.end()
    eq("events in the wrong context, of the wrong cgroup", (bpftrace.count("wrong"), bpftrace.count("outside")), (0, 0))
    of_kinds = [line for line in lines if re.search(f": ({'|'.join(kinds)}): ", line)]
    emitted = sum(f" pid={pid} " in line for line in of_kinds)
    within("events of the victim that bpftrace saw", emitted - missed, bpftrace.count("victim"), emitted)
    within("events that bpftrace saw", len(of_kinds) - missed, bpftrace.count("right"), len(of_kinds))
    # Any of its waits may be among those that were missed.
    within("the waits of its cgroup, in ns", 1 if missed else waited, bpftrace.count("waited"), waited)
    note(f"{bpftrace.count('right')} events in the right context, {bpftrace.count('victim')} of the victim")
    check_shares(slept, 100, "bpftrace", bpftrace.said())
    check_stacks(symbols, bpftrace.said())


# --- profiles ---

SCRIPT_FIELDS = "-F", "comm,tid,period,event,ip,sym,dso"


def flamegraph(text: str, *options: str) -> str:
    file = scratch() / "script"
    file.write_text(text)
    tool = os.environ.get("SCHEDHIST_TOOL") or skip("it needs scripts/bed/vm --tool")
    return subprocess.run([tool, "flamegraph", *options, file], check=True, text=True, stdout=subprocess.PIPE).stdout


def check_profile(slept: dict[str, int], text: str, what: str) -> int:
    """Asserts that the flame graph of this output of perf script has these places with these shares. Returns
    its sum."""
    folded, picture = flamegraph(text, "--folded"), flamegraph(text)
    check_shares(slept, 2, what, folded)
    note(f"{len(xml.dom.minidom.parseString(picture).getElementsByTagName('rect'))} rectangles")
    for name in slept:
        if f"<title>{name}: " not in picture:
            raise Wrong(f"the flame graph of {what} has no {name}")
    return sum(int(line.rsplit(" ", 1)[1]) for line in folded.splitlines())


def check_report(slept: dict[str, int], symbols: list[str], data: Path, *options: str) -> None:
    """Asserts that perf report has each function with its share."""
    command = [*symbols, "perf", "report", "--stdio", "--children", "-g", "none", "--sort", "sym", *options, "-i", data]
    report = subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    for name, ns in slept.items():
        found = re.findall(rf"^ *([\d.]+)% .* {name}$", report, re.MULTILINE)
        share = 100 * ns / sum(slept.values())
        within(f"per cent of {name}, as perf report says", share - 2, float(found[0]) if found else 0, share + 2)


@allow(480)
def test_offcpu_profile():
    """Profiles of the time off CPU, by perf's own means: perf report and a flame graph show three sleeps with
    their shares, and so does offcputime."""
    needs("perf")
    load()
    victim, symbols, other = Victim("naps"), some_symbols(), None
    perf = Recording(symbols, ["offcpu"], "-g", "-p", str(victim.pid))
    perf.wait()
    # Kernels of ours have no BTF.
    if BTF.exists() and shutil.which("offcputime-libbpf"):
        other = Listener(*symbols, "stdbuf", "-oL", "offcputime-libbpf", "-p", str(victim.pid))
        wait_until("offcputime", lambda: other.goes_on() and "Tracing" in other.said())
    victim.begin()
    time.sleep(4)
    # What it says is of the time of both profiles. They look up its functions while it is there.
    slept = victim.halt()
    perf.off()
    eq("places", set(slept), {"nap_futex", "nap_pipe", "nap_timer"})
    check_profile(slept, script(perf.data, *SCRIPT_FIELDS, prefix=symbols), "perf")
    if other:
        check_shares(slept, 4, "offcputime", other.end())
    check_report(slept, symbols, perf.data)


@allow(480)
def test_wait_profiles():
    """Profiles of waits: of a program that a hog preempts at two known places, and of one that waits for its
    quota at a third. Each wait is there, and the waits add up to those of the histograms."""
    needs("perf")
    if "-rt-" in RELEASE:
        skip("its real-time hog makes it take minutes on a real-time kernel")
    load("metrics=default,throttled")
    measure(0)
    cgroup.on()
    service = cgroup.with_quota("service", "max 100000")
    throttled = start("taskset", "--cpu-list", "0", helper("waits"), "quota").pid
    wait_until("the task to be throttled", lambda: Path(f"/proc/{throttled}/comm").read_text() == "waits\n")
    victim = Victim("waits", "1")
    cgroup.move(throttled, service)
    write_file(service / "cpu.max", "20000 100000")
    write("group_by", f"process {victim.pid} {throttled}")
    symbols = some_symbols()
    perf = Recording(symbols, ["runq", "throttled"], "-g", "-t", f"{victim.pid},{throttled}")
    perf.wait()
    measure(1)
    victim.begin()
    time.sleep(2.5)
    # It first repays what it ran beyond its quota, which is long where ticks are late.
    wait_until("waits for the quota", lambda: histogram("throttled").sum > 10**9)
    # What it says is of the time of the profile, and of the histograms.
    places = victim.halt()
    measure(0)
    waited = of_group(f"{victim.pid}:waits", "runq_sum_ns")
    perf.off()
    samples = script(perf.data, *SCRIPT_FIELDS, prefix=symbols).split("\n\n")

    def of(event: str, tid: int) -> str:
        mine = [it for it in samples if it.split()[1:2] == [str(tid)] and f"schedhist:{event}:" in it]
        return "".join(f"{it.strip(chr(10))}\n\n" for it in mine)

    eq("the profile of runq, in ns", check_profile(places, of("runq", victim.pid), "runq"), waited)
    eq("the profile of throttled, in ns", check_profile({"wait_quota": 1}, of("throttled", throttled), "throttled"),
       histogram("throttled").sum)
    eq("places", set(places), {"wait_short", "wait_long"})
    check_report(places, symbols, perf.data, "--tid", str(victim.pid), "--percentage", "relative")
