# SPDX-License-Identifier: GPL-2.0
"""Each state in which a task blocks, as "Where the time of each state goes" of docs/metrics.md has it."""

import ctypes
import os
import re
import signal
import time

from harness import cgroup
from harness.test import (IS_RT, LIBC, METRICS, OF_LOADED, WORK, check_laws, count, defer, eq, load_all, load_helper,
                          measure, note, parameter, remove, run, spawn, start, state_of, status, succeeds, wait_until,
                          within, write_file)
from harness.trace import Instance, clear

# For how long a task blocks, in milliseconds.
LONG = 400


def pause():
    time.sleep(LONG / 1000)


class States:
    """The module, with a trace of the long absences of all tasks."""

    def __init__(self):
        load_all()
        self.trace = Instance("offcpu", "blocked")
        for event in "offcpu", "blocked":
            write_file(self.trace.path / f"events/schedhist/{event}/filter", f"duration_ns > {LONG * 900000}")

    def last_event(self, pid):
        """Returns the last event of a task, and its cause. Its sleep comes after its absence."""
        event = re.compile(rf" (offcpu|blocked): .* pid={pid} .* cause=([a-z_]+) ")
        found = [event.search(line) for line in self.trace.lines()]
        return [event.groups() for event in found if event][-1:]

    def lands(self, cause, name, act, *arguments, pid=None):
        """Asserts that `act` makes the task `pid`, or the one that it returns, be away for long, with this
        cause, and that `name` counts it: a histogram of sleeps, or a counter of what is in none."""

        def number():
            return count(name) if name in METRICS else status(name)

        clear(self.trace.path)
        before, wanted = number(), [("blocked" if name in METRICS else "offcpu", cause)]
        pid = act(*arguments) or pid
        for _ in range(100):
            if self.last_event(pid) == wanted:
                break
            time.sleep(0.1)
        eq(f"{name}: the last event", self.last_event(pid), wanted)
        within(name, before + 1, number())

    def end(self):
        measure(0)
        self.trace.nothing_lost()
        check_laws()


def block(state, milliseconds=LONG):
    write_file(OF_LOADED / "states/parameters/block", f"{state} {milliseconds}")


def in_kernel(*how):
    """A task blocks in this state. Returns its PID."""
    pid = spawn(block, *how)
    succeeds(pid)
    return pid


def test_states_kernel():
    """States that only the kernel chooses."""
    load_helper("states")
    states = States()
    states.lands("uninterruptible", "blocked_uninterruptible", in_kernel, "uninterruptible")
    states.lands("uninterruptible", "blocked_uninterruptible", in_kernel, "killable")
    states.lands("idle_wait", "blocked_idle", in_kernel, "idle")
    states.lands("parked", "blocked_parked", block, "parked", pid=parameter("states", "parker_pid"))
    if IS_RT:
        os.sched_setaffinity(0, {1})
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
        # The owner has the lock for a while before the other task gets to wait for it.
        states.lands("uninterruptible", "blocked_uninterruptible", in_kernel, "rtlock", LONG * 5)
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    states.end()
    remove("states")


def stopped(pid):
    os.kill(pid, signal.SIGSTOP)
    wait_until("it to stop", lambda: state_of(pid) == "T")
    pause()
    os.kill(pid, signal.SIGCONT)


def traced(pid):
    PTRACE_ATTACH, PTRACE_DETACH = 16, 17
    LIBC.ptrace.argtypes = [ctypes.c_long] * 4
    eq("ptrace", LIBC.ptrace(PTRACE_ATTACH, pid, 0, 0), 0)
    os.waitpid(pid, 0)
    pause()
    LIBC.ptrace(PTRACE_DETACH, pid, 0, 0)


def test_states_stopped():
    """Stopped by a signal, and by a tracer."""
    states = States()
    pid = start("sleep", "1000").pid
    wait_until("it to be asleep", lambda: state_of(pid) == "S")
    states.lands("stopped", "blocked_stopped", stopped, pid, pid=pid)
    states.lands("traced", "blocked_traced", traced, pid, pid=pid)
    states.end()


def frozen(file, freeze, thaw):
    """Freezes a cgroup by what is written to a file of it."""
    write_file(file, freeze)
    pause()
    write_file(file, thaw)


def thaw(freezer, pid):
    """Ends version 1, with a process in it. A frozen task could not be killed."""
    write_file(freezer / "frozen/freezer.state", "THAWED")
    write_file(freezer / "tasks", str(pid))
    (freezer / "frozen").rmdir()
    run("umount", freezer)


def test_states_frozen():
    """The freezer of version 1 has a state of its own; version 2 lets tasks sleep."""
    freezer = WORK / "freezer"
    states = States()
    pid = start("bash", "-c", "while :; do :; done").pid
    cgroup.on()
    [folder] = cgroup.make("frozen")
    cgroup.move(pid, folder)
    states.lands("interruptible", "blocked_interruptible", frozen, folder / "cgroup.freeze", "1", "0", pid=pid)
    cgroup.move(pid, cgroup.ROOT)
    freezer.mkdir(exist_ok=True)
    if os.system(f"mount -t cgroup -o freezer none {freezer} 2> /dev/null") == 0:
        (freezer / "frozen").mkdir()
        defer(thaw, freezer, pid)
        write_file(freezer / "frozen/tasks", str(pid))
        states.lands("frozen", "blocked_frozen", frozen, freezer / "frozen/freezer.state", "FROZEN", "THAWED", pid=pid)
    else:
        note("the kernel has no freezer of version 1")
    states.end()
