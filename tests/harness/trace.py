# SPDX-License-Identifier: GPL-2.0
"""The kernel's tracing: our trace events, instances, and what they hold."""

import re
from pathlib import Path

from .kernel import TRACEFS
from .ktap import eq
from .module import EVENTFS, write
from .process import write_file

TRACE = TRACEFS / "trace"


def enable(event: str, on: bool = True, tracing: Path = TRACEFS) -> None:
    """Switches on a trace event, "SYSTEM/NAME" or one of ours."""
    folder = event if "/" in event else f"schedhist/{event}"
    write_file(tracing / "events" / folder / "enable", str(int(on)))


def fields(event: str) -> list[tuple[str, str]]:
    """Returns the name of each field of an event, and its C type."""
    text = (EVENTFS / event / "format").read_text()
    found = re.findall(r"^\tfield:(.*) ([a-z_]+)(\[\d+\])?;", text.split("\n\n", 1)[1], re.MULTILINE)
    return [(name, f"{kind}{size}") for kind, name, size in found]


def clear(tracing: Path = TRACEFS) -> None:
    write_file(tracing / "trace", "\n")


def lines(tracing: Path = TRACEFS) -> list[str]:
    """Returns the lines of the trace, without its head."""
    text = (tracing / "trace").read_text(encoding="utf-8", errors="surrogateescape")
    return [line for line in text.splitlines() if not line.startswith("#")]


def of_event(line: str) -> str:
    """Returns an event and its text from a line of a trace: the same for every reader."""
    return re.sub(r"^.* [\d.]+: ([a-z_]+): +", r"\1: ", line)


def entries(tracing: Path = TRACEFS) -> int:
    """Returns the number of entries in the trace."""
    texts = [path.read_text() for path in tracing.glob("per_cpu/*/stats")]
    return sum(int(number) for text in texts for number in re.findall(r"^entries: (\d+)", text, re.MULTILINE))


class Instance:
    """A trace instance of our own, whose buffer is large enough for everything that a test does. It goes
    with the test."""

    def __init__(self, *events: str, clock: str = "", name: str = "schedhist_test", kilobytes: int = 8192) -> None:
        self.path = TRACEFS / "instances" / name
        self.path.mkdir()
        write_file(self.path / "buffer_size_kb", str(kilobytes))
        if clock:
            write_file(self.path / "trace_clock", clock)
        for event in events:
            enable(event, tracing=self.path)

    def lines(self) -> list[str]:
        return lines(self.path)

    def nothing_lost(self) -> None:
        nothing_lost(self.path)


def nothing_lost(tracing: Path) -> None:
    """Asserts that no event was overwritten or dropped."""
    texts = [path.read_text() for path in tracing.glob("per_cpu/*/stats")]
    lost = [found for text in texts
            for found in re.findall(r"^(?:overrun|commit overrun|dropped events): [^0].*", text, re.MULTILINE)]
    eq(f"events lost by {tracing.name}", lost, [])


def outliers_of(metric: str, limit: str | int = "none") -> None:
    """Makes each sample of the metric above 1 ns an outlier, at most `limit` of them."""
    write("outlier_rate", "none")
    write("outlier_limit", limit)
    write(f"threshold_ns/{metric}", 1)


def hits(text: str) -> list[int]:
    """Returns how often each of the kernel's histograms in the text counted the event. Where two CPUs add
    the same new key at once, the kernel may drop one (kernel/trace/tracing_map.c)."""
    pairs = re.findall(r"^ *Hits: (\d+)|^ *Dropped: (\d+)", text, re.MULTILINE)
    found: list[int] = []
    for hit, dropped in pairs:
        if hit:
            found.append(int(hit))
        else:
            found[-1] += int(dropped)
    return found
