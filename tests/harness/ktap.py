# SPDX-License-Identifier: GPL-2.0
"""What a test says: that something is wrong, that it cannot run, and notes for people."""

import os
import re
import time
from typing import Any, Callable, TypeVar

from .kernel import DEBUG, OWN

THOROUGH = bool(os.environ.get("SCHEDHIST_THOROUGH"))
Test = TypeVar("Test", bound=Callable[[], object])


class Wrong(AssertionError):
    """Something is not as it must be."""


class Skipped(Exception):
    """A test that cannot run, and why."""


class Late(BaseException):
    """The time of the test is over."""


# --- what is wrong ---


def eq(what: str, found: object, wanted: object) -> None:
    if found != wanted:
        raise Wrong(f"{what}: found {found!r}, wanted {wanted!r}")


def within(what: str, low: float, value: float, high: float = float("inf")) -> None:
    if not low <= value <= high:
        raise Wrong(f"{what}: {value} is not within {low} to {high}")


def told(what: str, low: float, value: float, high: float) -> None:
    """The same, and says so even if it holds."""
    note(f"{what}: {value:.0f} within {low:.0f} to {high:.0f}")
    within(what, low, value, high)


def matches(what: str, pattern: str, text: str) -> None:
    """Asserts that the pattern is found in the text."""
    if not re.search(pattern, text, re.MULTILINE):
        raise Wrong(f"{what}: no {pattern!r} in {text!r}")


def fails(error: int, function: Callable[..., object], *arguments: Any) -> None:
    """Asserts that the call fails with this errno."""
    try:
        function(*arguments)
    except OSError as found:
        if found.errno != error:
            raise Wrong(f"{arguments}: {os.strerror(found.errno or 0)}, wanted {os.strerror(error)}") from None
        return
    raise Wrong(f"'{function.__name__}' did not fail: {arguments}")


# --- what is no fault ---


def note(text: str) -> None:
    """Says something that is shown even if the test passes."""
    print(f"# {text}", flush=True)


def skip(why: str) -> None:
    raise Skipped(why)


def is_beyond(kernel: str, why: str) -> None:
    """Skips the test, or fails it on the kernel of ours that is built for it."""
    raise Wrong(why) if DEBUG == kernel else Skipped(why)


# --- how much ---


def amount(emulated: int, native: int, thorough: int) -> int:
    """Returns how much of something random to do: an emulator affords little of it, and User Mode Linux much, where
    the suite `uml` does it."""
    return thorough if THOROUGH else native if OWN == "uml" else emulated


# --- waiting ---


def wait_until(what: str, condition: Callable[[], object], pause: float = 0.02) -> None:
    """Waits until the condition holds. Fails after four minutes, which a busy host does not need;
    kernels of ours get five times as long."""
    end = time.monotonic() + 240 * (5 if DEBUG else 1)
    while not condition():
        if time.monotonic() > end:
            raise Wrong(f"waited too long for {what}")
        time.sleep(pause)


# --- how a test is run ---

deferred: list[tuple[Callable[..., object], tuple[Any, ...]]] = []
# It is of the test's own process: none of the children undoes anything.
os.register_at_fork(after_in_child=deferred.clear)


def defer(function: Callable[..., object], *arguments: Any) -> None:
    """Calls this when the test is over, whether it passed or not: the last one first."""
    deferred.append((function, arguments))


def allow(seconds: int) -> Callable[[Test], Test]:
    """Sets the time limit of a test that needs more than most."""

    def mark(test: Test) -> Test:
        test.limit = seconds  # type: ignore[attr-defined]
        return test

    return mark


def lacks_memory(test: Test) -> Test:
    """Marks a test that makes allocations fail, which the kernel logs with a stack."""
    test.lacking = True  # type: ignore[attr-defined]
    return test


def seeks_leaks(test: Test) -> Test:
    """Marks a test after which to look for leaks at once, not only when the guest ends: if the guest
    ends early, the tests that have passed are not repeated."""
    test.seeking = True  # type: ignore[attr-defined]
    return test
