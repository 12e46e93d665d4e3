# SPDX-License-Identifier: GPL-2.0
"""The verbs of the command that run others, record, compare and wait: see test_tool.py for the rest."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from harness import cgroup
from harness.kernel import has_symbol
from harness.listeners import Bpftrace
from harness.test import (CPU1, DEBUGFS, EVENTFS, TRACEFS, WORK, Wrong, about_numbers, allow, bursts, cpus, defer, eq,
                          helper, hog, lines_of, load, matches, needs, note, run, skip, spawn, start, state_of,
                          switches_of, value, wait_until, within, write, write_file)
from harness.tool import (TOOL, Job, begin, ends, grouped_by, instances, lines_of_json, narrow, no_cgroup_is_left,
                          objects, says, soon_grouped_by, tool, unload_under_readers)
from test_chain import wake_in_turn

# --- run ---


def test_tool_run():
    """`run` has the status of its command, passes signals on, leaves its output alone, and restores all."""
    begin()
    cgroup.on()
    said = tool("run", "--", "sh", "-c", "echo out; echo err >&2; exit 7", status=7)
    eq("standard output", said.out, "out\n")
    says(said.err, "err", "laws ok", "command: ")
    narrow(said.err)
    tool("run", "--", "sh", "-c", "kill -KILL $$", status=137)
    tool("run", "--", "/no/such/command", status=127)
    tool("run", "--", "/etc/passwd", status=126)
    tool("run", status=2)
    job = Job("run", "--", "sleep", "100")
    soon_grouped_by("cgroup")
    time.sleep(0.5)
    says(job.ends(143, signal.SIGTERM).err, "sleep: ")
    grouped_by("none")
    no_cgroup_is_left()
    tool("run", "--timeout", "300", "--", "sleep", "100", status=143)
    said = tool("run", "-r", "3", "--table", "-C", "0", "-A", "-D", "100", "--", "sleep", "0.3")
    narrow(said.err)
    says(said.err, "sleep (3 of 3)", "cpu0 idle", "note: of the machine, only CPU 0",
         "waits for a CPU (runq) of the command")
    said = tool("run", "-I", "300", "-j", "--", "sleep", "1")
    objects(said.err)
    within("intervals", 2, said.err.count('"scope":"machine","metric":"idle"'))
    says(tool("run", "-x", ",", "--", "true").err, "from_ns,to_ns,scope,metric,count,sum_ns,p50_ns")
    # What the command did is not known if its group has found no room, or has lost its counters.
    of_machine = "note: all figures are of the whole machine"
    write("group_limit", 1)
    write("group_by", "cgroup")
    says(tool("run", "--", "true").err, "note: there was no room for a group of the command", of_machine)
    write("group_by", "none")
    write("group_limit", 255)
    for rule in ("cgroup", "none"):
        said = tool("run", "--", "sh", "-c", f"echo {rule} > '{DEBUGFS}/group_by'")
        says(said.err, "note: group_by was written meanwhile", of_machine)
    grouped_by("none")
    # If tasks are grouped by another rule, that stays, and only the machine is measured.
    write("group_by", "comm")
    says(tool("run", "--", "true").err, "only the machine is measured", of_machine)
    grouped_by("comm")
    # In a list it has a rule of its own, whatever ends it, and leaves those of others.
    write("group_by", "list")
    write("group_rules", "add theirs comm nobody*")
    said = tool("run", "-r", "3", "--", "sh", "-c", "true; true")
    says(said.err, "command: ", "match one of the 1 earlier rules in group_rules")
    tool("run", "--", "/no/such/command", status=127)
    job = Job("run", "--", "sleep", "100")
    rules_become("theirs", f"schedhist-run-{job.pid}")
    says(job.ends(143, signal.SIGTERM).err, "command: ")
    eq("the rules", rules(), ["theirs"])
    grouped_by("list")


def of_command(text: str, metric: str) -> dict[str, Any]:
    found = [one for one in objects(text) if (one["scope"], one["metric"]) == ("command", metric)]
    within("objects of the command", 1, len(found))
    return found[0]


def check_counts(what: str, text: str, least: int, most: int) -> None:
    """Asserts that the command of `run -j` made so many switches."""
    command = of_command(text, "oncpu")
    within(f"switches of {what}", least, command["voluntary"] + command["involuntary"], most)


def run_until_over() -> Job:
    """`run`s 300 delays in the background, and goes on until there is a file `over`."""
    return Job("run", "-j", "--", "sh", "-c", f"'{helper('delay')}' 300 3000; until [ -e over ]; do sleep 0.1; done")


def test_tool_run_twice():
    """Two runs at once: each has its own command alone, and the last one restores the rule."""
    begin()
    cgroup.on()
    one = run_until_over()
    soon_grouped_by("cgroup")
    # Not on CPU 0, where the other one's real-time task would preempt it all the time.
    two = ends(0, "taskset", "--cpu-list", "1", TOOL, "run", "-j", "--", "sleep", "0.1")
    grouped_by("cgroup")
    Path("over").touch()
    of_one = one.ends(0)
    grouped_by("none")
    no_cgroup_is_left()
    # Two waits for each byte, about. The other one waits for its program to be read from a disk.
    check_counts("one", of_one.err, 500, 3000)
    check_counts("two", two.err, 0, 400)


def rules() -> list[str]:
    """Returns the names of the rules in the list, those of `run` up to the PID."""
    found = [line.split(" ")[1] for line in lines_of("group_rules") if line.startswith("rule ")]
    return [re.sub(r"^(schedhist-run-\d+)-[-\d]*$", r"\1", name) for name in found]


def rules_become(*names: str) -> None:
    wait_until(f"the rules {names}", lambda: rules() == list(names))


def attached(pid: int, whose: str, group_by: str, *words: str) -> None:
    """Asserts that `run` counts the switches of a process while it is attached to it."""
    rule = value("group_by")
    outer = -sum(switches_of(pid))
    job = Job("run", "-j", "-I", "200", *words)
    # Then it has begun to measure.
    wait_until("an interval", lambda: '"oncpu"' in job.said().err)
    grouped_by(group_by)
    inner = -sum(switches_of(pid))
    time.sleep(0.3)
    inner += sum(switches_of(pid))
    said = job.interrupt().err
    outer += sum(switches_of(pid))
    all_of_it = [one for one in objects(lines_of_json(said)) if one["status"] == 0]
    ours = [one for one in all_of_it if (one["scope"], one["metric"]) == (whose, "oncpu")]
    eq(f"objects of {words}", len(ours), 1)
    within(f"switches of {words}", inner, ours[0]["voluntary"] + ours[0]["involuntary"], outer)
    eq("scopes", {one["scope"] for one in all_of_it}, {whose, "machine"})
    grouped_by(rule)


def test_tool_attach():
    """`run` attaches to processes and cgroups: it counts as the kernel does, ends with them, and restores all."""
    begin()
    cgroup.on()
    cgroup.make("web.service")
    name = "a-process-with-a-long-name"
    nap = f"import time\nopen('/proc/self/comm', 'w').write('{name}')\nwhile True: time.sleep(0.01)"
    pid = cgroup.start_in("web.service", sys.executable, "-c", nap)
    defer(os.kill, pid, signal.SIGKILL)
    for rule, of_process, of_cgroup, words in (("none", "list", "list", ["--unit", "web"]),
                                               ("list", "list", "list", ["--cgroup", "/schedhist/web.service"]),
                                               ("process", "process", "", []),
                                               ("cgroup", "", "cgroup", ["--unit", "web"])):
        write("group_by", rule)
        if of_process:
            attached(pid, "process", of_process, "-p", str(pid))
        else:
            says(tool("run", "-p", str(pid), status=1).err, "tasks are grouped by 'cgroup' already")
        if of_cgroup:
            attached(pid, "cgroup", of_cgroup, *words)
        if rule == "list":
            eq("rules that are left", rules(), [])
        write("group_by", "none")
    says(tool("run", "-p", "nobody", status=1).err, "-p nobody: no process is called so")
    # One that is called so, too, and has ended, is left out; one that is named twice is there once.
    ended = subprocess.Popen([sys.executable, "-c", nap.partition("\n")[2].partition("\n")[0]])
    defer(ended.wait)
    wait_until("its end", lambda: state_of(ended.pid) == "Z")
    eq("its name", Path(f"/proc/{ended.pid}/comm").read_text().strip(), name[:15])
    text = tool("run", "-p", f"{name},{pid}", "-d", "300ms").err
    narrow(text)
    eq("processes", text.count(f"{pid} ("), 1)
    says(text, f"process {pid} (", "process: ", "process runq ", "machine runq ", "laws ok")
    says(tool("run", "--unit", "batch", status=1).err, "no cgroup is called batch.service")
    # It ends when the process does.
    other = subprocess.Popen(["sleep", "100"])
    job = Job("run", "-p", str(other.pid))
    rules_become(f"schedhist-run-{job.pid}")
    other.kill()
    other.wait()
    says(job.ends(0).err, "process: ")
    # What a killed one has left is restored by the next.
    job = Job("run", "-p", str(pid))
    rules_become(f"schedhist-run-{job.pid}")
    job.kill()
    tool("run", "-p", str(pid), "-d", "10ms")
    grouped_by("none")


# Runs a command, and writes what it and its children cost by the kernel's own counters: voluntary and involuntary
# switches, and the number of processes.
COSTS = r"""
import re, resource, subprocess, sys
def forks():
    return int(re.search(r"^processes (\d+)", open("/proc/stat").read(), re.M)[1])
before = forks()
subprocess.run(sys.argv[1:], check=True)
more = forks() - before
usages = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
print(sum(it.ru_nvcsw for it in usages), sum(it.ru_nivcsw for it in usages), more, file=open("costs", "w"))
"""
MAKEFILE = """.RECIPEPREFIX = >
all: $(foreach n,1 2 3 4 5 6 7 8,job$n)
job%:
>@i=0; while [ $$i -lt 300 ]; do i=$$((i + 1)); done; sleep 0.0$*; true | cat
"""


def test_tool_children():
    """The switches of a command with children are those that the kernel counts for each of its processes."""
    begin()
    cgroup.on()
    Path("Makefile").write_text(MAKEFILE)
    # By a cgroup, and by a rule of a list.
    for rule in ("none", "list"):
        write("group_by", rule)
        text = tool("run", "-j", "--", sys.executable, "-SE", "-c", COSTS, "make", "-j3").err
        voluntary, involuntary, forked = map(int, Path("costs").read_text().split())
        command, waits = of_command(text, "oncpu"), of_command(text, "runq")
        switches, missing = command["voluntary"] + command["involuntary"], command["not_in_histogram"]
        note(f"{voluntary} + {involuntary} switches by the kernel; {forked} processes")
        note(f"{command['voluntary']} + {command['involuntary']} by schedhist")
        within("processes", 25, forked, 100_000)
        # A process that is reaped before its last switch lacks that in the sums of its parent; the command itself
        # has a few after it has read them. Of its first slice, the end belongs to the group in which it was
        # created.
        within("switches", voluntary + involuntary - 1, switches, voluntary + involuntary + forked + 25)
        within("slices on a CPU", switches - missing - 1, command["count"], switches)
        within("waits", switches - missing - 2, waits["count"], switches + 2)
        machine = {one["metric"]: one["count"] for one in objects(text) if one["scope"] == "machine"}
        for one in (command, waits):
            within(f"samples of the machine of {one['metric']}", one["count"], machine[one["metric"]])


@allow(480)
def test_tool_run_reads():
    """For each interval, `run` reads one file, once."""
    needs("bpftrace")
    begin()
    cgroup.on()
    tracer = Bpftrace("""tracepoint:syscalls:sys_enter_open, tracepoint:syscalls:sys_enter_openat,
        tracepoint:syscalls:sys_enter_openat2 /comm == "tool"/ { printf("%s\\n", str(args.filename)); }""")
    tracer.wait()
    begun = time.monotonic()
    said = tool("run", "-I", "300", "--", "sleep", "3").err
    seconds = time.monotonic() - begun
    tracer.off()
    eq(f"status of bpftrace, {tracer.said()[-500:]}", tracer.process.returncode, 0)
    intervals = said.count(": from ")
    within("intervals", seconds / 0.3 / 3, intervals, seconds / 0.3 + 1)
    # Besides, those before the command begins and after its end. Two for an interval would be more.
    opened, raw = tracer.said().splitlines(), f"{DEBUGFS}/raw"
    places = [place for place, path in enumerate(opened) if path == raw]
    within("reads of raw", intervals + 2, len(places), intervals + 8)
    # What was opened while the command ran.
    eq("files that are opened for an interval", set(opened[places[-6]:places[-4] + 1]), {raw})


# Sleeps 1000 times, and prints what the kernel has counted of itself.
NAPS = r"""
import re, time
for _ in range(1000): time.sleep(0.0005)
switches = sum(map(int, re.findall(r"ctxt_switches:\s+(\d+)", open("/proc/self/status").read())))
print(open("/proc/self/schedstat").read().strip(), switches)
"""


def check_times(command: dict[str, Any], times: str) -> None:
    """Asserts that `run -j` and the kernel, early in the command and at its end, count the same switches and, added
    up, the same time on a CPU and waiting. A wait that ends at a switch whose wakeup has read the clock of the run
    queue is time on the CPU for the kernel. It reads its clock earlier in a switch than schedhist, too."""
    (ran_before, waited_before, _), (ran, waited, _, switches) = (map(int, line.split()) for line in times.splitlines())
    stamps = 100_000 * switches
    # A few come after the kernel was asked.
    within("switches", switches, command["voluntary"] + command["involuntary"], switches + 25)
    within("waiting", 0.98 * (waited - waited_before), command["waited_ns"], 1 << 62)
    within("on CPU", 0, command["oncpu_ns"], 1.05 * ran + stamps)
    least, most = ran + waited - ran_before - waited_before, ran + waited
    within("on CPU and waiting", 0.98 * least, command["oncpu_ns"] + command["waited_ns"], 1.05 * most + stamps)
    note(f"on CPU {command['oncpu_ns']} ns, the kernel {ran}; waiting {command['waited_ns']} ns, the kernel {waited}")


def test_tool_run_times():
    """The times of a command that often naps, beside those that the kernel keeps: see docs/tool.md. A busy host may
    stop a CPU between the readings of the two clocks."""
    about_numbers()
    begin()
    cgroup.on()
    for attempt in (1, 2, 3):
        # Of its first slice a part is not counted.
        said = tool("run", "-j", "--", "sh", "-c", 'read -r line < /proc/self/schedstat; echo "$line"; exec "$@"',
                    "sh", sys.executable, "-SE", "-c", NAPS)
        try:
            return check_times(of_command(said.err, "oncpu"), said.out)
        except Wrong as wrong:
            note(str(wrong))
            if attempt == 3:
                raise


# --- record ---


def span_of(recording: str) -> int:
    """Returns how many nanoseconds a recording covers."""
    found = [one["span_ns"] for one in objects(tool("report", "-i", recording, "-j", "runq").out) if "buckets" in one]
    eq("parts", len(found), 1)
    return found[0]


def test_tool_record():
    """A recording survives that the module is loaded anew, and CPUs that go and come: it marks both."""
    begin()
    with bursts():
        tool("record", "-I", "100", "-o", "status.data", "--", "sh", "-c", "sleep 0.5; exit 3", status=3)
        job = Job("record", "-I", "100")
        job.wait()
        time.sleep(1)
        unload_under_readers()
        wait_until("it to miss the module", lambda: re.search(r";\s+waiting\s+for\s+it", job.said().err))
        load()
        time.sleep(0.5)
        if CPU1.exists():
            write_file(CPU1, "0")
            time.sleep(0.5)
            write_file(CPU1, "1")
        time.sleep(0.5)
        says(job.interrupt().err, "; waiting for it", "schedhist.data: ")
        said = tool("report").out
        narrow(said)
        says(said, "laws ok", f"note: gap: {DEBUGFS}/raw", *(["note: CPUs online: "] if CPU1.exists() else []))
        eq("parts without a gap", len(re.findall("^schedhist: .* switches in ", said, re.M)), 2)
        says(tool("report", "--time", "0,0.6", "runq").out, "samples in ")
        says(tool("report", "--hgrm", "runq").out, "#[Mean")
        hlog = tool("report", "--hlog", "runq").out.splitlines()
        within("lines of the log", 2, sum("HISTFAAAA" in line for line in hlog), 100)
        # If nothing can be written, the command goes on to its end.
        os.mkdir("small")
        run("mount", "-t", "tmpfs", "-o", "size=4m", "none", "small")
        defer(subprocess.run, ["umount", Path("small").absolute()])
        said = tool("record", "-I", "20", "-o", "small/file", "--", "sh", "-c",
                    "cat /dev/zero > small/rest 2> /dev/null; sleep 2; echo over > over", status=1)
        eq("what the command did", Path("over").read_text(), "over\n")
        says(said.err, "small/file")
        # A ring has a file of the time that was asked for, and one before it.
        tool("record", "-I", "50", "--ring", "0.5s", "-d", "2", "-o", "ring")
        note(f"10 to 20 snapshots: {sum(os.path.getsize(name) for name in ('ring', 'ring.1'))} bytes")
        says(tool("report", "-i", "ring.1").out, "laws ok")
        within("nanoseconds of both files", span_of("ring.1") + 1, span_of("ring"), 60_000_000_000)


# --- watch ---


def threshold() -> str:
    return value("threshold_ns/runq")


def is_watched(metric: str) -> bool:
    return value(f"threshold_ns/{metric}") != "none"


def sees_delays(number: int, microseconds: int, metric: str, *words: str) -> str:
    """Delays so many tasks, each for so long, once `watch METRIC WORDS` runs, which then must end as it does after
    outliers. Returns its output."""
    delay = helper("delay")
    job = Job("watch", metric, *words)
    # An outlier of another task may end it before anybody sees the threshold.
    wait_until("the threshold", lambda: is_watched(metric) or job.has_ended())
    for _ in range(number):
        run(delay, "1", str(microseconds))
    return job.ends(3).out


def test_tool_watch():
    """Waits above a threshold, with all that ran meanwhile; settings are as before, whatever happens."""
    begin()
    delay = helper("delay")
    job = Job("runqslower", "2000", "-P")
    wait_until("the threshold", lambda: is_watched("runq"))
    eq("threshold", threshold(), "2000000")
    run(delay, "5", "20000")
    time.sleep(1)
    said = job.interrupt().out
    eq("threshold", threshold(), "none")
    narrow(said)
    found = re.findall(r"^[0-9:]{8} delay +[0-9]+ +[0-9]+ delay +[0-9]+ +[0-9]+$", said, re.M)
    within("waits of 20 ms", 4, len(found), 1000)
    # So long that hardly any other wait is, on a busy host: all that wait on CPU 0 wait for this one.
    for _ in range(3):
        write_file(TRACEFS / "tracing_on", "1")
        said = sees_delays(2, 500_000, "runq", "-T", "250000", "--on-threshold", "trace", "--on-threshold",
                           'shell,command=echo "cpu $SCHEDHIST_CPU pid $SCHEDHIST_PID" > acted')
        if "delay:" in said:
            break
        note(f"another task waited as long: {said}")
    says(said, "## CPU 0: runq_", "delay:")
    narrow(said)
    matches("what the action saw", "^cpu 0 pid ", Path("acted").read_text())
    eq("tracing_on", (TRACEFS / "tracing_on").read_text(), "0\n")
    eq("on_outlier", value("on_outlier"), "none")
    eq("threshold", threshold(), "none")
    # The shares of all culprits add up.
    shares = re.findall(r"^ *([\d.]+) ?%", said, re.M)
    eq(f"the sum of shares, {said}", round(sum(map(float, shares)), 1), 100)
    tool("watch", "-T", "60000000", "-d", "0.5")
    said = sees_delays(3, 20000, "runq", "-T", "10000", "-d", "4", "-q", "--on-threshold", "continue")
    matches("the summary", "^[1-9][0-9]* above 10000 us, 0 \\(of all metrics\\) missed$", said)
    # If no more can come, the summary is printed as well.
    said = sees_delays(3, 20000, "runq", "-T", "10000", "-q", "--on-threshold", "continue", "--on-threshold",
                       f"shell,command=echo none > '{DEBUGFS}/threshold_ns/runq'")
    matches("the summary", "^[1-9][0-9]* above 10000 us, [0-9]+ \\(of all metrics\\) missed$", said)
    sleeper = start("sleep", "100")
    objects(sees_delays(2, 20000, "runq", "-T", "10000", "-j", "--on-threshold", f"signal,num=15,pid={sleeper.pid}"))
    eq("status of the sleeper", sleeper.wait(), -signal.SIGTERM)


def test_tool_watch_chain():
    """Below an outlier comes who woke whom, behind whom these waited, and shares that add up; what is kept for that
    is as before.
    """
    begin()
    # Of all tasks of the guest together.
    write("outlier_rate", "none")
    job = Job("watch", "offcpu", "-T", "80ms", "--chain", "--on-threshold", "continue")
    wait_until("the threshold", lambda: is_watched("offcpu"))
    eq("chain", value("chain"), "1024")
    os.sched_setaffinity(0, {0})
    start("sh", "-c", "while :; do :; done")
    wake_in_turn()
    wait_until("the outliers", lambda: job.said().out.count(": offcpu of first:") >= 3)
    said = job.interrupt(3).out
    eq("chain", value("chain"), "0")
    matches("behind whom", r"(second|third):\d+: ran [^:]*, behind sh \S+s", re.sub(r"\n {9,}", " ", said))
    found = re.findall(r"^## CPU \d+: offcpu of first:\d+: .*\n((?:  .*\n)+)", said, re.M)
    chains = [outlier.partition("  backwards, who woke whom:\n")[2].splitlines() for outlier in found]
    tasks = [[name for line in chain for name in re.findall(r"(first|second|third):\d+: ", line)] for chain in chains]
    within(f"chains of three, {said}", 1, sum(names[:3] == ["first", "third", "second"] for names in tasks))
    note(f"{found}")
    for chain in chains:
        shares = [float(line.split("%")[0]) for line in chain if "%" in line]
        eq(f"the sum of shares, {chain}", round(sum(shares), 1), 100)


def test_tool_watch_chain_groups():
    """A summary says what each group depended on, in parts that add up."""
    begin("group_by=comm")
    write("outlier_rate", "none")
    job = Job("watch", "offcpu", "-T", "80ms", "--chain", "--summary", "-j")
    wait_until("the threshold", lambda: is_watched("offcpu"))
    wake_in_turn()
    parts = ("ran_ns", "waited_ns", "preempted_ns", "throttled_ns")
    depends = {}
    # What came last is still to be read.
    time.sleep(1)
    for one in objects(job.interrupt(3).out)[0]["chains"]:
        times = sum(hop[part] for hop in one["hops"] for part in parts)
        eq(f"{one}", times + one["blocked_ns"] + one["missing_ns"], one["sum_ns"])
        depends[one["name"]] = {hop["name"]: hop["ran_ns"] for hop in one["hops"]}
    within(f"what third ran for first, {depends}", 60_000_000, depends["first"]["third"])
    within(f"what second ran for first, {depends}", 30_000_000, depends["first"]["second"])


def test_tool_record_chain():
    """A recording has the chains of its outliers, and their parts add up."""
    begin()
    for name, setting in [("outlier_rate", "none"), ("chain", 1024), ("threshold_ns/offcpu", 80_000_000)]:
        write(name, setting)
    data = WORK / "chains.data"
    job = Job("record", "-I", "100", "-o", str(data))
    wait_until("the recording", lambda: data.exists())
    wake_in_turn()
    size = data.stat().st_size
    wait_until("the next snapshots", lambda: data.stat().st_size > size)
    time.sleep(0.5)
    job.interrupt()
    found = [one for one in objects(tool("report", "-i", str(data), "offcpu", "-j").out)
             if one["schema"] == "schedhist.outlier.v1"]
    parts = ("ran_ns", "waited_ns", "preempted_ns", "throttled_ns")
    tasks = []
    for one in found:
        chain = one["chain"]
        times = sum(hop[part] for hop in chain["hops"] for part in parts)
        eq(f"{one}", times + chain["blocked_ns"] + chain["missing_ns"], one["duration_ns"])
        tasks.append([hop["comm"] for hop in chain["hops"]])
    within(f"chains of three, {tasks}", 1, sum(names[:3] == ["first", "third", "second"] for names in tasks))
    page = WORK / "page.html"
    tool("report", "-i", str(data), "--html", str(page))
    says(page.read_text(), "Flame graph of wakers", "&lt; third:")
    tool("export", "--perfetto", str(WORK / "chains.perfetto"), "-i", str(data))
    if b"chains: third:" not in (WORK / "chains.perfetto").read_bytes():
        raise Wrong("the trace has no track of third")


def test_tool_watch_twice():
    """Two at once, with two thresholds and two actions: when the first one or the second one ends, the other one
    still gets what it needs, and at the end all is as before."""
    begin()
    delay = helper("delay")
    for first in (0, 1):
        jobs = []
        for number, action in enumerate(["trace", "snapshot"]):
            limit = 100_000 - 40_000 * number
            jobs.append(Job("watch", "-T", str(limit), "--on-threshold", "continue", "--on-threshold", action))
            wait_until(f"threshold of {limit} us", lambda: threshold() == f"{limit}000")
        jobs[first].process.send_signal(signal.SIGINT)
        jobs[first].process.wait()
        eq("on_outlier", set(value("on_outlier").split()), {"tracing_off", "snapshot"})
        eq("threshold", threshold(), "60000000")
        run(delay, "1", "300000")
        other = jobs[1 - first]
        wait_until("the delay", lambda: "delay:" in other.said().out)
        other.interrupt(3)
        eq("threshold", threshold(), "none")
        eq("on_outlier", value("on_outlier"), "none")
        write_file(TRACEFS / "tracing_on", "1")
    # What one has left that was killed, the next one restores.
    job, lock = Job("watch", "-T", "60000000"), Path("/run/schedhist-threshold_ns-runq.lock")
    wait_until("the note", lambda: lock.exists() and lock.read_text() and is_watched("runq"))
    job.kill()
    eq("threshold", threshold(), "60000000000")
    tool("watch", "-T", "120000000", "-d", "0.1")
    eq("threshold", threshold(), "none")
    # A setting that cannot be written.
    os.mkdir("readonly")
    said = ends(1, "timeout", "-s", "KILL", "60", "unshare", "--mount", "sh", "-c", """
        mount -t tmpfs none readonly && echo none > readonly/runq && mount -o remount,ro readonly &&
            mount --bind readonly/runq "$0/threshold_ns/runq" && exec "$@"
        """, DEBUGFS, TOOL, "watch", "-T", "1000")
    matches("the complaint", "threshold_ns/runq: Read-only file system", said.err)


def check_stacks(text: str, comm: str, functions: set[str]) -> None:
    """Asserts that each outlier of the task has a stack with one of the functions, whose names begin so, and that
    each of them is in some stack."""
    found = [one["stack"] or [] for one in objects(text) if one["comm"] == comm]
    note(f"{len(found)} outliers of {comm}, such as {found[:1]}")
    seen = set()
    for stack in found:
        names = [name for name in functions if any(frame.startswith(name) for frame in stack)]
        # The scheduler's own frames are left out.
        if len(names) != 1 or "__schedule" in stack:
            raise Wrong(f"the stack of {comm} is {stack}")
        seen.add(names[0])
    eq(f"functions in which {comm} slept", seen, functions)


def instance_of(job: Job) -> None:
    wait_until("the instance", lambda: any(name.startswith(f"schedhist-watch-{job.pid}-") for name in instances()))


def no_instance() -> None:
    eq("instances that are left", instances(), [])


def test_tool_stacks():
    """With --stacks, each outlier has the kernel stack with which its task had left the CPU. What watch writes for
    it is in an instance of ftrace, which is gone at the end."""
    begin()
    naps = start(helper("naps"), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    # Each nap is one outlier: on a futex, a pipe and a timer.
    job = Job("watch", "offcpu", "-T", "15000", "-d", "2.5", "-j", "--stacks", "--on-threshold", "continue")
    instance_of(job)
    eq("number of instances", len(instances()), 1)
    eq("the events of others", (EVENTFS / "enable").read_text(), "0\n")
    text = job.ends(3).out
    assert naps.stdin
    naps.stdin.close()
    read = "anon_pipe_read" if has_symbol("anon_pipe_read") else "pipe_read"
    check_stacks(text, "naps", {"__futex_wait", read, "do_nanosleep"})
    now = time.time_ns()
    within("the end of an outlier", now - 60_000_000_000, objects(text)[-1]["unix_ns"], now)
    no_instance()
    # The victims are new tasks, which wait before they run for the first time, or at their first wakeup. Up to half
    # of them have begun to run and are preempted, which is no runq_wakeup.
    said = sees_delays(10, 100_000, "runq_wakeup", "-T", "50000", "-d", "4", "--stacks", "--on-threshold", "continue")
    narrow(said)
    matches("the stack", "^  (begins|had left the CPU) in:$", said)
    no_instance()
    # It is gone after each signal. test_tool_killed is about SIGKILL, which nobody can handle.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        job = Job("watch", "-T", "60000000", "--stacks")
        instance_of(job)
        wait_until("the threshold", lambda: is_watched("runq"))
        job.ends(0, number)
        no_instance()


RUNTIME = Path("/proc/sys/kernel/sched_rt_runtime_us")


def test_tool_stacks_hogged():
    """A real-time task that keeps a CPU, and so keeps kernel workers from it, does not keep `watch` waiting."""
    begin()
    if cpus() < 2:
        skip("one CPU")
    needs("grace-periods")
    # The first use of an event waits for every CPU, whoever it is by.
    tool("watch", "-T", "60000000", "-d", "0.1", "--stacks")
    defer(write_file, RUNTIME, "950000")
    write_file(RUNTIME, "-1")
    spinner = spawn(hog, 1000, Path("hogs"))
    defer(os.kill, spinner, signal.SIGKILL)
    wait_until("the hog", Path("hogs").exists)
    ends(0, "taskset", "--cpu-list", "0", TOOL, "watch", "-T", "60000000", "-d", "0.1", "--stacks")
    eq("the hog's end", os.waitpid(spinner, os.WNOHANG), (0, 0))
    no_instance()


# --- diff ---


def is_told_apart() -> bool:
    delay = helper("delay")
    for path in Path().glob("*.data"):
        path.unlink()
    for _ in range(6):
        for name, us in (("a", 10000), ("b", 20000), ("c", 10000)):
            tool("run", "-o", f"{name}.data", "--append", "--", delay, "42", str(us))
    double, equal = (tool("diff", "a.data", other, "-q", "85").out for other in ("b.data", "c.data"))
    for line in (double + equal).splitlines():
        note(line)
    narrow(double, equal)
    return bool(re.search("p85 .* different$", double, re.M)) and not re.search("different$", equal, re.M)


@allow(300)
def test_tool_diff():
    """A doubled delay is found, and none where nothing has changed. One in twenty comparisons of equal runs may be
    wrong, and a busy host may hide a difference: so there are three tries. Half of the waits are the short ones of
    the task that causes the long ones, and on PREEMPT_RT three quarters: p85 is a long one in any case. A run takes
    less than the 950 ms after which the kernel's fair server helps tasks that wait for a real-time one."""
    about_numbers()
    begin()
    cgroup.on()
    if not any(is_told_apart() for _ in range(3)):
        raise Wrong("a doubled delay was not found, or one where there was none, three times")
    tool("diff", "a.data", "b.data", "--fail-above", "runq:p85:+20%", status=1)
    tool("diff", "a.data", "c.data", "--fail-above", "runq:p85:+20%")


def milliseconds(text):
    number, unit = re.fullmatch(r"([\d.]+)(s|ms|us|ns)", text).groups()
    return float(number) * {"s": 1000, "ms": 1, "us": 1e-3, "ns": 1e-6}[unit]


def total(times):
    return sum(sum(parts.values()) for parts in times.values())


def critical_path(*command):
    """Runs a command with `--chain`. Returns the times of each task of its critical path, and of who had the CPU
    meanwhile, in milliseconds; checks the laws."""
    said = tool("run", "--chain", "--", *command).err
    text = said[said.find("## critical path"):]
    note(text)
    narrow(text)
    eq("chain", value("chain"), "0")
    text = re.sub(r"\n {4,}(?! *[\d.]+%)", " ", text)
    law = re.search(r"^  ((?:[a-z ]+ \d+ \+? ?)+)= (\d+) ns$", text, re.M)
    eq("the law", sum(map(int, re.findall(r" (\d+)", law[1]))), int(law[2]))
    # What is beyond ten tasks, and what was not seen, has no parts.
    shares = re.findall(r"^ +([\d.]+)% +(\S+)  ([^\n:]+)(?:: (.*))?$", text, re.M)
    eq("the sum of shares", round(sum(float(share) for share, *_ in shares), 1), 100)
    times = {name: {what: milliseconds(time) for what, time in re.findall(r"([a-z]+) ([\d.]+[mun]?s)", parts)}
             for _, _, name, parts in shares}
    all_times = sum(milliseconds(time) for _, time, *_ in shares)
    within("the sum of all times", 0.98 * int(law[2]) / 1e6, all_times, 1.02 * int(law[2]) / 1e6)
    behind = re.search(r"^  who had the CPU meanwhile: (.*)", text, re.M)
    behind = re.findall(r"(?:^|, )([^,]+) ([\d.]+[mun]?s)", behind[1]) if behind else []
    return times, {name: milliseconds(time) for name, time in behind}


@allow(300)
def test_tool_run_chain():
    """The critical path of a command names what it waits for, and its parts add up to its time."""
    begin()
    folder = WORK / "path"
    folder.mkdir()
    # A sleep in a pipeline, whose other end waits for it.
    times, _ = critical_path("sh", "-c", "sleep 2 | cat")
    within("the sleep", 1900, times["sleep"]["blocked"])
    # Who holds a lock.
    lock = folder / "lock"
    holder = folder / "holder"
    shutil.copy("/bin/dash", holder)
    spin = "i=0; while [ $i -lt 30000 ]; do i=$((i + 1)); done"
    times, _ = critical_path("sh", "-c", f"""
        {holder} -c 'exec 9> {lock}; flock 9; touch {folder}/held; for round in 1 2 3; do {spin}; done' &
        while [ ! -e {folder}/held ]; do sleep 0.05; done
        flock {lock} true""")
    within("its holder", 0.5 * total(times), sum(times["holder"].values()))
    # Who has the CPU.
    hog = folder / "hog"
    shutil.copy("/bin/dash", hog)
    start("taskset", "-c", "1", hog, "-c", "while :; do :; done")
    times, behind = critical_path("taskset", "-c", "1", "sh", "-c", f"{spin}; {spin}; {spin}")
    within("the hog", 0.25 * total(times), behind["hog"])
    # The longest of several jobs at a time.
    makefile = folder / "Makefile"
    makefile.write_text("all: a b c\na:\n\t@sleep 2\nb c:\n\t@sleep 0.2\n")
    times, _ = critical_path("make", "-s", "-j2", "-C", folder)
    within("the sleep", 1900, times["sleep"]["blocked"])
    # For programs.
    said = objects(lines_of_json(tool("run", "--chain", "-j", "--", "sleep", "0.2").err))
    path = next(one for one in said if one["schema"] == "schedhist.path.v1")
    note(path)
    eq("the command, as of the run", path["command"], "sleep 0.2")
    parts = [ns for task in path["tasks"] for key, ns in task.items() if key != "name"]
    eq("the law", sum(parts) + path["unseen_ns"], path["wall_ns"])
    within("the sleep", 195_000_000, next(task["blocked_ns"] for task in path["tasks"] if task["name"] == "sleep"))
