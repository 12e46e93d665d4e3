#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Checks that a rule follows all that a process forks, and nothing else.

usage: group_children.py BASE
       group_children.py grow

BASE  the folder of a cgroup. Adds rules to the list while processes fork in every way that there is,
      and compares the group of each task with what is wanted.
grow  forks for ever, in all of these ways.
"""

from __future__ import annotations

# Imports only these: each import takes long on an emulated machine.
import ctypes
import os
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING

from group_files import DEBUGFS, groups, tasks

if TYPE_CHECKING:
    from collections.abc import Callable

CLONE_PARENT = 0x8000
SYS_CLONE = 56
LIBC = ctypes.CDLL(None, use_errno=True)


def rule(command: str) -> None:
    with open(f"{DEBUGFS}/group_rules", "w", encoding="ascii") as opened:
        opened.write(command)


def wait_here() -> None:
    while True:
        time.sleep(0.01)


def leaf(report: int) -> None:
    """Reports the IDs of two threads, and waits."""
    thread = threading.Thread(target=wait_here, daemon=True)
    thread.start()
    os.write(report, f"{os.getpid()} {thread.native_id}\n".encode())
    wait_here()


def fork(report: int) -> None:
    if os.fork() == 0:
        leaf(report)


def double_fork(report: int) -> None:
    """As a daemon does: the process in the middle ends."""
    pid = os.fork()
    if pid == 0:
        os.setsid()
        fork(report)
        os._exit(0)
    os.waitpid(pid, 0)


def sibling(report: int) -> None:
    """A child whose parent is the parent of this process."""
    pid = LIBC.syscall(SYS_CLONE, CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0)
    if pid == 0:
        leaf(report)


def from_thread(report: int) -> None:
    thread = threading.Thread(target=fork, args=(report,))
    thread.start()
    thread.join()


def execute(report: int) -> None:
    """A program that another thread than the leader executes, and what that forks."""
    if os.fork() == 0:
        os.set_inheritable(report, True)
        program = f"echo $$ $$ >&{report}; sleep 1000 & echo $! $! >&{report}; wait"
        threading.Thread(target=os.execv, args=("/bin/sh", ["sh", "-c", program])).start()
        wait_here()


WAYS: list[tuple[Callable[[int], None], int]] = [
    (fork, 1),
    (double_fork, 1),
    (sibling, 1),
    (from_thread, 1),
    (execute, 2),
]


def grow() -> None:
    """Forks until it is killed, and ends what it has forked."""
    reading, writing = os.pipe()
    while True:
        for way, number in WAYS:
            way(writing)
            for pid in pids_of(reading, number):
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:
                pass


def lines_from(fd: int, number: int) -> list[str]:
    text = ""
    while text.count("\n") < number:
        text += os.read(fd, 4096).decode()
    return text.splitlines()


def pids_of(fd: int, number: int) -> list[int]:
    return [int(line.split()[0]) for line in lines_from(fd, number)]


def parent(orders: int, report: int) -> None:
    """Forks in all ways, when it is told to."""
    for _ in range(2):
        os.read(orders, 1)
        for way, _ in WAYS:
            way(report)
    wait_here()


def main() -> None:
    orders, report = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(200)
        parent(orders[0], report[1])
    each = sum(number for _, number in WAYS)
    wanted: dict[int, str] = {os.getpid(): "other"}

    def forked(name: str) -> None:
        os.write(orders[1], b"x")
        for line in lines_from(report[0], each):
            wanted.update({int(task): name for task in line.split()})

    problems = []

    def compare(when: str, renamed: dict[str, str]) -> None:
        names = {number: group.name for number, group in groups().items()}
        found = tasks()
        for task, name in wanted.items():
            group = names[found[task]] if task in found else "gone"
            if group != renamed.get(name, name):
                problems.append(f"{when}: {task} is in {group}, wanted {renamed.get(name, name)}")

    # What it has forked before does not belong to it.
    forked("other")
    compare("without a rule", {})
    rule(f"add tree children {pid}")
    # Nor what it forks while schedhist does not measure is missed.
    with open(f"{DEBUGFS}/enable", "w", encoding="ascii") as enable:
        enable.write("0")
    wanted[pid] = "tree"
    forked("tree")
    with open(f"{DEBUGFS}/enable", "w", encoding="ascii") as enable:
        enable.write("1")
    compare("with a rule", {})
    # The first rule that matches has a task; when that is removed, the next has.
    branch = next(task for task, name in wanted.items() if name == "tree" and task != pid)
    rule(f"add branch children {branch}")
    compare("with a branch", {})
    rule("remove tree")
    wanted = {task: "other" for task in wanted}
    wanted[branch] = "branch"
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    del wanted[pid]
    found = tasks()
    wanted = {task: name for task, name in wanted.items() if task in found and task not in threads_of(branch)}
    compare("with a branch alone", {})
    print(f"# {len(wanted)} tasks compared")
    for problem in problems:
        print(problem)
    for task in wanted:
        # The thread of a process that has just been killed may be gone.
        if task != os.getpid() and os.path.exists(f"/proc/{task}"):
            try:
                os.kill(task, signal.SIGKILL)
            except ProcessLookupError:
                pass
    sys.exit(bool(problems) or len(wanted) < 10)


def threads_of(pid: int) -> list[int]:
    return [int(task) for task in os.listdir(f"/proc/{pid}/task") if int(task) != pid]


if sys.argv[1] == "grow":
    grow()
else:
    main()
