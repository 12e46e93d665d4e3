# SPDX-License-Identifier: GPL-2.0
"""The files in debugfs: their names and their contents."""

import re
import stat

from harness import raw
from harness.outliers import escaped
from harness.test import (COUNTERS, DEBUGFS, DEFAULT, KO, METRICS, TREE, Status, check_histograms, check_laws,
                          count, cpus, eq, files, histogram, lines_of, load, matches, measure, messages, note,
                          possible_cpus, read, reset, run, status, within)


def test_files():
    load()
    paths = [DEBUGFS, *DEBUGFS.rglob("*")]
    eq("files", {str(path.relative_to(DEBUGFS)): stat.S_IMODE(path.lstat().st_mode) for path in paths},
       files(possible_cpus()))
    folders = {path.relative_to(DEBUGFS).as_posix() for path in paths if stat.S_ISDIR(path.lstat().st_mode)}
    eq("folders", folders, {name for name, mode in files(possible_cpus()).items() if mode == 0o755})
    for path in paths:
        found = path.lstat()
        eq(f"{path} is not root's", (found.st_uid, found.st_gid), (0, 0))
        if path.is_file():
            eq(f"size of {path}", found.st_size, 0)


def test_histograms():
    load()
    messages(5)
    measure(0)
    check_histograms(possible_cpus())
    eq("metric", histogram("idle").metric, "idle")
    eq("cpu", histogram("idle").cpu, "all")
    last = possible_cpus()[-1]
    eq("cpu", histogram("oncpu", last).cpu, str(last))
    check_laws()


def test_status():
    load()
    for line in lines_of("status")[1:]:
        matches("a line", r"^(metrics [a-z_ ]+|[a-z0-9_]+( [^ ]+){1,2})$", line)
    found = Status()
    eq("version", found.settings["version"], run("modinfo", "-F", "version", KO).strip())
    eq("enabled", found.settings["enabled"], "1")
    eq("unit", found.settings["unit"], "ns")
    number, precision = status("cpus_possible"), status("precision")
    eq("cpus_possible", number, len(possible_cpus()))
    eq("precision", precision, 5)
    # The metrics of this many buckets of 8 bytes, and a little more, but not over the budget.
    buckets = ((40 - precision + 1) << precision) + 1
    within("memory_bytes", number * len(DEFAULT) * buckets * 8, status("memory_bytes"), number * 65536)
    measure(0)
    eq("enabled", Status().settings["enabled"], "0")


def test_summary():
    load()
    messages(5)
    measure(0)
    for cpu, file in [("all", "summary"), *((cpu, f"per_cpu/cpu{cpu}/summary") for cpu in (0, cpus() - 1))]:
        eq("first line", lines_of(file)[0], f"# schedhist summary version 1, cpu {cpu}, disabled")
    lines = lines_of("summary")
    counters = Status().counters["all"]
    eq("counters", lines[1].split(), [word for name in COUNTERS for word in (name, str(counters[name]))])
    matches("head", r"^metric +count +mean +p50 +p90 +p99 +p99.9 +p99.99 +max +worst$", lines[3])
    rows = [line.split() for line in lines[4:]]
    eq("rows", [row[0] for row in rows], [name for name in METRICS if name in DEFAULT or name == "runq"])
    within("columns", 9, min(map(len, rows)))
    found = {row[0]: int(row[1]) for row in rows}
    eq("count of oncpu", found["oncpu"], count("oncpu"))
    within("count of idle", 1, found["idle"])


def test_openmetrics():
    """The file for monitoring systems, parsed by a published client's parser; it agrees with the histograms,
    and a reset does not change it."""
    load()
    messages(5)
    measure(0)
    paths = [DEBUGFS / "openmetrics", *DEBUGFS.glob("per_cpu/cpu*/openmetrics")]
    checked = run(TREE / "tests/engine/openmetrics_check.py", *paths).splitlines()
    eq("files checked", len(checked), 1 + status("cpus_possible"))
    before = read("openmetrics")
    found = dict(re.findall(r"^(schedhist_oncpu_seconds_count|schedhist_switches_total) (\d+)", before, re.MULTILINE))
    eq("count of oncpu and switches", found, {"schedhist_oncpu_seconds_count": str(count("oncpu")),
                                              "schedhist_switches_total": str(status("switches"))})
    reset()
    eq("after a reset", read("openmetrics"), before)


def check_raw(snapshot, metric, cpu="all"):
    """Asserts that a histogram in `raw` equals that in the text, to the last bucket."""
    found, text = snapshot.merged(metric, snapshot.cpus() if cpu == "all" else [cpu]), histogram(metric, cpu)
    text.check()
    worst, keys = found.worst, ("sum", "min", "max", "max_cpu", "max_time", "max_pid", "max_prio", "max_comm")
    numbers = [found.sum, found.min, worst.value_ns, worst.cpu, worst.time_ns, worst.pid, worst.prio]
    eq(f"{metric} of {cpu}", [*map(str, numbers), escaped(worst.comm.decode("latin-1"))],
       [text.values[key] for key in keys])
    counts = {snapshot.bounds(index): number for index, number in sorted(found.buckets.items())}
    eq(f"buckets of {metric} of {cpu}", list(counts.items()),
       [((low, high), number) for low, (high, number) in text.buckets.items()])


def test_raw():
    """The binary snapshot equals the histograms."""
    load()
    messages(5)
    measure(0)
    data = raw.read()
    note(f"{len(data)} bytes")
    snapshot = raw.Snapshot(data)
    for metric in ("runq", "offcpu", "idle"):
        check_raw(snapshot, metric)
    for cpu in (0, cpus() - 1):
        check_raw(snapshot, "oncpu", cpu)


def test_raw_reset():
    """A reset starts the text files from 0 and leaves the snapshot unchanged: all of it, including minima and
    maxima, is since loading. Only the time of the snapshot differs."""
    time = raw.STRUCTS["header"].time_ns

    def snapshot():
        data = raw.read()
        return data[:time.offset], data[time.offset + time.size:], read("openmetrics")

    load()
    for _ in range(2):
        measure(1)
        messages(2)
        measure(0)
        before = snapshot()
        reset()
        eq("the snapshot after a reset", snapshot(), before)
        for (cpu, metric), found in raw.Snapshot().histograms.items():
            low, high = raw.Snapshot().bounds(max(found.buckets))
            within(f"max in the last bucket, metric {metric} of {cpu}", low, found.worst.value_ns, high)
        eq("count in the text files", count("oncpu"), 0)
        eq("maxima in the text files", [metric for metric in METRICS if histogram(metric).max], [])
    # The samples before the last reset are in the snapshot, but not in the text.
    measure(1)
    messages(1)
    measure(0)
    everything = raw.Snapshot()
    number = sum(everything.merged("oncpu", everything.cpus()).buckets.values())
    within("count in the snapshot", 1 + count("oncpu"), number)
