# SPDX-License-Identifier: GPL-2.0
"""Each allocation fails in turn: the operation fails with ENOMEM and changes nothing, or does without."""

import errno
import time

from faults import HOWS, Faults, Operation, assert_no_probe, assert_no_trace
from harness.test import (CONTROLS, DEBUGFS, EVENTFS, KO, PROBED, TEXTS, THOROUGH, allow, check_laws, cpu1, eq,
                          histogram, lacks_memory, load, loaded, measure, messages, note, run, seeks_leaks, status,
                          unload, value, wait_until, within, write, write_file)
from harness.trace import clear, enable, lines
from test_controls import OFFERED


def all_files():
    return sum(1 for _ in DEBUGFS.rglob("*")), sum(1 for _ in EVENTFS.rglob("*"))


def assert_works(files):
    """Asserts that all files are there, that the module measures, and that everything adds up."""
    eq("number of files", all_files(), files)
    eq("enable", value("enable"), "1")
    measure(0)
    check_laws()


def load_in_turn(injected, how, step, *parameters):
    """Fails every STEPth of the hundreds of allocations for files, which repeat a sequence of a few. A thorough
    run uses a seventh of the step."""
    did_without = refused = 0
    step = (step + 6) // 7 if THOROUGH else step
    with Operation(injected, "load", KO, " ".join(parameters)) as operation:
        number = operation.attempt("once", 100000).asked
        files = all_files()
        unload()
        n = 1
        while True:
            attempt = operation.attempt(how, n)
            if attempt.errno:
                assert_no_trace()
                refused += 1
            else:
                assert_works(files)
                unload()
                assert_no_trace()
                if not attempt.failed:
                    break
                did_without += 1
            n += step if 16 < n < number - 24 - step else 1
    note(f"load {' '.join(parameters)}, {how}: {number} allocations, {refused} times refused,"
         f" {did_without} times it did without")
    within("allocations of loading", 100, number, 10000)
    within("times refused", 10, refused, number)


@seeks_leaks
@lacks_memory
@allow(600)
def test_fault_load():
    injected = Faults()
    load_in_turn(injected, "rest", 1)
    load_in_turn(injected, "once", 7)
    # The records are larger, and there is one more probe.
    load_in_turn(injected, "rest", 53, "metrics=all", "precision=7")
    injected.note_places()


@seeks_leaks
@lacks_memory
def test_fault_enable():
    injected = Faults()
    load("metrics=all", "precision=7")
    for how in HOWS:
        refused = 0
        measure(0)
        with Operation(injected, "write", DEBUGFS / "enable", "1") as operation:
            for attempt in operation.in_turn(how):
                eq(f"enable after errno {attempt.errno}", value("enable"), str(int(not attempt.errno)))
                if attempt.errno:
                    refused += 1
                    assert_no_probe()
                else:
                    measure(0)
                    check_laws()
        note(f"{how}: {refused} times refused")
        within("times refused", 1, refused, 100)
    unload()
    injected.note_places()


@seeks_leaks
@lacks_memory
def test_fault_off():
    """Removing the probes also works without memory. Others probe the same tracepoints, so that the kernel has to
    allocate shorter lists of probes."""
    injected = Faults()
    for event in PROBED:
        enable(event)
    load("metrics=all")
    for how in HOWS:
        failures = -1
        with Operation(injected, "write", DEBUGFS / "enable", "0") as operation:
            for attempt in operation.in_turn(how, lambda: measure(1)):
                eq(f"errno, {how}", attempt.errno, 0)
                eq("enable", value("enable"), "0")
                assert_no_probe()
                check_laws()
                failures += 1
        within(f"failures, {how}", 1, failures, 100)
    unload()
    with Operation(injected, "unload", "schedhist") as operation:
        for how in HOWS:
            failures = -1
            for attempt in operation.in_turn(how, lambda: load("metrics=all")):
                eq(f"errno of unloading, {how}", attempt.errno, 0)
                assert_no_trace()
                failures += 1
            within(f"failures, {how}", 1, failures, 100)
    for event in PROBED:
        clear()
        run("/bin/true")
        name = event.partition("/")[2]
        within(f"{name} in the trace", 1, sum(f"{name}:" in line for line in lines()))
        enable(event, False)
    load()
    messages(2)
    measure(0)
    check_laws()


@seeks_leaks
@lacks_memory
@allow(420)
def test_fault_metrics():
    """Either nothing changes, or measuring is off and `enable` shows so."""
    injected = Faults()
    unchanged = off = 0
    before = memory = None
    with Operation(injected, "write", DEBUGFS / "metrics", "all") as operation:
        for at_first, how in ("none", "rest"), ("none", "once"), ("default", "rest"):

            def begin(at_first=at_first):
                nonlocal before, memory
                if not loaded("schedhist"):
                    load(f"metrics={at_first}")
                    before, memory = value("metrics"), status("memory_bytes")

            for attempt in operation.in_turn(how, begin):
                if attempt.errno and value("enable") == "1":
                    eq("metrics", value("metrics"), before)
                    eq("memory for records", status("memory_bytes"), memory)
                    unchanged += 1
                    continue
                eq("enable", value("enable"), str(int(not attempt.errno)))
                eq("metrics", value("metrics").split(), OFFERED)
                if attempt.errno:
                    off += 1
                    assert_no_probe()
                measure(1)
                run("/bin/true")
                measure(0)
                # The law for wakeup holds only if the metric was on from the beginning.
                if at_first == "none":
                    check_laws()
                unload()
    note(f"{unchanged} times nothing changed, {off} times measuring was off")
    within("times that nothing changed", 1, unchanged, 100)
    within("times that measuring was off", 1, off, 100)
    injected.note_places()


@seeks_leaks
@lacks_memory
def test_fault_threshold():
    injected = Faults()
    refused = 0
    with Operation(injected, "write", DEBUGFS / "threshold_ns/runq", "1000000") as operation:
        for how in HOWS:
            for attempt in operation.in_turn(how, lambda: loaded("schedhist") or load()):
                eq("threshold", value("threshold_ns/runq"), "none" if attempt.errno else "1000000")
                memory = status("outlier_memory_bytes")
                if attempt.errno:
                    eq("memory for outliers", memory, 0)
                    refused += 1
                    continue
                within("memory for outliers", 1, memory, 10000000)
                unload()
    note(f"{refused} times refused")
    within("times refused", 1, refused, 100)
    injected.note_places()


@seeks_leaks
@lacks_memory
def test_fault_reset():
    injected = Faults()
    load()
    messages(5)
    refused = 0
    before = found = None

    def look():
        nonlocal before, found
        before, found = status("switches"), histogram("oncpu")

    with Operation(injected, "write", DEBUGFS / "reset", "1") as operation:
        for how in HOWS:
            for attempt in operation.in_turn(how, look):
                switches, now = status("switches"), histogram("oncpu")
                if attempt.errno:
                    within("switches", before, switches)
                    within("the least slice", 1, now.min[0], found.min[0])
                    within("the longest slice", found.max[0], now.max[0], 10**12)
                    refused += 1
                    continue
                within("switches since the reset", 0, switches, before - 1)
                messages(5)
    measure(0)
    check_laws()
    note(f"{refused} times refused")
    within("times refused", 1, refused, 100)
    unload()
    injected.note_places()


@seeks_leaks
@lacks_memory
def test_fault_read():
    """A read returns the whole text or fails. The kernel's own allocations fail, too: there are few while a file
    is opened."""
    injected = Faults()
    refused = did_without = 0
    load("metrics=all")
    write("outlier_limit", 20)
    write("threshold_ns/oncpu", 1)
    messages(5)
    write("threshold_ns/oncpu", "none")
    measure(0)
    injected.anywhere()
    controls = [name for name in CONTROLS if name != "group_rules"]
    texts = [name for name in TEXTS if not name.startswith("group")]
    histograms = [f"{folder}hist/{metric}" for folder in ("", "per_cpu/cpu0/") for metric in ("oncpu", "runq")]
    for file in [*controls, "threshold_ns/oncpu", *texts, *histograms, "per_cpu/cpu0/summary",
                 "per_cpu/cpu0/openmetrics"]:
        # The read returns ENODATA, because no outlier can come.
        usual = errno.ENODATA if file == "outlier_pipe" else 0
        with Operation(injected, "read", DEBUGFS / file, usual=usual) as operation:
            wanted = operation.attempt("off", 0)
            for how in HOWS:
                for attempt in operation.in_turn(how):
                    if attempt.errno == errno.ENOMEM:
                        refused += 1
                        continue
                    # These contain the time of the snapshot.
                    digest = wanted.hash if file in ("raw", "slices") else attempt.hash
                    eq(f"{file} with {how}", (attempt.errno, attempt.bytes, digest),
                       (wanted.errno, wanted.bytes, wanted.hash))
                    did_without += attempt.failed
    note(f"{refused} times refused, {did_without} times it did without")
    within("times refused", 1, refused, 10000)
    check_laws()
    unload()
    injected.note_places()


@seeks_leaks
@lacks_memory
def test_fault_events():
    """The kernel traces our events: if it fails to enable one, the events stay as they were."""
    injected = Faults()
    refused, all_events = 0, EVENTFS / "enable"
    load()
    # The kernel expands its buffers to full size when the first event is enabled.
    write_file(all_events, "1")
    write_file(all_events, "0")
    injected.anywhere()
    with Operation(injected, "write", all_events, "1") as operation:
        for how in HOWS:
            for attempt in operation.in_turn(how):
                if attempt.errno:
                    refused += 1
                else:
                    eq("enable of all", all_events.read_text(), "1\n")
                write_file(all_events, "0")
                eq("enable of all", all_events.read_text(), "0\n")
    note(f"{refused} times refused")
    within("times refused", 1, refused, 1000)
    measure(0)
    check_laws()
    unload()
    injected.note_places()


@seeks_leaks
def test_fault_fork():
    """A page holds the state of each 64 PIDs. A task without state is untracked until a worker has made the page, a
    moment later; the law tells whether its switches were counted."""
    injected, base = Faults(), 1000000
    write_file("/proc/sys/kernel/pid_max", "4194304")
    load("metrics=all")
    # So many switches stand out from the rest of the system's.
    with Operation(injected, "fork", "200") as operation:
        for n in 1, 2:
            for how, number in ("once", n), ("off", 0):
                base += 1
                before = status("untracked")
                attempt = operation.attempt(how, number, base)
                untracked = status("untracked") - before
                eq("PID of the child", attempt.bytes, base)
                eq(f"whether an allocation failed, {how} {n}", attempt.failed, n == 1 and how == "once")
                within("switches that were untracked", 0, untracked, 150 if attempt.failed else 10)
            base += 32768
    measure(0)
    check_laws()
    unload()
    injected.note_places()


@seeks_leaks
@lacks_memory
@allow(400)
def test_fault_sweep():
    """Without memory a sweep leaves all pages in place, and the next sweep frees them."""
    injected = Faults()
    write_file("/proc/sys/kernel/pid_max", "4194304")
    load()
    before = status("task_memory_bytes")
    # Fails the allocations of every task, except inside fork.
    injected.reject(*injected.fork_code)
    injected.set("task-filter", "N")
    with Operation(injected, "fork", "0") as operation:
        for i in range(300):
            operation.attempt("off", 0, 1000000 + i * 64)
        time.sleep(2)
        injected.set("task-filter", "Y")
        swollen = status("task_memory_bytes")
        within("bytes for tasks", before + 300 * 4096, swollen, before + 400 * 4096)
        # The next sweep is due at twice as many pages.
        for i in range(300, 700):
            operation.attempt("off", 0, 1000000 + i * 64)
    wait_until("a sweep", lambda: status("task_memory_bytes") < swollen)
    note(f"bytes for tasks: {before}, {swollen} where no sweep was possible, {status('task_memory_bytes')} after one")
    measure(0)
    check_laws()
    unload()
    injected.note_places()


@seeks_leaks
def test_fault_online():
    """Bringing a CPU online allocates nothing."""
    online = cpu1()
    injected = Faults()
    load()
    with Operation(injected, "write", online, "1") as operation:
        write_file(online, "0")
        eq("whether an allocation failed", operation.attempt("rest", 1).failed, False)
    eq("online", online.read_text(), "1\n")
    measure(0)
    check_laws()


@seeks_leaks
@lacks_memory
@allow(420)
def test_fault_group_by():
    """Either nothing changes, or measuring is off and `enable` shows so. Without memory for its name a group is
    refused, and the task is in no group of its own."""
    injected = Faults()
    unchanged = off = did_without = 0
    for rule in "cgroup", "comm":
        with Operation(injected, "write", DEBUGFS / "group_by", rule) as operation:
            for how in HOWS:
                for attempt in operation.in_turn(how, lambda: loaded("schedhist") or load("metrics=all")):
                    if attempt.errno and value("enable") == "1":
                        eq("group_by", value("group_by"), "none")
                        unchanged += 1
                        continue
                    eq("enable", value("enable"), str(int(not attempt.errno)))
                    eq("group_by", value("group_by"), rule)
                    if attempt.errno:
                        off += 1
                        assert_no_probe()
                    elif attempt.failed:
                        did_without += 1
                    measure(1)
                    run("/bin/true")
                    measure(0)
                    check_laws()
                    unload()
                    # The names of groups repeat a sequence of two.
                    if did_without >= 8:
                        break
    note(f"{unchanged} times nothing changed, {off} times measuring was off, {did_without} times it did without")
    within("times that nothing changed", 1, unchanged, 200)
    within("times that measuring was off", 1, off, 200)
    injected.note_places()
