#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Checks what the command schedhist prints.

usage: tool.py histograms DEBUGFS ALL EACH
       tool.py forms ALL CSV JSON
       tool.py intervals FILE COUNT SECONDS
       tool.py json FILE...
       tool.py table FILE LEAST MOST
       tool.py split PID THREADS ONE PIDS TIDS PIDNSS ONCPU
       tool.py peers TOOL
       tool.py peers_bcc TOOL
       tool.py sleeper CPU
       tool.py processes FILE COMMAND...
       tool.py run JSON FILE LEAST
       tool.py counts JSON LEAST MOST
       tool.py stacks JSON COMM FUNCTION...

histograms  the output of `hist -j` is what the text files of the module say, for all CPUs and each
forms       the summary has the same figures as CSV, JSON Lines and in `hist`
intervals   there are COUNT intervals of SECONDS each, and the laws hold in them
json        each line is an object with a schema
table       a table of runqlat has LEAST to MOST samples
split       the tables of a process, processes, threads and namespaces are those of `sleeper`
peers       the tools of libbpf-tools count the same over the same window
peers_bcc   so do those of BCC itself
sleeper     two threads on a CPU wake up every few milliseconds; prints their PIDs
processes   runs the command, and writes to FILE what it and its children cost by the kernel's own
            counters: voluntary and involuntary switches, and the number of processes
run         what `run -j` says of the command is what `processes` wrote
naps        sleeps 1000 times, and appends what the kernel has counted of itself to FILE
times       `run -j` and the kernel count the same switches and, added up, the same time on a CPU and
            waiting; FILE has the kernel's times from early in the command, and what `naps` appended
counts      `run -j` has LEAST to MOST switches of the command
stacks      each outlier of the task COMM has a stack with one of the functions, whose names begin so,
            and each of them is in some stack
"""

from __future__ import annotations

# Imports only these: each import takes long on an emulated machine.
import os
import re
import signal
import subprocess
import sys
import time

Table = dict[int, int]


def die(text: str) -> None:
    sys.exit(f"tool: {text}")


def same(what: str, found: object, wanted: object) -> None:
    if found != wanted:
        die(f"{what}: found {found}, wanted {wanted}")


def within(what: str, low: float, value: float, high: float) -> None:
    print(f"# {what}: {value:.0f} within {low:.0f} to {high:.0f}", flush=True)
    if not low <= value <= high:
        die(f"{what}: {value:.0f} is not within {low:.0f} to {high:.0f}")


def read(path: str) -> str:
    with open(path, encoding="utf-8") as opened:
        return opened.read()


def objects(path: str) -> list[dict]:
    import json  # noqa: PLC0415

    found = [json.loads(line) for line in read(path).splitlines()]
    if not found or not all(re.fullmatch(r"schedhist\.\w+\.v1", o["schema"]) for o in found):
        die(f"{path}: no objects, or one without a schema")
    return found


# --- figures ---


def text_histogram(path: str) -> dict:
    """Parses hist/METRIC."""
    found: dict = {"buckets": [], "quantiles": {}}
    for line in read(path).splitlines():
        words = line.split()
        if words[0] == "bucket":
            upper = None if words[2] == "inf" else int(words[2])
            found["buckets"].append([int(words[1]), upper, int(words[3])])
        elif re.fullmatch(r"p[0-9.]+", words[0]):
            found["quantiles"][words[0]] = [int(words[1]), int(words[2])]
        elif words[0] != "#":
            found[words[0]] = words[-1]
    return found


def histograms(debugfs: str, everything: str, each: str) -> None:
    for path in everything, each:
        for found in objects(path):
            if found["schema"] != "schedhist.histogram.v1":
                same("laws_failed", found["laws_failed"], [])
                continue
            metric, cpu = found["metric"], found["cpu"]
            folder = debugfs if cpu == "all" else f"{debugfs}/per_cpu/cpu{cpu}"
            wanted = text_histogram(f"{folder}/hist/{metric}")
            what = f"{metric} of {cpu}"
            same(f"count of {what}", found["count"], int(wanted["count"]))
            same(f"sum of {what}", found["sum_ns"], int(wanted["sum"]))
            same(f"buckets of {what}", found["buckets"], wanted["buckets"])
            quantiles = {q["name"]: [q["lower"], q["upper"]] for q in found["quantiles"]}
            same(f"quantiles of {what}", quantiles, wanted["quantiles"])
            for key, of_text in ("min_ns", "min"), ("max_ns", "max"), ("max_pid", "max_pid"):
                if of_text in wanted:
                    same(f"{key} of {what}", found[key], int(wanted[of_text]))
            same(f"samples of {what}", found["count"] > 0, metric != "throttled")


def forms(everything: str, csv: str, json: str) -> None:
    wanted = {o["metric"]: o for o in objects(everything) if "metric" in o}
    summary = {o["metric"]: o for o in objects(json) if "metric" in o}
    head, *rows = [line.split(",") for line in read(csv).splitlines()]
    same("metrics of -x", sorted(row[2] for row in rows), sorted(wanted))
    for row in rows:
        found, one = dict(zip(head, row)), wanted[row[2]]
        same(f"count of {row[2]}", found["count"], str(one["count"]))
        same(f"sum of {row[2]}", found["sum_ns"], str(one["sum_ns"]))
        same(f"max of {row[2]}", found["max_ns"], str(one["max_ns"] or ""))
        same(f"buckets of {row[2]}", summary[row[2]]["buckets"], one["buckets"])


def intervals(path: str, count: str, seconds: str) -> None:
    found = objects(path)
    same("intervals", len(found), 2 * int(count))
    spans = [counters["span_ns"] / 1e9 for counters in found[1::2]]
    for counters in found[1::2]:
        same("laws_failed", counters["laws_failed"], [])
        if counters["switches"] < 10:
            die(f"{counters['switches']} switches")
    # If the host is busy, one interval may be longer, and the next one shorter.
    whole = int(count) * float(seconds)
    if min(spans) <= 0 or not 0.9 * whole < sum(spans) < 20 * whole:
        die(f"intervals of {spans} s")


def json_lines(*paths: str) -> None:
    for path in paths:
        objects(path)


# --- tables ---


def tables(text: str) -> dict[str, Table]:
    """Parses the tables that BCC's tools print, as a program that knows only these would. Returns
    them by the lines above them, and their counts by their lower bounds in microseconds."""
    found: dict[str, Table] = {}
    section = ""
    for line in text.splitlines():
        if re.fullmatch(r"(pid|tid|pidns) = .*", line):
            section = line
        elif re.fullmatch(r" +(usecs|msecs) +: count +distribution", line):
            found.setdefault(section, {})
        elif row := re.fullmatch(r" *(\d+) -> (\d+) +: (\d+) +\|\**[ +*]*\|", line):
            low, high, count = map(int, row.groups())
            same("bounds", high, max(2 * low - 1, 1))
            table = found[section]
            table[low] = table.get(low, 0) + count
    return found


def one_table(path: str) -> Table:
    found = tables(read(path))
    same(f"tables of {path}", list(found), [""])
    return found[""]


def table(path: str, least: str, most: str) -> None:
    within(f"samples of {path}", int(least), sum(one_table(path).values()), int(most))


def split(pid: str, *paths: str) -> None:
    threads, one, pids, tids, pidnss, oncpu = paths
    tid_list = read(threads).split()
    within("samples of one process", 20, sum(one_table(one).values()), 100000)
    found = tables(read(pids))
    if len(found) < 3 or any(not re.fullmatch(r"pid = \d+", head) for head in found):
        die(f"the tables of {pids} are {list(found)}")
    within("samples of it among others", 10, sum(found[f"pid = {pid}"].values()), 100000)
    found = tables(read(tids))
    same("threads", sorted(found), sorted(f"tid = {tid}" for tid in tid_list))
    for tid in tid_list:
        within(f"samples of thread {tid}", 4, sum(found[f"tid = {tid}"].values()), 100000)
    found = tables(read(pidnss))
    inode = re.sub(r"\D", "", os.readlink("/proc/self/ns/pid"))
    within("samples of its namespace", 10, sum(found[f"pidns = {inode}"].values()), 1000000)
    text = read(oncpu)
    found = tables(text)
    if not any(head.startswith(f"pid = {pid} ") for head in found):
        die(f"the tables of {oncpu} are {list(found)}")
    if not re.search(r"^\d\d:\d\d:\d\d$", text, re.M):
        die("no time of day")
    average = re.search(r"^avg = (\d+) usecs, total: (\d+) usecs, count: (\d+)$", text, re.M)
    if not average:
        die("no average")
    mean, total, count = map(int, average.groups())
    same("average", mean, total // count)


# --- peers ---


def ctxt() -> int:
    return int(re.search(r"^ctxt (\d+)", read("/proc/stat"), re.M)[1])


def to_idle() -> int:
    return int(re.search(r"^to_idle (\d+)", read("/sys/kernel/debug/schedhist/status"), re.M)[1])


def pair(peer: list[str], mine: list[str], loops: int = 120) -> tuple[Table, Table, int, int]:
    """Runs a workload under two tools, longer for a peer that begins slowly. Returns their tables, the
    number of switches that the peer may have seen before ours began and after it ended, and how many
    switches to the idle tasks it has seen."""
    said = [open(f"said.{number}", "w+", encoding="utf-8") for number in range(2)]
    running = []

    def start(number: int, command: list[str]) -> None:
        buffered = {**os.environ, "PYTHONUNBUFFERED": "1"}
        running.append(subprocess.Popen(command, stdout=said[number], env=buffered))
        # A tool of BCC compiles its program first.
        for _ in range(4000):
            if "Tracing" in read(f"said.{number}"):
                return
            if running[-1].poll() is not None:
                break
            time.sleep(0.2)
        die(f"{command} does not start: {read(f'said.{number}')}")

    # Reads it into memory: little is to happen between the two starts.
    subprocess.run([*mine, "0.1", "1"], stdout=subprocess.DEVNULL, check=True)
    try:
        start(0, ["stdbuf", "-oL", *peer])
        first, idle = ctxt(), to_idle()
        start(1, mine)
        began = ctxt()
        subprocess.run(["hackbench", "-g", "2", "-l", str(loops)], stdout=subprocess.DEVNULL, check=True)
        ended = ctxt()
        for process in reversed(running):
            process.send_signal(signal.SIGINT)
            same("status", process.wait(60), 0)
        more = began - first + ctxt() - ended
        idle = to_idle() - idle
    finally:
        for process in running:
            process.kill()
    return one_table("said.0"), one_table("said.1"), more, idle


def near(what: str, theirs: Table, ours: Table, more: int, idle: int) -> None:
    """Asserts that both counts are within 2 %, and the samples about as long. The peer may have seen
    `more` switches, and counts `idle` absences of idle tasks."""
    of_peer, of_us = sum(theirs.values()), sum(ours.values())
    print(
        f"# {what}: the peer has {of_peer}, schedhist {of_us}; {more} switches beside, {idle} to idle",
        flush=True,
    )
    within(f"samples of {what}", 0.98 * (of_peer - more - idle), of_us, 1.02 * of_peer)
    within(f"switches beside {what}", 0, more, 0.1 * of_peer)
    # Under emulation, stamps at other places differ by tens of microseconds.
    for low in (512, 4096):
        of_peer_above = sum(n for lower, n in theirs.items() if lower >= low)
        of_us_above = sum(n for lower, n in ours.items() if lower >= low)
        difference = abs(of_peer_above - of_us_above)
        print(f"# {what}: {of_peer_above} and {of_us_above} above {low} us", flush=True)
        if difference > 0.1 * of_us + more:
            die(f"{what}: {of_peer_above} and {of_us_above} samples are above {low} us")


def peers(tool: str) -> None:
    *tables, _ = pair(["runqlat-libbpf"], [tool, "runqlat"])
    near("runqlat", *tables, 0)
    # It also has the absences of the idle tasks.
    near("cpudist -O", *pair(["cpudist-libbpf", "-O"], [tool, "cpudist", "-O"]))


def peers_bcc(tool: str) -> None:
    flagged = [sys.executable, f"{os.path.dirname(os.path.abspath(__file__))}/../bcc_tool.py"]
    for name in "runqlat", "cpudist":
        peer = [*flagged, f"/usr/sbin/{name}-bpfcc"]
        *tables, _ = pair(peer, [tool, name], 400)
        near(f"{name} of BCC", *tables, 0)


# --- workloads ---


def sleeper(cpu: str) -> None:
    import threading  # noqa: PLC0415

    os.sched_setaffinity(0, {int(cpu)})

    def work() -> None:
        while True:
            time.sleep(0.004)
            sum(range(2000))

    other = threading.Thread(target=work, daemon=True)
    other.start()
    print(os.getpid(), other.native_id, sep="\n", flush=True)
    work()


def forks() -> int:
    return int(re.search(r"^processes (\d+)", read("/proc/stat"), re.M)[1])


def processes(path: str, *command: str) -> None:
    import resource  # noqa: PLC0415

    before = forks()
    subprocess.run(command, check=True)
    more = forks() - before
    voluntary, involuntary = 0, 0
    for whose in resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN:
        usage = resource.getrusage(whose)
        voluntary += usage.ru_nvcsw
        involuntary += usage.ru_nivcsw
    with open(path, "w", encoding="ascii") as out:
        out.write(f"{voluntary} {involuntary} {more}\n")


def run(path: str, file: str, least: str) -> None:
    voluntary, involuntary, forked = map(int, read(file).split())
    found = {(o["scope"], o["metric"]): o for o in objects(path)}
    command = found["command", "oncpu"]
    switches = command["voluntary"] + command["involuntary"]
    print(f"# {voluntary} + {involuntary} switches by the kernel; {forked} processes", flush=True)
    print(f"# {command['voluntary']} + {command['involuntary']} by schedhist", flush=True)
    within("processes", int(least), forked, 100000)
    # A process that is reaped before its last switch lacks that in the sums of its parent; the
    # command itself has a few after it has read them. Of its first stay on a CPU, the end belongs to
    # the group in which it was created.
    within("switches", voluntary + involuntary - 1, switches, voluntary + involuntary + forked + 25)
    missing = command["not_in_histogram"]
    within("stays on a CPU", switches - missing - 1, command["count"], switches)
    waits = found["command", "runq"]["count"]
    within("waits", switches - missing - 2, waits, switches + 2)
    for metric in "oncpu", "runq":
        machine = found["machine", metric]
        if machine["count"] < found["command", metric]["count"]:
            die(f"the machine has fewer samples of {metric} than the command")


def naps(path: str) -> None:
    for _ in range(1000):
        time.sleep(0.0005)
    switches = sum(map(int, re.findall(r"ctxt_switches:\s+(\d+)", read("/proc/self/status"))))
    with open(path, "a", encoding="ascii") as out:
        out.write(f"{read('/proc/self/schedstat').strip()} {switches}\n")


def times(path: str, file: str) -> None:
    """A wait that ends at a switch whose wakeup has read the clock of the run queue is time on the
    CPU for the kernel. It reads its clock earlier in a switch than schedhist, too.
    """
    (ran_before, waited_before, _), (ran, waited, _, switches) = (
        map(int, line.split()) for line in read(file).splitlines()
    )
    found = {(o["scope"], o["metric"]): o for o in objects(path)}
    command = found["command", "oncpu"]
    stamps = 100_000 * switches
    # A few come after the kernel was asked.
    within("switches", switches, command["voluntary"] + command["involuntary"], switches + 25)
    within("waiting", 0.98 * (waited - waited_before), command["waited_ns"], 1 << 62)
    within("on CPU", 0, command["oncpu_ns"], 1.05 * ran + stamps)
    least, most = ran + waited - ran_before - waited_before, ran + waited
    both = command["oncpu_ns"] + command["waited_ns"]
    within("on CPU and waiting", 0.98 * least, both, 1.05 * most + stamps)
    print(f"# on CPU {command['oncpu_ns']} ns, the kernel {ran}; "
          f"waiting {command['waited_ns']} ns, the kernel {waited}")


def counts(path: str, least: str, most: str) -> None:
    for found in objects(path):
        if (found["scope"], found["metric"]) == ("command", "oncpu"):
            switches = found["voluntary"] + found["involuntary"]
            within(f"switches of {path}", int(least), switches, int(most))
            return
    die(f"{path} has no command")


def stacks(path: str, comm: str, *functions: str) -> None:
    found = [o["stack"] for o in objects(path) if o["comm"] == comm]
    print(f"# {len(found)} outliers of {comm}, such as {found[:1]}", flush=True)
    seen = set()
    for stack in found:
        names = [f for f in functions if any(frame.startswith(f) for frame in stack or [])]
        # The scheduler's own frames are left out.
        if len(names) != 1 or "__schedule" in stack:
            die(f"the stack of {comm} is {stack}")
        seen.add(names[0])
    same(f"functions in which {comm} slept", sorted(seen), sorted(functions))


def main() -> None:
    verbs = {
        "histograms": histograms,
        "forms": forms,
        "intervals": intervals,
        "json": json_lines,
        "table": table,
        "split": split,
        "peers": peers,
        "peers_bcc": peers_bcc,
        "sleeper": sleeper,
        "processes": processes,
        "run": run,
        "naps": naps,
        "times": times,
        "counts": counts,
        "stacks": stacks,
    }
    if len(sys.argv) < 2 or sys.argv[1] not in verbs:
        print(__doc__)
        sys.exit(0 if sys.argv[1:] in (["--help"], ["-h"]) else 2)
    verbs[sys.argv[1]](*sys.argv[2:])


if __name__ == "__main__":
    main()
