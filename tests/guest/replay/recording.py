# SPDX-License-Identifier: GPL-2.0
"""Measures a window with schedhist and with ftrace, and keeps both recordings."""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from harness.test import DEBUGFS, stop, write_file
from harness.trace import Instance, enable

EVENTS_A = [
    "sched/sched_switch",
    "sched/sched_waking",
    "sched/sched_wakeup",
    "sched/sched_wakeup_new",
    "sched/sched_process_fork",
    "sched/sched_process_exit",
    "sched/sched_migrate_task",
]
EVENTS_B = ["sched/sched_switch"]
BUFFER_KB = 32 * 1024


class Recorder(Instance):
    """A trace instance that overwrites nothing, and does not trace yet."""

    def __init__(self, name: str) -> None:
        super().__init__(clock="perf", name=f"schedhist_{name}", kilobytes=BUFFER_KB)
        self.name = name
        write_file(self.path / "tracing_on", "0")
        write_file(self.path / "options/overwrite", "0")

    def start(self, events: list[str]) -> None:
        write_file(self.path / "tracing_on", "1")
        for event in events:
            enable(event, tracing=self.path)

    def save_formats(self, folder: Path, events: list[str]) -> None:
        formats = [(self.path / "events" / name / "format").read_text() for name in [*events, "ftrace/print"]]
        (folder / "formats").write_text("\n".join(formats))

    def stop(self) -> None:
        write_file(self.path / "tracing_on", "0")
        write_file(self.path / "events/enable", "0")

    def save(self, folder: Path) -> None:
        self.nothing_lost()
        for cpu in (self.path / "per_cpu").iterdir():
            source = os.open(cpu / "trace_pipe_raw", os.O_RDONLY | os.O_NONBLOCK)
            with open(folder / f"{self.name}.{cpu.name}", "wb") as target:
                try:
                    while page := os.read(source, 4096):
                        target.write(page.ljust(4096, b"\0"))
                except BlockingIOError:
                    pass
            os.close(source)

    def remove(self) -> None:
        self.stop()
        self.path.rmdir()


def save_module(folder: Path) -> None:
    for file in [DEBUGFS / "status", *sorted(DEBUGFS.glob("per_cpu/cpu*/hist/*"))]:
        target = folder / file.relative_to(DEBUGFS)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(file.read_text())


@contextmanager
def recorders(folder: Path, events: list[str]) -> Iterator[tuple[Recorder, Recorder, int, int]]:
    """Yields two recorders, of which the first one may record `events`, and the open files `trace_marker` of that
    and `enable`. Saves afterwards what they have recorded until they were stopped."""
    folder.mkdir(parents=True, exist_ok=True)
    before, after = Recorder("a"), Recorder("b")
    try:
        before.save_formats(folder, events)
        marker = os.open(before.path / "trace_marker", os.O_WRONLY)
        enable = os.open(DEBUGFS / "enable", os.O_WRONLY)
        yield before, after, marker, enable
        os.close(marker)
        os.close(enable)
        before.save(folder)
        after.save(folder)
    finally:
        before.remove()
        after.remove()


@contextmanager
def background(command: list[str]) -> Iterator[None]:
    null = subprocess.DEVNULL
    workload = subprocess.Popen(command, stdout=null, stderr=null, start_new_session=True)
    try:
        yield
    finally:
        stop(workload)


def record(folder: Path, command: list[str], running: float | None = None) -> None:
    with ExitStack() as stack:
        before, after, marker, enable = stack.enter_context(recorders(folder, EVENTS_A))
        save_module(folder / "before")

        # The order matters: A, schedhist, B.
        before.start(EVENTS_A)
        if running is not None:
            stack.enter_context(background(command))
            time.sleep(0.3)
        os.write(marker, b"schedhist on")
        os.write(enable, b"1")
        os.write(marker, b"schedhist is on")
        after.start(EVENTS_B)
        if running is not None:
            time.sleep(running)
        else:
            null = subprocess.DEVNULL
            subprocess.run(command, stdout=null, stderr=null, check=True)
        os.write(marker, b"schedhist off")
        os.write(enable, b"0")
        os.write(marker, b"schedhist is off")
        after.stop()
        before.stop()
        save_module(folder / "after")
