# SPDX-License-Identifier: GPL-2.0
"""Definitions that all of replay shares."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NoReturn

DEBUGFS = Path("/sys/kernel/debug/schedhist")

# The least and the greatest possible value of a time or a duration, in nanoseconds.
Interval = tuple[int, int]


# As in sysexits.h: another window may be conclusive.
EX_TEMPFAIL = 75


def inconclusive(text: str) -> NoReturn:
    """Ends a comparison that proves nothing."""
    print(f"# replay: {text}")
    sys.exit(EX_TEMPFAIL)


def die(text: str) -> None:
    sys.exit(f"replay: {text}")
