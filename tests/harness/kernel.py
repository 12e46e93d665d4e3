# SPDX-License-Identifier: GPL-2.0
"""The kernel and its CPUs: which it is, and what it can do."""

import errno
import os
import re
from pathlib import Path

TRACEFS = Path("/sys/kernel/tracing")
RELEASE = os.uname().release
# What loading fails with if the module fails with EEXIST: newer kernels keep that for modules that are loaded.
EXISTS = errno.EEXIST if RELEASE.startswith("6.12.") else errno.EBUSY
# Whether the kernel tells when it requests to reschedule a CPU.
HAS_RESCHED = not RELEASE.startswith("6.12.")
IS_RT = "PREEMPT_RT" in os.uname().version
# The kernel's name, if it is a kernel of ours: debug, cfi, rt-debug, kcsan, proxy, uml; without the version in
# 6.12-debug. proxy checks nothing, and uml as much as debug, but at the speed of the host: they are no DEBUG kernels.
OWN = RELEASE.partition("-schedhist-")[2].removeprefix("6.12-")
DEBUG = "" if OWN in ("proxy", "uml") else OWN


def possible_cpus() -> list[int]:
    ranges = Path("/sys/devices/system/cpu/possible").read_text().split(",")
    bounds = [[int(bound) for bound in part.split("-")] for part in ranges]
    return [cpu for bound in bounds for cpu in range(bound[0], bound[-1] + 1)]


def cpus() -> int:
    """Returns the number of CPUs that are online."""
    return os.cpu_count() or 1


def switches_of_kernel() -> int:
    return int(re.search(r"^ctxt (\d+)", Path("/proc/stat").read_text(), re.MULTILINE)[1])


def expedite_rcu() -> None:
    """Loading and unloading wait for RCU grace periods, as does each change of an event's filter. Only unload_stress
    needs long ones."""
    Path("/sys/kernel/rcu_expedited").write_text("1")


def has_symbol(name: str) -> bool:
    """Returns whether the kernel has this function or variable, by which tests know its features."""
    return re.search(rf" {name}$", Path("/proc/kallsyms").read_text(), re.MULTILINE) is not None
