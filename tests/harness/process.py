# SPDX-License-Identifier: GPL-2.0
"""Programs that tests run, and functions that they call in other processes."""

import ctypes
import marshal
import os
import re
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any, Callable

from .ktap import Wrong, defer, eq, skip

LIBC = ctypes.CDLL(None, use_errno=True)
# A folder of the run's own, on a fast file system.
WORK = Path(os.environ.get("SCHEDHIST_TEST_WORK", "/nonexistent"))
TREE = Path(__file__).parents[2]
# System calls by their numbers, which libc has no functions for.
CALLS = {
    "x86_64": {"clone": 56, "clone3": 435, "delete_module": 176, "finit_module": 313, "perf_event_open": 298},
    "aarch64": {"clone": 220, "clone3": 435, "delete_module": 106, "finit_module": 273, "perf_event_open": 241},
}[os.uname().machine]


def call(name: str, *arguments: Any) -> int:
    """Makes a system call."""
    result = LIBC.syscall(CALLS[name], *arguments)
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result


def perf_event_open(event: int, pid: int, cpu: int, period: int = 0, sample_type: int = 0, flags: int = 0) -> int:
    """Opens a trace event by its number, in no group: see perf_event_open(2)."""
    TRACEPOINT, SIZE = 2, 64  # PERF_ATTR_SIZE_VER0
    attributes = struct.pack("=IIQQQQQ", TRACEPOINT, SIZE, event, period, sample_type, 0, flags)
    return call("perf_event_open", attributes.ljust(SIZE, b"\0"), pid, cpu, -1, 0)


def script(name: str, text: str) -> None:
    """Writes a program in Bash."""
    path = Path(name)
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(0o755)


def run(*command: str | Path, **options: Any) -> str:
    """Runs a program and returns what it prints. Fails with its errors if it fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, errors="surrogateescape",
                          **({"stderr": subprocess.STDOUT} | options))
    if done.returncode:
        raise Wrong(f"{' '.join(map(str, command))}: status {done.returncode}: {done.stdout}")
    return done.stdout


def fails_with(text: str, *command: str | Path, **options: Any) -> None:
    """Asserts that the program fails and prints the text."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="surrogateescape", **options)
    if not done.returncode:
        raise Wrong(f"'{' '.join(map(str, command))}' did not fail")
    if text not in done.stdout:
        raise Wrong(f"'{' '.join(map(str, command))}' failed with '{done.stdout}', wanted '{text}'")


def helper(name: str) -> Path:
    """Copies one of tests/helpers into WORK. Skips the test if there are none."""
    folder = os.environ.get("SCHEDHIST_WITH")
    if not folder:
        skip("it needs scripts/bed/vm --with tests/helpers")
    source = Path(str(folder)) / name
    if not source.exists():
        why = {"hold.ko": "the kernel has no probes with preemption on", "late.ko": "the kernel has sched_exit_tp"}
        skip(why.get(name) or f"the kernel has no kprobes, which {name} needs")
    if not (WORK / name).exists():
        shutil.copy(source, WORK)
    return WORK / name


# --- functions in other processes ---


def spawn(function: Callable[..., object], *arguments: Any, leads: bool = False) -> int:
    """Calls the function in a child, which ends with status 0, or 1 if the function fails. If it leads a
    process group of its own, it does so before this returns."""
    pid = os.fork()
    if leads:
        os.setpgid(pid, pid)
    if pid:
        return pid
    status = 1
    try:
        function(*arguments)
        status = 0
    except BaseException as error:  # must not return into the parent's code
        print(f"a child: {error!r}", flush=True)
    finally:
        os._exit(status)


def assert_runs(pid: int) -> None:
    """Asserts that a child has not ended."""
    eq("a child that has ended, and its status", os.waitpid(pid, os.WNOHANG), (0, 0))


def succeeds(pid: int) -> None:
    """Waits for the end of a child, and asserts that its status is 0."""
    eq("status of a child", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)


def in_child(function: Callable[..., Any], *arguments: Any, before: Callable[[], object] | None = None) -> Any:
    """Returns what the function returns in a child, in which `before` is called first. Passes on an
    OSError."""
    reader, writer = os.pipe()

    def child() -> None:
        try:
            if before:
                before()
            answer = True, function(*arguments)
        except OSError as error:
            answer = False, error.errno
        os.write(writer, marshal.dumps(answer))

    pid = spawn(child)
    os.close(writer)
    with open(reader, "rb") as pipe:
        data = pipe.read()
    os.waitpid(pid, 0)
    if not data:
        raise Wrong("the child ended without an answer")
    good, answer = marshal.loads(data)
    if not good:
        raise OSError(answer, os.strerror(answer))
    return answer


def become_nobody() -> None:
    """Gives up all rights of this process, for good."""
    PR_SET_DUMPABLE, PR_CAPBSET_DROP = 4, 24
    for capability in range(64):
        LIBC.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
    # Its files in /proc are its own, as if it had executed a program since then.
    LIBC.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)


def as_nobody(function: Callable[..., Any], *arguments: Any) -> Any:
    return in_child(function, *arguments, before=become_nobody)


# --- processes ---


def state_of(pid: int) -> str:
    """Returns the state of a task, as in /proc/PID/stat."""
    return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(") ")[2][0]


def switches_of(task: int) -> list[int]:
    """Returns how often a task has left its CPU, of its own accord and otherwise, as the kernel counts."""
    text = Path(f"/proc/{task}/status").read_text(errors="replace")
    return [int(number) for number in re.findall(r"voluntary_ctxt_switches:\s+(\d+)", text)]


def task_ids() -> list[int]:
    """Returns the IDs of all tasks, threads included."""
    found: list[int] = []
    for pid in os.listdir("/proc"):
        if pid.isdigit():
            try:
                found += map(int, os.listdir(f"/proc/{pid}/task"))
            except OSError:
                pass  # it has ended
    return found


def write_file(path: str | Path, text: str | bytes) -> None:
    """Writes the text by one system call."""
    fd = os.open(path, os.O_WRONLY | os.O_TRUNC)
    try:
        os.write(fd, text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape"))
    finally:
        os.close(fd)


def append_file(path: str | Path, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def keep_pids(number: int) -> None:
    """Limits the PIDs so that this many are free. After a wrap the kernel begins at 300."""
    limit = 300 + number
    for task in sorted(task_ids()):
        if 300 <= task < limit:
            limit += 1
    file = "/proc/sys/kernel/pid_max"
    defer(write_file, file, "4194304")
    write_file(file, str(limit))


