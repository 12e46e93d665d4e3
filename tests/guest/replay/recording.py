# SPDX-License-Identifier: GPL-2.0
"""Measures a window with schedhist and with ftrace, and keeps both recordings."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

from common import DEBUGFS, die

TRACEFS = Path("/sys/kernel/tracing")
EVENTS_A = [
    "sched_switch",
    "sched_waking",
    "sched_wakeup",
    "sched_wakeup_new",
    "sched_process_fork",
    "sched_process_exit",
    "sched_migrate_task",
]
EVENTS_B = ["sched_switch"]
BUFFER_KB = 12 * 1024


class Instance:
    """A trace instance of our own."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.path = TRACEFS / "instances" / f"schedhist_{name}"
        self.remove()
        self.path.mkdir()
        self.write("tracing_on", "0")
        self.write("trace_clock", "perf")
        self.write("options/overwrite", "0")
        self.write("buffer_size_kb", str(BUFFER_KB))

    def write(self, file: str, text: str) -> None:
        (self.path / file).write_text(text)

    def start(self, events: list[str]) -> None:
        self.write("tracing_on", "1")
        for event in events:
            self.write(f"events/sched/{event}/enable", "1")

    def stop(self) -> None:
        self.write("tracing_on", "0")
        self.write("events/enable", "0")

    def save(self, folder: Path) -> None:
        for cpu in (self.path / "per_cpu").iterdir():
            stats = dict(
                line.split(":", 1) for line in (cpu / "stats").read_text().splitlines()
            )
            for key in "overrun", "commit overrun", "dropped events":
                if int(stats[key]):
                    die(f"ftrace lost events: {self.name} {cpu.name}: {key} {stats[key]}")
            source = os.open(cpu / "trace_pipe_raw", os.O_RDONLY | os.O_NONBLOCK)
            with open(folder / f"{self.name}.{cpu.name}", "wb") as target:
                while True:
                    try:
                        page = os.read(source, 4096)
                    except BlockingIOError:
                        break
                    if not page:
                        break
                    target.write(page.ljust(4096, b"\0"))
            os.close(source)

    def remove(self) -> None:
        if self.path.exists():
            self.stop()
            self.path.rmdir()


def save_module(folder: Path) -> None:
    for file in [DEBUGFS / "status", *sorted(DEBUGFS.glob("per_cpu/cpu*/hist/*"))]:
        target = folder / file.relative_to(DEBUGFS)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(file.read_text())


def record(folder: Path, running: float | None, command: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    before, after = Instance("a"), Instance("b")
    null = subprocess.DEVNULL
    workload = None
    try:
        names = [f"sched/{event}" for event in EVENTS_A] + ["ftrace/print"]
        formats = [(before.path / "events" / name / "format").read_text() for name in names]
        (folder / "formats").write_text("\n".join(formats))
        marker = os.open(before.path / "trace_marker", os.O_WRONLY)
        enable = os.open(DEBUGFS / "enable", os.O_WRONLY)

        save_module(folder / "before")

        # The order matters: A, schedhist, B.
        before.start(EVENTS_A)
        if running is not None:
            workload = subprocess.Popen(command, stdout=null, stderr=null, start_new_session=True)
            time.sleep(0.3)
        os.write(marker, b"schedhist on")
        os.write(enable, b"1")
        os.write(marker, b"schedhist is on")
        after.start(EVENTS_B)
        if running is not None:
            time.sleep(running)
        else:
            subprocess.run(command, stdout=null, stderr=null, check=True)
        os.write(marker, b"schedhist off")
        os.write(enable, b"0")
        os.write(marker, b"schedhist is off")
        after.stop()
        before.stop()
        os.close(marker)
        os.close(enable)
        save_module(folder / "after")
        before.save(folder)
        after.save(folder)
    finally:
        if workload:
            os.killpg(workload.pid, signal.SIGKILL)
            workload.wait()
        before.remove()
        after.remove()
