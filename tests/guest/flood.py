#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Checks that a trace holds all outliers, each correct, and the file `outliers` the last of them.

usage: flood.py TRACE NUMBER

NUMBER is the number of outliers since schedhist was loaded. Measuring must be off.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from outlier_text import KEPT, Wrong, read_text, read_trace
from waiting import DEBUGFS


def main(path: Path, number: int) -> None:
    traced = sorted(read_trace(path.read_text("latin-1")), key=lambda outlier: outlier.id)
    numbers = [outlier.id for outlier in traced]
    if numbers != list(range(1, number + 1)):
        raise Wrong(f"{len(numbers)} outliers, from {numbers[:1]} to {numbers[-1:]}, and not {number}")
    last = []
    kept: Counter[int] = Counter()
    for outlier in reversed(traced):
        kept[outlier.cpu] += 1
        if kept[outlier.cpu] <= KEPT:
            last.append(outlier)
    found = read_text((DEBUGFS / "outliers").read_text())
    if found != last[::-1]:
        raise Wrong(f"kept are {[outlier.id for outlier in found]}")
    metrics = Counter(outlier.metric for outlier in traced)
    culprits = Counter(outlier.number for outlier in traced)
    missing = sum(outlier.missing_ns > 0 for outlier in traced)
    print(f"# {number} outliers: {dict(metrics)}")
    print(f"# by number of culprits: {dict(sorted(culprits.items()))}; something missing in {missing}")


try:
    main(Path(sys.argv[1]), int(sys.argv[2]))
except Wrong as wrong:
    sys.exit(f"flood: {wrong}")
