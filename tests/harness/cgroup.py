# SPDX-License-Identifier: GPL-2.0
"""Cgroups of the tests, and processes in them."""

import ctypes
import os
import signal
import subprocess
import time
from pathlib import Path

from .ktap import skip
from .process import call, succeeds, write_file

ROOT = Path("/sys/fs/cgroup")
# All cgroups of a test are below this one.
BASE = ROOT / "schedhist"
CLONE_INTO_CGROUP = 1 << 33


def is_mounted() -> bool:
    return os.path.ismount(ROOT)


def on() -> None:
    """Mounts the default hierarchy and makes BASE."""
    if not is_mounted():
        subprocess.run(["mount", "-t", "cgroup2", "none", ROOT], check=True)
    BASE.mkdir()


def off() -> None:
    """Undoes it, after a test."""
    if is_mounted() and BASE.exists():
        remove(BASE)
        subprocess.run(["umount", ROOT], check=True)


def make(*names: str) -> list[Path]:
    for name in names:
        (BASE / name).mkdir(parents=True, exist_ok=True)
    return [BASE / name for name in names]


def with_quota(name: str, quota: str) -> Path:
    """Makes a cgroup with a quota: see cpu.max. Skips the test if the kernel knows none."""
    if "cpu" not in (ROOT / "cgroup.controllers").read_text().split():
        skip("the controller cpu is not in cgroup2")
    for folder in ROOT, BASE:
        write_file(folder / "cgroup.subtree_control", "+cpu")
    [folder] = make(name)
    if not (folder / "cpu.max").exists():
        skip("the kernel has no CONFIG_CFS_BANDWIDTH")
    write_file(folder / "cpu.max", quota)
    return folder


def clone_into(folder: Path) -> int:
    """Forks a child that begins in this cgroup."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        # struct clone_args: flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls,
        # set_tid, set_tid_size, cgroup
        args = (ctypes.c_uint64 * 11)(CLONE_INTO_CGROUP, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, fd)
        return call("clone3", args, ctypes.sizeof(args))
    finally:
        os.close(fd)


def start_in(name: str, *command: str | Path) -> int:
    """Starts a program in a cgroup below BASE, in which it is from its first moment on. Returns its PID."""
    pid = clone_into(BASE / name)
    if pid == 0:
        try:
            os.execvp(command[0], [str(word) for word in command])
        finally:
            os._exit(127)
    return pid


def run_in(name: str, *command: str | Path) -> None:
    """The same, and waits until it ends, with success."""
    succeeds(start_in(name, *command))


def move(pid: int, folder: Path) -> None:
    write_file(folder / "cgroup.procs", str(pid))


def visit(number: int, keep: bool) -> None:
    """Makes so many cgroups, and lets this process enter each. Removes each at once, unless it is to keep them."""
    for i in range(number):
        [folder] = make(f"visited-{i:04}")
        move(0, folder)
        time.sleep(0.0001 if keep else 0.002)
        if not keep:
            move(0, ROOT)
            folder.rmdir()
    move(0, ROOT)


def remove(base: Path) -> None:
    """Removes a cgroup and those below it; their tasks go to the root."""
    folders = [folder for folder, _, _ in os.walk(base)]
    for folder in sorted(folders, key=len, reverse=True):
        while True:
            try:
                for pid in Path(folder, "cgroup.threads").read_text().split():
                    write_file(ROOT / "cgroup.procs", pid)
            except OSError:
                pass
            try:
                os.rmdir(folder)
                break
            except FileNotFoundError:
                break
            except OSError:
                time.sleep(0.01)
