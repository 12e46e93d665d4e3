#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Checks that scripts/flamegraph tells threads apart by their names, whatever these look like.

usage: names.py FLAMEGRAPH

Names may have any bytes but NUL, up to 15. What perf script prints of random ones is folded and drawn.
"""

from __future__ import annotations

import random
import re
import subprocess
import sys
import xml.dom.minidom
from collections import Counter

PARTS = [
    *(b"a", b"Z", b"7", b"12", b" ", b"\n", b"\t", b"\r", b"\x0b", b"\x1b[31m", b"\x7f", b";", b":", b": ", b"=", b"#"),
    *(b"-7", b"\\", b"\\x3b", b'"', b"'", b"<b>", b"&lt;", b"\xff", b"\xc3\xa9", b"\xef\xbf\xbf", b"comm=", b" pid=7"),
    *(b"duration_ns=5", b"[001] ", b"1.5: ", b"5 GET: x", b"x:y: ", b" 5 6 x: ", b"\xc2\x85"),
]
STACK = b"\tffffffff81000001 __schedule+0x10 ([kernel.kallsyms])\n\tffffffff81000002 nap+0x5 ([kernel.kallsyms])\n\n"
ROUNDS = 24


def name_of(rng: random.Random) -> bytes:
    return b"".join(rng.choice(PARTS) for _ in range(rng.randint(1, 5)))[:15]


def columns(form: int, tid: int, weight: int, name: bytes) -> bytes:
    fields = b"comm=%s pid=%d prio=120 cpu=1 duration_ns=%d cause=x group=0" % (name, tid, weight)
    return [
        b" %7d %10d schedhist:offcpu: " % (tid, weight),
        b" %7d [001]  12.345678: %10d schedhist:offcpu: " % (tid, weight),
        b" %7d/%-7d [001]  12.345678: schedhist:offcpu: %s" % (tid, tid, fields),
        b" %d   %d schedhist:offcpu: " % (tid, weight),
    ][form]


def run(program: str, text: bytes, *options: str) -> bytes:
    return subprocess.run([sys.executable, program, *options], input=text, check=True, stdout=subprocess.PIPE).stdout


def main() -> int:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    rng, seen = random.Random(5), 0
    for number in range(ROUNDS):
        text, wanted = b"# ========\n# captured on    : today\n# ========\n#\n", Counter()
        # The first one tells which columns there are.
        for tid, name in enumerate([b"plain", b"Thread 5", b"req 12 GET: x", *(name_of(rng) for _ in range(6))], 100):
            # perf does not pad names that stacks follow: blanks at their ends are lost.
            if name.strip(b" \t") != name or not name or name[:1] == b"\n":
                continue
            weight = 1000 + tid
            text += name + columns(number % 4, tid, weight, name) + b"\n" + STACK
            wanted[name] += weight
            seen += 1
        found = Counter()
        for line in run(sys.argv[1], text, "--folded").removesuffix(b"\n").split(b"\n"):
            stack, weight = line.rsplit(b" ", 1)
            name, *frames = stack.split(b";")
            assert frames == [b"nap", b"__schedule"], line
            found[re.sub(rb"\\x(..)", lambda it: bytes([int(it[1], 16)]), name)] += int(weight)
        assert found == wanted, f"{text!r}: {wanted - found} became {found - wanted}"
        picture = xml.dom.minidom.parseString(run(sys.argv[1], text))
        frames = len(picture.getElementsByTagName("g"))
        assert frames == 1 + 3 * len(wanted), f"{frames} frames of {len(wanted)} names: {text!r}"
    assert seen > 5 * ROUNDS, seen
    return 0


if __name__ == "__main__":
    sys.exit(main())
