# SPDX-License-Identifier: GPL-2.0
"""The command schedhist, with the module: what its verbs print is true, and they leave no setting behind."""

import os
import re
import shutil
import signal
import threading
import time
from pathlib import Path
from typing import NoReturn

from harness import cgroup
from harness.listeners import Listener
from harness.test import (DEBUGFS, HAS_RESCHED, IS_RT, METRICS, Wrong, about_numbers, allow, busy, cpus, defer, eq,
                          histogram, load, measure, messages, note, run, skip, spawn, start, status, switches_of_kernel,
                          unload, value, wait_until, within, write)
from harness.tool import (TOOL, Job, Table, begin, ends, grouped_by, narrow, need, objects, one_table, says,
                          soon_grouped_by, tables, tool)
from harness.trace import enable

# One command line for each verb that needs the module.
VERBS = [[], ["hist"], ["runqlat", "1", "1"], ["cpudist", "1", "1"], ["runqslower"], ["groups"], ["run", "--", "true"],
         ["record", "-d", "1"], ["watch", "-T", "1"], ["ctl"]]


def test_tool_remedies():
    """Without the module, or without the rights, each verb says which file it is and what to do."""
    need()
    for verb in VERBS:
        said = tool(*verb, status=1)
        says(said.err, f"{DEBUGFS}/", "the module is not loaded: modprobe schedhist")
        narrow(said.err)
    eq("what record has left", os.listdir("."), [])
    # Two failures: no module, no files.
    said = tool("doctor", status=2)
    says(said.out, "FAIL module not loaded -> modprobe schedhist")
    narrow(said.out)
    # With debugfs=off on the kernel's command line, the kernel does not list it.
    listed = Path("/proc/filesystems").read_text().splitlines()
    Path("filesystems").write_text("".join(f"{line}\n" for line in listed if "debugfs" not in line))
    said = ends(2, "unshare", "--mount", "bash", "-c", """
        mount --bind filesystems /proc/filesystems && umount -l /sys/kernel/debug && exec "$0" doctor""", TOOL)
    says(said.out, "FAIL debugfs the kernel has none: it was booted with debugfs=off")
    eq("vain advice", re.findall("modprobe|mount -t", said.out), [])
    narrow(said.out)
    # It says which kernels were tested.
    for status, release, text in ((2, "7.3.4-amd64", "ok kernel 7.3.4-amd64"), (2, "6.12.1", "ok kernel 6.12.1"),
                                  (2, "6.13.1", "warn kernel 6.13.1 -> the module was never tested with it, but with"),
                                  (3, "6.1.0", "FAIL kernel 6.1.0 -> the module needs Linux 6.12 or later: boot")):
        if IS_RT and release in ("6.12.1", "6.13.1"):
            status, text = 3, f"FAIL kernel {release} -> the module needs Linux 7.0 or later if it is real-time"
        Path("osrelease").write_text(release)
        said = ends(status, "unshare", "--mount", "bash", "-c",
                    'mount --bind osrelease /proc/sys/kernel/osrelease && exec "$0" doctor', TOOL)
        says(said.out, text)
    load()
    for path in (TOOL, TOOL.parent):
        path.chmod(0o755)
    nobody = ["setpriv", "--reuid", "65534", "--clear-groups", TOOL]
    for verb in VERBS:
        said = ends(1, *nobody, *verb, cwd="/")
        says(said.err, "only root may read and write it: run this as root")
        narrow(said.err)
    says(ends(1, *nobody, "doctor").out, "only root may read it -> run this as root")
    said = tool("doctor")
    says(said.out, "ok module version")
    narrow(said.out)
    # Another tracer of the same events is named.
    enable("sched/sched_switch")
    says(tool("doctor").out, "warn probes sched_switch is traced, too")
    # Measuring that is off is a warning, and each figure says it.
    measure(0)
    says(tool("doctor").out, "warn snapshot measuring is off")
    says(tool().out, "note: measuring is off: schedhist ctl enable 1")


def check_histograms(text: str) -> None:
    """Asserts that `hist -j` prints what the text files of the module say."""
    for found in objects(text):
        if found["schema"] != "schedhist.histogram.v1":
            eq("laws_failed", found["laws_failed"], [])
            continue
        metric, cpu = found["metric"], found["cpu"]
        wanted = histogram(metric, cpu)
        what = f"{metric} of {cpu}"
        eq(f"count of {what}", found["count"], wanted.count)
        eq(f"sum of {what}", found["sum_ns"], wanted.sum)
        ours = [[lower, None if upper == float("inf") else upper, number]
                for lower, (upper, number) in wanted.buckets.items()]
        eq(f"buckets of {what}", found["buckets"], ours)
        quantiles = {one["name"]: (one["lower"], one["upper"]) for one in found["quantiles"]}
        eq(f"quantiles of {what}", quantiles, wanted.quantiles)
        for key, of_text in (("min_ns", "min"), ("max_ns", "max"), ("max_pid", "max_pid")):
            if of_text in wanted.values:
                eq(f"{key} of {what}", found[key], int(wanted.values[of_text]))
        # With preempt=full, as on real-time kernels, no request is lazy.
        if metric != "resched_lazy":
            eq(f"samples of {what}", found["count"] > 0, metric != "throttled" and (metric != "resched" or HAS_RESCHED))


def check_forms(everything: str, csv: str, json: str) -> None:
    """Asserts that the summary has the same figures as CSV, JSON Lines and in `hist`."""
    wanted = {one["metric"]: one for one in objects(everything) if "metric" in one}
    summary = {one["metric"]: one for one in objects(json) if "metric" in one}
    head, *rows = [line.split(",") for line in csv.splitlines()]
    eq("metrics of -x", sorted(row[2] for row in rows), sorted(wanted))
    for row in rows:
        found, one = dict(zip(head, row)), wanted[row[2]]
        eq(f"count of {row[2]}", found["count"], str(one["count"]))
        eq(f"sum of {row[2]}", found["sum_ns"], str(one["sum_ns"]))
        eq(f"max of {row[2]}", found["max_ns"], str(one["max_ns"] or ""))
        eq(f"buckets of {row[2]}", summary[row[2]]["buckets"], one["buckets"])


def test_tool_figures():
    """What the command computes from `raw` is what the module's own text files say."""
    begin("metrics=all")
    messages(2)
    measure(0)
    everything = tool("hist", "-j", *METRICS).out
    check_histograms(everything)
    check_histograms(tool("hist", "-C", "-j", "oncpu").out)
    # Each form of each verb fits, and says the same.
    for form in ([], ["-n"], ["-u"], ["-m"]):
        said = tool(*form).out
        narrow(said, tool("hist", "runq", "oncpu", *form, "-b", "4").out)
        says(said, "laws ok")
    check_forms(everything, tool("-x", ",").out, tool("-j").out)
    # A copy of the folder says the same as the module.
    os.mkdir("copy")
    shutil.copy(DEBUGFS / "raw", "copy")
    of_copy, of_module = (tool(*words, "hist").out.splitlines()[:3] for words in (["--dir", "copy"], []))
    eq("a copy", of_copy, of_module)
    says(tool("ctl").out, "enable 0")
    tool("ctl", "enable", "1")
    eq("enable", value("enable"), "1")
    says(tool("ctl", "enable", "maybe", status=1).err, 'the module refuses "maybe": the kernel log says why (dmesg)')
    tool("ctl", "threshold_ns/runq", "10ms")
    tool("ctl", "group_by", "list")
    tool("ctl", "group_rules", "add web comm nginx")
    says(tool("ctl").out, "group_rules add web comm nginx", "threshold_ns/runq 10000000", "threshold_ns/offcpu none")
    tool("ctl", "group_by", "none")
    tool("ctl", "threshold_ns/runq", "none")


def check_intervals(text: str, count: int, seconds: float, begun: float) -> None:
    """Asserts that there are so many intervals since a time, and that the laws hold in them."""
    found = objects(text)
    eq("intervals", len(found), 2 * count)
    spans = [counters["span_ns"] / 1e9 for counters in found[1::2]]
    for counters in found[1::2]:
        eq("laws_failed", counters["laws_failed"], [])
        within("switches", 10, counters["switches"])
    # If the host is busy, one interval may be longer, and the next one shorter.
    whole = count * seconds
    if min(spans) <= 0 or not 0.9 * whole < sum(spans) < 1.01 * (time.monotonic() - begun):
        raise Wrong(f"intervals of {spans} s")


def test_tool_intervals():
    """Intervals add up, and ^C ends the last one early: it prints what there is."""
    begin()
    with busy():
        begun = time.monotonic()
        check_intervals(tool("hist", "0.5", "3", "-j").out, 3, 0.5, begun)
        begun = time.monotonic()
        one = Job("hist", "-j", "100")
        # It has read what the interval begins with.
        one.wait()
        time.sleep(1.5)
        check_intervals(one.interrupt().out, 1, 1.5, begun)
    says(tool().out, "laws ok")
    # A reader that reads loses nothing for others.
    one = Job("hist", "100")
    one.wait()
    eq("enable", tool("ctl", "enable").out, "1\n")
    one.interrupt()


# --- the tables of BCC ---


def pair(peer: list[str], mine: list[str], loops: int = 120) -> tuple[Table, Table, int, int]:
    """Runs a workload under two tools, longer for a peer that begins slowly. Returns their tables, the number
    of switches that the peer may have seen before ours began and after it ended, and how many switches to the
    idle tasks it has seen."""

    def listening(*command: str) -> Listener:
        one = Listener(*command, env={**os.environ, "PYTHONUNBUFFERED": "1"})
        # A tool of BCC compiles its program first.
        for _ in range(4000):
            if "Tracing" in one.said():
                return one
            one.goes_on()
            time.sleep(0.2)
        raise Wrong(f"{command} does not start: {one.said()}")

    # Reads it into memory: little is to happen between the two starts.
    run(*mine, "0.1", "1")
    theirs = listening("stdbuf", "-oL", *peer)
    first, idle = switches_of_kernel(), status("to_idle")
    ours = listening(*mine)
    began = switches_of_kernel()
    run("hackbench", "-g", "2", "-l", str(loops))
    ended = switches_of_kernel()
    for one in (ours, theirs):
        one.end()
        eq("status", one.process.returncode, 0)
    more = began - first + switches_of_kernel() - ended
    return one_table(theirs.said()), one_table(ours.said()), more, status("to_idle") - idle


def near(what: str, theirs: Table, ours: Table, more: int, idle: int) -> None:
    """Asserts that both counts are within 2 %, and the samples about as long. The peer may have seen `more`
    switches, and counts `idle` absences of idle tasks."""
    of_peer, of_us = sum(theirs.values()), sum(ours.values())
    note(f"{what}: the peer has {of_peer}, schedhist {of_us}; {more} switches beside, {idle} to idle")
    within(f"samples of {what}", 0.98 * (of_peer - more - idle), of_us, 1.02 * of_peer)
    within(f"switches beside {what}", 0, more, 0.1 * of_peer)
    # Under emulation, stamps at other places differ by tens of microseconds.
    for low in (512, 4096):
        above = [sum(n for lower, n in of.items() if lower >= low) for of in (theirs, ours)]
        note(f"{what}: {above[0]} and {above[1]} above {low} us")
        within(f"difference of the samples of {what} above {low} us", 0, abs(above[0] - above[1]), 0.1 * of_us + more)


@allow(600)
def test_tool_peers():
    """The tools of libbpf-tools count the same over the same window, and a program that parses their table
    parses ours."""
    about_numbers()
    if not all(map(shutil.which, ("runqlat-libbpf", "cpudist-libbpf"))):
        skip("runqlat-libbpf is not installed")
    begin()
    for attempt in (1, 2, 3):
        try:
            *found, _ = pair(["runqlat-libbpf"], [str(TOOL), "runqlat"])
            near("runqlat", *found, 0)
            # It also has the absences of the idle tasks.
            near("cpudist -O", *pair(["cpudist-libbpf", "-O"], [str(TOOL), "cpudist", "-O"]))
            return
        except Wrong as wrong:
            note(str(wrong))
            if attempt == 3:
                raise


# --- groups ---


def sleep_on(cpu: int, out: Path) -> NoReturn:
    """Two threads on a CPU wake up every few milliseconds."""
    os.sched_setaffinity(0, {cpu})

    def work() -> NoReturn:
        while True:
            time.sleep(0.004)
            sum(range(2000))

    other = threading.Thread(target=work, daemon=True)
    other.start()
    out.write_text(f"{os.getpid()} {other.native_id}\n")
    work()


def check_split(pid: int, tids: list[str], said: dict[str, str]) -> None:
    """Asserts that the tables of a process, processes, threads and namespaces are those of the sleeper."""
    within("samples of one process", 1, sum(one_table(said["one"]).values()), 100_000)
    found = tables(said["pids"])
    if len(found) < 3 or any(not re.fullmatch(r"pid = \d+", head) for head in found):
        raise Wrong(f"the tables of -P are {list(found)}")
    within("samples of it among others", 1, sum(found[f"pid = {pid}"].values()), 100_000)
    found = tables(said["tids"])
    eq("threads", sorted(found), sorted(f"tid = {tid}" for tid in tids))
    for tid in tids:
        within(f"samples of thread {tid}", 1, sum(found[f"tid = {tid}"].values()), 100_000)
    found = tables(said["pidnss"])
    inode = re.sub(r"\D", "", os.readlink("/proc/self/ns/pid"))
    within("samples of its namespace", 1, sum(found[f"pidns = {inode}"].values()), 1_000_000)
    text = said["oncpu"]
    if not any(head.startswith(f"pid = {pid} ") for head in tables(text)):
        raise Wrong(f"the tables of cpudist -P are {list(tables(text))}")
    if not re.search(r"^\d\d:\d\d:\d\d$", text, re.M):
        raise Wrong("no time of day")
    average = re.search(r"^avg = (\d+) usecs, total: (\d+) usecs, count: (\d+)$", text, re.M)
    assert average, "no average"
    mean, total, count = map(int, average.groups())
    eq("average", mean, total // count)


def test_tool_groups():
    """Tables of processes, threads, namespaces and cgroups are those of their tasks, and no verb leaves its
    rule behind."""
    begin()
    cgroup.on()
    # The sleeper shares its CPU with a loop.
    threads = Path("threads").absolute()
    pid = spawn(sleep_on, 1, threads)
    defer(os.kill, pid, signal.SIGKILL)
    start("taskset", "--cpu-list", "1", "sh", "-c", "while :; do :; done")
    wait_until("the sleeper", lambda: threads.exists() and threads.read_text().endswith("\n"))
    tids = threads.read_text().split()
    grouped_by("none")
    said = {name: tool(*words.split()).out for name, words in {
        "one": f"runqlat -p {pid} 1 2", "pids": "runqlat -P 0.5 1", "tids": f"runqlat -L -p {pid} 1 1",
        "oncpu": "cpudist -P -e -T 0.5 1", "pidnss": "runqlat --pidnss 0.5 1"}.items()}
    check_split(pid, tids, said)
    narrow(*said.values())
    grouped_by("none")
    eq("group_limit", value("group_limit"), "255")
    # A cgroup counts with what is below it.
    _, folder = cgroup.make("a", "a/b")
    cgroup.move(pid, folder)
    table = one_table(tool("runqlat", "-c", folder.parent, "1", "1").out)
    within("samples of the cgroup", 1, sum(table.values()), 100_000)
    grouped_by("none")
    # Two at once: the last one restores the rule.
    first = Job("runqlat", "-p", str(pid), "100")
    soon_grouped_by(f"process {pid}")
    table = one_table(tool("runqlat", "-p", str(pid), "1", "1").out)
    within("samples of the second", 1, sum(table.values()), 100_000)
    grouped_by(f"process {pid}")
    # Another rule is refused: the first one relies on its own.
    says(tool("runqlat", "-P", "1", "1", status=1).err, f"tasks are grouped by 'process {pid}' already")
    of_first = first.interrupt().out
    grouped_by("none")
    within("samples of the first", 1, sum(one_table(of_first).values()), 100_000)
    # A rule that the user wrote stays.
    for rule in (f"process {pid}", "process"):
        write("group_by", rule)
        tool("runqlat", "-p", str(pid), "0.5", "1")
        grouped_by(rule)
    # So does one that equals what a process that was killed had written, but before the module was loaded anew.
    # Without that, the next process restores what was there before.
    for rule in ("process", "none"):
        write("group_by", "none")
        first = Job("runqlat", "-P", "100")
        soon_grouped_by("process")
        first.kill()
        if rule == "process":
            unload()
            load()
            write("group_by", "process")
        tool("runqlat", "-P", "0.5", "1")
        grouped_by(rule)
    for rule in ("none", "process"):
        write("group_by", rule)
        says(tool("runqlat", "-p", "4194000", "1", "1", status=1).err, "there is no such process")
    # A rule that the module refuses changes nothing, and does not restart measuring.
    write("group_by", "none")
    # On each CPU, it begins with the first switch.
    for cpu in range(cpus()):
        run("taskset", "--cpu-list", str(cpu), "true")
    begun = status("start_unseen")
    says(tool("runqlat", "-p", tids[1], "1", "1", status=1).err, "there is no such process")
    eq("how often measuring began", status("start_unseen"), begun)
    # Where there is no room, what is in no table is said.
    write("group_limit", 1)
    write("group_by", "process")
    says(tool("runqlat", "-p", str(pid), "0.5", "1").err, "a task found no room for a group")
    write("group_limit", 255)
    says(tool("runqlat", "-c", cgroup.BASE / "c", "1", "1", status=1).err, "there is no such cgroup")
    write("group_by", "cgroup")
    time.sleep(1)
    said = tool("groups", "-n", "3").out
    narrow(said)
    says(said, "/schedhist/a/b")
    objects(tool("groups", "-j", "0.5", "1").out)
