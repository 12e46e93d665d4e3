# SPDX-License-Identifier: GPL-2.0
"""Wakeups that come when nobody expects them: see tests/helpers/overtake.c and selfwake.c."""

import os
import time

from harness.test import (EVENTFS, OF_LOADED, check_laws, eq, load_all, load_helper, measure, needs, note, parameter,
                          state_of, status, switches_of, wait_until, write_file)
from harness.trace import hits

SLEEP = "wakeup", "offcpu", "blocked"


def count_sleeps(pid):
    """Counts the events of the sleeps of a task from now on."""
    for event in SLEEP:
        write_file(EVENTFS / event / "trigger", f"hist:keys=pid if pid == {pid}")


def sleeps_at_rest(pid):
    """Returns how often a task has blocked, as the kernel counts, once it sleeps and goes on to."""
    def rests():
        before = switches_of(pid)
        time.sleep(0.5)
        return state_of(pid) == "S" and switches_of(pid) == before

    wait_until("the sleeper to sleep", rests)
    return switches_of(pid)[0]


def assert_sleeps(number):
    """Asserts that each sleep is a sample, and nothing is lost."""
    for event in SLEEP:
        eq(f"samples of {event}", hits((EVENTFS / event / "hist").read_text()), [number])
    measure(0)
    eq("wake_unseen", status("wake_unseen"), 0)
    check_laws()


def test_overtake():
    """A wakeup that is traced before the sleep that it ends, with a stay on the CPU in between, still ends that
    sleep."""
    number, run = 20, OF_LOADED / "overtake/parameters/run"
    needs("hist")
    load_helper("overtake")
    os.sched_setaffinity(0, {0})
    load_all()
    # A sleep that began before measuring did is not a sample.
    write_file(run, "1")
    count_sleeps(parameter("overtake", "sleeper_pid"))
    write_file(run, str(number))
    # The last round ends with the task asleep.
    assert_sleeps(2 * number)


def test_selfwake():
    """A task that wakes itself runs the wakeup probe with interrupts on. An interrupt that wakes another task
    at that moment loses nothing."""

    def self_wake(times):
        """A task of this CPU wakes itself this often."""
        write_file(OF_LOADED / "selfwake/parameters/run", str(times))

    def told(name):
        return int(parameter("selfwake", name))

    needs("hist")
    load_helper("selfwake")
    sleeper = told("sleeper_pid")
    os.sched_setaffinity(0, {1})
    load_all()
    # A sleep that began before measuring did is not a sample.
    while told("wakeups") <= 2:
        self_wake(1000)
    sleeps_at_rest(sleeper)
    count_sleeps(sleeper)
    before, inside = sleeps_at_rest(sleeper), told("inside")
    # The rate of the interrupts depends on the machine and the host.
    while told("inside") - inside < int(os.environ.get("SELFWAKE_INSIDE", 100)):
        self_wake(20000)
    asleep = sleeps_at_rest(sleeper) - before
    note(f"{told('self_wakeups')} self-wakeups, {asleep} sleeps of another task,"
         f" {told('inside') - inside} of them ended from within the probe")
    assert_sleeps(asleep)
