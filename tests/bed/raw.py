#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Test that the tests' reader of `raw` refuses what is not a whole snapshot: a law that holds for half of
one would prove nothing.

Prints a line "ok NAME" or "not ok NAME" for each kind of damage.
"""

import argparse
import ctypes
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.dont_write_bytecode = True
from harness.raw import NAME, NUMBERS, OF_TYPE, STRUCTS, DecodeError, Groups, Snapshot  # noqa: E402


def header(**fields: Any) -> bytes:
    return bytes(STRUCTS["header"](**{
        "magic": (ctypes.c_uint8 * 8)(*b"SCHDHIST"), "version": 1, "header_length": ctypes.sizeof(STRUCTS["header"]),
        "precision": 3, "value_bits": 40, "buckets": 305, "cpus": 1, **fields}))


def record(name: str, rest: bytes = b"", /, **fields: Any) -> bytes:
    kind = STRUCTS[OF_TYPE[name]]
    head = STRUCTS["record"](type=NUMBERS[name], length=ctypes.sizeof(kind) + len(rest))
    return bytes(kind(head, **fields) if name != "END" else head) + rest


END, CPU, METRIC = record("END"), record("CPU", cpu=0), record("METRIC", number=0, name=b"oncpu")
# Padded: the length of a record is a multiple of 8.
BUCKET = bytes(STRUCTS["pair"](index=305, count_low=1)).ljust(16, b"\0")
GROUP = record("GROUP", group=1)
ODD = bytes(STRUCTS["record"](type=NUMBERS["END"], length=12)) + bytes(4)
REFUSED = {
    "empty": (b"", "not a snapshot"),
    "magic": (b"x" + header()[1:] + CPU + END, "not a snapshot"),
    "version": (header(version=2) + CPU + END, "version 2"),
    "header-length": (header(header_length=1 << 20) + CPU + END, "header of"),
    "buckets": (header(buckets=304) + CPU + END, "304 buckets"),
    "no-end": (header() + CPU, "cut off: no end"),
    "cut-off": (header() + CPU[:-8], "cut off: record"),
    "unaligned": (header() + CPU + ODD, "record of 12 bytes"),
    "after-the-end": (header() + CPU + END + END, "something after the end"),
    "no-cpu": (header() + END, "1 CPUs, but records of 0"),
    "counters": (header() + record("CPU", counters=1) + END, "1 counters do not fit"),
    "name": (header() + CPU + record("METRIC", name=b"x" * ctypes.sizeof(NAME)) + END, "without an end"),
    "pairs": (header() + CPU + record("BUCKETS", pairs=1) + END, "1 buckets do not fit"),
    "no-such-bucket": (header() + CPU + record("BUCKETS", BUCKET, pairs=1) + END, "bucket 305 of 305"),
    "group-twice": (header() + CPU + GROUP + GROUP + END, "group 1 is there twice"),
}


def said(data: bytes) -> str:
    """Returns why the reader refuses the data, or nothing."""
    try:
        Groups(Snapshot(data))
    except DecodeError as error:
        return str(error)
    return ""


def main() -> int:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    failed = said(header() + METRIC + CPU + GROUP + END) != ""
    print("not ok" if failed else "ok", "raw/whole")
    for name, (data, expected) in REFUSED.items():
        good = expected in said(data)
        failed |= not good
        print("ok" if good else "not ok", f"raw/{name}")
        if not good:
            print(f"# said: {said(data)}")
    return failed


sys.exit(main())
