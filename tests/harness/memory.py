# SPDX-License-Identifier: GPL-2.0
"""The kernel's memory: how much there is of it, and that none is left behind."""

import os
from pathlib import Path

from .kernel import has_symbol
from .ktap import note, within
from .process import write_file


def _of_meminfo(*keys: str) -> dict[str, int]:
    words = [line.split() for line in Path("/proc/meminfo").read_text().splitlines()]
    return {word[0].rstrip(":"): int(word[1]) for word in words if word[0].rstrip(":") in keys}


def unreclaimable() -> int:
    """Returns the kernel's unreclaimable memory in bytes: allocations of drivers and the like, and
    modules themselves."""
    # Otherwise each CPU keeps some of the count to itself.
    write_file("/proc/sys/vm/stat_refresh", "1")
    return sum(_of_meminfo("SUnreclaim", "VmallocUsed", "Percpu").values()) * 1024


def kernel_memory() -> dict[str, int]:
    """Returns the kernel's memory in KiB, of the kinds that a module uses."""
    os.sync()
    write_file("/proc/sys/vm/drop_caches", "3")
    return _of_meminfo("Slab", "VmallocUsed", "Percpu")


def assert_no_growth(before: dict[str, int], after: dict[str, int], cycles: int) -> None:
    """Compares the memory before and after this many loads and unloads. It varies by 1 MiB or so,
    regardless of their number. KASAN keeps freed memory for a while: there kmemleak finds the leaks, on
    the kernel debug."""
    note(f"the kernel's memory: {before} then {after} (KiB)")
    growth, allowed = sum(after.values()) - sum(before.values()), 2048
    if has_symbol("kasan_report"):
        allowed += 64 * cycles
    note(f"the kernel's memory has grown by {growth} KiB in {cycles} cycles")
    within("growth of the kernel's memory", -1000000, growth, allowed)
