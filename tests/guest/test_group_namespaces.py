# SPDX-License-Identifier: GPL-2.0
"""What is written names processes and cgroups as the writer's namespaces do, and is shown as the initial
ones do."""

import errno
import os
import signal
import sys

from harness import cgroup
from harness.cgroup import BASE
from harness.groups import names, rules
from harness.test import (DEBUGFS, WORK, Wrong, eq, fails, load, run, spawn, start, state_of, stop, value, wait_until,
                          write)


def has_rule(text):
    """Asserts that the list shows this rule."""
    if text not in rules():
        raise Wrong(f"no '{text}' in: {rules()}")


def test_group_pid_namespace():
    load()
    written, goes_on = WORK / "written", WORK / "goes_on"
    for path in written, goes_on:
        path.unlink(missing_ok=True)
    # The shell is PID 1 there, and its PID here is that of the only child of `unshare`.
    script = f"""
        echo list > {DEBUGFS}/group_by && echo add kids children 1 > {DEBUGFS}/group_rules &&
            echo add both pid 1,1 > {DEBUGFS}/group_rules && touch {written}
        until [ -e {goes_on} ]; do sleep 0.1; done
        echo process 1 > {DEBUGFS}/group_by && touch {written}
        sleep 300"""
    outer = start("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script)
    wait_until("the rules", written.exists)
    inner = run("pgrep", "--parent", str(outer.pid)).strip()
    has_rule(f"kids children {inner}")
    has_rule(f"both pid {inner} {inner}")
    written.unlink()
    goes_on.touch()
    wait_until("group_by", written.exists)
    eq("group_by", value("group_by"), f"process {inner}")
    if f"{inner}:sh" not in names():
        raise Wrong(f"no group of it: {names()}")
    stop(outer)


def write_in_pod(file, text):
    """Writes from the root of a cgroup namespace."""

    def inside():
        cgroup.move(0, BASE / "pod")
        os.unshare(os.CLONE_NEWCGROUP)
        write(file, text)

    eq("status of the writer", os.waitpid(spawn(inside), 0)[1], 0)


def test_group_cgroup_namespace():
    load()
    cgroup.on()
    cgroup.make("pod", "pod/in")
    path = "/schedhist/pod"
    write_in_pod("group_by", "cgroup under /in depth 2")
    eq("group_by", value("group_by"), f"cgroup under {path}/in depth 2")
    # All cgroups are all.
    write_in_pod("group_by", "cgroup")
    eq("group_by", value("group_by"), "cgroup")
    wait_until("the root to be a group", lambda: "/" in names())
    write("group_by", "list")
    write_in_pod("group_rules", "add it cgroup /")
    has_rule(f"it cgroup {path}")
    write("group_rules", f"add theirs cgroup {path}/in/")
    has_rule(f"theirs cgroup {path}/in")


def test_group_leader_gone():
    """A process of which the first thread has ended is one all the same."""
    load()
    leave = """import ctypes, platform, threading, time
threading.Thread(target=time.sleep, args=(300,)).start()
ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[platform.machine()], 0)"""
    pid = start(sys.executable, "-SE", "-c", leave).pid
    wait_until("its first thread to end", lambda: state_of(pid) == "Z")
    write("group_by", f"process {pid}")
    write("group_by", "list")
    write("group_rules", f"add it pid {pid}")
    write("group_rules", f"add its children {pid}")
    # Nor is it one once all threads have ended, though its parent has not waited for it.
    os.kill(pid, signal.SIGKILL)
    wait_until("all threads to end", lambda: os.listdir(f"/proc/{pid}/task") == [str(pid)])
    fails(errno.ESRCH, write, "group_rules", f"add dead pid {pid}")
