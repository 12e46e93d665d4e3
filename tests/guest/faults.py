# SPDX-License-Identifier: GPL-2.0
"""Makes allocations fail, one after the other: what test_fault_injection.py uses."""

from __future__ import annotations

import errno
import itertools
import re
import subprocess
from pathlib import Path
from typing import Callable, Iterator, NamedTuple

from harness.test import (TRACEFS, Wrong, append_file, assert_gone, defer, eq, helper, is_beyond, loaded, note,
                          write_file)
from harness.trace import Instance, clear, enable

ATTRS = [Path("/sys/kernel/debug/failslab"), Path("/sys/kernel/debug/fail_page_alloc")]
KPROBES, PLACES = TRACEFS / "kprobe_events", TRACEFS / "instances/schedhist_places"
PROBES = {"slab": "r:schedhist_places/slab should_failslab ret=$retval:s32",
          "page": "r:schedhist_places/page should_fail_alloc_page ret=$retval:u8"}


def symbols(*wanted: str) -> dict[str, tuple[str, str]]:
    """Returns the address of each kernel function, and that of the symbol after it."""
    found: dict[str, tuple[str, str]] = {}
    with open("/proc/kallsyms", encoding="ascii") as lines:
        addresses = [(words[0], words[2]) for words in map(str.split, lines) if len(words) == 3]
    for i, (address, name) in enumerate(addresses):
        if name in wanted and name not in found:
            after = next(other for other, _ in addresses[i:] if other != address)
            found[name] = f"0x{address}", f"0x{after}"
    return found


def assert_no_probe() -> None:
    """Asserts that there is no CPU hotplug state: none exists while the probes are off, or after their
    registration failed."""
    if "schedhist" in Path("/sys/devices/system/cpu/hotplug/states").read_text():
        raise Wrong("there still is a state of CPU hotplug")


def assert_no_trace() -> None:
    """Asserts that nothing of the module is left. The next switch would call a leftover probe, whose code is
    gone."""
    assert_gone()
    assert_no_probe()


class Attempt(NamedTuple):
    """Whether any allocation failed; the errno, 0 if the operation succeeded; the number of bytes read, and
    their hash; and the number of allocations."""

    failed: bool
    errno: int
    bytes: int
    hash: str
    asked: int


class Faults:
    """Fault injection. It fails the allocations that the module asks for, directly or through others: those
    with an address above the kernel's own text on the stack.

    It spares those of kmemleak and KASAN, which the kernel makes on the way and can do without.
    """

    def __init__(self) -> None:
        there = [Path("/proc/self/fail-nth"), KPROBES, *(attr / "require-start" for attr in ATTRS)]
        if not all(path.exists() for path in there):
            is_beyond("debug", "the kernel cannot make allocations fail: it wants CONFIG_FAILSLAB,"
                      " CONFIG_KPROBE_EVENTS, CONFIG_FAIL_PAGE_ALLOC and CONFIG_FAULT_INJECTION_STACKTRACE_FILTER")
        helper("fail_nth")
        known = symbols("_etext", "__create_object", "__link_object", "stack_depot_save_flags", "kernel_clone")
        self.fork_code = known["kernel_clone"]
        self.off()
        defer(self.off)
        for name, text in [("verbose", "0"), ("stacktrace-depth", "32"), ("ignore-gfp-wait", "N"),
                           ("task-filter", "Y"), ("interval", "1"), ("space", "0"), ("times", "-1")]:
            self.set(name, text)
        write_file(ATTRS[1] / "min-order", "0")
        self.reject(known["__create_object"][0], known["__link_object"][1], ATTRS[:1])
        self.reject(*known["stack_depot_save_flags"], ATTRS[1:])
        self.set("require-start", known["_etext"][0])
        self.set("probability", "100")
        # Records each allocation that failed, with its stack.
        for probe in PROBES.values():
            append_file(KPROBES, f"{probe}\n")
        self.places = Instance(name=PLACES.name)
        for option in "stacktrace", "sym-offset":
            write_file(self.places.path / "options" / option, "1")
        for probe in PROBES:
            write_file(self.places.path / f"events/schedhist_places/{probe}/filter", "ret != 0")
            enable(f"schedhist_places/{probe}", tracing=self.places.path)
        self.attempts = self.failures = 0

    @staticmethod
    def set(name: str, text: str) -> None:
        for attr in ATTRS:
            write_file(attr / name, text)

    @staticmethod
    def reject(begin: str, end: str, attrs: list[Path] = ATTRS) -> None:
        """Spares allocations from within this code."""
        for attr in attrs:
            write_file(attr / "reject-start", begin)
            write_file(attr / "reject-end", end)

    def anywhere(self) -> None:
        """Fails all allocations of the task, those of the kernel as well."""
        self.set("require-start", "0")

    def off(self) -> None:
        self.set("probability", "0")
        self.set("task-filter", "Y")
        if PLACES.exists():
            PLACES.rmdir()
        for probe in PROBES:
            if f":schedhist_places/{probe} " in KPROBES.read_text():
                append_file(KPROBES, f"-:schedhist_places/{probe}\n")

    def note_places(self) -> None:
        """Says how many failures and distinct places there were. The module must not be loaded: all of its
        functions then appear as addresses, whose last digits are the same for each load."""
        eq("the module is loaded", loaded("schedhist"), False)
        self.places.nothing_lost()
        text = (self.places.path / "trace").read_text()
        parts = text.split("<stack trace>")[1:]
        stacks = list(filter(None, (" ".join(re.findall(r"^ *=> (\S+)", part, re.MULTILINE)) for part in parts)))
        ours = [re.sub(r"0xffffffff[0-9a-f]*([0-9a-f]{3})", r"schedhist+\1", stack) for stack in stacks
                if "0xffffffff" in stack]
        note(f"{self.attempts} attempts, {self.failures} of them with a failure: {len(stacks)} allocations failed,"
             f" {len(ours)} of them in the module, {len(set(ours))} distinct places")
        clear(self.places.path)


class Operation:
    """An operation that is attempted again and again. `usual` is its errno without any failure."""

    def __init__(self, faults: Faults, *what: str | Path, usual: int = 0) -> None:
        self.faults, self.usual, self.what = faults, usual, what
        self.process = subprocess.Popen([helper("fail_nth"), *what], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, bufsize=1)

    def __enter__(self) -> Operation:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stdin.close()
        eq(f"status of {self.what}", self.process.wait(), 0)

    def attempt(self, how: str, number: int, pid: int | str = "") -> Attempt:
        """Performs the operation. "once": the allocation of this number fails, "rest": and all after it, "off":
        none."""
        self.process.stdin.write(f"{how} {number} {pid}\n")
        answer = self.process.stdout.readline().split()
        if len(answer) != 5:
            raise Wrong(f"the program has ended in attempt {how} {number} {pid}")
        digest = answer.pop(3)
        failed, error, read, asked = map(int, answer)
        self.faults.attempts += 1
        self.faults.failures += failed
        if not (error == self.usual or error == errno.ENOMEM and failed):
            raise Wrong(f"attempt {how} {number}: errno {error}, where {failed} allocations failed")
        return Attempt(bool(failed), error, read, digest, asked)

    def in_turn(self, how: str, before: Callable[[], object] = lambda: None) -> Iterator[Attempt]:
        """Makes each allocation fail in turn, until none is left to fail."""
        for number in itertools.count(1):
            before()
            found = self.attempt(how, number)
            yield found
            if not found.failed:
                return


HOWS = "rest", "once"
