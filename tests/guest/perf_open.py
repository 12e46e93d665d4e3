#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Asks the kernel for an event of this process by the event's number, as perf can.

Prints "opened" or the error's name, once for counting the event, and once for taking its fields
from user space alone. Counting requires permission to profile the kernel, taking fields permission
to trace. See perf_event_open(2).
"""

import argparse
import ctypes
import errno
import struct

PERF_EVENT_OPEN = 298  # on x86-64
TRACEPOINT = 2
SIZE = 64  # PERF_ATTR_SIZE_VER0, which every kernel takes
SAMPLE_RAW = 1 << 10
EXCLUDE_KERNEL = 1 << 5
parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("id", metavar="ID", type=int)
number = parser.parse_args().id
libc = ctypes.CDLL(None, use_errno=True)


def ask(sample_type: int, flags: int) -> str:
    attr = struct.pack("=IIQQQQQ", TRACEPOINT, SIZE, number, 1, sample_type, 0, flags)
    # Of this process, on any CPU, in no group.
    fd = libc.syscall(PERF_EVENT_OPEN, attr.ljust(SIZE, b"\0"), 0, -1, -1, 0)
    return "opened" if fd >= 0 else errno.errorcode[ctypes.get_errno()]


print(ask(0, 0), ask(SAMPLE_RAW, EXCLUDE_KERNEL))
