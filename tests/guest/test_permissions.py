# SPDX-License-Identifier: GPL-2.0
"""An unprivileged user has access to nothing, even if debugfs and tracefs are open to all."""

import errno
import os
from pathlib import Path

from harness.test import (DEBUGFS, EVENTFS, OF_LOADED, TRACEFS, as_nobody, become_nobody, defer, eq, fails, fails_with,
                          in_child, insert, load, needs, note, perf_event_open, run, unload, write_file)

DEBUG = Path("/sys/kernel/debug")


def all_files(*folders):
    return sorted(str(path) for folder in folders for path in folder.rglob("*") if path.is_file())


def opened(paths):
    """Returns which of the paths can be opened, and how."""
    found = []
    for path in paths:
        for how, flags in (("read", os.O_RDONLY), ("write", os.O_WRONLY | os.O_APPEND)):
            try:
                os.close(os.open(path, flags | os.O_NONBLOCK))
                found.append(f"{how} {path}")
            except OSError:
                pass
    return found


def open_to_all():
    for path in (DEBUG, TRACEFS):
        run("mount", "-o", "remount,mode=755", path)
        defer(run, "mount", "-o", "remount,mode=700", path)


def become_root_of_namespace():
    become_nobody()
    os.unshare(os.CLONE_NEWUSER)
    write_file("/proc/self/setgroups", "deny")
    write_file("/proc/self/uid_map", "0 65534 1")
    write_file("/proc/self/gid_map", "0 65534 1")


def test_permissions_open():
    """If all may enter these folders, only the modes of our own files protect them."""
    load()
    fails(errno.EACCES, as_nobody, os.listdir, str(DEBUGFS))
    open_to_all()
    paths = all_files(DEBUGFS, EVENTFS)
    readable = [path for path in opened(paths) if path.startswith("read ")]
    eq("files that root can open", readable, [f"read {path}" for path in paths])
    eq("what nobody can open", as_nobody(opened, paths), [])
    as_nobody(os.listdir, str(DEBUGFS))
    fails(errno.EACCES, as_nobody, os.open, str(DEBUGFS / "threshold_ns/new"), os.O_WRONLY | os.O_CREAT)
    # Nor has root in a user namespace of its own.
    try:
        eq("what root in a namespace can open", in_child(opened, paths, before=become_root_of_namespace), [])
    except OSError:
        note("no user namespaces for nobody")


def perf_open(event):
    """Asks for an event of this process by its number, as perf can: for counting it, which requires
    permission to profile the kernel, and for taking its fields from user space alone, which requires
    permission to trace."""
    SAMPLE_RAW, EXCLUDE_KERNEL = 1 << 10, 1 << 5
    answers = []
    for sample_type, flags in ((0, 0), (SAMPLE_RAW, EXCLUDE_KERNEL)):
        try:
            # Of this process, on any CPU.
            perf_event_open(event, 0, -1, 1, sample_type, flags)
            answers.append("opened")
        except OSError as error:
            answers.append(errno.errorcode[error.errno])
    return answers


def test_permissions_events():
    needs("perf")
    load()
    # The default of kernels that no distribution has changed.
    paranoid = Path("/proc/sys/kernel/perf_event_paranoid")
    event, before = int((EVENTFS / "runq/id").read_text()), paranoid.read_text()
    defer(write_file, paranoid, before)
    write_file(paranoid, "2")
    eq("root, by the event's number", perf_open(event), ["opened", "opened"])
    eq("nobody, by the event's number", as_nobody(perf_open, event), ["EACCES", "EPERM"])
    write_file(paranoid, before)
    open_to_all()
    nobody = {"user": 65534, "group": 65534, "extra_groups": []}
    fails_with("ermission", "perf", "stat", "-a", "-e", "schedhist:runq", "true", **nobody)
    fails_with("ermission", "perf", "record", "-o", "/dev/null", "-e", "schedhist:runq", "true", **nobody)


def test_permissions_module():
    fails(errno.EPERM, as_nobody, insert, Path(os.environ["SCHEDHIST_KO"]))
    load()
    fails(errno.EPERM, as_nobody, unload)
    found = as_nobody(opened, all_files(OF_LOADED / "schedhist"))
    eq("what nobody can write", [path for path in found if not path.startswith("read ")], [])
