# SPDX-License-Identifier: GPL-2.0
"""The group in trace events and outliers."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from harness import cgroup
from harness.groups import begin, check_group_laws, of_group
from harness.test import (DEBUGFS, GROUP_METRICS, WORK, Wrong, eq, load, measure, read, start, succeeds,
                          wait_until, within, write_file)
from harness.trace import Instance, enable, outliers_of


def sleeper(name):
    """Starts a task that sleeps in a cgroup, so that there is a group of it."""
    pid = cgroup.start_in(name, "sleep", "1000")
    wait_until("it to sleep", lambda: Path(f"/proc/{pid}/comm").read_text() == "sleep\n")
    return pid


def comms(lines, event, text=""):
    """Returns the names of the tasks of an event whose line has the text."""
    pattern = re.compile(rf" {event}: .*?{text}")
    return {re.search(r": [a-z]+: .*comm=(.*) pid=", line)[1] for line in lines if pattern.search(line)}


def only(lines, event, name):
    """Asserts that all tasks of an event have this name. They are programs in Python before they execute
    another one."""
    found = comms(lines, event)
    if found - {"python3"} != {name}:
        raise Wrong(f"tasks of {event}: {found}")


def pairs_of(line):
    """Returns the group and the name of a task, from a line of an outlier or a culprit."""
    words, _, comm = line.strip().partition(" comm ")
    found = re.search(r" group (\d+)", words)
    return (int(found[1]) if found else None), comm


def test_group_events():
    """A filter by group passes the group's events, all of them and no others, and the same for outliers and
    culprits."""
    cgroup.on()
    cgroup.make("a", "b")
    for name in "ab":
        shutil.copy(shutil.which("hackbench"), WORK / f"bench_{name}")
    load()
    outliers_of("runq")
    sleepers = [sleeper("a"), sleeper("b")]
    begin("cgroup under /schedhist")
    number, other = of_group("/schedhist/a", "id"), of_group("/schedhist/b", "id")
    if not (number > 0 and other > 0 and number != other):
        raise Wrong(f"groups {number} and {other}")

    trace = Instance()
    filters = dict.fromkeys([*GROUP_METRICS, "outlier"], number) | {"culprit": other}
    for event, group in filters.items():
        write_file(trace.path / f"events/schedhist/{event}/filter", f"group == {group}")
    before = {metric: of_group("/schedhist/a", f"{metric}_count") for metric in GROUP_METRICS}
    for event in filters:
        enable(event, tracing=trace.path)
    with open(WORK / "piped", "w", encoding="utf-8") as piped:
        reader = start("cat", DEBUGFS / "outlier_pipe", stdout=piped, stderr=subprocess.DEVNULL)
    benches = [cgroup.start_in(name, WORK / f"bench_{name}", "--groups", "1", "--loops", "5") for name in "ab"]
    for pid in benches:
        succeeds(pid)
    measure(0)
    # It fails, as no outlier can come any more.
    eq("status of the reader", reader.wait(), 1)
    trace.nothing_lost()
    lines = trace.lines()
    for metric in GROUP_METRICS:
        found = [line for line in lines if f" {metric}: " in line]
        eq(f"events of {metric}", len(found), of_group("/schedhist/a", f"{metric}_count") - before[metric])
        only(lines, metric, "bench_a")
        eq("tasks of another group", [line for line in found if not line.endswith(f" group={number}")], [])
    outliers = [line for line in lines if re.search(rf" outlier: .* group={number}$", line)]
    waits = [line for line in lines if " runq: " in line and not re.search("duration_ns=[01] ", line)]
    eq("outliers", len(outliers), len(waits))
    eq("culprits", comms(lines, "culprit"), comms(lines, "culprit", f".*group={other}$"))
    only(lines, "culprit", "bench_b")
    check_group_laws()
    # Both sleep, so that this is not a sample.
    for pid in sleepers:
        os.kill(pid, 15)

    # The text agrees, as far as a reader kept up.
    seen = 0
    for line in [*(WORK / "piped").read_text().splitlines(), *read("outliers").splitlines()]:
        if not line.startswith("#"):
            group, comm = pairs_of(line)
            wanted = {"bench_a": number, "bench_b": other}.get(comm, 0 if comm.startswith("swapper") else group)
            if group is None or group != wanted:
                raise Wrong(f"not group {wanted}: {line}")
            seen += comm.startswith("bench_")
    within("tasks in the text", 1, seen)
