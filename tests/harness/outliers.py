# SPDX-License-Identifier: GPL-2.0
"""Outliers, from the files `outliers` and `outlier_pipe` and from a trace."""

from __future__ import annotations

import errno
import os
import re
import threading
import time
from types import SimpleNamespace
from typing import Any, NamedTuple, Sequence

from .ktap import Wrong, eq, note
from .module import DEBUGFS, above_1ns, status, waits_in_kernel, write
from .names import METRICS

HEAD = "# schedhist outliers version 1\n"
KEPT, CULPRITS, SLICES = 16, 32, 256
KINDS = {"metric": "[a-z_]+", "cause": "[a-z_]+", "prio": r"-?\d+", "comm": ".*"}


def report_all() -> None:
    """Makes each sample above 1 ns an outlier."""
    for metric in METRICS:
        write(f"threshold_ns/{metric}", 1)


def check_all_counted(metrics: Sequence[str] = METRICS) -> tuple[int, int]:
    """Asserts that each sample above 1 ns was reported or suppressed; returns how many were."""
    reported, suppressed, samples = status("outliers"), status("outliers_suppressed"), above_1ns(metrics)
    note(f"{samples} samples, {reported} outliers, {suppressed} suppressed")
    eq("outliers and suppressed ones", reported + suppressed, samples)
    return reported, suppressed


def pattern(begin: str, keys: str, between: str) -> str:
    """Returns an expression for keys with their values. It is compiled at its first use: on an emulated machine
    that takes longer than most programs."""
    names = {key: "number" if key == "culprits" else key for key in keys.split()}
    kinds = {name: KINDS.get(name, r"\d+") for name in names.values()}
    return begin + " ".join(f"{key}{between}(?P<{name}>{kinds[name]})" for key, name in names.items())


# A long wait has more.
TEXT = (pattern("outlier ", "id metric cause cpu duration_ns start_ns end_ns missing_ns culprits", " ")
        + r"(?: idle_cpu \d+ idle_ns \d+ distance \w+)?" + pattern(" ", "pid prio group comm", " "))
CULPRIT_TEXT = pattern("  culprit ", "id ran_ns slices pid prio group comm", " ")
EVENT = pattern(".*: outlier: ", """id metric comm pid prio cpu cause duration_ns start_ns end_ns culprits
    missing_ns group""", "=")
CULPRIT_EVENT = pattern(".*: culprit: ", "id comm pid prio cpu ran_ns slices group", "=")


class Culprit(NamedTuple):
    id: int
    ran_ns: int
    slices: int
    pid: int
    prio: int
    group: int
    comm: str


class Outlier(SimpleNamespace):
    """An outlier: the keys of its text, `culprits` as `number`; and its culprits."""

    culprits: list[Culprit]

    def __init__(self, **values: str | int) -> None:
        super().__init__(**values, culprits=[])

    def check(self) -> Outlier:
        """Checks the laws."""
        ran = sum(culprit.ran_ns for culprit in self.culprits)
        slices = sum(culprit.slices for culprit in self.culprits)
        for what, holds in (
            ("it has as many culprits as it says", self.number == len(self.culprits)),
            ("there are at most 32", self.number <= CULPRITS),
            ("their number is its own", all(culprit.id == self.id for culprit in self.culprits)),
            ("each is named once", len({culprit.pid for culprit in self.culprits}) == self.number),
            ("each ran", all(c.ran_ns > 0 and c.slices > 0 for c in self.culprits)),
            ("it remembers 256 slices at most", slices <= SLICES),
            ("the times fit", self.start_ns + self.duration_ns == self.end_ns),
            ("what they ran and what is missing adds up", ran + self.missing_ns == self.duration_ns),
        ):
            if not holds:
                raise Wrong(f"not so: {what}: {self}")
        return self


def values(match: re.Match[str]) -> dict[str, Any]:
    found = match.groupdict()
    return {key: value if key in ("metric", "cause", "comm") else int(value) for key, value in found.items()}


def escaped(comm: str) -> str:
    """Returns a name as the files show it; a trace shows it unchanged."""
    return "".join(c if " " <= c <= "~" and c != "\\" else f"\\x{ord(c):02x}" for c in comm)


def read_text(text: str) -> list[Outlier]:
    """Parses the text of a debugfs file."""
    if not text.startswith(HEAD):
        raise Wrong(f"no such head: {text[:80]!r}")
    outliers: list[Outlier] = []
    if not text.endswith("\n"):
        raise Wrong(f"the last line is not whole: {text[-80:]!r}")
    for line in text.splitlines()[1:]:
        if match := re.fullmatch(TEXT, line):
            outliers.append(Outlier(**values(match)))
        elif (match := re.fullmatch(CULPRIT_TEXT, line)) and outliers:
            outliers[-1].culprits.append(Culprit(**values(match)))
        else:
            raise Wrong(f"what is this? {line!r}")
    return [outlier.check() for outlier in outliers]


def read_trace(text: str) -> list[Outlier]:
    """Parses a trace, read as Latin-1; other events may lie between those of one outlier."""
    outliers: dict[int, Outlier] = {}
    for line in text.splitlines():
        if match := re.fullmatch(EVENT, line):
            found = Outlier(**values(match))
            found.comm = escaped(found.comm)
            if found.id in outliers:
                raise Wrong(f"twice: {line!r}")
            outliers[found.id] = found
        elif match := re.fullmatch(CULPRIT_EVENT, line):
            found = values(match)
            found["comm"] = escaped(found["comm"])
            outlier = outliers.get(found["id"])
            if not outlier or outlier.cpu != found.pop("cpu"):
                raise Wrong(f"nobody's: {line!r}")
            outlier.culprits.append(Culprit(**found))
        elif ": outlier: " in line or ": culprit: " in line:
            raise Wrong(f"what is this? {line!r}")
    return [outlier.check() for outlier in outliers.values()]


class Waiting(threading.Thread):
    """Reads the stream of outliers; `texts` holds the pieces that it got.

    If no outlier can come any more, it counts that, and tries again.
    """

    def __init__(self, fd: int | None = None) -> None:
        super().__init__(daemon=True)
        self.fd = os.open(DEBUGFS / "outlier_pipe", os.O_RDONLY) if fd is None else fd
        self.texts: list[str] = []
        self.ends = 0
        self.start()

    def run(self) -> None:
        while True:
            try:
                text = os.read(self.fd, 1 << 16)
            except OSError as error:
                if error.errno != errno.ENODATA:
                    self.texts.append(f"errno {error.errno}\n")
                    return
                self.ends += 1
                time.sleep(0.02)
                continue
            self.texts.append(text.decode())

    def outliers(self) -> list[Outlier]:
        text = "".join(list(self.texts))
        return read_text(text) if text else []

    def number(self) -> int:
        """Returns the number of outliers in the texts, without parsing them."""
        return "".join(list(self.texts)).count("outlier id ")

    def bare(self) -> list[Outlier]:
        """Returns the same outliers if another reader may have got the head."""
        return read_text(HEAD + "".join(list(self.texts)).removeprefix(HEAD))

    def is_blocked(self) -> bool:
        return waits_in_kernel(self.native_id)
