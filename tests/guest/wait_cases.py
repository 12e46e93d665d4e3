#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""What those get who wait for outliers.

usage: wait_cases.py CASE

schedhist must be loaded. Every stay on a CPU is made an outlier; those that are reported are as many
as the limit lets through, and so happen when they are asked for.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from typing import Callable

from outlier_text import KEPT, Outlier, Wrong, read_text
from waiting import DEBUGFS, Waiting, until

WAIT = DEBUGFS / "wait"
NEWS = select.POLLIN | select.POLLRDNORM


def same(what: str, found: object, wanted: object) -> None:
    if found != wanted:
        raise Wrong(f"{what}: found {found!r}, wanted {wanted!r}")


def last() -> int:
    """The number of the last outlier."""
    words = map(str.split, (DEBUGFS / "status").read_text().splitlines())
    return next(int(word[1]) for word in words if word[0] == "outliers")


def report(number: int) -> int:
    """Lets so many outliers be reported, and returns the number of the last."""
    wanted = last() + number
    (DEBUGFS / "outlier_limit").write_text(str(number))
    until("the outliers", lambda: last() == wanted)
    # For this each CPU is asked, in turn: none is still in the midst of reporting.
    (DEBUGFS / "reset").write_text("1")
    return wanted


def kept() -> list[Outlier]:
    return read_text((DEBUGFS / "outliers").read_text())


def open_wait(flags: int = 0) -> int:
    return os.open(WAIT, os.O_RDONLY | flags)


def read_all(fd: int) -> str:
    """One outlier, and the end of the file after it."""
    text = b""
    while part := os.read(fd, 1 << 16):
        text += part
    return text.decode()


def again(fd: int) -> str | None:
    """The next outlier; None where there is none yet. For those that do not block."""
    os.lseek(fd, 0, os.SEEK_SET)
    try:
        return read_all(fd)
    except BlockingIOError:
        return None


def nonblock() -> None:
    """Who does not want to wait is told so, and gets what comes after it opened the file."""
    fd = open_wait(os.O_NONBLOCK)
    same("nothing new", again(fd), None)
    number = report(1)
    text = again(fd)
    found = read_text(text or "")
    same("the new one", found, kept()[-1:])
    same("its number", [outlier.id for outlier in found], [number])
    same("at the end of the text", os.read(fd, 100), b"")
    same("after it", again(fd), None)
    same("for one who comes later", again(open_wait(os.O_NONBLOCK)), None)
    report(3)
    # Each in its turn.
    found = [read_text(again(fd) or "") for _ in range(3)]
    same("three", found, [[outlier] for outlier in kept()[-3:]])
    same("after them", again(fd), None)


def late() -> None:
    """Who is slow gets those that are still kept."""
    fd = open_wait(os.O_NONBLOCK)
    before = last()
    number = report(10 * KEPT * (os.cpu_count() or 1))
    found: list[Outlier] = []
    while text := again(fd):
        found += read_text(text)
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
    """Who waits gets the next, and after a seek the one after that; two get the same."""
    readers = Waiting(), Waiting()
    for number in range(1, 4):
        for reader in readers:
            until("the reader to be asleep", reader.is_blocked)
            same("texts before", len(reader.texts), number - 1)
        report(1)
        for reader in readers:
            until("the text", lambda reader=reader: len(reader.texts) == number)
            same("the text", reader.outliers()[-1:], kept()[-1:])
    same("the texts of the two", readers[0].texts, readers[1].texts)


def bursts() -> None:
    """Who keeps up gets all, in their order, on however many CPUs they happen at once."""
    readers = Waiting(), Waiting()
    load = subprocess.Popen(
        ["hackbench", "--groups", "1", "--loops", "100000000"],
        start_new_session=True,
        stdout=subprocess.DEVNULL,
    )
    try:
        for _ in range(50):
            number = report(8)
            for reader in readers:
                until("all texts", lambda reader=reader: len(reader.texts) >= number - 1)
    finally:
        os.killpg(load.pid, signal.SIGKILL)
    for reader in readers:
        same("the numbers", [outlier.id for outlier in reader.outliers()], list(range(2, number + 1)))
    print(f"# {number - 1} outliers")


def told(ask: Callable[[], list[tuple[int, int]]]) -> list[tuple[int, int]]:
    """What both files tell: those who wait are woken one after the other."""
    until("news of both", lambda: len(ask()) == 2)
    return sorted(ask())


def polled() -> None:
    """poll() and epoll tell of news, once for each."""
    fds = open_wait(), open_wait()
    poll, epoll = select.poll(), select.epoll()
    for fd in fds:
        poll.register(fd, NEWS)
        epoll.register(fd, select.EPOLLIN)
    same("poll() without news", poll.poll(0), [])
    same("epoll without news", epoll.poll(0), [])
    # Somebody else makes them wake.
    child = subprocess.Popen(["sh", "-c", f"sleep 0.5; echo 1 > {DEBUGFS}/outlier_limit"])
    same("epoll", told(lambda: epoll.poll(30)), [(fd, select.EPOLLIN) for fd in sorted(fds)])
    same("poll()", told(lambda: poll.poll(30_000)), [(fd, NEWS) for fd in sorted(fds)])
    child.wait()
    same("what it is", read_text(read_all(fds[0])), kept()[-1:])
    same("poll() when one has read it", poll.poll(0), [(fds[1], NEWS)])
    same("epoll then", epoll.poll(0), [(fds[1], select.EPOLLIN)])
    same("what it is", read_text(read_all(fds[1])), kept()[-1:])
    same("poll() when both have", poll.poll(0), [])


class Interrupted(Exception):
    """A signal came."""


def signalled() -> None:
    """A signal ends the wait: by its handler, or for good."""

    def handler(_number: int, _frame: object) -> None:
        raise Interrupted

    fd = open_wait()
    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        os.read(fd, 100)
        raise Wrong("read() returned")
    except Interrupted:
        pass
    # And can be waited for again.
    number = report(1)
    same("after the signal", [outlier.id for outlier in read_text(read_all(fd))], [number])
    child = subprocess.Popen(["cat", WAIT], stdout=subprocess.PIPE)
    until("cat to be asleep", lambda: stack_of(child.pid))
    child.send_signal(signal.SIGTERM)
    same("the end of cat", child.wait(30), -signal.SIGTERM)
    same("what cat got", child.stdout.read() if child.stdout else None, b"")


def stack_of(pid: int) -> bool:
    with open(f"/proc/{pid}/stack", encoding="ascii") as stack:
        return "schedhist_wait_event" in stack.read()


def parts() -> None:
    """A text can be had in parts of any size, one after the other."""
    whole, stepwise, positioned = (open_wait(os.O_NONBLOCK) for _ in range(3))
    for size in 1, 3, 7, 31, 127, 4095:
        report(1)
        text = (again(whole) or "").encode()
        os.lseek(stepwise, 0, os.SEEK_SET)
        found = b""
        while part := os.read(stepwise, size):
            found += part
        same(f"read by {size}", found, text)
        found = b""
        while part := os.pread(positioned, size, len(found)):
            found += part
        same(f"read by {size} with pread()", found, text)


def anywhere() -> None:
    """And from any place, as often as one wants, as long as it is not from the start."""
    whole, positioned = open_wait(os.O_NONBLOCK), open_wait(os.O_NONBLOCK)
    report(1)
    text = (again(whole) or "").encode()
    same("from the start", os.pread(positioned, 1 << 16, 0), text)
    # What comes meanwhile is for the next time that it is read from the start.
    report(1)
    for offset, size in (50, 7), (1, 13), (len(text) - 3, 99), (2, 1 << 16), (11, 1), (12, 1):
        same(f"{size} bytes at {offset}", os.pread(positioned, size, offset), text[offset : offset + size])
    text = (again(whole) or "").encode()
    same("the next from the start", os.pread(positioned, 1 << 16, 0), text)


def main() -> None:
    cases = nonblock, late, blocked, bursts, polled, signalled, parts, anywhere
    (DEBUGFS / "outlier_limit").write_text("1")
    (DEBUGFS / "threshold_ns/oncpu").write_text("1")
    until("the first", lambda: last() == 1)
    next(case for case in cases if case.__name__ == sys.argv[1])()


if __name__ == "__main__":
    try:
        main()
    except Wrong as wrong:
        sys.stdout.flush()
        sys.stderr.write(f"wait_cases: {wrong}\n")
        os._exit(1)
    # Threads may still wait.
    sys.stdout.flush()
    os._exit(0)
