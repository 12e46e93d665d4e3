# SPDX-License-Identifier: GPL-2.0
"""Reads outliers from the files `outliers` and `outlier_pipe`, and from a trace."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import NamedTuple

from harness.ktap import Wrong

HEAD = "# schedhist outliers version 1\n"
KEPT, CULPRITS, STAYS = 16, 32, 256
# Each pattern is compiled at its first use, and dataclasses are not imported: on an emulated
# machine either would take longer than most programs that import this module.
TEXT = (
    r"outlier id (?P<id>\d+) metric (?P<metric>[a-z_]+) cause (?P<cause>[a-z_]+) cpu (?P<cpu>\d+) "
    r"duration_ns (?P<duration_ns>\d+) start_ns (?P<start_ns>\d+) end_ns (?P<end_ns>\d+) "
    r"missing_ns (?P<missing_ns>\d+) culprits (?P<number>\d+) pid (?P<pid>\d+) prio (?P<prio>-?\d+) "
    r"group (?P<group>\d+) comm (?P<comm>.*)"
)
CULPRIT_TEXT = (
    r"  culprit id (?P<id>\d+) ran_ns (?P<ran_ns>\d+) slices (?P<slices>\d+) pid (?P<pid>\d+) "
    r"prio (?P<prio>-?\d+) group (?P<group>\d+) comm (?P<comm>.*)"
)
EVENT = (
    r".*: outlier: id=(?P<id>\d+) metric=(?P<metric>[a-z_]+) comm=(?P<comm>.*) pid=(?P<pid>\d+) "
    r"prio=(?P<prio>-?\d+) cpu=(?P<cpu>\d+) cause=(?P<cause>[a-z_]+) duration_ns=(?P<duration_ns>\d+) "
    r"start_ns=(?P<start_ns>\d+) end_ns=(?P<end_ns>\d+) culprits=(?P<number>\d+) "
    r"missing_ns=(?P<missing_ns>\d+) group=(?P<group>\d+)"
)
CULPRIT_EVENT = (
    r".*: culprit: id=(?P<id>\d+) comm=(?P<comm>.*) pid=(?P<pid>\d+) prio=(?P<prio>-?\d+) "
    r"cpu=(?P<cpu>\d+) ran_ns=(?P<ran_ns>\d+) slices=(?P<slices>\d+) group=(?P<group>\d+)"
)


class Culprit(NamedTuple):
    id: int
    ran_ns: int
    slices: int
    pid: int
    prio: int
    group: int
    comm: str


class Outlier(SimpleNamespace):
    id: int
    metric: str
    cause: str
    cpu: int
    duration_ns: int
    start_ns: int
    end_ns: int
    missing_ns: int
    number: int
    pid: int
    prio: int
    group: int
    comm: str
    culprits: list[Culprit]

    def __init__(self, **values: str | int) -> None:
        super().__init__(**values, culprits=[])

    def check(self) -> Outlier:
        """Checks the laws."""
        ran = sum(culprit.ran_ns for culprit in self.culprits)
        stays = sum(culprit.slices for culprit in self.culprits)
        for what, holds in (
            ("it has as many culprits as it says", self.number == len(self.culprits)),
            ("there are at most 32", self.number <= CULPRITS),
            ("their number is its own", all(culprit.id == self.id for culprit in self.culprits)),
            ("each is named once", len({culprit.pid for culprit in self.culprits}) == self.number),
            ("each ran", all(c.ran_ns > 0 and c.slices > 0 for c in self.culprits)),
            ("it remembers 256 stays at most", stays <= STAYS),
            ("the times fit", self.start_ns + self.duration_ns == self.end_ns),
            ("what they ran and what is missing adds up", ran + self.missing_ns == self.duration_ns),
        ):
            if not holds:
                raise Wrong(f"not so: {what}: {self}")
        return self


def values(match: re.Match[str]) -> dict:
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
