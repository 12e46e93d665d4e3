# SPDX-License-Identifier: GPL-2.0
"""Changes the groups of tasks as fast as it can, in every way that there is."""

import os
import random
import threading
import time
from typing import Iterator

from harness import cgroup
from harness.cgroup import BASE, clone_into, make
from harness.parts import Parts, reap
from harness.test import CPU1, keep_pids, possible_cpus, write_file


def loiter(step: int) -> None:
    """Exits at once, after a sleep, or after some work."""
    if step % 3 == 1:
        time.sleep(0.0002)
    elif step % 3 == 2:
        os.sched_yield()
    os._exit(0)


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


def fork() -> Iterator[None]:
    places = make("fork", "fork/a", "fork/a/b")
    for step in range(1 << 60):
        if step % 50 == 0:
            cgroup.move(0, random.choice(places))
        if os.fork() == 0:
            if step % 4 == 0 and os.fork() == 0:
                time.sleep(0.0002)
            loiter(step)
        if step % 8 == 7:
            time.sleep(0.001)
            reap()
        yield


def into() -> Iterator[None]:
    places = make("into", "into/a", "into/a/b/c", "into/other")
    for step in range(1 << 60):
        if clone_into(random.choice(places)) == 0:
            loiter(step)
        if step % 8 == 7:
            time.sleep(0.001)
            reap()
        yield


def move_processes() -> Iterator[None]:
    places = make("move", "move/a", "move/a/b", "move/other")
    pids = [target(3)[0] for _ in range(4)]
    while True:
        cgroup.move(random.choice(pids), random.choice(places))
        yield


def thread() -> Iterator[None]:
    domain, *places = make("thread", "thread/a", "thread/b", "thread/c")
    for place in places:
        write_file(place / "cgroup.type", "threaded")
    pid, tasks = target(4)
    cgroup.move(pid, domain)
    while True:
        write_file(random.choice([domain, *places]) / "cgroup.threads", str(random.choice(tasks)))
        yield


def mkdir() -> Iterator[None]:
    make("mkdir")
    for step in range(1 << 60):
        path = BASE / f"mkdir/{step % 4 and random.randrange(10)}"
        # One may be left of when there was no PID.
        path.mkdir(exist_ok=True)
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


def execute() -> Iterator[None]:
    places = make("exec", "exec/a")
    for step in range(1 << 60):
        if os.fork() == 0:
            if step % 5 == 0:
                cgroup.move(0, random.choice(places))
            try:
                threading.Thread(target=os.execv, args=("/bin/true", ["true"])).start()
                time.sleep(10)
            except RuntimeError:
                pass  # There is no memory for a thread.
            os._exit(1)
        if step % 2:
            os.wait()
        yield


def rename() -> Iterator[None]:
    """Only this thread renames: of two at once, the kernel does not tell which is the last."""
    make("rename")
    tasks = [threading.Thread(target=spinner, daemon=True) for _ in range(3)]
    for task in tasks:
        task.start()
    names = ["a", "a b", "back\\slash", "x" * 15, "y" * 40, "", "caf\xe9", *map(str, range(5))]
    while True:
        task = random.choice(tasks)
        write_file(f"/proc/self/task/{task.native_id}/comm", random.choice(names))
        time.sleep(0.001)
        yield


def hotplug() -> Iterator[None]:
    while True:
        time.sleep(0.5)
        write_file(CPU1, "0")
        time.sleep(0.2)
        write_file(CPU1, "1")
        yield


KINDS = {
    # Processes that exit soon, and processes that these fork.
    "fork": fork,
    # Processes that begin in another cgroup (CLONE_INTO_CGROUP).
    "into": into,
    # Processes of three threads that move to another cgroup.
    "move": move_processes,
    # Threads that move to another threaded cgroup.
    "thread": thread,
    # Cgroups that are made, get a process, and are removed, some of them by the same path.
    "mkdir": mkdir,
    # Programs executed by threads that are not the leader.
    "exec": execute,
    # Threads that another thread renames.
    "rename": rename,
}


def storm(*kinds: str) -> Parts:
    """Starts it, by default with all kinds but "hotplug": a CPU that goes offline and online."""
    # Few, so that each is used again soon. The kernel wants 8 for each possible CPU.
    keep_pids(max(400, 8 * len(possible_cpus())))
    return Parts("storm", {kind: (KINDS | {"hotplug": hotplug})[kind] for kind in kinds or KINDS})
