#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Changes the groups of tasks as fast as it can, in every way that there is.

usage: group_storm.py run BASE LOG [KIND...]
       group_storm.py into CGROUP COMMAND...
       group_storm.py remove BASE

run     changes tasks in cgroups below BASE until it is killed. Appends to LOG how much it did.
into    creates a process in CGROUP that executes COMMAND, and waits for it.
remove  removes the cgroup BASE and those below it; their tasks go to the root.

Kinds, by default all but hotplug:
fork     processes that exit soon, and processes that these fork
into     processes that begin in another cgroup (CLONE_INTO_CGROUP)
move     processes of three threads that move to another cgroup
thread   threads that move to another threaded cgroup
mkdir    cgroups that are made, get a process, and are removed, some of them by the same path
exec     programs executed by threads that are not the leader
rename   threads that another thread renames
hotplug  a CPU that goes offline and online
"""

from __future__ import annotations

# Imports only these: each import takes long on an emulated machine.
import ctypes
import os
import random
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = "/sys/fs/cgroup"
CLONE_INTO_CGROUP = 1 << 33
SYS_CLONE3 = 435
ONLINE = "/sys/devices/system/cpu/cpu1/online"
# The steps of a kind after which the log is written.
STEPS = 10


def write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def clone_into(cgroup: str) -> int:
    """Forks a child that begins in `cgroup`."""
    fd = os.open(cgroup, os.O_RDONLY | os.O_DIRECTORY)
    try:
        # struct clone_args: flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size,
        # tls, set_tid, set_tid_size, cgroup
        args = (ctypes.c_uint64 * 11)(CLONE_INTO_CGROUP, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, fd)
        pid = LIBC.syscall(SYS_CLONE3, args, ctypes.sizeof(args))
        if pid < 0:
            raise OSError(ctypes.get_errno(), "clone3")
        return pid
    finally:
        os.close(fd)


LIBC = ctypes.CDLL(None, use_errno=True)


def reap() -> None:
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                return
        except ChildProcessError:
            return


def loiter(step: int) -> None:
    """Exits at once, after a sleep, or after some work."""
    if step % 3 == 1:
        time.sleep(0.0002)
    elif step % 3 == 2:
        os.sched_yield()
    os._exit(0)


def make(base: str, *names: str) -> list[str]:
    paths = [f"{base}/{name}" for name in names]
    for path in paths:
        os.makedirs(path, exist_ok=True)
    return paths


def spinner() -> None:
    """Runs and sleeps by turns."""
    while True:
        sum(range(random.randrange(500)))
        time.sleep(random.random() / 500)


def target(threads: int) -> tuple[int, list[int]]:
    """Forks a process of so many threads that run and sleep. Returns its PID and their IDs."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        tasks = [threading.Thread(target=spinner, daemon=True) for _ in range(threads - 1)]
        for task in tasks:
            task.start()
        os.write(writing, " ".join(str(task.native_id) for task in tasks).encode() + b"\n")
        spinner()
    ids = os.read(reading, 1000)
    os.close(reading)
    os.close(writing)
    return pid, [pid, *map(int, ids.split())]


# Each kind is a generator that does a step whenever it is asked for the next one.


def fork(base: str) -> Iterator[None]:
    places = make(base, "fork", "fork/a", "fork/a/b")
    for step in range(1 << 60):
        if step % 50 == 0:
            write(f"{random.choice(places)}/cgroup.procs", "0")
        if os.fork() == 0:
            if step % 4 == 0 and os.fork() == 0:
                time.sleep(0.0002)
            loiter(step)
        if step % 8 == 7:
            time.sleep(0.001)
            reap()
        yield


def into(base: str) -> Iterator[None]:
    places = make(base, "into", "into/a", "into/a/b/c", "into/other")
    for step in range(1 << 60):
        if clone_into(random.choice(places)) == 0:
            loiter(step)
        if step % 8 == 7:
            time.sleep(0.001)
            reap()
        yield


def move(base: str) -> Iterator[None]:
    places = make(base, "move", "move/a", "move/a/b", "move/other")
    pids = [target(3)[0] for _ in range(4)]
    while True:
        write(f"{random.choice(places)}/cgroup.procs", str(random.choice(pids)))
        yield


def thread(base: str) -> Iterator[None]:
    [domain] = make(base, "thread")
    places = make(domain, "a", "b", "c")
    for place in places:
        write(f"{place}/cgroup.type", "threaded")
    pid, tasks = target(4)
    write(f"{domain}/cgroup.procs", str(pid))
    while True:
        write(f"{random.choice([domain, *places])}/cgroup.threads", str(random.choice(tasks)))
        yield


def mkdir(base: str) -> Iterator[None]:
    make(base, "mkdir")
    for step in range(1 << 60):
        path = f"{base}/mkdir/{step % 4 and random.randrange(10)}"
        os.mkdir(path)
        if clone_into(path) == 0:
            loiter(step)
        os.wait()
        while True:
            try:
                os.rmdir(path)
                break
            # A task that has been waited for may not have left its cgroup yet.
            except OSError:
                os.sched_yield()
        yield


def execute(base: str) -> Iterator[None]:
    places = make(base, "exec", "exec/a")
    for step in range(1 << 60):
        if os.fork() == 0:
            if step % 5 == 0:
                write(f"{random.choice(places)}/cgroup.procs", "0")
            try:
                threading.Thread(target=os.execv, args=("/bin/true", ["true"])).start()
                time.sleep(10)
            except RuntimeError:
                pass  # There is no memory for a thread.
            os._exit(1)
        if step % 2:
            os.wait()
        yield


def rename(base: str) -> Iterator[None]:
    """Only this thread renames: of two at once, the kernel does not tell which is the last."""
    make(base, "rename")
    tasks = [threading.Thread(target=spinner, daemon=True) for _ in range(3)]
    for task in tasks:
        task.start()
    names = ["a", "a b", "back\\slash", "x" * 15, "y" * 40, "", "caf\xe9", *map(str, range(5))]
    while True:
        task = random.choice(tasks)
        write(f"/proc/self/task/{task.native_id}/comm", random.choice(names))
        time.sleep(0.001)
        yield


def hotplug(_base: str) -> Iterator[None]:
    while True:
        time.sleep(0.5)
        write(ONLINE, "0")
        time.sleep(0.2)
        write(ONLINE, "1")
        yield


KINDS: dict[str, Callable[[str], Iterator[None]]] = {
    "fork": fork,
    "into": into,
    "move": move,
    "thread": thread,
    "mkdir": mkdir,
    "exec": execute,
    "rename": rename,
}


def repeat(kind: str, base: str, log: str) -> None:
    """Does one kind for ever. Waits when there is no PID or no memory."""
    steps = ({"hotplug": hotplug} | KINDS)[kind](base)
    fd = os.open(log, os.O_WRONLY | os.O_APPEND)
    done = 0
    while True:
        try:
            next(steps)
        except (BlockingIOError, MemoryError):
            steps = ({"hotplug": hotplug} | KINDS)[kind](base)
            reap()
            time.sleep(0.01)
            continue
        done += 1
        if done % STEPS == 1 or kind == "hotplug":
            os.write(fd, f"{kind} {1 if done == 1 or kind == 'hotplug' else STEPS}\n".encode())


def run(base: str, log: str, *kinds: str) -> None:
    for kind in kinds or KINDS:
        if os.fork() == 0:
            random.seed(kind)
            repeat(kind, base, log)
    while True:
        os.wait()
        sys.exit("a part of the storm has ended")


def remove(base: str) -> None:
    folders = [folder for folder, _, _ in os.walk(base)]
    for folder in sorted(folders, key=len, reverse=True):
        while True:
            try:
                with open(f"{folder}/cgroup.threads", encoding="ascii") as opened:
                    threads = opened.read().split()
                for pid in threads:
                    write(f"{ROOT}/cgroup.procs", pid)
            except OSError:
                pass
            try:
                os.rmdir(folder)
                break
            except FileNotFoundError:
                break
            except OSError:
                time.sleep(0.01)


def main(action: str, base: str, *arguments: str) -> None:
    if action == "run":
        run(base, *arguments)
    elif action == "into":
        pid = clone_into(base)
        if pid == 0:
            os.execvp(arguments[0], arguments)
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    elif action == "remove":
        remove(base)


main(*sys.argv[1:])
