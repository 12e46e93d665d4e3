# SPDX-License-Identifier: GPL-2.0
"""The kernel's own sum of waits is the same for the same window. test_tool.py compares the command with BCC's tools.

The kernel's window begins first and ends last, and so has a little more. All other differences are by definition:
they are named and bounded.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from harness.test import TRACEFS, about_numbers, allow, check_laws, histogram, load_all, measure, note, status, told

# More runnable tasks than CPUs, so that there are substantial waits.
WORKLOAD = ["hackbench", "--groups", "1", "--loops", "30"]


class Counts:
    """The counts of schedhist in a window."""

    def __init__(self) -> None:
        runq = histogram("runq")
        self.count, self.sum, self.wait_unseen = runq.count, runq.sum, status("wait_unseen")

    def since(self, old: Counts) -> Counts:
        self.count -= old.count
        self.sum -= old.sum
        self.wait_unseen -= old.wait_unseen
        return self


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


@allow(600)
def test_peer_schedstat() -> None:
    """Passes if they agree in one of three windows. One may be disturbed, for example if the host does not run
    all CPUs of the guest."""
    about_numbers()
    load_all()
    measure(0)
    for attempt in range(3):
        try:
            schedstat()
            break
        except AssertionError as wrong:
            note(str(wrong))
            if attempt == 2:
                raise
    check_laws()
