# SPDX-License-Identifier: GPL-2.0
"""The kernel log: what the module says in it, and that it holds no report of an error."""

import contextlib
import ctypes
import itertools
import os
import re
import subprocess
from pathlib import Path
from typing import Iterator

from .kernel import DEBUG
from .ktap import Wrong
from .process import LIBC, TREE, WORK, write_file

CHECK = TREE / "scripts/bed/check-log"
READ_ALL, READ_CLEAR, SIZE = 3, 4, 10
STAMP = re.compile(r"^(<\d+>)?\[ *\d+\.\d+\](\[ *[TC]\d+\])? ")
_numbers = itertools.count()


def _klog(action: int) -> str:
    size = LIBC.klogctl(SIZE, None, 0)
    buffer = ctypes.create_string_buffer(size)
    length = LIBC.klogctl(action, buffer, size)
    if length < 0:
        raise OSError(ctypes.get_errno(), "klogctl")
    return buffer.raw[:length].decode("utf-8", "replace")


class Mark:
    """A line in the log, and what is logged from then on."""

    def __init__(self, name: str = "") -> None:
        self.text = f"schedhist-test: {name or f'{os.getpid()} {next(_numbers)}'}"
        write_file("/dev/kmsg", f"{self.text}\n")

    def after(self, log: str) -> str | None:
        """Returns the part of the log after the mark, or None if it is not there."""
        _, mark, rest = log.rpartition(f" {self.text}\n")
        return rest if mark else None

    def lines(self) -> list[str]:
        """Returns the lines since then, without time stamps."""
        rest = self.after(_klog(READ_ALL))
        if rest is None:
            raise Wrong("the log has lost its beginning")
        return [STAMP.sub("", line) for line in rest.splitlines()]

    def ours(self) -> list[str]:
        """Returns the lines of the module since then."""
        return [line for line in self.lines() if line.startswith("schedhist: ")]


_patterns: dict[bool, str] = {}


def _pattern(lacking: bool) -> str:
    """Returns an expression that each line of a report matches."""
    if lacking not in _patterns:
        options = [] if lacking else ["--allocations"]
        said = subprocess.run([CHECK, *options, "--pattern"], check=True, capture_output=True, text=True)
        _patterns[lacking] = said.stdout.rstrip("\n")
    return _patterns[lacking]


def take(mark: Mark, lacking: bool) -> tuple[str, str]:
    """Takes the log, and keeps it for scripts/bed/vm. Returns the reports in it since the mark, and its
    last lines. Clears the log: searching megabytes takes seconds."""
    log = _klog(READ_CLEAR)
    if kept := os.environ.get("SCHEDHIST_LOG"):
        with open(kept, "a", encoding="utf-8") as file:
            file.write(log)
    since = mark.after(log)
    if since is None:
        return "the log has lost its beginning", log[-2000:]
    tail = "\n".join(STAMP.sub("", line) for line in since.splitlines()[-20:])
    found = subprocess.run(["grep", "-aqE", "-e", _pattern(lacking)], input=since, text=True, check=False)
    if found.returncode == 1:
        return "", tail
    (WORK / "since").write_text(since)
    checked = subprocess.run([CHECK, *([] if lacking else ["--allocations"]), WORK / "since"],
                             capture_output=True, text=True, errors="replace", check=False)
    said = checked.stdout + checked.stderr or f"{CHECK.name}: status {checked.returncode}"
    return said if checked.returncode else "", tail


# The mark of the test that runs, and whether it makes allocations fail.
current: tuple[Mark, bool] | None = None


def begin(name: str, lacking: bool) -> None:
    global current
    current = Mark(name), lacking


def so_far() -> None:
    """Asserts that there is no report in the log since the test began, or since this was called last, and
    clears the log. For tests that fill it."""
    global current
    assert current
    reports, _ = take(*current)
    # The runner looks for the same mark.
    write_file("/dev/kmsg", f"{current[0].text}\n")
    if reports:
        raise Wrong(f"the kernel log: {reports}")


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keeps the log off the slow console while thousands of inputs are refused, each with a line. A
    warning panics the guest at once, before it is lost among these lines."""
    printk = Path("/sys/module/printk/parameters/ignore_loglevel")
    write_file(printk, "N")
    LIBC.klogctl(8, None, 1)
    try:
        # KCSAN reports a race in the kernel's own code as a warning, too.
        if DEBUG != "kcsan":
            write_file("/proc/sys/kernel/panic_on_warn", "1")
        yield
    finally:
        write_file("/proc/sys/kernel/panic_on_warn", "0")
        LIBC.klogctl(8, None, 7)
        write_file(printk, "Y")
