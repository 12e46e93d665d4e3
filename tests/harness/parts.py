# SPDX-License-Identifier: GPL-2.0
"""Processes that each do something again and again, in the background, until they are ended."""

import mmap
import os
import random
import signal
import time
from pathlib import Path
from typing import Callable, Iterator, Mapping

from .ktap import Wrong, defer, note
from .process import WORK, spawn
from .workload import kill_group, yielding

# A generator does a step whenever it is asked for the next one.
Steps = Callable[[], Iterator[None]]


def reap() -> None:
    """Waits for all children that have ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


class Parts:
    """A process for each of some parts, all of one process group, which yields to the test. They begin
    before this returns, and end with the test."""

    def __init__(self, name: str, parts: Mapping[str, Steps], seed: str = "") -> None:
        self.name, self.parts, self.seed = name, parts, seed
        # How many steps each has done.
        self.done = memoryview(mmap.mmap(-1, 8 * len(parts))).cast("Q")
        self.said = WORK / f"parts.{name}"
        self.said.write_text("")
        self.leader = spawn(self._lead)
        defer(self.end)
        while not all(self.done):
            self.goes_on()
            time.sleep(0.2)

    def _lead(self) -> None:
        yielding()
        fd = os.open(self.said, os.O_WRONLY | os.O_APPEND)
        os.dup2(fd, 1)
        os.dup2(fd, 2)
        for number, part in enumerate(self.parts):
            if os.fork() == 0:
                try:
                    random.seed(self.seed + part)
                    self._repeat(number, self.parts[part])
                finally:
                    os._exit(1)
        os.wait()
        raise Wrong(f"a part of the {self.name} has ended")

    def _repeat(self, number: int, part: Steps) -> None:
        try:
            steps = part()
            while True:
                try:
                    next(steps)
                    self.done[number] += 1
                except (BlockingIOError, MemoryError):
                    # There was no PID, or no memory.
                    steps = part()
                    reap()
                    time.sleep(0.01)
        except BaseException as error:
            print(f"{self.name}: {error!r}", flush=True)
            raise

    def goes_on(self) -> None:
        """Asserts that no part has ended by itself."""
        if Path(self.said).stat().st_size:
            # It may not have said all yet.
            time.sleep(2)
            raise Wrong(f"the {self.name}: {self.said.read_text()}")

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to all of them at once."""
        os.killpg(self.leader, number)

    def pause(self) -> None:
        """Stops all of them, in the middle of what they do."""
        self.signal(signal.SIGSTOP)
        time.sleep(0.1)
        # A process stops when it returns to user space.
        while self._running():
            time.sleep(0.1)

    def _running(self) -> bool:
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                state, _, group = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(") ")[2].split()[:3]
            except OSError:
                continue
            if int(group) == self.leader and state in "RSD":
                return True
        return False

    def resume(self) -> None:
        self.signal(signal.SIGCONT)

    def end(self) -> None:
        if self.leader:
            kill_group(self.leader)
            self.leader = 0

    def stop(self) -> None:
        """Ends them, and says how much they did."""
        self.end()
        self.goes_on()
        note(f"{self.name}: " + ", ".join(f"{number} {part}" for part, number in zip(self.parts, self.done)))
