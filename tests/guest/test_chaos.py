# SPDX-License-Identifier: GPL-2.0
"""All at once: tasks that are forked, moved, renamed and executed, CPUs that go and come back, rules, cgroups,
groups, events, outliers, controls and readers.

SCHEDHIST_SEED repeats what is done at random, as far as processes can be controlled.
"""

import errno
import os
import random
import time
from pathlib import Path
from typing import Callable, Iterator

from harness import cgroup, log
from harness.groups import begin, check_group_laws, head_of
from harness.parts import Parts
from harness.runner import tracing_reset
from harness.test import (CPU1, DEBUG, DEBUGFS, EVENTFS, EVENTS, METRICS, THOROUGH, TRACEFS, allow, amount, append_file,
                          assert_gone, check_laws, load, measure, note, status, unload, write, write_file)
from storm import storm
from test_controls import OFFERED

CHAOS, BELOW = cgroup.BASE / "chaos", "/schedhist/chaos"
NAMES = "a", "b", "c", "d"


def say(path: Path, text: str, *expected: int, how: Callable[[Path, str], None] = write_file) -> None:
    """Writes a text. May fail with an expected error."""
    try:
        how(path, text)
    except OSError as error:
        if error.errno not in expected:
            raise OSError(error.errno, f"{os.strerror(error.errno)}: {path}: {text!r}") from error


def read(path: Path) -> None:
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


def some_rule() -> str:
    path = random.choice(["", *(f"{BELOW}/{name}" for name in NAMES)])
    return random.choice(
        [f"cgroup {path or '/'}", f"pid {some_pid()}", f"children {some_pid()}", "comm [a-m]*", "comm *"]
    )


def rules() -> Iterator[None]:
    """Adds and removes rules, which name processes, programs and cgroups."""
    while True:
        name = random.choice(NAMES)
        # EINVAL: groups are not by a list now.
        expected = errno.EINVAL, errno.ENOENT, errno.EEXIST, errno.ESRCH, errno.ENOSPC
        command = random.choice([f"remove {name}", f"add {name} {some_rule()}"])
        say(DEBUGFS / "group_rules", command, *expected)
        time.sleep(random.random() / 100)
        yield


def remake() -> Iterator[None]:
    """Makes and removes the cgroups that the rules name."""
    while True:
        path = CHAOS / random.choice(NAMES)
        try:
            path.mkdir()
            # Some task enters it.
            if os.fork() == 0:
                cgroup.move(0, path)
                os._exit(0)
            os.wait()
        except FileExistsError:
            pass
        try:
            path.rmdir()
        except OSError as error:
            # The task that has ended may not have left it yet.
            if error.errno != errno.EBUSY:
                raise
        yield


def events() -> Iterator[None]:
    """Switches trace events, triggers and filters on and off, and reads the trace."""
    while True:
        event = EVENTFS / random.choice(EVENTS)
        say(event / "enable", random.choice("01"))
        trigger = random.choice(["hist:keys=cpu", "!hist:keys=cpu"])
        # One that is there already, or is not: write_file would remove all by opening the file.
        say(event / "trigger", trigger, errno.EEXIST, errno.ENOENT, errno.EINVAL, how=append_file)
        say(event / "filter", random.choice(["0", "cpu == 1"]), errno.EINVAL)
        if random.randrange(4) == 0:
            read(TRACEFS / "trace_pipe")
            say(TRACEFS / "tracing_on", "1")
        time.sleep(random.random() / 20)
        yield


def outliers() -> Iterator[None]:
    """Sets thresholds, limits and actions, and reads outliers."""
    while True:
        value = random.choice(["none", "1", "1000", "1000000", "100000000"])
        say(DEBUGFS / "threshold_ns" / random.choice(METRICS), value)
        say(DEBUGFS / "outlier_rate", random.choice(["10", "100", "none"]))
        say(DEBUGFS / "on_outlier", random.choice(["none", "tracing_off"]))
        read(DEBUGFS / random.choice(["outliers", "outlier_pipe"]))
        time.sleep(random.random() / 20)
        yield


def read_all() -> Iterator[None]:
    """Reads each file."""
    files = [path for path in DEBUGFS.rglob("*") if path.is_file()]
    while True:
        read(random.choice(files))
        yield


def groups() -> Iterator[None]:
    """Writes group_by and its limits."""
    by = "none", "comm", "process", "thread", "list", "cgroup", "cgroup depth 1"
    while True:
        rule = random.choice([*by, f"cgroup under {BELOW}/{random.choice(NAMES)}", f"process {some_pid()}"])
        say(DEBUGFS / "group_limit", random.choice(["1", "20", "255", "4095"]))
        say(DEBUGFS / "group_memory_limit", random.choice(["65536", "none"]))
        say(DEBUGFS / "group_by", rule, errno.ENOENT, errno.ESRCH, errno.ENOMEM)
        time.sleep(random.random() / 5)
        yield


def control() -> Iterator[None]:
    """Switches measuring and metrics on and off, and resets."""
    while True:
        say(DEBUGFS / "enable", random.choice("0111"))
        say(DEBUGFS / "metrics", random.choice(["all", "default", "oncpu runq_wakeup", "none", *OFFERED]))
        say(DEBUGFS / "reset", "1")
        time.sleep(random.random() / 5)
        yield


# Parts that leave the counts of groups and of the machine alone, and those that begin new counts.
STEADY = {"rules": rules, "remake": remake, "events": events, "outliers": outliers, "read": read_all}
RESTLESS = {"groups": groups, "control": control}


@allow(3000 if THOROUGH else 400)
def test_chaos():
    seconds, rounds = amount(3 if DEBUG else 1, 2, 20), amount(1, 1, 8)
    seed = os.environ.get("SCHEDHIST_SEED", "")
    random.seed(seed or None)
    cgroup.on()
    CHAOS.mkdir()
    load("metrics=all")
    all_at_once = storm("fork", "into", "move", "mkdir", "exec", "rename", *(["hotplug"] if CPU1.exists() else []))
    steady, restless = Parts("steady chaos", STEADY, seed), Parts("restless chaos", RESTLESS, seed)
    for _ in range(rounds):
        for rule in random.sample(["list", "cgroup under /schedhist", "comm"], 3 if DEBUG else amount(1, 3, 3)):
            restless.resume()
            time.sleep(seconds)
            restless.pause()
            # From here on, what is counted adds up.
            write("metrics", "all")
            write("group_limit", 100)
            write("group_memory_limit", "none")
            write("group_by", "none")
            begin(rule)
            time.sleep(seconds)
            measure(0)
            all_at_once.pause()
            # A rule must not add a group while the files are compared.
            steady.pause()
            note(f"by {rule}: {status('switches')} switches, {head_of('gone')} gone, {head_of('refused')} refused")
            check_laws()
            check_group_laws()
            for parts in steady, restless, all_at_once:
                parts.goes_on()
            log.so_far()
            steady.resume()
            all_at_once.resume()
    restless.resume()
    time.sleep(1)
    restless.end()
    steady.end()
    tracing_reset()
    unload()
    assert_gone()
    all_at_once.stop()
