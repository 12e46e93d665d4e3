# SPDX-License-Identifier: GPL-2.0
"""Long waits: what other CPUs did meanwhile."""

import errno
import re
import shutil
import time
from pathlib import Path

from harness import cgroup, raw
from harness.groups import groups
from harness.ktap import matches
from harness.outliers import read_text
from harness.test import (DEBUGFS, WORK, about_numbers, allow, busy, check_laws, cpu1, eq, fails, has_clock, histogram,
                          load, measure, messages, note, possible_cpus, read, reset, run, skip, start, status, value,
                          wait_until, within, write, write_file)
from harness.tool import begin, objects, tool
from replay import idle

FOLDER = WORK / "idle"
PARTS = ["own_idle", "llc_idle", "remote_idle", "unknown", "busy"]
CAUSES = ["moved", "forked", "preempted", "woken_idle", "woken_busy"]
# How many waits had a cause, and how long they took.
OF_CAUSES = [cause + unit for cause in CAUSES for unit in ("", "_ns")]
# Runs for a moment, sleeps for a moment.
WORKER = "import time\nwhile True:\n    [0 for _ in range(30000)]\n    time.sleep(0.004)"
SPINNER = "while True: pass"
# Has a CPU for itself half of the time.
HOG = """import os, time
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
while True:
    end = time.monotonic() + 0.05
    while time.monotonic() < end:
        pass
    time.sleep(0.05)"""


def sums(scope="all"):
    """Returns the sums of a line of the file."""
    found = re.search(rf"^{scope} waits (\d+) (.*)", read("long_waits"), re.MULTILINE)
    words = found[2].split()
    values = {key: int(n) for key, n in zip(words[::2], words[1::2], strict=True)}
    parts = {part: values.pop(f"{part}_ns") for part in ["waited", *PARTS]}
    eq("causes", list(values), OF_CAUSES)
    return {"waits": int(found[1])} | parts | values


def check_sums():
    """The parts of each line add up, and the CPUs to the whole. While measuring is off."""
    whole = sums()
    each = [sums(f"cpu{cpu}") for cpu in possible_cpus()]
    for one in [whole, *each]:
        eq("the sum of the parts", sum(one[part] for part in PARTS), one["waited"])
        eq("the sums of the causes", [sum(one[cause + unit] for cause in CAUSES) for unit in ("", "_ns")],
           [one["waits"], one["waited"]])
    eq("all CPUs", {key: sum(one[key] for one in each) for key in whole}, whole)
    return whole


def look(limit, *pids):
    """Looks at waits of so many nanoseconds from now on, and records the events. These processes have groups."""
    about_numbers()
    load()
    if status("cpus_possible") < 2:
        skip("there is one CPU")
    measure(0)
    write("long_wait_ns", limit)
    if pids:
        write("group_by", f"process {' '.join(map(str, pids))}")
    shutil.rmtree(FOLDER, ignore_errors=True)
    return idle.Recording(FOLDER, lambda: measure(1))


def on(mask, code):
    return start("taskset", "-c", mask, "python3", "-c", code)


def let_wait():
    """Waits until there are enough long waits, some of which the recording does not tell enough about."""
    wait_until("long waits", lambda: sums()["waits"] >= 40, 0.2)


def let_wait_in_groups():
    def waits():
        return sum(group.values["long_waits"] for group in groups().values() if group.name != "other")

    before = waits()
    wait_until("long waits of these processes", lambda: waits() - before >= 20, 0.2)


def ended(recording):
    """Ends the recording and measuring, and compares it with the reference. Returns the long waits."""
    measure(0)
    if not recording.masks:
        recording.stop()
    found = recording.end()
    check_sums()
    check_laws()
    within("long waits", 20, len(found))
    agree = [one for one in found if one.agrees()]
    for one in found:
        within(f"a part of {one}", 0, sum(one.found), one.waited)
        if not one.agrees():
            note(f"differs: {one}")
    waited, unknown = sum(one.waited for one in found), sum(one.found.unknown for one in found)
    note(f"{len(agree)} of {len(found)} waits agree; they took {waited} ns, of which {unknown} ns are unknown")
    for name, ours in (("own", lambda one: one.found.own), ("idle", lambda one: one.found.own + one.found.elsewhere)):
        total, (low, high) = sum(map(ours, found)), (sum(getattr(one, name)[i] for one in found) for i in range(2))
        note(f"{name}: {total} ns, by the reference {low} to {high} ns")
        within(name, low - unknown - waited // 100, total, high + waited // 100)
    pinned = sum(one.agrees_if_pinned() and not one.agrees() for one in found)
    within("waits of tasks that must not migrate", 0, pinned, 0.05 * len(found))
    movable = len(found) - pinned
    within("waits that agree", movable - 1 - movable // 200, len(agree))
    return found


def test_long_wait_control():
    """By default nothing is looked at, and nothing is allocated."""
    load()
    eq("default", (value("long_wait_ns"), status("long_wait_memory_bytes")), ("none", 0))
    head = "# schedhist long_waits version 1\n# long_wait_ns "
    eq("the file", read("long_waits"), f"{head}none\n")
    eq("records", long_waits_in_raw(), [])
    for bad in ("0", "-1", "x", "1 2", "18446744073709551616"):
        fails(errno.EINVAL, write, "long_wait_ns", bad)
    measure(0)
    write("long_wait_ns", 1)
    eq("the limit", (value("long_wait_ns"), read("long_waits").startswith(f"{head}1\nall waits ")), ("1", True))
    within("memory for each CPU", 1, status("long_wait_memory_bytes") // status("cpus_possible"), 2048)
    reset()
    measure(1)
    messages(1)
    measure(0)
    check_laws()
    whole, runq = check_sums(), histogram("runq")
    eq("their time", whole["waited"], runq.sum)
    # Else most take less than a tick.
    if has_clock():
        eq("each wait is long", whole["waits"], runq.count)
        preempted = histogram("runq_preempt").count
        within("those that began with a preemption", preempted - whole["moved"], whole["preempted"], preempted)
        for cause in ["forked", "woken_idle", "woken_busy"]:
            within(cause, 1, whole[cause])
    shown = re.search(r"^schedhist_long_waits_total (\d+)$", read("openmetrics"), re.MULTILINE)
    eq("waits for Prometheus", int(shown[1]), whole["waits"])
    records = long_waits_in_raw()
    eq("waits in raw", sum(record.waits for record in records), whole["waits"])
    eq("parts in raw", [sum(getattr(record, f"{part}_ns") for record in records) for part in PARTS],
       [whole[part] for part in PARTS])
    eq("causes in raw", [sum(getattr(record, key) for record in records) for key in OF_CAUSES],
       [whole[key] for key in OF_CAUSES])
    reset()
    eq("after a reset", check_sums()["waits"], 0)
    eq("waits in raw after a reset", sum(record.waits for record in long_waits_in_raw()), whole["waits"])
    write("long_wait_ns", "none")
    measure(1)
    messages(1)
    eq("waits once there is no limit", sums()["waits"], 0)


@allow(300)
def test_long_waits_told():
    """The command says what idle CPUs could have served, of the machine and of each group."""
    begin()
    write("group_by", "comm")
    write("long_wait_ns", 1)
    messages(1)
    measure(0)
    served = r"\S+: idle CPUs could have served (at least )?\d+ % of it$"
    matches("the machine", rf"^\d+ long waits took {served}", tool().out)
    matches("a group", rf"^ +\d+ long waits, {served}", tool("groups").out)
    found = objects(tool("groups", "-j").out)
    eq("in JSON", sum(one["long_waits"] for one in found),
       sum(record.waits for record in long_waits_in_raw("GROUP_LONG_WAITS")))


def long_waits_in_raw(kind="LONG_WAITS"):
    data = (DEBUGFS / "raw").read_bytes()
    found = raw.records(data, raw.header_of(data).header_length)
    return [record.fields for _, record in found if record.kind == kind]


@allow(600)
def test_long_waits_of_groups():
    """Each long wait is of one group, and an outlier names the CPU that was idle longest."""
    load()
    measure(0)
    write("group_by", "comm")
    write("long_wait_ns", 1)
    write("threshold_ns/runq", 1)
    reset()
    measure(1)
    messages(1)
    measure(0)
    whole, found = check_sums(), [group.values for group in groups().values()]
    within("groups with long waits", 2, sum(values["long_waits"] > 0 for values in found))
    keys = {"waits": "long_waits"} | {part: f"long_wait_{part}_ns" for part in ["waited", *PARTS]}
    keys |= {key: f"long_waits_{key}" for key in OF_CAUSES}
    eq("those of all groups", {part: sum(values[key] for values in found) for part, key in keys.items()}, whole)
    records = long_waits_in_raw("GROUP_LONG_WAITS")
    eq("waits of groups in raw", sum(record.waits for record in records), whole["waits"])
    # Of the last ones, which may all be shorter than a tick of a clock as coarse as that.
    if has_clock():
        wait_until("an outlier with a CPU that was idle", more_messages)
    read_text(read("outliers"))


def more_messages():
    """Returns whether one of the last outliers had a CPU that was idle; on a busy host, few have."""
    if " idle_cpu " in read("outliers"):
        return True
    measure(1)
    messages(1)
    measure(0)
    return False


# Sleeps and is woken by a timer on the same CPU; and a task that wants that CPU, too. For a real-time task, a
# real-time kernel lets the interrupt run the timer, rather than a thread, which would have the CPU.
SLEEPER = ("import os, time\nos.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))\n"
           "open('/proc/self/comm', 'w').write('sleeper')\nwhile True: time.sleep(0.002)")


@allow(300)
def test_long_waits_causes():
    """A task that is woken onto an idle CPU, and one that is woken onto a busy one."""
    load()
    write("group_by", "comm")
    write("long_wait_ns", 1)
    on("0", SLEEPER)
    found = causes_of("sleeper")
    within("woken onto an idle CPU", found["waits"] // 2, found["woken_idle"])
    for _ in range(2):
        on("0", SPINNER)
    found = causes_of("sleeper")
    within("woken onto a busy CPU", found["waits"] // 2, found["woken_busy"])
    eq("moved", found["moved"], 0)


def causes_of(name):
    """Returns how many waits of a group had each cause, during a while."""
    def now():
        values = next((group.values for group in groups().values() if group.name == name), None)
        return values and {"waits": values["long_waits"]} | {cause: values[f"long_waits_{cause}"] for cause in CAUSES}
    wait_until(f"{name} runs", now)
    # What was started begins.
    time.sleep(2)
    before = now()
    wait_until("a hundred waits", lambda: now()["waits"] >= before["waits"] + 100)
    return {key: n - before[key] for key, n in now().items()}


@allow(900)
def test_long_waits_pinned():
    """A task that may use one CPU only cannot be helped by others."""
    for _ in range(3):
        on("0", SPINNER)
    pinned = {on("0", WORKER).pid for _ in range(3)}
    # They change their affinity while they start.
    names = [Path(f"/proc/{pid}/comm") for pid in pinned]
    wait_until("the workers run", lambda: all(name.read_text().startswith("python3") for name in names))
    recording = look(1_000_000, *pinned)
    let_wait()
    let_wait_in_groups()
    found = [one for one in ended(recording) if one.pid in pinned]
    within("their waits", 10, len(found))
    eq("time that others were idle", sum(one.found.elsewhere for one in found), 0)


@allow(900)
def test_long_waits_isolated():
    """A CPU that the kernel's parameter isolcpus= isolates is idle for nobody, though a task's affinity has it."""
    if idle.cpu_list(Path("/sys/devices/system/cpu/isolated").read_text()) != {1}:
        skip("isolcpus=1 is not among the kernel's parameters")
    on("0", SPINNER)
    # Nothing moves them to CPU 1.
    widen = "import os\nos.sched_setaffinity(0, {0, 1})\nopen('/proc/self/comm', 'w').write('wide')\n"
    wide = [on("0", widen + WORKER).pid for _ in range(2)]
    wait_until("they are wide", lambda: all(Path(f"/proc/{pid}/comm").read_text() == "wide\n" for pid in wide))
    recording = look(1_000_000, *wide)
    # Until a CPU's first switch, nothing is known of it.
    run("taskset", "-c", "1", "true")
    let_wait()
    let_wait_in_groups()
    found = [one for one in ended(recording) if one.pid in wide]
    within("their waits of which all is known", 10, sum(not one.found.unknown for one in found))
    eq("time that others were idle", sum(one.found.elsewhere for one in found), 0)


@allow(900)
def test_long_waits_hog():
    """Tasks that might use another CPU are stuck behind a task of real-time priority."""
    on("0", HOG)
    for _ in range(2):
        on("0,1", WORKER)
    # They have their affinity.
    time.sleep(1)
    recording = look(1_000_000)
    let_wait()
    wait_until("time that others were idle", lambda: sums()["llc_idle"] + sums()["remote_idle"] >= 5_000_000, 0.2)
    found = ended(recording)
    within("time that others were idle", 1_000_000, sum(one.found.elsewhere for one in found))


@allow(900)
def test_long_waits_stress():
    start("stress-ng", "--temp-path", "/tmp", "--quiet", "--timeout", "60", "--switch", "1", "--nanosleep", "1", "--fork",
          "1", "--cpu", "1")
    recording = look(500_000)
    let_wait()
    ended(recording)


@allow(900)
def test_long_waits_moves():
    """Tasks that are moved between cgroups while they wait."""
    cgroup.on()
    folders = cgroup.make("one", "two")
    spinners = [on("0,1", SPINNER).pid for _ in range(4)]
    recording = look(500_000)
    while sums()["waits"] < 40:
        for folder in folders:
            for pid in spinners:
                cgroup.move(pid, folder)
    ended(recording)


@allow(900)
def test_long_waits_hotplug():
    """A CPU that is offline is not idle."""
    online = cpu1()
    with busy():
        write_file(online, "0")
        recording = look(1_000_000)
        let_wait()
        recording.stop()
        write_file(online, "1")
        for one in ended(recording):
            eq(f"CPU 1 is idle for {one}", one.idle_cpu == 1, False)
