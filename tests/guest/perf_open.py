#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Asks the kernel to count an event of this process, as perf does that was told its number.

usage: perf_open.py ID

Prints "opened", or the error's name. See perf_event_open(2).
"""

import ctypes
import errno
import struct
import sys

PERF_EVENT_OPEN = 298  # on x86-64
TRACEPOINT = 2
SIZE = 64  # PERF_ATTR_SIZE_VER0, which every kernel takes

attr = struct.pack("=IIQ", TRACEPOINT, SIZE, int(sys.argv[1])).ljust(SIZE, b"\0")
libc = ctypes.CDLL(None, use_errno=True)
# This process, on any CPU, in no group.
fd = libc.syscall(PERF_EVENT_OPEN, attr, 0, -1, -1, 0)
print("opened" if fd >= 0 else errno.errorcode[ctypes.get_errno()])
