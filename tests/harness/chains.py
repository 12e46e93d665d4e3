# SPDX-License-Identifier: GPL-2.0
"""Chains, from the file `chains`."""

from __future__ import annotations

import re
from types import SimpleNamespace

from .ktap import Wrong, eq
from .module import read

HOPS = 30
PARTS = ("ran_ns", "waited_ns", "preempted_ns", "throttled_ns")
BLOCKED = ("interrupt", "interrupt_softirq", "unknown_softirq", "idle", "timer")
ENDS = ("start", "interrupt", "interrupt_softirq", "unknown_softirq", "idle", "overwritten", "unknown", "limit", "timer")
VIAS = ("-", "task", "softirq", "fork")
CHAIN = re.compile(r"chain id (?P<id>\d+) metric (?P<metric>\w+) cpu (?P<cpu>\d+) duration_ns (?P<duration_ns>\d+) "
                   r"end (?P<end>\w+) blocked_ns (?P<blocked_ns>\d+) missing_ns (?P<missing_ns>\d+) "
                   r"hops (?P<number>\d+)")
HOP = re.compile(r"  hop id (?P<id>\d+) via (?P<via>-|\w+) "
                 + " ".join(rf"{part} (?P<{part}>\d+)" for part in PARTS)
                 + r" slices (?P<slices>\d+) cpu (?P<cpu>\d+) group (?P<group>\d+) pid (?P<pid>\d+) comm (?P<comm>.*)")


def _values(match: re.Match[str]) -> dict[str, int | str]:
    texts = ("metric", "end", "via", "comm")
    return {key: text if key in texts else int(text) for key, text in match.groupdict().items()}


class Hop(SimpleNamespace):
    @property
    def sum(self) -> int:
        return sum(getattr(self, part) for part in PARTS)


class Chain(SimpleNamespace):
    """A chain: the keys of its text, `hops` as `number`; and its hops."""

    def check(self) -> Chain:
        """Checks the laws."""
        for what, holds in (
            ("it has as many hops as it says", self.number == len(self.hops)),
            ("one at least, and not too many", 1 <= self.number <= HOPS),
            ("it ends in a known way", self.end in ENDS),
            ("hops, blocked and missing add up",
             sum(hop.sum for hop in self.hops) + self.blocked_ns + self.missing_ns == self.duration_ns),
            ("something is blocked only before an interrupt", self.blocked_ns == 0 or self.end in BLOCKED),
            ("something is missing only then", self.missing_ns == 0 or self.end in ("overwritten", "unknown", "limit")),
            ("the first hop has no way to another", self.hops[0].via == "-"),
            ("the others have one", all(hop.via in VIAS[1:] for hop in self.hops[1:])),
            ("the number of hops is the chain's", all(hop.id == self.id for hop in self.hops)),
            ("the first hop ends on the CPU of the chain", self.hops[0].cpu == self.cpu),
            ("each has a slice", all(hop.slices for hop in self.hops)),
        ):
            if not holds:
                raise Wrong(f"not so: {what}: {self}")
        return self


def chains() -> list[Chain]:
    """Reads the chains, and checks the laws of each."""
    text = read("chains")
    head, slices, *lines = text.splitlines()
    eq("the head", head, "# schedhist chains version 1")
    if not re.fullmatch(r"# chain \d+", slices):
        raise Wrong(f"what is this? {slices!r}")
    found: list[Chain] = []
    for line in lines:
        if match := CHAIN.fullmatch(line):
            found.append(Chain(**_values(match), hops=[]))
        elif (match := HOP.fullmatch(line)) and found:
            found[-1].hops.append(Hop(**_values(match)))
        else:
            raise Wrong(f"what is this? {line!r}")
    return [chain.check() for chain in found]
