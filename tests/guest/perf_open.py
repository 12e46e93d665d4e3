#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Asks the kernel for an event of this process, as perf does that was told its number.

usage: perf_open.py ID

Prints for counting it, and for taking its fields from user space alone, "opened" or the error's name. The
kernel asks for the one who may see into it, for the other who may trace. See perf_event_open(2).
"""

import ctypes
import errno
import struct
import sys

PERF_EVENT_OPEN = 298  # on x86-64
TRACEPOINT = 2
SIZE = 64  # PERF_ATTR_SIZE_VER0, which every kernel takes
SAMPLE_RAW = 1 << 10
EXCLUDE_KERNEL = 1 << 5
libc = ctypes.CDLL(None, use_errno=True)


def ask(sample_type: int, flags: int) -> str:
    attr = struct.pack("=IIQQQQQ", TRACEPOINT, SIZE, int(sys.argv[1]), 1, sample_type, 0, flags)
    # This process, on any CPU, in no group.
    fd = libc.syscall(PERF_EVENT_OPEN, attr.ljust(SIZE, b"\0"), 0, -1, -1, 0)
    return "opened" if fd >= 0 else errno.errorcode[ctypes.get_errno()]


print(ask(0, 0), ask(SAMPLE_RAW, EXCLUDE_KERNEL))
