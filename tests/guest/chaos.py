#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Does at once, at random, all that can be done with schedhist while it measures.

usage: chaos.py BASE LOG PART...

BASE is a cgroup, as a path. A process for each PART goes on until it is killed, and appends to LOG
how much it did. Any error but those that its part may get ends all of it.

Parts that leave the counts of groups and of the machine alone:
rules     adds and removes rules, which name processes, programs and cgroups
remake    makes and removes the cgroups that the rules name
events    switches trace events, triggers and filters on and off, and reads the trace
outliers  sets thresholds, limits and actions, and reads outliers
read      reads each file

Parts that begin new counts:
groups    writes group_by and its limits
control   switches measuring and metrics on and off, and resets
"""

from __future__ import annotations

# Imports only these: each import takes long on an emulated machine.
import errno
import os
import random
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CGROUPS = "/sys/fs/cgroup"
SCHEDHIST = "/sys/kernel/debug/schedhist"
TRACING = "/sys/kernel/tracing"
METRICS = sorted(os.listdir(f"{SCHEDHIST}/threshold_ns"))
NAMES = "a", "b", "c", "d"
# The steps after which the log is written.
STEPS = 5


def write(path: str, text: str, *expected: int) -> None:
    """Writes a text. May fail with an expected error."""
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, text.encode())
    except OSError as error:
        if error.errno not in expected:
            raise OSError(error.errno, f"{os.strerror(error.errno)}: {path}: {text!r}") from error
    finally:
        os.close(fd)


def read(path: str) -> None:
    """Reads a file to its end, or some of one that has no end."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        for _ in range(100):
            if not os.read(fd, 1 << 16):
                break
    except OSError as error:
        # There is nothing now, there will be nothing, or the file is only written.
        if error.errno not in (errno.EAGAIN, errno.ENODATA, errno.EINVAL):
            raise
    finally:
        os.close(fd)


def some_pid() -> str:
    return random.choice([*filter(str.isdigit, os.listdir("/proc"))])


def some_rule(base: str) -> str:
    path = random.choice(["", *(f"{base}/{name}" for name in NAMES)])
    return random.choice(
        [f"cgroup {path or '/'}", f"pid {some_pid()}", f"children {some_pid()}", "comm [a-m]*", "comm *"]
    )


def rules(base: str) -> Iterator[None]:
    while True:
        name = random.choice(NAMES)
        # EINVAL: groups are not by a list now.
        expected = errno.EINVAL, errno.ENOENT, errno.EEXIST, errno.ESRCH, errno.ENOSPC
        command = random.choice([f"remove {name}", f"add {name} {some_rule(base)}"])
        write(f"{SCHEDHIST}/group_rules", command, *expected)
        time.sleep(random.random() / 100)
        yield


def remake(base: str) -> Iterator[None]:
    while True:
        path = f"{CGROUPS}{base}/{random.choice(NAMES)}"
        try:
            os.mkdir(path)
            # Some task enters it.
            if os.fork() == 0:
                write(f"{path}/cgroup.procs", "0")
                os._exit(0)
            os.wait()
        except FileExistsError:
            pass
        try:
            os.rmdir(path)
        except OSError as error:
            # The task that has ended may not have left it yet.
            if error.errno != errno.EBUSY:
                raise
        yield


def events(_base: str) -> Iterator[None]:
    folder = f"{TRACING}/events/schedhist"
    names = [name for name in os.listdir(folder) if os.path.isdir(f"{folder}/{name}")]
    while True:
        event = f"{folder}/{random.choice(names)}"
        write(f"{event}/enable", random.choice("01"))
        trigger = random.choice(["hist:keys=cpu", "!hist:keys=cpu"])
        # One that is there already, or is not.
        write(f"{event}/trigger", trigger, errno.EEXIST, errno.ENOENT, errno.EINVAL)
        write(f"{event}/filter", random.choice(["0", "cpu == 1"]), errno.EINVAL)
        if random.randrange(4) == 0:
            read(f"{TRACING}/trace_pipe")
            write(f"{TRACING}/tracing_on", "1")
        time.sleep(random.random() / 20)
        yield


def outliers(_base: str) -> Iterator[None]:
    while True:
        value = random.choice(["none", "1", "1000", "1000000", "100000000"])
        write(f"{SCHEDHIST}/threshold_ns/{random.choice(METRICS)}", value)
        write(f"{SCHEDHIST}/outlier_rate", random.choice(["10", "100", "none"]))
        write(f"{SCHEDHIST}/on_outlier", random.choice(["none", "tracing_off"]))
        read(f"{SCHEDHIST}/{random.choice(['outliers', 'outlier_pipe'])}")
        time.sleep(random.random() / 20)
        yield


def every_file() -> list[str]:
    return [f"{folder}/{name}" for folder, _, names in os.walk(SCHEDHIST) for name in names]


def read_all(_base: str) -> Iterator[None]:
    files = every_file()
    while True:
        read(random.choice(files))
        yield


def groups(base: str) -> Iterator[None]:
    by = "none", "comm", "process", "thread", "list", "cgroup", "cgroup depth 1"
    while True:
        rule = random.choice([*by, f"cgroup under {base}/{random.choice(NAMES)}", f"process {some_pid()}"])
        write(f"{SCHEDHIST}/group_limit", random.choice(["1", "20", "255", "4095"]))
        write(f"{SCHEDHIST}/group_memory_limit", random.choice(["65536", "none"]))
        write(f"{SCHEDHIST}/group_by", rule, errno.ENOENT, errno.ESRCH, errno.ENOMEM)
        time.sleep(random.random() / 5)
        yield


def control(_base: str) -> Iterator[None]:
    while True:
        write(f"{SCHEDHIST}/enable", random.choice("0111"))
        write(f"{SCHEDHIST}/metrics", random.choice(["all", "default", "oncpu runq_wakeup", "none"]))
        write(f"{SCHEDHIST}/reset", "1")
        time.sleep(random.random() / 5)
        yield


PARTS: dict[str, Callable[[str], Iterator[None]]] = {
    "rules": rules,
    "remake": remake,
    "events": events,
    "outliers": outliers,
    "read": read_all,
    "groups": groups,
    "control": control,
}


def repeat(part: str, base: str, log: str) -> None:
    steps = PARTS[part](base)
    fd = os.open(log, os.O_WRONLY | os.O_APPEND)
    while True:
        try:
            for _ in range(STEPS):
                next(steps)
        except BlockingIOError:
            # There was no PID left.
            steps = PARTS[part](base)
            time.sleep(0.01)
            continue
        os.write(fd, f"{part} {STEPS}\n".encode())


def main(base: str, log: str, *parts: str) -> None:
    for part in parts:
        if os.fork() == 0:
            random.seed(os.environ.get("SCHEDHIST_SEED", "") + part)
            repeat(part, base, log)
    os.wait()
    sys.exit("a part of the chaos has ended")


main(*sys.argv[1:])
