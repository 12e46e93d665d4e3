# SPDX-License-Identifier: GPL-2.0
"""What all of replay has in common."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NoReturn

DEBUGFS = Path("/sys/kernel/debug/schedhist")

# The least and the greatest that a time or a duration can be, in nanoseconds.
Interval = tuple[int, int]


# As in sysexits.h: another window may tell.
EX_TEMPFAIL = 75


def inconclusive(text: str) -> NoReturn:
    """Ends a comparison that proves nothing."""
    print(f"# replay: {text}")
    sys.exit(EX_TEMPFAIL)


def die(text: str) -> None:
    sys.exit(f"replay: {text}")
