# SPDX-License-Identifier: GPL-2.0
"""The figures of groups, beside the kernel's own."""

import os
import re
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path

from harness import cgroup
from harness.groups import Group, begin, check_group_laws, groups
from harness.test import (CULPRITS, WORK, Wrong, about_numbers, eq, load, measure, note, run, spawn, switches_of, value,
                          within, write_file)
from harness.trace import Instance

# --- processes and threads ---

PROCESSES = THREADS = 3
LOOPS = 40


def call_this_thread(name):
    write_file(f"/proc/self/task/{threading.get_native_id()}/comm", name)


class Workers:
    """Three processes of three threads, which run and sleep, each with its own share."""

    def __init__(self) -> None:
        self.go, self.done, self.end = os.pipe(), os.pipe(), os.pipe()
        self.pids = []
        for process in range(PROCESSES):
            self.pids.append(spawn(self._begin, process * THREADS))
        self.wait_for(self.go)
        self.tids = {pid: sorted(map(int, os.listdir(f"/proc/{pid}/task"))) for pid in self.pids}

    def _begin(self, first: int) -> None:
        signal.alarm(120)
        for number in range(first + 1, first + THREADS):
            threading.Thread(target=self._work, args=(number,), daemon=True).start()
        self._work(first)

    def _work(self, number: int) -> None:
        call_this_thread(f"early {number}")
        os.write(self.done[1], b"x")
        os.read(self.go[0], 1)
        # The names of groups follow those of their tasks.
        call_this_thread(f"work {number}")
        for _ in range(LOOPS):
            sum(range(2000 * (number + 1)))
            time.sleep(0.001)
        os.write(self.done[1], b"x")
        os.read(self.end[0], 1)

    def wait_for(self, pipe: tuple[int, int]) -> None:
        """Waits until all threads have said that they are done, and have blocked in reading the pipe."""
        number = PROCESSES * THREADS
        while number:
            number -= len(os.read(self.done[0], number))
        for pid in self.pids:
            for tid in os.listdir(f"/proc/{pid}/task"):
                # The number of the system call, and its first argument.
                syscall = Path(f"/proc/{pid}/task/{tid}/syscall")
                while syscall.read_text().split()[:2] != ["0", hex(pipe[0])]:
                    time.sleep(0.05)

    def counts(self) -> dict[int, tuple[int, int, int]]:
        """Returns voluntary and involuntary switches of each thread, and its time on a CPU."""
        found = {}
        for pid, tids in self.tids.items():
            for tid in tids:
                voluntary, involuntary = switches_of(tid)
                schedstat = Path(f"/proc/{pid}/task/{tid}/schedstat").read_text()
                found[tid] = voluntary, involuntary, int(schedstat.split()[0])
        return found

    def members(self, mode: str) -> dict[str, list[int]]:
        """Returns the threads of each group, by its name."""
        found: dict[str, list[int]] = {}
        for pid in self.pids[:2] if mode == "some" else self.pids:
            for tid in self.tids[pid]:
                leader = tid if mode == "thread" else pid
                comm = Path(f"/proc/{pid}/task/{leader}/comm").read_text().rstrip()
                found.setdefault(f"{leader}:{comm}", []).append(tid)
        return found

    def tell(self, pipe: tuple[int, int]) -> None:
        os.write(pipe[1], b"x" * PROCESSES * THREADS)


def agrees_with_threads(mode):
    """The switches of each thread must be those of /proc/PID/task/TID/status, exactly. Returns whether its time
    on a CPU is about that of its schedstat: the kernel reads its clock at other moments, which differ more
    while the host is busy."""
    workers = Workers()
    rule = f"process {workers.pids[0]} {workers.pids[1]}" if mode == "some" else mode
    begin(rule)
    before = workers.counts()
    workers.tell(workers.go)
    workers.wait_for(workers.end)
    measure(0)
    after = workers.counts()
    seen, members = {group.name: group for group in groups().values()}, workers.members(mode)
    workers.tell(workers.end)
    for pid in workers.pids:
        os.waitpid(pid, 0)
    eq("group_by", value("group_by"), rule)
    if mode == "some":
        eq("groups", set(seen), {"other", *members})
    worst, good = 0.0, True
    for name, those in members.items():
        eq(f"{name} is among the groups {list(seen)}", name in seen, True)
        voluntary, involuntary, on_cpu = (sum(after[tid][i] - before[tid][i] for tid in those) for i in range(3))
        values = seen[name].values
        eq(f"{name}: voluntary switches", values["voluntary"], voluntary)
        eq(f"{name}: involuntary switches", values["involuntary"], involuntary)
        # While the host is busy, the timer of a sleep may fire before the thread has switched out.
        within(f"{name}: switches", LOOPS * len(those) / 2, voluntary)
        worst = max(worst, abs(values["oncpu_sum_ns"] / on_cpu - 1))
        if abs(values["oncpu_sum_ns"] - on_cpu) > on_cpu / 10 + 1000000:
            note(f"{name}: on a CPU for {values['oncpu_sum_ns']} ns, the kernel says {on_cpu}")
            good = False
    note(f"{mode}: {len(members)} groups compared, time on a CPU within {worst * 100:.2f} %")
    check_group_laws()
    return good


def test_groups_process():
    """Processes, threads, and two processes by their PIDs: the kernel counts for each thread."""
    about_numbers()
    load()
    for mode in "process", "thread", "some":
        if not any(agrees_with_threads(mode) for _ in range(5)):
            raise Wrong(f"by {mode}: not what the kernel says")


# --- who is blamed ---

FORK = re.compile(r" sched_process_fork: .* pid=(\d+) child_comm=.* child_pid=(\d+)$")
SWITCH = re.compile(r" sched_switch: prev_comm=.* prev_pid=(\d+) prev_prio=\d+ prev_state=(\S+) ==> "
                    r"next_comm=.* next_pid=(\d+) next_prio=\d+$")
SLEEPER, HOG = "/schedhist/sleeper", "/schedhist/hog"


class Blame:
    """Whom the tasks of each group must blame for their waits, by the kernel's trace of switches and forks."""

    def __init__(self, group_of: dict[int, str], lines: list[str]) -> None:
        # The group of each task: its name, or "kernel". The tests themselves are in the root.
        self.group_of = {0: "idle"} | group_of
        self.ended, self.preempted, self.neighbours = ({name: Counter() for name in (SLEEPER, HOG)} for _ in range(3))
        self.preempter: dict[int, str] = {}
        for line in lines:
            if fork := FORK.search(line):
                parent, child = map(int, fork.groups())
                # Children in a cgroup of their own are known.
                if parent in self.group_of and self.group_of.get(child) not in self.ended:
                    self.group_of[child] = self.group_of[parent]
            elif switch := SWITCH.search(line):
                self._switch(int(switch[1]), switch[2], int(switch[3]))

    def culprit(self, group: str, pid: int) -> str:
        """Returns what a task is to a task of the group."""
        other = self.group_of.get(pid, "/")
        return other if other in ("kernel", "idle") else "own" if other == group else "other"

    def _switch(self, before: int, state: str, after: int) -> None:
        if (left := self.group_of.get(before)) in self.ended and state in ("R", "R+"):
            self.preempter[before] = self.culprit(left, after)
        group = self.group_of.get(after, "/")
        if group not in self.ended:
            return
        self.ended[group][self.culprit(group, before)] += 1
        if self.culprit(group, before) == "other":
            self.neighbours[group][self.group_of.get(before, "/")] += 1
        if after in self.preempter:
            self.preempted[group][self.preempter.pop(after)] += 1

    def check(self, group: Group, all_groups: dict[int, Group]) -> None:
        name, values = group.name, group.values
        note(f"{name}: ended by {dict(self.ended[name])}, preempted by {dict(self.preempted[name])}")
        for kind in CULPRITS:
            eq(f"{name}: ended_by_{kind}", values[f"ended_by_{kind}"], self.ended[name][kind])
            eq(f"{name}: preempted_by_{kind}", values[f"preempted_by_{kind}"], self.preempted[name][kind])
        for number, (count, _) in group.neighbours.items():
            other = all_groups[number].name
            eq(f"{name}: waits ended by {other}", count, self.neighbours[name][other])


def test_groups_blame():
    """A task that sleeps shares a CPU with one of another group that never does, and with one of its own
    group. Who had the CPU at the end of each wait is what the kernel's own trace says."""
    pids = WORK / "pids"
    cgroup.on()
    load()
    cgroup.make("sleeper", "hog")
    trace = Instance("sched/sched_switch", "sched/sched_process_fork", kilobytes=16384)
    # kthreadd and its children.
    pids.write_text("".join(f"kernel {pid}\n" for pid in ["2", *run("pgrep", "--parent", "2").split()]))
    begin("cgroup")

    def start_in(name, seconds, *command):
        """All tasks of these groups begin after measuring and the trace did, and end."""
        said = f'echo "/schedhist/{name} $$" >> {pids}; exec taskset -c 1 timeout "$@"'
        return cgroup.start_in(name, "sh", "-c", said, "sh", seconds, *command)

    started = [start_in("hog", "5", "sh", "-c", "while :; do :; done")]
    for program in "time.sleep(0.003)", "time.sleep(0.002); sum(range(20000))":
        code = f"import time\nwhile True: {program}"
        started.append(start_in("sleeper", "4", sys.executable, "-SE", "-c", code))
    for pid in started:
        os.waitpid(pid, 0)
    write_file(trace.path / "tracing_on", "0")
    measure(0)
    trace.nothing_lost()
    check_group_laws()
    known = dict(reversed(line.split()) for line in pids.read_text().splitlines())
    blame = Blame({int(pid): name for pid, name in known.items()}, trace.lines())
    all_groups = groups()
    by_name = {group.name: group for group in all_groups.values()}
    sleeper, hog = by_name[SLEEPER], by_name[HOG]
    for group in sleeper, hog:
        blame.check(group, all_groups)
    _, by_hog = sleeper.neighbours.get(hog.values["id"], (0, 0))
    total = sleeper.values["ended_by_other_ns"]
    named = sum(other_time for _, other_time in sleeper.neighbours.values())
    within("time by all neighbours that have a name", total * 9 // 10, named, total)
    note(f"the hog ended {by_hog * 100 // total} % of the time that others kept the sleepers waiting")
    within("time by the hog", total // 2, by_hog, total)
    for kind in "own", "other":
        within(f"waits of the sleepers ended by {kind}", 10, sleeper.values[f"ended_by_{kind}"])


def test_groups_blame_at_first():
    """Who has a CPU since before measuring began is known when the first wait there ends."""
    cgroup.on()
    load()
    cgroup.make("sleeper", "hog")
    command = ["taskset", "-c", "1", "chrt", "-f"]
    cgroup.start_in("hog", *command, "10", "sh", "-c", "while :; do :; done")
    time.sleep(1)
    begin("cgroup")
    os.waitpid(cgroup.start_in("sleeper", *command, "20", "true"), 0)
    measure(0)
    check_group_laws()
    all_groups = groups()
    (sleeper,) = [group for group in all_groups.values() if group.name == SLEEPER]
    within("neighbours", 1, len(sleeper.neighbours))
    if 0 in sleeper.neighbours:
        raise Wrong(f"the other group is blamed: {sleeper.neighbours}")
