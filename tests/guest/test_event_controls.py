# SPDX-License-Identifier: GPL-2.0
"""Every event is emitted while it is on, filtered, and counted by its fields, like any of the kernel's."""

import os
import re
import shutil
import time

from harness.listeners import scratch
from harness.test import (EVENTFS, EVENTS, Wrong, about_texts, append_file, assert_gone, bursts, eq, load, load_all,
                          measure, messages, needs, note, run, unload, within, write, write_file)
from harness.trace import Instance, clear, enable, entries, fields, hits, lines, of_event, outliers_of

# Nothing here has a quota, see test_throttled, and many a kernel requests nothing lazily.
RARE = {"throttled", "resched", "resched_lazy"}


def test_event_alone():
    """An enabled event is emitted, and no other; a disabled event is not."""
    load_all("chain=64")
    write("long_wait_ns", 1)
    outliers_of("runq")
    traces = {event: Instance(event, name=f"schedhist_{event}", kilobytes=1024) for event in EVENTS}
    messages(1)
    for event, trace in traces.items():
        enable(event, False, trace.path)
    numbers = {event: entries(trace.path) for event, trace in traces.items()}
    messages(1)
    eq("entries of the traces after the events were switched off",
       {event: entries(trace.path) for event, trace in traces.items()}, numbers)
    for event, trace in traces.items():
        found = {of_event(line).partition(":")[0] for line in trace.lines()}
        eq(f"events with {event} on", found - RARE, {event} - RARE)
        if found - {event}:
            raise Wrong(f"{found} with {event} on")


def test_event_hist_fields():
    """The kernel keeps one histogram for each field; all histograms of an event count the same events. They
    are small, because the kernel allocates all their rows at once; it counts the events that have no
    room."""
    needs("hist")
    about_texts()
    load_all("chain=64")
    outliers_of("runq")
    measure(0)
    write("long_wait_ns", 1)
    names = {event: [field for field, _ in fields(event)] for event in EVENTS if event not in RARE}
    for event, keys in names.items():
        for key in keys:
            append_file(EVENTFS / event / "trigger", f"hist:keys={key}:size=256\n")
    note(f"{sum(map(len, names.values()))} triggers")
    measure(1)
    messages(1)
    measure(0)
    for event, keys in names.items():
        text = (EVENTFS / event / "hist").read_text(errors="replace")
        found = hits(text)
        eq(f"histograms of {event}", len(found), len(keys))
        eq(f"different numbers of hits of {event}", len(set(found)), 1)
        within(f"hits of {event}", 1, found[0], 1_000_000)
        rows = re.findall(r"^\{ (\S+):.* hitcount: +[1-9]", text, re.MULTILINE)
        eq(f"fields of {event} that have rows", set(rows), set(keys))
        for key in keys:
            append_file(EVENTFS / event / "trigger", f"!hist:keys={key}:size=256\n")
        eq(f"triggers of {event}", re.findall("^hist", (EVENTFS / event / "trigger").read_text(), re.MULTILINE), [])
    unload()
    assert_gone()


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
