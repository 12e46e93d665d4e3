# SPDX-License-Identifier: GPL-2.0
"""The command in containers, which share the module, but not their PIDs, cgroups and /run; and what it leaves if
it is killed."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Callable

from harness import cgroup
from harness.process import LIBC
from harness.test import DEBUGFS, Wrong, eq, matches, read, run, start, value, wait_until, within, write
from harness.tool import (TOOL, Job, begin, ends, grouped_by, instances, lines_of_json, narrow, no_cgroup_is_left,
                          samples, says, soon_grouped_by, tool)
from test_tool_run import check_counts, is_watched, rules

PYTHON = sys.executable, "-SE", "-c"
# Computes for half a second.
BURN = """
import time
end = time.process_time() + 0.5
while time.process_time() < end: pass
"""
# Sleeps 100 times a second.
NAPS = """
import time
while True: time.sleep(0.01)
"""
# The same, in a thread that outlives the first one.
HEADLESS = """
import ctypes, platform, sys, threading, time
def naps():
    for _ in range(int(sys.argv[1])): time.sleep(0.01)
threading.Thread(target=naps).start()
ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[platform.machine()], 0)
"""
# Runs a command in a PID namespace, as its PID 1.
CONTAINED = "unshare", "--pid", "--fork", "--kill-child", "--mount-proc"


def has_burnt(text: str) -> None:
    """Asserts that `run` says that its command was on a CPU for half a second or more."""
    found = re.search(r"^command: .*, ([0-9.]+)([mu]?s) on CPU", text, re.M)
    if not found:
        raise Wrong(f"no line 'command': {text}")
    within("milliseconds on CPU", 450, float(found[1]) * {"s": 1000, "us": 0.001, "ms": 1}[found[2]], 100_000)


def owners() -> list[str]:
    return sorted(rules())


def soon_owned_by(*names: str) -> None:
    wait_until(f"the rules {names}", lambda: owners() == sorted(names))


def sleepers(pattern: str = "^sleep 300") -> list[str]:
    return subprocess.run(["pgrep", "-f", pattern], stdout=subprocess.PIPE, text=True, check=False).stdout.split()


def test_tool_pidns():
    """`run` in containers measures its command alone, and leaves the rules of each `run` that is alive."""
    begin()
    write("group_by", "list")
    host = Job("run", "--", "sleep", "300")
    of_host = f"schedhist-run-{host.pid}"
    soon_owned_by(of_host)
    # Both are PID 1.
    one = Job("run", "--", "sleep", "300", prefix=CONTAINED)
    both = "schedhist-run-1", of_host
    soon_owned_by(*both)
    has_burnt(ends(0, *CONTAINED, TOOL, "run", "--", *PYTHON, BURN).err)
    eq("the rules", owners(), sorted(both))
    has_burnt(tool("run", "--", *PYTHON, BURN).err)
    eq("the rules", owners(), sorted(both))
    # Rules have the PIDs of the initial namespace.
    newest = run("pgrep", "-f", "sleep 300", "-n").strip()
    matches("PIDs", f"^rule schedhist-run-1-.* children {newest}$", read("group_rules"))
    # On the host one can tell whether a container's is alive, but not the other way round.
    one.kill()
    wait_until("one sleeper", lambda: len(sleepers()) == 1)
    says(tool("doctor").out, "group_rules has schedhist-run-1-")
    tool("run", "--", "true")
    eq("the rules", owners(), [of_host])
    host.kill()
    run("pkill", "-KILL", "-xf", "sleep 300")
    says(ends(0, *CONTAINED, TOOL, "run", "--", "true").err, "command: ")
    eq("the rules", owners(), [of_host])
    tool("ctl", "group_by")
    eq("the rules", owners(), [])


def test_tool_pidns_process():
    """-p means the process that the user sees under this PID, or is refused."""
    begin()
    run(*CONTAINED, "bash", "-c", """
        python3 -SE -c "$1" & sleep 1
        "$2" cpudist -p $! 3 1 > tables 2>&1; echo "$?" > status
        echo "process $!" > "$3"; cat "$3" > rule
        "$2" cpudist -p $! 1 1 > refused 2>&1; echo "$?" >> status
        "$2" runqlat --pidnss 1 1 >> refused 2>&1; echo "$?" >> status
        "$2" runqslower -p $! >> refused 2>&1; echo "$?" >> status
        """, "bash", NAPS, TOOL, DEBUGFS / "group_by")
    eq("the status", Path("status").read_text().split(), ["0", "1", "1", "1"])
    within("samples in 3 s", 10, samples(Path("tables").read_text()), 100_000)
    rule = Path("rule").read_text().strip()
    says(Path("refused").read_text(), f"tasks are grouped by '{rule}' already",
         "--pidnss: the module shows the PIDs of the initial namespace")
    matches("a PID of the initial namespace", "^process [0-9]{2,}$", rule)
    write("group_by", "none")
    # /proc shows another namespace: PID 1 may be either one.
    said = ends(1, "unshare", "--pid", "--fork", TOOL, "cpudist", "-p", "1", "1", "1")
    says(said.err, "/proc does not show the PID namespace of this process")
    grouped_by("none")


def test_tool_leader_gone():
    """A process of which the first thread has ended is one all the same."""
    begin()
    cgroup.on()
    process = start(*PYTHON, HEADLESS, "6000")
    status = Path(f"/proc/{process.pid}/status")
    wait_until("the first thread's end", lambda: re.search("^State:.Z", status.read_text(), re.M))
    within("samples in 1 s", 20, samples(tool("cpudist", "-p", str(process.pid), "1", "1").out), 100_000)
    process.kill()
    eq("status", process.wait(), -9)
    for rule in ("none", "list"):
        write("group_by", "none")
        write("group_by", rule)
        said = tool("run", "-j", "--", *PYTHON, HEADLESS, "150")
        check_counts("the process", lines_of_json(said.err), 150, 100_000)


def in_cgroupns(mounts: bool) -> list[str | Path]:
    """Returns a prefix: a command in a cgroup namespace that has this root, and with its hierarchy mounted, if that
    is asked for."""
    folder, = cgroup.make("pod/ctr")
    return ["bash", "-c", """
        echo $$ > "$1/cgroup.procs"
        exec unshare --cgroup --mount bash -c '
            [[ -z $0 ]] || { umount "$1" && mount -t cgroup2 none "$1"; }
            exec "${@:2}"
        ' "$2" "$3" "${@:4}"
        """, "bash", folder, "yes" if mounts else "", cgroup.ROOT]


def test_tool_cgroupns():
    """`run` in a cgroup namespace measures its command, and does not move it out of the container."""
    begin()
    cgroup.on()
    Path("burn.py").write_text(BURN)
    for mounts, rule in [(True, "none"), (True, "cgroup"), (True, "list"), (False, "none"), (False, "list")]:
        write("group_by", "none")
        write("group_by", rule)
        said = ends(0, *in_cgroupns(mounts), TOOL, "run", "--", "sh", "-c",
                    f"cat /proc/self/cgroup; exec python3 -SE '{Path('burn.py').absolute()}'")
        has_burnt(said.err)
        if ".." in said.out:
            raise Wrong(f"the command has left its container: {said.out}")
        grouped_by(rule)
    write("group_by", "cgroup")
    # Where it cannot be measured by itself, it is run.
    said = ends(7, *in_cgroupns(False), TOOL, "run", "--", "sh", "-c", "exit 7")
    says(said.err, "is not the cgroup of this process")
    said = ends(1, *in_cgroupns(True), TOOL, "runqlat", "-c", "/a", "1", "1")
    says(said.err, "-c: the module shows the paths of the initial cgroup namespace")


def test_tool_threaded():
    """A command is executed although no process can enter a cgroup below a threaded one."""
    begin()
    cgroup.on()
    domain, threads = cgroup.make("domain", "domain/threads")
    (threads / "cgroup.type").write_text("threaded")
    for rule, text in (("none", "command: "), ("cgroup", "only the machine is measured, not the command by itself: ")):
        write("group_by", rule)
        said = ends(7, "bash", "-c", """
            echo $$ > "$1/cgroup.procs" && echo $$ > "$1/threads/cgroup.threads"
            exec "$2" run -- sh -c "echo executed; exit 7"
            """, "bash", domain, TOOL)
        says(said.out, "executed")
        says(said.err, text)
        grouped_by(rule)
        no_cgroup_is_left()


def with_run(options: str = "") -> tuple[str, ...]:
    """Returns a prefix: a command with a /run of its own."""
    return "unshare", "--mount", "sh", "-c", f'mount -t tmpfs {options} none /run && exec "$@"', "sh"


def test_tool_own_run():
    """Without a /run that can be written nothing is lent, and the command is executed."""
    begin()
    cgroup.on()
    said = ends(7, *with_run("-o ro"), TOOL, "run", "--", "sh", "-c", "exit 7")
    says(said.err, "only the machine is measured, not the command by itself: /run/schedhist.lock")
    grouped_by("none")
    # Two that do not know of each other: neither takes the list from the other.
    write("group_by", "list")
    says(ends(0, *with_run("-o ro"), TOOL, "run", "--", "true").err, "command: ")
    write("group_by", "none")
    run("umount", cgroup.ROOT)
    host = Job("run", "--", "sleep", "300", prefix=with_run())
    soon_grouped_by("list")
    soon_owned_by(f"schedhist-run-{host.pid}")
    says(tool("run", "--", "true").err, "command: ")
    eq("the rules", owners(), [f"schedhist-run-{host.pid}"])
    run("mount", "-t", "cgroup2", "none", cgroup.ROOT)


def killed(until: Callable[[], object], *words: str) -> None:
    """Kills the command once this is true."""
    job = Job(*words)
    wait_until(f"{words}", until)
    job.kill()


def killed_run() -> None:
    """Kills a `run`, but not its command."""
    killed(lambda: sleepers("^sleep 299$"), "run", "--", "sleep", "299")


def test_tool_killed():
    """What a killed command has written is found by all verbs, and restored by those that write."""
    begin()
    cgroup.on()
    killed(lambda: is_watched("runq") and instances(), "watch", "-T", "60000000", "--on-threshold", "trace", "--stacks")
    for verb in (["hist", "runq"], ["top", "--once"], ["doctor"]):
        said = tool(*verb)
        says(said.out + said.err, "on_outlier is 'tracing_off', left by a schedhist that has ended (PID ",
             "threshold_ns/runq is '60000000000', left by a schedhist that has ended",
             "is of a schedhist watch that was killed", "schedhist ctl restores")
        narrow(said.err)
        eq("on_outlier", value("on_outlier"), "tracing_off")
    matches("what doctor says", "^warn  settings ", said.out)
    said = tool("ctl")
    says(said.out, "on_outlier none")
    says(said.err, "on_outlier is 'tracing_off', left by a schedhist that has ended")
    eq("threshold", is_watched("runq"), False)
    eq("instances", instances(), [])
    matches("what doctor says", "^ok    settings ", tool("doctor").out)
    # What a living one needs stays.
    living = Job("watch", "-T", "60000000", "--on-threshold", "trace")
    wait_until("the threshold", lambda: is_watched("runq"))
    says(tool("doctor").out, "a schedhist needs on_outlier")
    tool("ctl")
    eq("on_outlier", value("on_outlier"), "tracing_off")
    living.interrupt()
    # Only what it has written itself.
    killed_run()
    run("pkill", "-KILL", "-xf", "sleep 299")
    write("group_by", "none")
    write("group_by", "cgroup")
    tool("run", "--", "true")
    grouped_by("cgroup")
    tool("ctl")
    grouped_by("cgroup")
    write("group_by", "none")
    killed_run()
    says(tool("ctl").err, "group_by is 'cgroup', left by a schedhist that has ended")
    grouped_by("none")
    run("pkill", "-KILL", "-xf", "sleep 299")
    tool("run", "--", "true")
    no_cgroup_is_left()
    # One that has left no note here.
    ends(137, "unshare", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c", """
        mount -t tmpfs none /run
        "$1" watch -T 60000000 --on-threshold trace &
        until grep -q tracing_off "$2/on_outlier"; do sleep 0.1; done
        kill -KILL $!; wait $!
        """, "sh", TOOL, DEBUGFS)
    eq("on_outlier", value("on_outlier"), "tracing_off")
    says(tool("doctor").out, "on_outlier is 'tracing_off', for no schedhist that is known here")


def stops(*words: str):
    """Runs a command from one entry or exit of a system call to the next one, and kills it when this is closed."""
    PTRACE_TRACEME, PTRACE_SYSCALL = 0, 24
    pid = os.fork()
    if pid == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        LIBC.ptrace(PTRACE_TRACEME, 0, 0, 0)
        os.execv(TOOL, [TOOL, *words])
    runs = True
    try:
        while runs := os.WIFSTOPPED(os.waitpid(pid, 0)[1]):
            yield
            LIBC.ptrace(PTRACE_SYSCALL, pid, 0, 0)
    finally:
        if runs:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def test_tool_killed_anywhere():
    """Wherever a watch is killed, the next command restores what it has set: after each change of the setting or of
    what is noted of it."""
    begin()
    lock = Path("/run/schedhist-threshold_ns-runq.lock")
    kills = changes = 0
    while kills == changes:
        kills, changes, before = kills + 1, 0, None
        running = stops("watch", "-T", "60000000", "-d", "0.1")
        for _ in running:
            now = lock.exists() and lock.read_text(), is_watched("runq")
            changes += before is not None and now != before
            before = now
            if changes == kills:
                break
        running.close()
        tool("ctl")
        eq(f"the threshold, killed when it was {before}", is_watched("runq"), False)
    within("changes", 4, changes)
