# SPDX-License-Identifier: GPL-2.0
"""Definitions that all of replay shares."""

from typing import NoReturn

from harness.ktap import Wrong

# The least and the greatest possible value of a time or a duration, in nanoseconds.
Interval = tuple[int, int]


class Inconclusive(Exception):
    """The comparison proves nothing: another window may be conclusive."""


def inconclusive(text: str) -> NoReturn:
    raise Inconclusive(text)


def die(text: str) -> NoReturn:
    raise Wrong(text)
