# SPDX-License-Identifier: GPL-2.0
"""What all of replay has in common."""

from __future__ import annotations

import sys
from pathlib import Path

DEBUGFS = Path("/sys/kernel/debug/schedhist")

# The least and the greatest that a time or a duration can be, in nanoseconds.
Interval = tuple[int, int]


def die(text: str) -> None:
    sys.exit(f"replay: {text}")
