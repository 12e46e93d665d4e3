# SPDX-License-Identifier: GPL-2.0
"""Unloading, again and again, while everything runs.

SCHEDHIST_CYCLES  how often unload_often loads and unloads, and unload_stress at most
SCHEDHIST_SECONDS bounds unload_stress; SCHEDHIST_SEED repeats its run as far as threads can be controlled
"""

import contextlib
import os
import random
from pathlib import Path

from harness.test import (KO, THOROUGH, allow, assert_gone, assert_no_growth, bursts, busy, defer, helper,
                          kernel_memory, needs, note, run, seeks_leaks, within, write_file)
from harness.trace import enable


@seeks_leaks
@allow(4500 if THOROUGH else 600)
def test_unload_often():
    first, cycles = 15, int(os.environ.get("SCHEDHIST_CYCLES", 1000 if THOROUGH else 60))
    within("SCHEDHIST_CYCLES", first + 1, cycles)
    reload = helper("reload")
    enable("sched/sched_switch")
    with bursts():
        print(run(reload, KO, "1", str(first), stderr=None))
    before = kernel_memory()
    with bursts():
        print(run(reload, KO, str(first + 1), str(cycles), stderr=None))
    after = kernel_memory()
    note(f"{cycles} load/unload cycles, in order")
    assert_no_growth(before, after, cycles - first)
    assert_gone()


def cpus_on():
    for file in Path("/sys/devices/system/cpu").glob("cpu*/online"):
        if file.read_text() != "1\n":
            write_file(file, "1")


@seeks_leaks
@allow(2400 if THOROUGH else 600)
def test_unload_stress():
    """Unloading while every operation on the module runs at once, and CPUs go offline and online: see
    unload_stress.c. unload_often does the same in order."""
    # Each use must succeed.
    needs("perf", "hist")
    cycles, seconds = os.environ.get("SCHEDHIST_CYCLES", "1000"), 900 if THOROUGH else 20
    seconds = int(os.environ.get("SCHEDHIST_SECONDS", seconds))
    stress, storm = helper("unload_stress"), helper("storm")
    defer(cpus_on)

    def stressed(cycles, seconds):
        """Runs it under a storm, which yields to it, so that it completes many cycles."""
        seed = os.environ.get("SCHEDHIST_SEED", str(random.randrange(1 << 32)))
        load = f"while :; do {storm} 100; hackbench --groups 1 --loops 2; sleep 0.5; done"
        with contextlib.ExitStack() as stack:
            stack.callback(cpus_on)
            stack.enter_context(busy("bash", "-c", load))
            # At once, and so are its errors: it may hang.
            print(f"SCHEDHIST_SEED={seed}", flush=True)
            said = run(stress, KO, cycles, str(seconds), seed, stderr=None)
        print(said)
        return said

    # The warm-up makes the kernel allocate what it keeps, such as trace buffers.
    stressed("20", seconds // 4)
    before = kernel_memory()
    said = stressed(cycles, seconds)
    assert_no_growth(before, kernel_memory(), int(said.split()[1]))
    assert_gone()
