# SPDX-License-Identifier: GPL-2.0
"""Other tools report the same for the same window.

The other tool starts first and ends last, and so sees a little more. The context switches that the kernel
counts meanwhile bound the difference: each is at most one more sample. All other differences are by
definition; each comparison names and bounds them.

The other tools take their stamps at other places, and under emulation some ten microseconds lie between two
places. A distribution may therefore be shifted by up to SHIFT ns against ours, to either side, and RARE of the
samples by more: those during which the emulator itself waited for a CPU.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Callable

from harness.test import (TRACEFS, Wrong, about_numbers, allow, check_laws, histogram, load_all, matches, measure, note,
                          skip, status, switches_of_kernel, told)

SHIFT = 100_000
RARE = 0.02
# Seconds until the other tool must have started.
PATIENCE = 40
# More runnable tasks than CPUs, so that there are substantial waits.
WORKLOAD = ["hackbench", "--groups", "1", "--loops", "30"]

Buckets = list[tuple[int, int, int]]


# --- schedhist ---


class Counts:
    """The counts of schedhist in a window."""

    def __init__(self) -> None:
        runq = histogram("runq")
        self.count, self.sum, self.wait_unseen = runq.count, runq.sum, status("wait_unseen")
        self.buckets: Buckets = [(lower, upper, n) for lower, (upper, n) in runq.buckets.items()]

    def since(self, old: Counts) -> Counts:
        self.count -= old.count
        self.sum -= old.sum
        self.wait_unseen -= old.wait_unseen
        before = {(lower, upper): n for lower, upper, n in old.buckets}
        self.buckets = [(lower, upper, n - before.get((lower, upper), 0)) for lower, upper, n in self.buckets]
        return self


# --- the window ---


def window(peer: list[str], started: str) -> tuple[Counts, int, str]:
    """Runs the workload under both. Returns what schedhist counted, the number of switches that the
    peer may have seen in addition, and the peer's output."""
    # Run it once to read it into memory, so that the window is not one long wait for its pages.
    subprocess.run([*WORKLOAD[:-1], "1"], stdout=subprocess.DEVNULL, check=True)
    with tempfile.TemporaryFile("w+") as said:
        tool = subprocess.Popen(["stdbuf", "-oL", *peer], stdout=said, stderr=subprocess.STDOUT)
        try:
            deadline = time.monotonic() + PATIENCE
            while started not in os.pread(said.fileno(), 1 << 16, 0).decode():
                if time.monotonic() > deadline:
                    raise Wrong(f"{peer[-1]} does not start within {PATIENCE} s")
                if tool.poll() is not None:
                    raise Wrong(f"{peer[-1]} ended: {os.pread(said.fileno(), 2000, 0).decode()}")
                time.sleep(0.2)
            # The peer prints this when it is about to start, or has started.
            first = switches_of_kernel()
            time.sleep(0.5)
            old = Counts()
            measure(1)
            on = switches_of_kernel()
            subprocess.run(WORKLOAD, stdout=subprocess.DEVNULL, check=True)
            off = switches_of_kernel()
            measure(0)
            tool.send_signal(signal.SIGINT)
            tool.wait(60)
            last = switches_of_kernel()
        finally:
            if tool.poll() is None:
                tool.kill()
                tool.wait()
        output = os.pread(said.fileno(), 1 << 20, 0).decode(errors="replace")
    return Counts().since(old), on - first + last - off, output


# --- distributions ---


def log2_table(text: str) -> dict[int, int]:
    """Parses the table that BCC's tools print. Returns the count for each lower bound in ns."""
    table = {}
    matches("a table of usecs", r"\busecs\b", text[:5000])
    for low, count in re.findall(r"^\s*(\d+) -> \d+\s*: (\d+)", text, re.M):
        table[int(low) * 1000 if int(low) > 1 else 0] = int(count)
    return table


def shape(what: str, ours: Buckets, theirs: dict[int, int], more: int, less: int) -> None:
    """Asserts that their cumulative counts lie between ours SHIFT below and SHIFT above, with
    `less` fewer or `more` more samples. Checked at the lower bound of each of their buckets."""
    number = sum(n for _, _, n in ours)
    slack = RARE * number
    worst, tested = 0.0, 0
    for bound in sorted(theirs):
        if bound < 2 * SHIFT:
            continue
        below = sum(n for low, n in theirs.items() if low < bound)
        least = sum(n for _, upper, n in ours if upper < bound - SHIFT) - less - slack
        most = sum(n for lower, _, n in ours if lower < bound + SHIFT) + more + slack
        middle = sum(n for lower, upper, n in ours if (lower + upper) / 2 < bound)
        worst, tested = max(worst, abs(below - middle) / number), tested + 1
        if not least <= below <= most:
            raise Wrong(f"{what}: {below} below {bound} ns, not {least:.0f} to {most:.0f}; ours: {middle}")
    if tested < 4:
        raise Wrong(f"{what}: {tested} bounds are not worth a comparison")
    note(f"{what}: {tested} bounds from {2 * SHIFT} ns on, at most {worst:.2%} apart")


# --- the comparisons ---


def runqlat() -> None:
    """runqlat stamps at sched_wakeup, sched_wakeup_new and at a switch-out in state R.

    - It also has the waits that were under way when measuring began: wait_unseen.
    - It misses the waits of tasks that were preempted with their sleep state set: it takes them for
      asleep (10 of 29762 were seen; 0.5 % and 5 are allowed).
    - It misses the waits of tasks for which its map has no room: it holds 10240, far more than run
      here.
    """
    ours, more, said = window(["runqlat-libbpf"], "Tracing")
    table, count = log2_table(said), ours.count
    total = sum(table.values())
    less = 5 + count // 200
    more += ours.wait_unseen
    note(f"runqlat has {total}, schedhist {count}, {more} may be added")
    told("samples of runqlat", count - less, total, count + more)
    shape("runq and runqlat", ours.buckets, table, more, less)


def run_delay() -> int:
    """Returns the kernel's sum of all waits, over all CPUs: the last but one field."""
    lines = Path("/proc/schedstat").read_text().splitlines()
    return sum(int(line.split()[-2]) for line in lines if line.startswith("cpu"))


class Enqueuing:
    """Sums the time from sched_waking to sched_wakeup, when a task is on its run queue, with the
    kernel's triggers. If another CPU has to queue the task, the task waits for an interrupt
    there: for milliseconds while the host does not run that CPU.
    """

    SYNTHETIC = "schedhist_enqueued u64 lat"
    TRIGGERS = (
        ("sched/sched_waking", "hist:keys=pid:since=common_timestamp"),
        (
            "sched/sched_wakeup",
            "hist:keys=pid:lat=common_timestamp-$since"
            ":onmatch(sched.sched_waking).schedhist_enqueued($lat)",
        ),
        ("synthetic/schedhist_enqueued", "hist:keys=common_type:vals=lat"),
    )

    def __enter__(self) -> Enqueuing:
        (TRACEFS / "synthetic_events").write_text(self.SYNTHETIC)
        for event, trigger in self.TRIGGERS:
            (TRACEFS / "events" / event / "trigger").write_text(trigger)
        return self

    def __exit__(self, *_: object) -> None:
        # Opening these files for writing clears them.
        for event, _ in reversed(self.TRIGGERS):
            (TRACEFS / "events" / event / "trigger").write_text("")
        (TRACEFS / "synthetic_events").write_text("")

    def total(self) -> int:
        text = (TRACEFS / "events" / self.TRIGGERS[-1][0] / "hist").read_text()
        return sum(int(ns) for ns in re.findall(r" lat: +(\d+)", text))


def schedstat() -> None:
    """Compares the sum of the waits with the kernel's own.

    - The kernel stamps with the run queue's clock, read when a task is queued and when __schedule()
      began; schedhist reads its clock at the tracepoints. So a wait after a wakeup is longer here
      by the time in between.
    - The kernel also has the waits that were under way when measuring began, wait_unseen, those
      that a task left unfinished, and those between our two reads of its sum: little.
    - It lacks those of tasks preempted with their sleep state set.
    """
    subprocess.run([*WORKLOAD[:-1], "1"], stdout=subprocess.DEVNULL, check=True)
    with Enqueuing() as enqueuing:
        old, outer = Counts(), run_delay()
        measure(1)
        inner = run_delay()
        subprocess.run(WORKLOAD, stdout=subprocess.DEVNULL, check=True)
        inner = run_delay() - inner
        measure(0)
        outer = run_delay() - outer
        ours = Counts().since(old)
        queued = enqueuing.total()
    stamps = 20_000 * ours.count
    note(f"run_delay grew by {inner} to {outer} ns in {ours.count} waits")
    note(f"and before, the woken waited for {queued} ns until they were queued")
    if inner < 20 * stamps:
        note("the waits are short: the stamps matter more than they should")
    high = 1.02 * outer + queued + stamps
    told("sum of runq", 0.98 * inner - stamps, ours.sum, high)


# --- the tests ---


def compare(peer: Callable[[], None], program: str = "") -> None:
    """Passes if they agree in one of three windows. One may be disturbed, for example if the host does not run
    all CPUs of the guest."""
    about_numbers()
    if program and not shutil.which(program):
        skip(f"{program} is not installed")
    load_all()
    measure(0)
    for attempt in range(3):
        try:
            peer()
            break
        except AssertionError as wrong:
            note(str(wrong))
            if attempt == 2:
                raise
    check_laws()


@allow(600)
def test_peer_runqlat() -> None:
    compare(runqlat, "runqlat-libbpf")


@allow(600)
def test_peer_schedstat() -> None:
    compare(schedstat)
