# SPDX-License-Identifier: GPL-2.0
"""schedhist records what a reference computes from ftrace's events: see replay/."""

import shutil
import subprocess

import replay
from harness.test import (WORK, Histogram, Wrong, about_numbers, allow, check_laws, helper, keep_pids, load,
                          matches, measure, messages, note)

FOLDER = WORK / "replay"
PIPE = ["perf", "bench", "sched", "pipe", "--loop"]


def compare(*command, running=None):
    """Records a window and compares it. Repeats an inconclusive window, as when the host was busy. If the load
    runs all the time, each window is twice as long as the one before it, so that the switches at its start
    count for less."""
    for _ in range(4):
        shutil.rmtree(FOLDER, ignore_errors=True)
        replay.record(FOLDER, [*command], running)
        try:
            replay.check(FOLDER)
            return
        except replay.Inconclusive as why:
            note(f"replay: {why}")
        running = running and running * 2
    raise Wrong("no window tells enough")


def begin(*command):
    """Loads the module. Runs the command once to read it into memory, so that the window is not one long wait
    for its pages."""
    about_numbers()
    # No event of the reference tells of requests to reschedule.
    load("metrics=default,wakeup,throttled")
    measure(0)
    if command:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


@allow(900)
def test_replay_messaging():
    begin()
    messages(1)
    compare("hackbench", "--groups", "1", "--loops", "25")
    check_laws()


@allow(900)
def test_replay_stress():
    begin()
    compare("stress-ng", "--temp-path", "/tmp", "--quiet", "--switch", "2", "--timeout", "2")
    check_laws()


@allow(900)
def test_replay_pids():
    """First waits, last switches, zombies; reused PIDs inherit nothing: the reference identifies each task by its
    fork."""
    storm = helper("storm")
    begin()
    keep_pids(150)
    compare(storm, "400")
    check_laws()


@allow(900)
def test_replay_toggle():
    """Measuring begins and ends under load: what began before is in no histogram. Twice, because nothing of the
    first time may show in the second."""
    begin()
    messages(1)
    for _ in range(2):
        compare("hackbench", "--groups", "1", "--loops", "100000", running=1)
    check_laws()


def differs(what, file, text):
    """Asserts that the comparison finds what is wrong with this text of a file."""
    good = file.read_text()
    file.write_text(text)
    try:
        replay.check(FOLDER)
    except Wrong as wrong:
        matches("the difference", what, str(wrong))
    else:
        raise Wrong(f"no difference, wanted {what}")
    file.write_text(good)


@allow(900)
def test_replay_sees():
    """The comparison detects errors: one sample in a wrong bucket, one sample too many, a sum that is off by
    0.1 s, and a wrong counter."""
    begin(*PIPE, "1")
    compare(*PIPE, "1000")
    check_laws()
    file = FOLDER / "after/per_cpu/cpu0/hist/offcpu"
    lines = file.read_text().splitlines()
    found = Histogram(file.read_text())

    def edited(**changes):
        """Returns the text with other values, and other counts of buckets."""
        buckets = changes.pop("buckets", {})
        words = [line.split(" ") for line in lines]
        for word in words:
            if word[0] == "bucket" and int(word[1]) in buckets:
                word[3] = str(int(word[3]) + buckets[int(word[1])])
            elif word[0] in changes:
                word[1] = str(changes[word[0]])
        return "".join(" ".join(word) + "\n" for word in words if word[0] != "bucket" or word[3] != "0")

    # Moves a sample from the fullest bucket, which grew in the window, into another.
    fullest = max(found.buckets, key=lambda lower: found.buckets[lower][1])
    last = [lower for lower in found.buckets if lower != fullest][-1]
    first = next(iter(found.buckets))
    differs("differences", file, edited(buckets={fullest: -1, last: 1}))
    differs("the reference has", file, edited(count=found.count + 1, buckets={first: 1}))
    differs("sum", file, edited(sum=found.sum + 100000000))
    status = FOLDER / "after/status"
    kept = [line for line in status.read_text().splitlines() if not line.startswith("cpu0 wait_unseen ")]
    differs("wait_unseen", status, "\n".join([*kept, "cpu0 wait_unseen 1000"]) + "\n")
