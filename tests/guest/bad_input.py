#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Writes bad input to controls of schedhist; all of it must be refused and change nothing.

usage: bad_input.py FILE...

Prints for each FILE, a path, how many lines this makes schedhist write to the kernel log, and FILE.
"""

# Nothing more: where the machine is emulated each import takes long.
import errno
import os
import sys

INPUTS = [
    b"", b"\n", b"2", b"-1", b"+1", b"00001x", b"01", b"0x1", b"1 1", b"1\n0", b"on",
    b" " * 256 + b"1", b"1" * 257, b"0" * (1 << 20), b"\0", b"1\0", b"\xff\xfe\x00\x80", b"\xb9",
    b"oncpu;idle", b"oncpux", b"ONCPU", b",", b"18446744073709551616", b"oncpu idle -1", b"1e3", b"1ms",
    b"tracing_on", b"tracing_off;snapshot", b"nothing", b"nothing at all", b"None", b"none1",
]
# These take numbers, but not every one.
TAKE_NUMBERS = "threshold_ns", "outlier_rate", "outlier_limit"
NUMBERS = b"2", b"01"
NO_NUMBERS = [b"0", b"00", b"none none", b"none, 1"]
TOO_MANY = [b"1000000001", b"18446744073709551615"]


def inputs_for(path):
    """Those that are bad for it."""
    numbers = any(name in path for name in TAKE_NUMBERS)
    if not numbers:
        return INPUTS
    too_many = TOO_MANY if "outlier_rate" in path else []
    return [text for text in INPUTS if text not in NUMBERS] + NO_NUMBERS + too_many


def refuses_all(path):
    """Whether it does, and says what it did not refuse."""
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
    # A seq_file knows no pwrite().
    refused("pwrite at 1", errno.ESPIPE, lambda: os.pwrite(fd, b"1", 1))
    # Nor can one seek where nothing can be read.
    if isinstance(before, bytes):
        os.lseek(fd, 1, os.SEEK_SET)
        refused("write at 1", errno.EINVAL, lambda: os.write(fd, b"1"))
    os.close(fd)
    for text in wrong:
        print(f"{path}: {text}", file=sys.stderr)
    # The last line is of what is written at an offset, which the kernel refuses where there is none.
    print(len(inputs_for(path)) + isinstance(before, bytes), path)
    return not wrong


# Each of them, also after one that takes something.
sys.exit(not all([refuses_all(path) for path in sys.argv[1:]]))
