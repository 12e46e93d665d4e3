# SPDX-License-Identifier: GPL-2.0
"""An open file keeps the module loaded."""

import errno
import os
import subprocess

from harness.test import (DEBUGFS, WORK, Histogram, assert_gone, eq, fails, load, measure, messages, read, start,
                          unload, value, wait_until, waits_in_kernel, write)


def still_pinned():
    """Asserts that the module cannot be unloaded, and still works."""
    fails(errno.EAGAIN, unload)
    eq("enable", value("enable"), "1")


def test_open_file_of_another_process():
    """Another process, which does nothing else, holds the file open."""
    load()
    with open(DEBUGFS / "per_cpu/cpu0/hist/oncpu", encoding="ascii") as file:
        holder = start("sleep", "1000", stdin=file)
    still_pinned()
    holder.terminate()
    holder.wait()
    unload()
    assert_gone()


def test_open_file_read_half():
    load("precision=7")
    messages(5)
    fd = os.open(DEBUGFS / "hist/oncpu", os.O_RDONLY)
    text = os.read(fd, 30)
    still_pinned()
    # The open file still shows the contents from when reading began.
    measure(0)
    while more := os.read(fd, 1 << 16):
        text += more
    Histogram(text.decode(), "the open file").check()
    measure(1)
    still_pinned()
    os.close(fd)
    unload()
    assert_gone()


def test_open_file_not_yet():
    """A file that was found, and not opened yet, is gone when the module is."""
    load()
    fds = [os.open(DEBUGFS / name, os.O_PATH) for name in ("hist/oncpu", "enable", "reset", "raw", "outlier_pipe")]
    unload()
    assert_gone()
    for fd in fds:
        fails(errno.ENOENT, os.open, f"/proc/self/fd/{fd}", os.O_RDONLY)
        os.close(fd)


def wait_for_reader(output):
    """Starts a reader of the stream of outliers, and waits until it sleeps in it."""
    write("threshold_ns/oncpu", 1000000000000000)
    reader = start("cat", DEBUGFS / "outlier_pipe", stdout=output)
    wait_until("a reader that sleeps", lambda: waits_in_kernel(reader.pid))
    still_pinned()
    return reader


def test_open_file_waiting():
    """Even a file whose reader sleeps in it."""
    load()
    with open(WORK / "awaited", "w", encoding="ascii") as file:
        reader = wait_for_reader(file)
    # The reader gets this outlier, and then ends, because there can be no more.
    write("outlier_limit", 1)
    write("threshold_ns/oncpu", 1)
    eq("status of the reader", reader.wait(), 1)
    eq("what it waited for", (WORK / "awaited").read_text(), read("outliers"))
    unload()
    assert_gone()
    load()
    reader = wait_for_reader(subprocess.DEVNULL)
    reader.terminate()
    reader.wait()
    unload()
    assert_gone()
