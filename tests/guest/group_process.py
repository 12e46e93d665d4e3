#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Compares the groups of processes and threads with what the kernel counts for each thread.

usage: group_process.py process|thread|some

Three processes of three threads run and sleep, each with its own share. The switches of each thread
must be those of /proc/PID/task/TID/status, exactly, and its time on a CPU about that of its
schedstat: the kernel reads its clock at other moments, which differ more while the host is busy. If
only the time differs, the status is 75.

process  each process is a group
thread   each thread is a group
some     two of the processes are groups, all else is in other
"""

from __future__ import annotations

# Imports only these: each import takes long on an emulated machine.
import os
import signal
import sys
import threading
import time

from group_files import DEBUGFS, groups, read

PROCESSES = THREADS = 3
LOOPS = 40


def write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as opened:
        opened.write(text)


def work(number: int, go: int, done: int, end: int) -> None:
    """Waits for a byte in `go`, runs and sleeps, then waits for the end."""
    write(f"/proc/self/task/{threading.get_native_id()}/comm", f"early {number}")
    os.write(done, b"x")
    os.read(go, 1)
    # The names of groups follow those of their tasks.
    write(f"/proc/self/task/{threading.get_native_id()}/comm", f"work {number}")
    for _ in range(LOOPS):
        sum(range(2000 * (number + 1)))
        time.sleep(0.001)
    os.write(done, b"x")
    os.read(end, 1)


def child(first: int, go: int, done: int, end: int) -> None:
    for number in range(first + 1, first + THREADS):
        threading.Thread(target=work, args=(number, go, done, end), daemon=True).start()
    work(first, go, done, end)


def counts(pid: int, tid: int) -> tuple[int, int, int]:
    """Returns voluntary and involuntary switches of a thread, and its time on a CPU."""
    folder = f"/proc/{pid}/task/{tid}"
    pairs = dict(line.split(":", 1) for line in read(f"{folder}/status").splitlines())
    return (
        int(pairs["voluntary_ctxt_switches"]),
        int(pairs["nonvoluntary_ctxt_switches"]),
        int(read(f"{folder}/schedstat").split()[0]),
    )


def wait_for(done: int, pids: list[int], fd: int) -> None:
    """Reads a byte from each thread, and waits until all of them have blocked in reading `fd`."""
    number = PROCESSES * THREADS
    while number:
        number -= len(os.read(done, number))
    for pid in pids:
        for tid in os.listdir(f"/proc/{pid}/task"):
            # The number of the system call, and its first argument.
            while read(f"/proc/{pid}/task/{tid}/syscall").split()[:2] != ["0", hex(fd)]:
                time.sleep(0.05)


def name_of(pid: int, tid: int) -> str:
    return f"{tid}:{read(f'/proc/{pid}/task/{tid}/comm').rstrip()}"


mode = sys.argv[1]
go, done, end = os.pipe(), os.pipe(), os.pipe()
pids = []
for process in range(PROCESSES):
    pid = os.fork()
    if not pid:
        signal.alarm(120)
        child(process * THREADS, go[0], done[1], end[0])
        os._exit(0)
    pids.append(pid)
threads = PROCESSES * THREADS
wait_for(done[0], pids, go[0])
tids = {pid: sorted(map(int, os.listdir(f"/proc/{pid}/task"))) for pid in pids}
rule = {"process": "process", "thread": "thread", "some": f"process {pids[0]} {pids[1]}"}[mode]
write(f"{DEBUGFS}/enable", "0")
write(f"{DEBUGFS}/reset", "1")
write(f"{DEBUGFS}/group_by", rule)
write(f"{DEBUGFS}/enable", "1")
before = {tid: counts(pid, tid) for pid in pids for tid in tids[pid]}
os.write(go[1], b"x" * threads)
wait_for(done[0], pids, end[0])
write(f"{DEBUGFS}/enable", "0")
after = {tid: counts(pid, tid) for pid in pids for tid in tids[pid]}
seen = {group.name: group for group in groups().values()}
members: dict[str, list[int]] = {}
for pid in pids:
    for tid in tids[pid]:
        if mode != "some" or pid in pids[:2]:
            members.setdefault(name_of(pid, tid if mode == "thread" else pid), []).append(tid)
os.write(end[1], b"x" * threads)

problems, late = [], []
if (shown := read(f"{DEBUGFS}/group_by").rstrip()) != rule:
    problems.append(f"group_by: {shown} is not {rule}")
if mode == "some" and set(seen) != {"other", *members}:
    problems.append(f"groups: {set(seen)} are not other and {set(members)}")
worst = 0.0
for name, those in members.items():
    if name not in seen:
        problems.append(f"{name} is not among the groups {list(seen)}")
        continue
    voluntary, involuntary, on_cpu = (
        sum(after[tid][i] - before[tid][i] for tid in those) for i in range(3)
    )
    values = seen[name].values
    for key, wanted in ("voluntary", voluntary), ("involuntary", involuntary):
        if values[key] != wanted:
            problems.append(f"{name}: {key} {values[key]}, the kernel says {wanted}")
    # While the host is busy, the timer of a sleep may fire before the thread has switched out.
    if voluntary < LOOPS * len(those) / 2:
        problems.append(f"{name}: only {voluntary} switches")
    error = values["oncpu_sum_ns"] / on_cpu - 1
    worst = max(worst, abs(error))
    if abs(values["oncpu_sum_ns"] - on_cpu) > on_cpu / 10 + 1000000:
        late.append(f"{name}: on a CPU for {values['oncpu_sum_ns']} ns, the kernel says {on_cpu}")
print(f"# {rule.split()[0]}: {len(members)} groups compared, time on a CPU within {worst * 100:.2f} %")
for problem in problems + late:
    print(problem)
sys.exit(1 if problems else 75 if late else 0)
