# SPDX-License-Identifier: GPL-2.0
"""Our trace events with what the kernel offers for every event: filters and histograms."""

import os
import re
import shutil
import time

from harness.listeners import scratch
from harness.test import (EVENTFS, append_file, assert_gone, bursts, eq, load, matches, messages, needs, run, unload,
                          within, write_file)
from harness.trace import clear, enable, lines


def only(pattern: str) -> None:
    """Asserts that all lines match the pattern, and that there are some."""
    found = lines()
    eq("what the filter let pass", [line for line in found if not re.search(pattern, line)], [])
    within("what the filter let pass", 1, len(found))


def test_event_filter():
    load()
    napper = scratch() / "napper"
    shutil.copy(str(shutil.which("sleep")), napper)
    with bursts():
        write_file(EVENTFS / "oncpu/filter", 'comm == "napper"')
        enable("oncpu")
        run(napper, "0.1")
        enable("oncpu", False)
        only("comm=napper")

        # This process leaves the CPU while it sleeps.
        write_file(EVENTFS / "oncpu/filter", f"pid == {os.getpid()}")
        clear()
        enable("oncpu")
        time.sleep(0.1)
        enable("oncpu", False)
        only(f"pid={os.getpid()} ")

        write_file(EVENTFS / "offcpu/filter", "cause == 1 && duration_ns > 1000000")
        clear()
        enable("offcpu")
        time.sleep(0.5)
        enable("offcpu", False)
        only("duration_ns=[0-9]{7,} cause=interruptible group=0$")


def test_event_hist_trigger():
    needs("hist")
    load()
    trigger = EVENTFS / "oncpu/trigger"
    triggers = "hist:keys=cause:vals=duration_ns", "hist:name=lengths:keys=duration_ns.log2"
    for text in triggers:
        append_file(trigger, f"{text}\n")
    messages(1)
    text = (EVENTFS / "oncpu/hist").read_text()
    matches("the histogram", r"cause: +1 .*hitcount: +[1-9][0-9]* +duration_ns: +[1-9]", text)
    matches("the histogram", r"duration_ns: ~ 2\^[0-9]+ .*hitcount: +[1-9]", text)
    for text in triggers:
        append_file(trigger, f"!{text}\n")
    eq("triggers", re.findall("^hist", trigger.read_text(), re.MULTILINE), [])
    unload()
    assert_gone()
