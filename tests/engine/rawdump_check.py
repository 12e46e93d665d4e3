#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Check tests/rawdump against the C reader, with good and with broken snapshots.

READER is the program built from tests/raw.c. Both read each FILE, and then, for SECONDS, files with
bytes changed, numbers replaced, and parts removed or doubled. They must agree on whether it is a
snapshot, and on its counters, buckets and sums. rawdump must print every snapshot that it accepts,
and refuse all other input with Broken, which is one line for its user; any other exception shows
here.
"""

import argparse
import importlib.machinery
import importlib.util
import random
import subprocess
import sys
import time
from pathlib import Path

NUMBERS = (0, 1, 7, 8, 24, 63, 64, 0x7fffffff, 0x80000000, 0xfffffff8, 0xffffffff)


def read_by_c(reader, data):
    """Return what the C reader prints for data, or None if it refuses it."""
    run = subprocess.run([reader], input=data, capture_output=True, check=False)
    if run.returncode not in (0, 1):
        raise AssertionError(f"the reader ended with {run.returncode}: {run.stderr}")
    return run.stdout if run.returncode == 0 else None


def said_by_c(text):
    """Return the counters, buckets and sums in the C reader's output; a repeated one replaces the
    one before."""
    counters, buckets, sums = {}, {}, {}
    for line in text.split(b"\n"):
        words = line.split(b" ")
        if words[0] == b"count" and len(words) == 4:
            cpu, number, value = map(int, words[1:])
            counters.setdefault(cpu, []).append(value)
        elif words[0] == b"bucket" and len(words) == 6:
            cpu, metric, lower, upper, count = map(int, words[1:])
            buckets[cpu, metric, lower, upper] = count
        elif words[0] == b"histogram" and len(words) == 5:
            cpu, metric = map(int, words[1:3])
            sums[cpu, metric] = int(words[3], 16)
    return counters, buckets, {key: value for key, value in sums.items() if value}


def said_by_rawdump(snapshot):
    """Return the same from what rawdump has read."""
    counters = {cpu: list(values) for cpu, values in snapshot.counters.items() if values}
    buckets, sums = {}, {}
    for (cpu, metric), histogram in snapshot.histograms.items():
        for index, count in histogram.buckets.items():
            lower, upper = snapshot.bounds(index).split()
            upper = (1 << 64) - 1 if upper == "inf" else int(upper)
            buckets[cpu, metric, int(lower), upper] = count
        if histogram.sum:
            sums[cpu, metric] = histogram.sum
    return counters, buckets, sums


def check(rawdump, reader, data):
    """Raise AssertionError if the two readers disagree; pass on rawdump's unexpected exceptions."""
    text = read_by_c(reader, data)
    try:
        snapshot = rawdump.Snapshot(data)
    except rawdump.Broken as broken:
        assert text is None, f"rawdump alone refuses it: {broken}"
        assert "\n" not in str(broken)
        return False
    assert text is not None, "rawdump alone takes it"
    # A line break in a name could look like another line in the C reader's output; and if a CPU's
    # counters come twice, rawdump keeps the last ones.
    odd = any("\n" in name for name in (*snapshot.shown, *snapshot.counter_names.values()))
    if not odd and len(snapshot.counters) == snapshot.cpu_records:
        assert said_by_rawdump(snapshot) == said_by_c(text)
    for name in snapshot.shown:
        for cpus in (snapshot.cpus(), *([cpu] for cpu in snapshot.cpus()[:3])):
            "\n".join(rawdump.histogram_lines(snapshot, name, "all", cpus))
    "\n".join(rawdump.status_lines(snapshot))
    return True


def number_for(rng, data):
    """Return a number to insert: any, one at a limit, or one next to one in the data."""
    kind = rng.randrange(4)
    if kind == 0:
        return rng.getrandbits(32)
    if kind == 1:
        return rng.choice(NUMBERS)
    # Most numbers must be consistent with those of the header.
    at = rng.randrange(max(min(len(data), 56 if kind == 2 else len(data)), 1)) & ~3
    return (int.from_bytes(data[at:at + 4], "little") + rng.randint(-1, 1)) & 0xffffffff


def mutated(rng, data):
    """Return data with one to four changes."""
    data = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        # Most of the data is names and buckets: its beginning matters most.
        end = rng.choice((64, 600, len(data), len(data)))
        at = rng.randrange(max(min(end, len(data)), 1))
        kind = rng.randrange(5)
        if kind == 0 and data:
            data[at % len(data)] = rng.randrange(256)
        elif kind == 1:
            at -= at % 4
            data[at:at + 4] = number_for(rng, data).to_bytes(4, "little")
        elif kind == 2:
            del data[at:at + rng.choice((1, 4, 8, 48, 1 << 20))]
        elif kind == 3:
            other = rng.randrange(max(len(data), 1)) & ~7
            data[at & ~7:at & ~7] = data[other:other + rng.choice((8, 24, 48, 104))]
        elif data:
            data[at % len(data)] ^= 1 << rng.randrange(8)
    return bytes(data)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("rawdump", "reader", "seconds", "seed"):
        parser.add_argument(name, metavar=name.upper())
    parser.add_argument("files", metavar="FILE", nargs="+")
    arguments = parser.parse_args()
    script, reader, seconds, seed = arguments.rawdump, arguments.reader, arguments.seconds, arguments.seed
    files = arguments.files
    # The script's name has no suffix.
    loader = importlib.machinery.SourceFileLoader("rawdump", script)
    rawdump = importlib.util.module_from_spec(importlib.util.spec_from_loader("rawdump", loader))
    loader.exec_module(rawdump)
    rng = random.Random(int(seed))
    inputs = [Path(file).read_bytes() for file in files]
    good = [data for data in inputs if check_or_save(rawdump, reader, data)]
    taken, runs = len(good), len(inputs)
    end = time.monotonic() + float(seconds)
    while good and time.monotonic() < end:
        taken += check_or_save(rawdump, reader, mutated(rng, rng.choice(good)))
        runs += 1
    print(f"# {runs} inputs, of which {taken} are snapshots")
    if not good or not runs > taken:
        sys.exit("there must be good snapshots, and broken ones")


def check_or_save(rawdump, reader, data):
    """Like check(); saves the data in a file if it fails."""
    try:
        return check(rawdump, reader, data)
    except BaseException:
        Path("rawdump-crash").write_bytes(data)
        print("# it is in the file rawdump-crash of the working folder")
        raise


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    main()
