#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Writes bad input to control files of schedhist; each write must fail and change nothing.

usage: bad_input.py FILE...

For each FILE, a path, prints the number of lines that schedhist must log for it, and FILE.
"""

# Imports only these: each import takes long on an emulated machine.
import errno
import os
import sys

INPUTS = [
    b"", b"\n", b"2", b"-1", b"+1", b"00001x", b"01", b"0x1", b"1 1", b"1\n0", b"on",
    b" " * 256 + b"1", b"1" * 257, b"0" * (1 << 20), b"\0", b"1\0", b"\xff\xfe\x00\x80", b"\xb9",
    b"oncpu;idle", b"oncpux", b"ONCPU", b",", b"18446744073709551616", b"oncpu idle -1", b"1e3", b"1ms",
    b"tracing_on", b"tracing_off;snapshot", b"nothing", b"nothing at all", b"None", b"none1",
]
# These controls accept some numbers, but not all.
TAKE_NUMBERS = "threshold_ns", "outlier_rate", "outlier_limit", "group_limit", "group_memory_limit"
NUMBERS = b"2", b"01"
NO_NUMBERS = [b"0", b"00", b"none none", b"none, 1"]
TOO_MANY = [b"1000000001", b"18446744073709551615"]


def inputs_for(path):
    """Returns the inputs that the control at `path` must refuse."""
    numbers = any(name in path for name in TAKE_NUMBERS)
    if not numbers:
        return INPUTS
    too_many = TOO_MANY if "outlier_rate" in path else []
    return [text for text in INPUTS if text not in NUMBERS] + NO_NUMBERS + too_many


def refuses_all(path):
    """Returns whether every bad write fails and changes nothing; prints each exception."""
    wrong = []
    fd = os.open(path, os.O_RDWR)

    def read():
        try:
            return os.pread(fd, 100, 0)
        except OSError as error:
            return error.errno

    before = read()

    def refused(name, code, write):
        try:
            write()
            wrong.append(f"{name}: taken")
        except OSError as error:
            if error.errno != code:
                wrong.append(f"{name}: {errno.errorcode[error.errno]}")
        if read() != before:
            wrong.append(f"{name}: changed it")

    for text in inputs_for(path):
        refused(repr(text[:20]), errno.EINVAL, lambda text=text: os.write(fd, text))
    # A seq_file does not support pwrite().
    refused("pwrite at 1", errno.ESPIPE, lambda: os.pwrite(fd, b"1", 1))
    # If the file cannot be read, lseek() fails, too.
    if isinstance(before, bytes):
        os.lseek(fd, 1, os.SEEK_SET)
        refused("write at 1", errno.EINVAL, lambda: os.write(fd, b"1"))
    os.close(fd)
    for text in wrong:
        print(f"{path}: {text}", file=sys.stderr)
    # One more log line for the write at an offset, which the kernel itself refuses if the file
    # cannot be sought.
    print(len(inputs_for(path)) + isinstance(before, bytes), path)
    return not wrong


# Tests every file, even after one has accepted bad input.
sys.exit(not all([refuses_all(path) for path in sys.argv[1:]]))
