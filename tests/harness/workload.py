# SPDX-License-Identifier: GPL-2.0
"""Work for the scheduler, once or in the background, and the processes that do it."""

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, Iterator

from .ktap import defer


def messages(loops: int, groups: int = 1) -> None:
    """In each group twenty processes send so many messages to each of twenty others, as perf bench sched
    messaging does. But perf takes half a minute to start on a kernel that checks every access. The tests
    themselves run at a high priority, so that the load does not starve them."""
    subprocess.run(["nice", "-n", "20", "hackbench", "--groups", str(groups), "--loops", str(loops)],
                   check=True, stdout=subprocess.DEVNULL)


def yielding() -> None:
    """Puts this process into a session of its own, which gets a tenth of the CPU time that the session of
    the tests gets: it is to disturb them, not to stop them. What counts between sessions is the nice value
    of the autogroup; that of a process counts where the kernel has no autogroups. The autogroup's can be
    set only after setsid(): before, it is that of the tests."""
    os.nice(20)
    os.setsid()
    with contextlib.suppress(FileNotFoundError):
        Path("/proc/self/autogroup").write_text("10")


def hog(seconds: float, begun: Path | None = None, priority: int = 50) -> None:
    """Keeps CPU 1 for so long, as a real-time task."""
    os.sched_setaffinity(0, {1})
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
    if begun:
        begun.touch()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def start(*command: str | Path, **options: Any) -> subprocess.Popen[bytes]:
    """Starts a program in the background, in a process group of its own; it ends with the test."""
    process = subprocess.Popen(command, **({"process_group": 0} | options))
    defer(stop, process)
    return process


def stop(process: subprocess.Popen[bytes]) -> None:
    kill_group(process.pid)


def kill_group(leader: int) -> None:
    """Kills a process group whose leader is a child of this process, and waits until no process of it is
    left. The signal gets to all of them at once, those that are forked meanwhile included; and nothing
    looks through /proc, which takes long amid a storm."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-leader, 0)
    with contextlib.suppress(ProcessLookupError):
        while True:
            os.killpg(leader, 0)
            time.sleep(0.1)


@contextlib.contextmanager
def busy(*command: str) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a program all the while; by default many short messages between processes, on all CPUs. It runs
    in a session of its own, so that all its processes can be ended at once."""
    command = command or ("hackbench", "--groups", "1", "--loops", "100000000")
    process = subprocess.Popen(command, preexec_fn=yielding, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        stop(process)


def bursts() -> contextlib.AbstractContextManager[subprocess.Popen[bytes]]:
    """The same in bursts. Patching code or waiting for a grace period, as loading does, waits for all CPUs
    in turn, which takes seconds on a machine that is busy all the time."""
    return busy("bash", "-c", "while :; do hackbench --groups 1 --loops 2; sleep 0.3; done")


def interrupt(process: subprocess.Popen[Any]) -> int:
    """Interrupts a process as from the keyboard, waits for its end, and returns its status."""
    process.send_signal(signal.SIGINT)
    return process.wait()
