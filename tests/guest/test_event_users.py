# SPDX-License-Identifier: GPL-2.0
"""Every user of our events keeps the module loaded. When the user is done, the module can be unloaded."""

import errno
import re
from pathlib import Path

from harness.listeners import Bpftrace
from harness.test import Wrong, assert_gone, eq, fails, load, messages, needs, note, unload, value, within
from harness.trace import clear, enable, lines


def kept_by(what: str) -> None:
    """Asserts that the module cannot be unloaded, and still measures."""
    fails(errno.EAGAIN, unload)
    eq("enable", value("enable"), "1")
    messages(1)
    note(f"references while used by {what}: {Path('/sys/module/schedhist/refcnt').read_text().strip()}")


def let_go() -> None:
    """Asserts that the module can now be unloaded."""
    unload()
    assert_gone()


def has(what: str, pattern: str, found: list[str]) -> None:
    if not any(re.search(pattern, line) for line in found):
        raise Wrong(f"{what}: {found[:5]}")


def test_unload_enabled():
    """Unloading works even if an event was left enabled."""
    load()
    enable("oncpu")
    kept_by("set_event")
    clear()
    messages(1)
    has("the event does not work", " oncpu: ", lines())
    enable("oncpu", False)
    let_go()


def test_unload_bpftrace():
    needs("bpftrace")
    load()
    bpftrace = Bpftrace()
    bpftrace.wait()
    kept_by("bpftrace")
    bpftrace.off()
    let_go()
    within("what bpftrace counted", 50, bpftrace.count("runq"), 1_000_000)
