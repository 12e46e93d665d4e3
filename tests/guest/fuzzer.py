# SPDX-License-Identifier: GPL-2.0
"""Misuses the files: with words that they take, with words that are nearly right, and with anything else.

The text that each file takes, and what it reads then, is from the documentation alone. An input is one write() or
the like to a control, or to a file that cannot be written.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import itertools
import mmap
import os
import random
import re
import select
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Callable

from harness import log
from harness.names import CONTROLS, DEFAULT, METRICS, RECORDED, files
from harness.process import LIBC
from harness.test import DEBUGFS, HAS_RESCHED, Wrong, possible_cpus

# Text is Latin-1: a character is a byte.
SPACE, SEPARATORS = " \t\n\f\r", " ,\n\t\r\f\v;\0\xa0"
LONGEST, LONGEST_RULE, INPUT_MOST, OFFSET_MOST = 256, 4096 + 64, 1 << 20, (1 << 63) - 1
PAGE = mmap.PAGESIZE
# The least descriptor of a shared file.
SHARED = 100
LIBC.mmap.restype = ctypes.c_void_p
FAILED = ctypes.c_void_p(-1).value

# --- what is right ---

SETS = {name: {name} for name in RECORDED if HAS_RESCHED or not name.startswith("resched")}
SETS |= {"runq": {"runq_wakeup", "runq_preempt"}, "default": set(DEFAULT), "all": {*SETS}, "none": set()}
ACTIONS = {"tracing_off": {"tracing_off"}, "snapshot": {"snapshot"}, "none": set()}


def words_of(text: str, sets: dict[str, set[str]] = SETS) -> str | None:
    """Returns what is shown of words that name metrics or the like, or None if they are refused."""
    words = [word for word in re.split(f"[,{SPACE}]+", text) if word]
    if not words or not {*words} <= sets.keys() or "none" in words[1:] + words[:-1]:
        return None
    found = set().union(*(sets[word] for word in words))
    return " ".join(name for name in sets if sets[name] == {name} and name in found) or "none"


def number_of(text: str, least: int = 1, most: int = (1 << 64) - 1) -> int | None:
    number = int(text) if re.fullmatch("[0-9]+", text) else -1
    return number if least <= number <= most else None


def shown(number: int | None) -> str | None:
    return None if number is None else str(number)


def limit(text: str, most: int = (1 << 64) - 1) -> str | None:
    return text if text == "none" else shown(number_of(text, 1, most))


def chain(text: str) -> str | None:
    number = number_of(text, 0, 65536)
    return None if number is None or number & (number - 1) or 0 < number < 16 else str(number)


def pids(kind: str, text: str) -> tuple[int, str]:
    words = [word for word in re.split(f"[,{SPACE}]+", text) if word]
    found = [number_of(word, 1, (1 << 22) - 1) for word in words]
    if None in found or len(found) > 64 or (not found and "," in text):
        return errno.EINVAL, ""
    error = 0
    for pid in found:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            error = errno.ESRCH
    return error, " ".join([kind, *map(str, found)])


def rule(text: str) -> tuple[int, str]:
    """Knows no cgroup but the root: with another one the error is ENOENT, unless the rule is none."""
    words = [word for word in re.split(f"[{SPACE}]+", text) if word]
    kind, words, under, depth = words[0] if words else "", words[1:], "", None
    if kind in ("none", "comm"):
        return errno.EINVAL if words else 0, kind
    if kind in ("process", "thread"):
        return pids(kind, text[len(kind) :])
    good = kind == "cgroup"
    for key, value in itertools.zip_longest(words[::2], words[1::2], fillvalue=""):
        if key == "under" and not under and value.startswith("/"):
            under = value
        else:
            good &= key == "depth" and not depth
            depth = number_of(value, 1, (1 << 32) - 2)
            good &= depth is not None
    if not good or "\0" in under:
        return errno.EINVAL, ""
    # More slashes than one are the root, too.
    if under.strip("/"):
        return errno.ENOENT, ""
    return 0, "cgroup" + f" under {under}" * (len(under) > 1) + f" depth {depth}" * bool(depth)


TAKEN: dict[str, Callable[[str], str | None]] = {
    "enable": lambda text: text if text in ("0", "1") else None,
    "reset": lambda text: "" if text == "1" else None,
    "metrics": words_of,
    "on_outlier": lambda text: words_of(text, ACTIONS),
    "outlier_rate": lambda text: limit(text, 1_000_000_000),
    "group_limit": lambda text: shown(number_of(text, 1, 4095)),
    "chain": chain,
    **dict.fromkeys(["outlier_limit", "group_memory_limit", "long_wait_ns"], limit),
}


def error_of(kind: str, text: str) -> tuple[int, str]:
    """Returns the error with which a file refuses the text, or 0 and what it then reads."""
    if len(text) > (LONGEST_RULE if kind == "group_by" else LONGEST):
        return errno.EINVAL, ""
    text = text.strip(SPACE)
    if kind == "group_by":
        return rule(text)
    # Rules are always refused, too: no input groups tasks by a list.
    taken = TAKEN[kind](text) if kind in TAKEN else None
    return (errno.EINVAL, "") if taken is None else (0, taken)


# --- inputs ---

WORDS = ["0", "1", "2", "on", "off", "y", "N", "true", *METRICS, "blocked", "default", "all", "none", "nothing", *ACTIONS,
         "1000", "42", "cgroup", "comm", "depth", "under", "/", "process", "thread", "18446744073709551615",
         "18446744073709551616", "9223372036854775808", "4294967296", "-1", "+1", "0x10", "1e9", "1ms", "%s%n", "../reset",
         "all default", "\xef\xbb\xbf1", "\xd9\xa1"]
# Of the PIDs, 4194303 is that of no process, and 4194304 cannot be one.
RULES = ["none", "comm", "process 1", "process", "thread 1,2", "1", "2", "4194303", "4194304", "cgroup", "cgroup under /",
         "under", "/", "/nothing", "//", "depth", "depth 2", "cgroup under /nothing"]
EDGES = [0, 1, 1000, 1_000_000_000, 1 << 32, 1 << 40, 1 << 63, (1 << 64) - 1]


class Dice(random.Random):
    """Random numbers that a seed reproduces, and inputs."""

    def one_in(self, number: int) -> bool:
        return self.randrange(number) == 0

    def byte(self) -> str:
        return chr(self.randrange(256))

    def some(self, words: list[str], most: int) -> str:
        """Returns some of the words, mostly with valid separators between them."""
        text = self.choice(words)
        for _ in range(self.randrange(most)):
            text += self.choice(SEPARATORS if self.one_in(8) else SEPARATORS[:6]) + self.choice(words)
        return text

    def number(self) -> str:
        if self.one_in(8):
            # Of any length, with any digits.
            return "".join(self.choices("0123456789", k=1 + self.randrange(30)))
        number = self.getrandbits(64) >> self.randrange(64)
        if self.one_in(4):
            number = (self.choice(EDGES) + self.randrange(-1, 2)) % (1 << 64)
        # No file takes a sign.
        return "+" * self.one_in(32) + str(number)

    def good(self, kind: str) -> str:
        if kind in ("enable", "reset"):
            return "0" if kind == "enable" and self.one_in(4) else "1"
        if kind == "chain":
            return self.number() if self.one_in(4) else str(1 << self.randrange(20))
        words = {"group_by": (RULES, 3), "metrics": ([*METRICS, "default", "all", "none"], 6), "on_outlier": ([*ACTIONS], 3)}
        if kind in TAKEN and kind not in words:
            return "none" if self.one_in(8) else self.number()
        return self.some(*words.get(kind, (WORDS, 2)))

    def surround(self, text: str) -> str:
        before, after = ("".join(self.choices(SEPARATORS[:6], k=self.randrange(4))) for _ in range(2))
        return before + text + after

    def mutate(self, text: str) -> str:
        """Makes one change, of one byte or of several."""
        at, how = self.randrange(len(text) or 1), self.randrange(8)
        here, rest = text[at : at + 1], text[at + 1 :]
        if how == 0:
            here = here and chr(ord(here) ^ 1 << self.randrange(8))
        elif how == 1:
            here = here and self.byte()
        elif how == 2:
            here = (self.choice(SEPARATORS) if self.one_in(2) else self.byte()) + here
        elif how == 3:
            here = ""
        elif how == 4:
            # Duplicates the text from there on.
            rest += here + rest
        elif how == 5:
            here = rest = ""
        elif how == 6:
            here = here.swapcase() if here.isascii() else here
        else:
            rest += self.choice("\n\0+- 0")
        return text[:at] + here + rest

    def long(self, kind: str) -> str:
        """Returns text around the maximum length, or far longer, most of it white space."""
        length = self.randrange(INPUT_MOST + 1) if self.one_in(30) else LONGEST - 6 + self.randrange(12)
        word = self.good(kind)[:length]
        at = length - len(word) if self.one_in(2) else self.randrange(length - len(word) + 1)
        fill = "0" if self.one_in(4) else " "
        return fill * at + word + fill * (length - len(word) - at)

    def input(self, kind: str) -> str:
        how = self.randrange(10)
        if how == 0:
            text = "".join(self.byte() for _ in range(self.randrange(300 if self.one_in(8) else 24)))
        elif how == 1:
            text = self.some(WORDS, 4)
        elif how == 2:
            text = self.long(kind)
        else:
            text = self.good(kind)
            if self.one_in(2 if how < 6 else 3):
                text = self.surround(text)
            for _ in range(0 if how < 6 else 1 + self.randrange(3)):
                text = self.mutate(text)
        # Valid text switches these all off and on, which is slow: write it less often.
        if kind in ("enable", "metrics") and not self.one_in(100):
            while not error_of(kind, text)[0]:
                text = self.mutate(text)
        return text

    def size(self) -> int:
        return self.randrange(INPUT_MOST if self.one_in(8) else 600)

    def offset(self) -> int:
        return self.choice([self.getrandbits(64) - (1 << 63), OFFSET_MOST - self.randrange(3), -self.randrange(5000),
                            *[self.randrange(6000)] * 5])


# --- calls ---


class File:
    """A file, and the text that it must read."""

    def __init__(self, name: str) -> None:
        self.path, self.text = DEBUGFS / name, ""
        # All thresholds are alike.
        self.kind = "long_wait_ns" if name.startswith("threshold_ns/") else name
        self.is_control = self.kind in (*CONTROLS, "reset")
        self.is_shown = self.is_control and name not in ("reset", "group_rules")

    def read(self) -> str:
        return self.path.read_text("latin-1")

    def learn(self) -> None:
        """Text read from a control can be written to it, and then it reads the same."""
        if self.is_shown:
            self.text = self.read()
            if error_of(self.kind, self.text) != (0, self.text[:-1]):
                raise Wrong(f"{self.path} reads what cannot be written: {self.text!r}")

    def check(self) -> None:
        if self.is_shown and (text := self.read()) != self.text:
            raise Wrong(f"{self.path} reads {text!r}, and not {self.text!r}")

    def wrong(self, what: str, text: str, result: int, error: int) -> Wrong:
        return Wrong(f"{self.path}: {what}: result {result} ({os.strerror(error)}), length {len(text)}: {text[:300]!r}")


def result_of(call: Callable[..., int], *arguments: object) -> tuple[int, int]:
    """Returns the result and the error, as in C."""
    try:
        return call(*arguments), 0
    except OSError as error:
        return -1, error.errno


class Fuzzer:
    """What one thread does, with data of its own."""

    def __init__(self, seed: str, every: list[File], shared: list[int]) -> None:
        self.dice, self.files, self.shared = Dice(seed), every, shared
        self.controls = [file for file in every if file.is_control]
        self.accepted = self.refused = self.others = 0
        # The second page faults.
        self.pages = mmap.mmap(-1, 2 * PAGE)
        self.edge = ctypes.addressof(ctypes.c_char.from_buffer(self.pages)) + PAGE
        if LIBC.mprotect(ctypes.c_void_p(self.edge), PAGE, 0):
            raise Wrong("mprotect")

    def at_edge(self, call: str, fd: int, before: int, size: int) -> tuple[int, int]:
        """Calls read() or write() with a buffer that begins so much before the page that faults."""
        result = getattr(LIBC, call)(fd, ctypes.c_void_p(self.edge - before), ctypes.c_size_t(size))
        return result, ctypes.get_errno()

    def count(self, is_good: bool) -> None:
        self.accepted += is_good
        self.refused += not is_good

    def pick(self) -> File:
        return self.dice.choice(self.files if self.dice.one_in(8) else self.controls)

    def open(self, file: File) -> int:
        flags = self.dice.choice([0, os.O_APPEND, os.O_TRUNC, os.O_SYNC, os.O_CLOEXEC, os.O_CREAT])
        mode = os.O_RDWR if file.kind != "reset" and self.dice.one_in(2) else os.O_WRONLY
        return os.open(file.path, mode | os.O_NONBLOCK | flags, 0o600)

    def write(self, file: File, fd: int, position: int) -> str | None:
        """Writes one input to a file that no other thread has open, and checks the result. `position` is the
        file's. Returns the text that the file reads if it was accepted."""
        dice, kind = self.dice, file.kind
        text = dice.input(kind)
        data, length, how = text.encode("latin-1"), len(text), dice.randrange(16)
        error, then = error_of(kind, text)
        if position:
            error = errno.EINVAL
        if how == 0 and length:
            # The end of the input cannot be read.
            there = min(dice.randrange(length), LONGEST)
            self.pages[PAGE - there : PAGE] = data[:there]
            result, found = self.at_edge("write", fd, there, length)
            # Unless it is refused unread: without write(), or past the largest offset.
            is_read = there < LONGEST or kind in ("group_by", "group_rules")
            is_read = is_read and file.is_control and position <= OFFSET_MOST - length
            error = errno.EFAULT if is_read else errno.EINVAL
        elif how == 1:
            # These files do not support pwrite().
            result, found = result_of(os.pwrite, fd, data, 0 if dice.one_in(4) else dice.getrandbits(63))
            error = errno.ESPIPE
        elif how == 2 and length:
            result, found = result_of(os.writev, fd, [data])
        elif how == 3 and 1 < length <= LONGEST:
            # Each part is an input.
            first = 1 + dice.randrange(length - 1)
            error, then = error_of(kind, text[:first])
            later, last = error_of(kind, text[first:])
            result, found = result_of(os.writev, fd, [data[:first], data[first:]])
            error = errno.EINVAL if position else error
            length, then = (first, then) if later else (length, last)
        else:
            result, found = result_of(os.write, fd, data)
        # group_memory_limit can be too small for the counters of as many groups.
        if not error and found == errno.ENOMEM and kind == "group_by":
            error = errno.ENOMEM
        if not error and result != length:
            raise file.wrong("was refused", text, result, found)
        if error and (result != -1 or found != error):
            raise file.wrong("was refused in another way" if result == -1 else "was taken", text, result, found)
        self.count(not error)
        return None if error else then

    def misuse(self, fd: int) -> None:
        """Makes another call, which may fail; ioctl(), mmap() and writing by splice() must fail."""
        self.others += 1
        dice = self.dice
        how = dice.choice([*[self.read, self.pread] * 3, *[self.seek] * 2, *[self.rarely] * 8])
        with contextlib.suppress(OSError):
            how(fd, dice)

    def read(self, fd: int, dice: Dice) -> None:
        os.read(fd, dice.size())

    def pread(self, fd: int, dice: Dice) -> None:
        os.pread(fd, dice.size(), dice.offset())

    def seek(self, fd: int, dice: Dice) -> None:
        os.lseek(fd, dice.offset(), dice.randrange(6))

    def rarely(self, fd: int, dice: Dice) -> None:
        how = dice.randrange(8)
        if how == 0:
            os.readv(fd, [bytearray(dice.randrange(1000)) for _ in range(dice.randrange(4))])
        elif how == 1:
            # Reads into a buffer that faults half way.
            self.at_edge("read", fd, dice.randrange(64), 1 + dice.randrange(4096))
        elif how == 2:
            poll = select.poll()
            poll.register(fd, select.POLLIN | select.POLLOUT | select.POLLPRI)
            poll.poll(0)
        elif how == 3:
            request = ctypes.c_ulong(dice.getrandbits(64) | 0x80000000)
            if LIBC.ioctl(fd, request, ctypes.c_void_p(self.edge - PAGE)) == 0:
                raise Wrong("an ioctl() was taken")
        elif how == 4:
            protection = mmap.PROT_READ | dice.randrange(2) * mmap.PROT_WRITE
            if LIBC.mmap(None, ctypes.c_size_t(PAGE), protection, 1 + dice.randrange(2), fd, ctypes.c_long(0)) != FAILED:
                raise Wrong("a file was mapped")
        elif how == 5:
            self.splice(fd)
        elif how == 6:
            copy = os.dup(fd)
            result_of(os.lseek, copy, dice.randrange(50), os.SEEK_SET)
            os.close(copy)
        else:
            os.fstat(fd)
            # Not all shared files can be written.
            result_of(os.ftruncate, fd, dice.randrange(1000))
            fcntl.fcntl(fd, fcntl.F_SETFL, os.O_NONBLOCK | dice.randrange(2) * os.O_APPEND)

    def splice(self, fd: int) -> None:
        out, into = os.pipe2(os.O_NONBLOCK)
        result_of(lambda: os.splice(fd, into, 4096, flags=os.SPLICE_F_NONBLOCK))
        os.write(into, b"1")
        if result_of(os.splice, out, fd, 1)[0] > 0:
            raise Wrong("splice() wrote to a file")
        result_of(os.sendfile, into, fd, None, 4096)
        os.close(out)
        os.close(into)

    def alone(self, number: int, status: File, enable: File) -> None:
        """Knows what each file must read after each input."""
        for turn in range(number):
            file = self.pick()
            fd = self.open(file)
            # While measuring is off, the status does not change.
            is_still = not file.is_shown and self.dice.one_in(16) and enable.read()[0] == "0"
            for _ in range(1 + self.dice.randrange(3)):
                if self.dice.one_in(4):
                    self.misuse(fd)
                before = status.read() if is_still else ""
                text = self.write(file, fd, result_of(os.lseek, fd, 0, os.SEEK_CUR)[0])
                if text is not None:
                    file.text = f"{text}\n"
                elif is_still and status.read() != before:
                    raise Wrong(f"{file.path}: refused, and changed the status")
                file.check()
            os.close(fd)
            if turn % 64 == 0 or turn == number - 1:
                for each in self.controls:
                    each.check()

    def together(self, number: int) -> None:
        """Uses files of its own, and those that all threads share."""
        dice = self.dice
        for _ in range(number):
            file, slot = self.pick(), dice.randrange(len(self.shared))
            fd = self.shared[slot]
            if dice.one_in(8):
                # Replaces the file while others use it.
                mode = os.O_WRONLY if file.kind == "reset" else os.O_RDWR
                new = share(os.open(file.path, mode | os.O_NONBLOCK))
                fd, self.shared[slot] = self.shared[slot], new
                result_of(os.close, fd)
            elif dice.one_in(2):
                self.misuse(fd)
            elif dice.one_in(2):
                # It may be any file by now: text that no file accepts must be refused.
                text = dice.input(file.kind)
                result, error = result_of(os.write, fd, text.encode("latin-1"))
                is_good = any(not error_of(kind, text)[0] for kind in ("group_by", *TAKEN))
                if result >= 0 and (result != len(text) or not is_good):
                    raise file.wrong("was taken", text, result, error)
                self.count(result >= 0)
            else:
                fd = self.open(file)
                self.write(file, fd, 0)
                os.close(fd)


def share(fd: int) -> int:
    """Moves a descriptor above all those of a thread's own files, so that closing it cannot hit one."""
    high = fcntl.fcntl(fd, fcntl.F_DUPFD, SHARED)
    os.close(fd)
    return high


def fuzz(seed: str, goes_on: Callable[[int], bool]) -> str:
    """Alternates between one thread and several at once, while it goes on after so many inputs. Returns what
    was done."""
    modes = files(possible_cpus())
    every = [File(str(path.relative_to(DEBUGFS))) for path in sorted(DEBUGFS.rglob("*")) if path.is_file()]
    for file in every:
        mode = file.path.stat().st_mode & 0o7777
        if mode != modes[str(file.path.relative_to(DEBUGFS))] or file.is_control == (mode == 0o400):
            raise Wrong(f"{file.path}: has the mode {mode:o}")
    status, enable = (next(file for file in every if file.kind == kind) for kind in ("status", "enable"))
    shared = [share(os.open(status.path, os.O_RDONLY)) for _ in range(8)]
    fuzzers = [Fuzzer(f"{seed} {number}", every, shared) for number in range(5)]
    with ThreadPoolExecutor(4) as pool:
        while goes_on(sum(fuzzer.accepted + fuzzer.refused for fuzzer in fuzzers)):
            for file in every:
                file.learn()
            fuzzers[0].alone(1500, status, enable)
            log.so_far()
            list(pool.map(lambda fuzzer: fuzzer.together(600), fuzzers[1:]))
            log.so_far()
    os.closerange(SHARED, 1 << 10)
    accepted, refused, others = (sum(getattr(it, name) for it in fuzzers) for name in ("accepted", "refused", "others"))
    return f"{accepted + refused} inputs, {accepted} accepted, {refused} refused; {others} other calls, {len(every)} files"
