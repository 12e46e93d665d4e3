# SPDX-License-Identifier: GPL-2.0
"""Records any events during a window, and reads them, with an interval for each switch."""

import struct
from pathlib import Path
from typing import Callable, Iterator, NamedTuple

from .events import Format, Switch, bracket, raw_events, read_formats
from .recording import EVENTS_B, Recorder


class Event(NamedTuple):
    time: int
    cpu: int
    name: str
    values: dict[str, int]


def time_of(event: Switch | Event) -> int:
    return event.a if isinstance(event, Switch) else event.time


class Window:
    """Records events from now on, of which one is `sched_switch`, before schedhist sees them. `measure` switches
    measuring on; after it, a second instance of ftrace records switches, too. The folder gets the pages."""

    def __init__(self, folder: Path, events: list[str], measure: Callable[[], object]) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.first, self.second = Recorder("a"), Recorder("b")
        self.first.save_formats(folder, events)
        self.first.start(events)
        measure()
        self.second.start(EVENTS_B)

    def mark(self) -> None:
        """Records an event `print`."""
        (self.first.path / "trace_marker").write_text("mark")

    def stop(self) -> None:
        self.second.stop()
        self.first.stop()

    def saved(self) -> list[Switch | Event]:
        """Returns all events of all CPUs, by time, once the recording was stopped."""
        for recorder in (self.first, self.second):
            recorder.save(self.folder)
            recorder.remove()
        formats = read_formats((self.folder / "formats").read_text())
        order: list[Switch | Event] = []
        for file in self.folder.glob("a.cpu*"):
            cpu = int(file.suffix[4:])
            first = list(self.read(file, formats))
            late = [one for one in self.read(file.with_name(f"b.cpu{cpu}"), formats) if isinstance(one, Switch)]
            bracket([one for one in first if isinstance(one, Switch)], late)
            order += first
        # Stable: events of one CPU stay in their order.
        return sorted(order, key=time_of)

    @staticmethod
    def read(file: Path, formats: dict[int, Format]) -> Iterator[Switch | Event]:
        data, cpu = file.read_bytes(), int(file.suffix[4:])
        for time, start, _ in raw_events(data):
            layout = formats[struct.unpack_from("<H", data, start)[0]]
            values = {key: field.unpack_from(data, start + layout.offsets[key])[0]
                      for key, field in layout.fields.items()}
            if layout.name == "sched_switch":
                yield Switch(cpu, time, values["prev_pid"], values["prev_state"], values["next_pid"])
            else:
                yield Event(time, cpu, layout.name, values)
