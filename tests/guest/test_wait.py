# SPDX-License-Identifier: GPL-2.0
"""What readers of the stream of outliers, `outlier_pipe`, get.

Every slice on a CPU can be made an outlier; the limit decides how many are reported, so they happen when a
test asks for them. Before and after, no slice is long enough.
"""

import errno
import os
import re
import select
import signal
import subprocess
import threading
import time
from typing import Callable

from harness.outliers import HEAD, KEPT, Outlier, Waiting, read_text
from harness.test import DEBUGFS, Wrong, defer, eq, fails, load, note, read, stop, wait_until, waits_in_kernel, write

PIPE = DEBUGFS / "outlier_pipe"
NEWS = select.POLLIN | select.POLLRDNORM
# No slice is this long.
FAR = 1 << 62


def load_with_outliers() -> None:
    load()
    write("outlier_rate", "none")
    write("threshold_ns/oncpu", FAR)


def last() -> int:
    """Returns the number of the last outlier: how many there were since loading."""
    return int(re.search(r"^schedhist_outliers_total (\d+)", read("openmetrics"), re.MULTILINE)[1])


def use_up(number: int) -> int:
    """Lets this many more outliers be reported, and returns the number of the last."""
    wanted = last() + number
    write("outlier_limit", number)
    write("threshold_ns/oncpu", 1)
    wait_until("the outliers", lambda: last() == wanted)
    # A reset runs on each CPU in turn: afterwards none is still reporting.
    write("reset", 1)
    return wanted


def report(number: int) -> int:
    """Like `use_up`, but lifts the limit; the threshold lets no more outliers come."""
    wanted = use_up(number)
    write("threshold_ns/oncpu", FAR)
    write("outlier_limit", "none")
    return wanted


def kept() -> list[Outlier]:
    return read_text(read("outliers"))


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


def test_wait_nonblock() -> None:
    """A nonblocking read fails if there is nothing, and returns what came after the open()."""
    load_with_outliers()
    fd = open_pipe(os.O_NONBLOCK)
    eq("nothing new", look(fd), "EAGAIN")
    number = report(1)
    text = look(fd)
    found = read_text(text)
    eq("the new one", found, kept()[-1:])
    eq("its number", [outlier.id for outlier in found], [number])
    eq("after it", look(fd), "EAGAIN")
    eq("for one who comes later", look(open_pipe(os.O_NONBLOCK)), "EAGAIN")
    report(3)
    # All outliers, and the head only once.
    eq("three", read_text(HEAD + look(fd)), kept()[-3:])
    eq("after them", look(fd), "EAGAIN")
    eq("nothing asked for", os.read(fd, 0), b"")


def test_wait_late() -> None:
    """A slow reader gets the outliers that are still kept."""
    load_with_outliers()
    fd = open_pipe(os.O_NONBLOCK)
    before = last()
    number = report(10 * KEPT * (os.cpu_count() or 1))
    text = ""
    while (part := look(fd)) != "EAGAIN":
        text += part
    found = read_text(text)
    wanted = [outlier for outlier in kept() if outlier.id > before]
    eq("the last", found[-1].id, number)
    eq("the numbers of what is kept", [outlier.id for outlier in found], [outlier.id for outlier in wanted])
    for one, other in zip(found, wanted):
        eq("what is kept", one, other)
    for cpu in {outlier.cpu for outlier in found}:
        if sum(outlier.cpu == cpu for outlier in found) > KEPT:
            raise Wrong(f"more than {KEPT} of {cpu}")
    note(f"{len(found)} of {number}")


def test_wait_blocked() -> None:
    """A waiting reader gets the next outlier, then the one after it; two readers get the same."""
    load_with_outliers()
    readers = Waiting(), Waiting()
    for number in range(1, 4):
        for reader in readers:
            wait_until("the reader to be asleep", reader.is_blocked)
            eq("outliers before", len(reader.outliers()), number - 1)
        report(1)
        for reader in readers:
            wait_until("the text", lambda reader=reader: len(reader.outliers()) == number)
            eq("the text", reader.outliers()[-1:], kept()[-1:])
    eq("what the two got", "".join(readers[0].texts), "".join(readers[1].texts))


def test_wait_shared() -> None:
    """If two readers share an open file, each outlier goes to one of them."""
    load_with_outliers()
    fd = open_pipe()
    readers = Waiting(fd), Waiting(fd)
    for _ in range(20):
        for reader in readers:
            wait_until("both to be asleep", reader.is_blocked)
        number = report(4)
        wait_until("all", lambda: sum(len(reader.bare()) for reader in readers) == number)
    found = sorted(outlier.id for reader in readers for outlier in reader.bare())
    eq("the numbers", found, list(range(1, number + 1)))
    heads = sum("".join(reader.texts).count(HEAD) for reader in readers)
    eq("heads", heads, 1)


def test_wait_bursts() -> None:
    """A reader that keeps up gets all outliers, in order, however many CPUs report them at once."""
    load_with_outliers()
    readers = Waiting(), Waiting()
    load = ["hackbench", "--groups", "1", "--loops", "100000000"]
    process = subprocess.Popen(load, start_new_session=True, stdout=subprocess.DEVNULL)
    defer(stop, process)
    began = time.monotonic()
    for turn in range(50):
        # A kernel that checks everything takes seconds for each.
        if turn >= 12 and time.monotonic() - began > 6:
            break
        number = report(8)
        for reader in readers:
            wait_until("all texts", lambda reader=reader: reader.number() >= number)
    stop(process)
    for reader in readers:
        eq("the numbers", [outlier.id for outlier in reader.outliers()], list(range(1, number + 1)))
    note(f"{number} outliers")


def told(ask: Callable[[], list[tuple[int, int]]]) -> list[tuple[int, int]]:
    """Returns what poll or epoll report for both files: waiting readers are woken one after the
    other."""
    wait_until("news of both", lambda: len(ask()) == 2)
    return sorted(ask())


def test_wait_polled() -> None:
    """poll() and epoll report news until all is read."""
    load_with_outliers()
    fds = open_pipe(), open_pipe()
    poll, epoll = select.poll(), select.epoll()
    for fd in fds:
        poll.register(fd, NEWS)
        epoll.register(fd, select.EPOLLIN)
    eq("poll() without news", poll.poll(0), [])
    eq("epoll without news", epoll.poll(0), [])
    # Another thread makes an outlier happen.
    other = threading.Timer(0.5, report, [1])
    other.start()
    eq("epoll", told(lambda: epoll.poll(30)), [(fd, select.EPOLLIN) for fd in sorted(fds)])
    eq("poll()", told(lambda: poll.poll(30_000)), [(fd, NEWS) for fd in sorted(fds)])
    other.join()
    eq("what it is", read_text(look(fds[0])), kept()[-1:])
    eq("poll() when one has read it", poll.poll(0), [(fds[1], NEWS)])
    eq("epoll then", epoll.poll(0), [(fds[1], select.EPOLLIN)])
    # Part of the outlier is left.
    text = look(fds[1], 10)
    eq("poll() when it is read in part", poll.poll(0), [(fds[1], NEWS)])
    eq("what it is", read_text(text + look(fds[1])), kept()[-1:])
    eq("poll() when both have", poll.poll(0), [])


class Interrupted(Exception):
    """A signal came."""


def test_wait_signalled() -> None:
    """A signal ends the wait: by its handler, or by killing the reader."""
    load_with_outliers()

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
    eq("after the signal", [outlier.id for outlier in read_text(look(fd))], [number])
    child = subprocess.Popen(["cat", PIPE], stdout=subprocess.PIPE)
    wait_until("cat to be asleep", lambda: waits_in_kernel(child.pid))
    child.send_signal(signal.SIGTERM)
    eq("the end of cat", child.wait(30), -signal.SIGTERM)
    eq("what cat got", child.stdout.read() if child.stdout else None, b"")


def test_wait_parts() -> None:
    """A buffer of any size gets the whole text, one part after the other."""
    load_with_outliers()
    whole, stepwise = (open_pipe(os.O_NONBLOCK) for _ in range(2))
    for size in 1, 3, 7, 31, 127, 4095:
        report(2)
        text = look(whole)
        found = ""
        while (part := look(stepwise, size)) != "EAGAIN":
            if len(part) > size:
                raise Wrong(f"{len(part)} bytes into {size}")
            found += part
        eq(f"read by {size}", found, text)
    # Whole outliers if one fits.
    report(2)
    text = look(whole)
    second = text.index("\noutlier ") + 1
    eq("the first of two", look(stepwise, second + 10), text[:second])
    eq("the second", look(stepwise), text[second:])


def test_wait_seek() -> None:
    """The file is a stream, and has no position."""
    load_with_outliers()
    fd = open_pipe(os.O_NONBLOCK)
    report(1)
    for position in os.SEEK_SET, os.SEEK_CUR:
        fails(errno.ESPIPE, os.lseek, fd, 0, position)
    for position in 0, 1:
        fails(errno.ESPIPE, os.pread, fd, 100, position)
    eq("what is there", read_text(look(fd)), kept()[-1:])


def trickle() -> int:
    """Makes outliers happen slowly and without end; returns the number of the first."""
    before = last()
    write("outlier_rate", 2)
    write("threshold_ns/oncpu", 1)
    wait_until("some outliers", lambda: last() >= before + 2)
    write("threshold_ns/oncpu", FAR)
    write("reset", 1)
    return before + 1


def test_wait_cat() -> None:
    """cat goes on until no outlier can come any more; head and sed read the first."""
    load_with_outliers()
    with subprocess.Popen(["cat", PIPE], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        for _ in range(3):
            wait_until("cat to be asleep", lambda: waits_in_kernel(child.pid))
            trickle()
        wait_until("cat to be asleep", lambda: waits_in_kernel(child.pid))
        write("enable", 0)
        out, said = child.communicate(timeout=60)
    found = read_text(out)
    eq("what cat got", [outlier.id for outlier in found], list(range(1, last() + 1)))
    for outlier in kept():
        eq("one of those", found[outlier.id - 1], outlier)
    eq("what cat said", (child.returncode, said.partition("outlier_pipe: ")[2]), (1, "No data available\n"))
    write("enable", 1)
    for command in ["head", "-n", "2"], ["sed", "2q"]:
        with subprocess.Popen([*command, PIPE], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
            wait_until(f"{command} to be asleep", lambda: waits_in_kernel(child.pid))
            number = trickle()
            out, said = child.communicate(timeout=60)
        # As with trace_pipe, head says that it cannot seek back to the end of the last line.
        note(f"{command}: status {child.returncode}, said {said!r}")
        if child.returncode or not out.startswith(f"{HEAD}outlier id {number} "):
            raise Wrong(f"{command} got {out!r}")


# How to make outliers impossible, and how to undo that.
ENDS = {
    "measuring is off": (("enable", 0), ("enable", 1)),
    "no metric is on": (("metrics", "none"), ("metrics", "default")),
    "the metric is off": (("metrics", "idle"), ("metrics", "default")),
    "there is no threshold": (("threshold_ns/oncpu", "none"), ("threshold_ns/oncpu", FAR)),
}


def test_wait_ended() -> None:
    """If no outlier can come, a read fails at once, and poll() reports that it would."""
    load_with_outliers()
    fd = open_pipe(os.O_NONBLOCK)
    for what, (end, begin) in ENDS.items():
        eq(f"before {what}", (look(fd), ready(fd)), ("EAGAIN", False))
        report(1)
        write(*end)
        # The rest of the outliers comes first.
        eq(f"what is left when {what}", read_text(HEAD + look(fd).removeprefix(HEAD)), kept()[-1:])
        for one in fd, open_pipe(), open_pipe(os.O_NONBLOCK):
            eq(what, (look(one), ready(one)), ("ENODATA", True))
        write(*begin)
        eq(f"after {what}", (look(fd), ready(fd)), ("EAGAIN", False))
    # A metric that is off has no outliers, whatever its threshold.
    write("threshold_ns/wakeup", 1)
    eq("one that is on", look(fd), "EAGAIN")
    write("threshold_ns/oncpu", "none")
    eq("one that is off", look(fd), "ENODATA")
    write("metrics", "wakeup")
    eq("one that comes on", look(fd) == "ENODATA", False)
    write("metrics", "default")
    write("threshold_ns/wakeup", "none")
    write("threshold_ns/oncpu", FAR)
    while look(fd) != "EAGAIN":
        pass
    # The limit is reached.
    use_up(3)
    eq("those within the limit", read_text(HEAD + look(fd)), kept()[-3:])
    for one in fd, open_pipe():
        eq("the limit is used up", (look(one), ready(one)), ("ENODATA", True))
    write("threshold_ns/oncpu", FAR)
    write("outlier_limit", 1)
    eq("with another limit", (look(fd), ready(fd)), ("EAGAIN", False))


def test_wait_woken() -> None:
    """A sleeping reader is woken when no outlier can come any more, and its read or poll() ends."""
    load_with_outliers()
    reader, fd = Waiting(), open_pipe()
    poll = select.poll()
    poll.register(fd, NEWS)
    ends = {**ENDS, "the limit is used up": None}
    for number, (what, how) in enumerate(ends.items(), 1):
        wait_until("the reader to be asleep", reader.is_blocked)
        before = reader.ends
        eq("poll() before", poll.poll(0), [])
        other = threading.Timer(0.5, use_up, [1]) if how is None else threading.Timer(0.5, write, how[0])
        other.start()
        eq(f"poll() when {what}", poll.poll(60_000), [(fd, NEWS)])
        wait_until(f"the reader to be told that {what}", lambda before=before: reader.ends > before)
        other.join()
        if how:
            write(*how[1])
    eq("what the reader got", [outlier.id for outlier in reader.outliers()], [1])
    note(f"{number} ways")
