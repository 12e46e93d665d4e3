# SPDX-License-Identifier: GPL-2.0
"""What a test needs, without which it is skipped."""

import re
import shutil
from pathlib import Path

from .kernel import DEBUG, IS_RT, TRACEFS
from .ktap import skip


def not_on_debug(why: str) -> None:
    if DEBUG:
        skip(why)


def about_numbers() -> None:
    """For accuracy tests: a debug kernel adds nothing."""
    not_on_debug("whether the numbers are true does not depend on what the kernel checks")
    needs("clock")


def about_texts() -> None:
    """For tests that check texts with hundreds of processes, and use the module little: on a debug
    kernel it takes a second to start one process."""
    not_on_debug("what the kernel's files of events say does not depend on what it checks")


def has_clock() -> bool:
    """Returns whether local_clock() has nanoseconds, and not only ticks."""
    file = Path("/sys/kernel/debug/sched/debug")
    # Before 6.15 it is there only with CONFIG_SCHED_DEBUG. User Mode Linux, which counts ticks, is newer.
    return not (file.exists() and re.search(r"^sched_clk .*0\.000000$", file.read_text(), re.MULTILINE))


def has_hist() -> bool:
    return (TRACEFS / "events/sched/sched_switch/hist").exists()


def has_perf_events() -> bool:
    return Path("/proc/sys/kernel/perf_event_paranoid").exists()


def needs(*things: str) -> None:
    """Skips the test unless the kernel has the features and the root the programs that it uses: clock,
    hist (triggers), grace-periods (beside a real-time task that never sleeps), perf, bpftrace, or any other program."""
    for thing in things:
        if thing == "clock":
            if not has_clock():
                skip("the kernel's local_clock() counts ticks")
        elif thing == "grace-periods":
            if IS_RT:
                skip("a real-time task keeps the thread rcuc from its CPU, and so every grace period from its end")
        elif thing == "hist":
            if not has_hist():
                skip("the kernel has no hist triggers")
        elif not shutil.which(thing):
            skip(f"there is no {thing}")
        elif thing in ("perf", "bpftrace") and not has_perf_events():
            skip(f"the kernel has no perf events, which {thing} needs")


CPU1 = Path("/sys/devices/system/cpu/cpu1/online")


def cpu1() -> Path:
    """Returns the file by which CPU 1 goes offline and comes back."""
    if not CPU1.exists():
        skip("CPU 1 cannot go offline")
    return CPU1
