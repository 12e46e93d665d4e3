#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Tests what readers of the stream of outliers get.

usage: wait_cases.py CASE

schedhist must be loaded. Every stay on a CPU can be made an outlier; the limit decides how many are
reported, so they happen when a test asks for them. Before and after, no stay is long enough.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Callable

from outlier_text import HEAD, KEPT, Outlier, Wrong, read_text
from waiting import DEBUGFS, Waiting, until

PIPE = DEBUGFS / "outlier_pipe"
NEWS = select.POLLIN | select.POLLRDNORM
# No stay is this long.
FAR = 1 << 62


def same(what: str, found: object, wanted: object) -> None:
    if found != wanted:
        raise Wrong(f"{what}: found {found!r}, wanted {wanted!r}")


def say(file: str, text: object) -> None:
    (DEBUGFS / file).write_text(str(text))


def last() -> int:
    """Returns the number of the last outlier: how many there were since loading."""
    words = map(str.split, (DEBUGFS / "openmetrics").read_text().splitlines())
    return next(int(word[1]) for word in words if word[0] == "schedhist_outliers_total")


def use_up(number: int) -> int:
    """Lets this many more outliers be reported, and returns the number of the last."""
    wanted = last() + number
    say("outlier_limit", number)
    say("threshold_ns/oncpu", 1)
    until("the outliers", lambda: last() == wanted)
    # A reset runs on each CPU in turn: afterwards none is still reporting.
    say("reset", 1)
    return wanted


def report(number: int) -> int:
    """Like `use_up`, but lifts the limit; the threshold lets no more outliers come."""
    wanted = use_up(number)
    say("threshold_ns/oncpu", FAR)
    say("outlier_limit", "none")
    return wanted


def kept() -> list[Outlier]:
    return read_text((DEBUGFS / "outliers").read_text())


def open_pipe(flags: int = 0) -> int:
    return os.open(PIPE, os.O_RDONLY | flags)


def look(fd: int, size: int = 1 << 16) -> str:
    """Returns the available text, or else the name of the error. For files that do not block."""
    try:
        return os.read(fd, size).decode()
    except OSError as error:
        return errno.errorcode[error.errno]


def ready(fd: int) -> bool:
    poll = select.poll()
    poll.register(fd, NEWS)
    return poll.poll(0) == [(fd, NEWS)]


def nonblock() -> None:
    """A nonblocking read fails if there is nothing, and returns what came after the open()."""
    fd = open_pipe(os.O_NONBLOCK)
    same("nothing new", look(fd), "EAGAIN")
    number = report(1)
    text = look(fd)
    found = read_text(text)
    same("the new one", found, kept()[-1:])
    same("its number", [outlier.id for outlier in found], [number])
    same("after it", look(fd), "EAGAIN")
    same("for one who comes later", look(open_pipe(os.O_NONBLOCK)), "EAGAIN")
    report(3)
    # All outliers, and the head only once.
    same("three", read_text(HEAD + look(fd)), kept()[-3:])
    same("after them", look(fd), "EAGAIN")
    same("nothing asked for", os.read(fd, 0), b"")


def late() -> None:
    """A slow reader gets the outliers that are still kept."""
    fd = open_pipe(os.O_NONBLOCK)
    before = last()
    number = report(10 * KEPT * (os.cpu_count() or 1))
    text = ""
    while (part := look(fd)) != "EAGAIN":
        text += part
    found = read_text(text)
    wanted = [outlier for outlier in kept() if outlier.id > before]
    same("the last", found[-1].id, number)
    same("the numbers of what is kept", [outlier.id for outlier in found], [outlier.id for outlier in wanted])
    for one, other in zip(found, wanted):
        same("what is kept", one, other)
    for cpu in {outlier.cpu for outlier in found}:
        if sum(outlier.cpu == cpu for outlier in found) > KEPT:
            raise Wrong(f"more than {KEPT} of {cpu}")
    print(f"# {len(found)} of {number}")


def blocked() -> None:
    """A waiting reader gets the next outlier, then the one after it; two readers get the same."""
    readers = Waiting(), Waiting()
    for number in range(1, 4):
        for reader in readers:
            until("the reader to be asleep", reader.is_blocked)
            same("outliers before", len(reader.outliers()), number - 1)
        report(1)
        for reader in readers:
            until("the text", lambda reader=reader: len(reader.outliers()) == number)
            same("the text", reader.outliers()[-1:], kept()[-1:])
    same("what the two got", "".join(readers[0].texts), "".join(readers[1].texts))


def shared() -> None:
    """If two readers share an open file, each outlier goes to one of them."""
    fd = open_pipe()
    readers = Waiting(fd), Waiting(fd)
    for _ in range(20):
        for reader in readers:
            until("both to be asleep", reader.is_blocked)
        number = report(4)
        until("all", lambda: sum(len(reader.bare()) for reader in readers) == number)
    found = sorted(outlier.id for reader in readers for outlier in reader.bare())
    same("the numbers", found, list(range(1, number + 1)))
    heads = sum("".join(reader.texts).count(HEAD) for reader in readers)
    same("heads", heads, 1)


def bursts() -> None:
    """A reader that keeps up gets all outliers, in order, however many CPUs report them at once."""
    readers = Waiting(), Waiting()
    load = subprocess.Popen(
        ["hackbench", "--groups", "1", "--loops", "100000000"],
        start_new_session=True,
        stdout=subprocess.DEVNULL,
    )
    try:
        began = time.monotonic()
        for turn in range(50):
            # A kernel that checks everything takes seconds for each.
            if turn >= 12 and time.monotonic() - began > 12:
                break
            number = report(8)
            for reader in readers:
                until("all texts", lambda reader=reader: reader.number() >= number)
    finally:
        os.killpg(load.pid, signal.SIGKILL)
    for reader in readers:
        same("the numbers", [outlier.id for outlier in reader.outliers()], list(range(1, number + 1)))
    print(f"# {number} outliers")


def told(ask: Callable[[], list[tuple[int, int]]]) -> list[tuple[int, int]]:
    """Returns what poll or epoll report for both files: waiting readers are woken one after the
    other."""
    until("news of both", lambda: len(ask()) == 2)
    return sorted(ask())


def polled() -> None:
    """poll() and epoll report news until all is read."""
    fds = open_pipe(), open_pipe()
    poll, epoll = select.poll(), select.epoll()
    for fd in fds:
        poll.register(fd, NEWS)
        epoll.register(fd, select.EPOLLIN)
    same("poll() without news", poll.poll(0), [])
    same("epoll without news", epoll.poll(0), [])
    # Another thread makes an outlier happen.
    other = threading.Timer(0.5, report, [1])
    other.start()
    same("epoll", told(lambda: epoll.poll(30)), [(fd, select.EPOLLIN) for fd in sorted(fds)])
    same("poll()", told(lambda: poll.poll(30_000)), [(fd, NEWS) for fd in sorted(fds)])
    other.join()
    same("what it is", read_text(look(fds[0])), kept()[-1:])
    same("poll() when one has read it", poll.poll(0), [(fds[1], NEWS)])
    same("epoll then", epoll.poll(0), [(fds[1], select.EPOLLIN)])
    # Part of the outlier is left.
    text = look(fds[1], 10)
    same("poll() when it is read in part", poll.poll(0), [(fds[1], NEWS)])
    same("what it is", read_text(text + look(fds[1])), kept()[-1:])
    same("poll() when both have", poll.poll(0), [])


class Interrupted(Exception):
    """A signal came."""


def signalled() -> None:
    """A signal ends the wait: by its handler, or by killing the reader."""

    def handler(_number: int, _frame: object) -> None:
        raise Interrupted

    fd = open_pipe()
    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        os.read(fd, 100)
        raise Wrong("read() returned")
    except Interrupted:
        pass
    # The file can be waited for again.
    number = report(1)
    same("after the signal", [outlier.id for outlier in read_text(look(fd))], [number])
    child = subprocess.Popen(["cat", PIPE], stdout=subprocess.PIPE)
    until("cat to be asleep", lambda: is_asleep(child.pid))
    child.send_signal(signal.SIGTERM)
    same("the end of cat", child.wait(30), -signal.SIGTERM)
    same("what cat got", child.stdout.read() if child.stdout else None, b"")


def is_asleep(pid: int) -> bool:
    return "schedhist_wait_event" in Path(f"/proc/{pid}/stack").read_text()


def parts() -> None:
    """A buffer of any size gets the whole text, one part after the other."""
    whole, stepwise = (open_pipe(os.O_NONBLOCK) for _ in range(2))
    for size in 1, 3, 7, 31, 127, 4095:
        report(2)
        text = look(whole)
        found = ""
        while (part := look(stepwise, size)) != "EAGAIN":
            if len(part) > size:
                raise Wrong(f"{len(part)} bytes into {size}")
            found += part
        same(f"read by {size}", found, text)
    # Whole outliers if one fits.
    report(2)
    text = look(whole)
    second = text.index("\noutlier ") + 1
    same("the first of two", look(stepwise, second + 10), text[:second])
    same("the second", look(stepwise), text[second:])


def seek() -> None:
    """The file is a stream, and has no position."""
    fd = open_pipe(os.O_NONBLOCK)
    report(1)
    for what in (
        lambda: os.lseek(fd, 0, os.SEEK_SET),
        lambda: os.lseek(fd, 0, os.SEEK_CUR),
        lambda: os.pread(fd, 100, 0),
        lambda: os.pread(fd, 100, 1),
    ):
        try:
            what()
            raise Wrong("it can seek")
        except OSError as error:
            same("the error", errno.errorcode[error.errno], "ESPIPE")
    same("what is there", read_text(look(fd)), kept()[-1:])


def trickle() -> int:
    """Makes outliers happen slowly and without end; returns the number of the first."""
    before = last()
    say("outlier_rate", 2)
    say("threshold_ns/oncpu", 1)
    until("some outliers", lambda: last() >= before + 2)
    say("threshold_ns/oncpu", FAR)
    say("reset", 1)
    return before + 1


def cat() -> None:
    """cat goes on until no outlier can come any more; head and sed read the first."""
    with subprocess.Popen(["cat", PIPE], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        for _ in range(3):
            until("cat to be asleep", lambda: is_asleep(child.pid))
            trickle()
        until("cat to be asleep", lambda: is_asleep(child.pid))
        say("enable", 0)
        out, said = child.communicate(timeout=60)
    found = read_text(out)
    same("what cat got", [outlier.id for outlier in found], list(range(1, last() + 1)))
    for outlier in kept():
        same("one of those", found[outlier.id - 1], outlier)
    same("what cat said", (child.returncode, said.partition("outlier_pipe: ")[2]), (1, "No data available\n"))
    say("enable", 1)
    for command in ["head", "-n", "2"], ["sed", "2q"]:
        with subprocess.Popen([*command, PIPE], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
            until(f"{command} to be asleep", lambda: is_asleep(child.pid))
            number = trickle()
            out, said = child.communicate(timeout=60)
        # As with trace_pipe, head says that it cannot seek back to the end of the last line.
        print(f"# {command}: status {child.returncode}, said {said!r}")
        if child.returncode or not out.startswith(f"{HEAD}outlier id {number} "):
            raise Wrong(f"{command} got {out!r}")


# How to make outliers impossible, and how to undo that.
ENDS = {
    "measuring is off": (("enable", 0), ("enable", 1)),
    "no metric is on": (("metrics", "none"), ("metrics", "default")),
    "the metric is off": (("metrics", "idle"), ("metrics", "default")),
    "there is no threshold": (("threshold_ns/oncpu", "none"), ("threshold_ns/oncpu", FAR)),
}


def ended() -> None:
    """If no outlier can come, a read fails at once, and poll() reports that it would."""
    fd = open_pipe(os.O_NONBLOCK)
    for what, (end, begin) in ENDS.items():
        same(f"before {what}", (look(fd), ready(fd)), ("EAGAIN", False))
        report(1)
        say(*end)
        # The rest of the outliers comes first.
        same(f"what is left when {what}", read_text(HEAD + look(fd).removeprefix(HEAD)), kept()[-1:])
        for one in fd, open_pipe(), open_pipe(os.O_NONBLOCK):
            same(what, (look(one), ready(one)), ("ENODATA", True))
        say(*begin)
        same(f"after {what}", (look(fd), ready(fd)), ("EAGAIN", False))
    # A metric that is off has no outliers, whatever its threshold.
    say("threshold_ns/wakeup", 1)
    same("one that is on", look(fd), "EAGAIN")
    say("threshold_ns/oncpu", "none")
    same("one that is off", look(fd), "ENODATA")
    say("metrics", "wakeup")
    same("one that comes on", look(fd) == "ENODATA", False)
    say("metrics", "default")
    say("threshold_ns/wakeup", "none")
    say("threshold_ns/oncpu", FAR)
    while look(fd) != "EAGAIN":
        pass
    # The limit is reached.
    use_up(3)
    same("those within the limit", read_text(HEAD + look(fd)), kept()[-3:])
    for one in fd, open_pipe():
        same("the limit is used up", (look(one), ready(one)), ("ENODATA", True))
    say("threshold_ns/oncpu", FAR)
    say("outlier_limit", 1)
    same("with another limit", (look(fd), ready(fd)), ("EAGAIN", False))


def woken() -> None:
    """A sleeping reader is woken when no outlier can come any more, and its read or poll() ends."""
    reader, fd = Waiting(), open_pipe()
    poll = select.poll()
    poll.register(fd, NEWS)
    ends = {**ENDS, "the limit is used up": None}
    for number, (what, how) in enumerate(ends.items(), 1):
        until("the reader to be asleep", reader.is_blocked)
        before = reader.ends
        same("poll() before", poll.poll(0), [])
        other = threading.Timer(0.5, use_up, [1]) if how is None else threading.Timer(0.5, say, how[0])
        other.start()
        same(f"poll() when {what}", poll.poll(60_000), [(fd, NEWS)])
        until(f"the reader to be told that {what}", lambda before=before: reader.ends > before)
        other.join()
        if how:
            say(*how[1])
    same("what the reader got", [outlier.id for outlier in reader.outliers()], [1])
    print(f"# {number} ways")


def main() -> None:
    cases = nonblock, late, blocked, shared, bursts, polled, signalled, parts, seek, cat, ended, woken
    say("outlier_rate", "none")
    say("threshold_ns/oncpu", FAR)
    next(case for case in cases if case.__name__ == sys.argv[1])()


if __name__ == "__main__":
    try:
        main()
    except Wrong as wrong:
        sys.stdout.flush()
        sys.stderr.write(f"wait_cases: {wrong}\n")
        os._exit(1)
    # Threads may still be waiting.
    sys.stdout.flush()
    os._exit(0)
