# SPDX-License-Identifier: GPL-2.0
"""As many switches as a kernel can make, and each of them is accounted for."""

import random
import time

from harness import cgroup
from harness.cgroup import BASE
from harness.groups import begin, check_group_laws, of_group
from harness.test import (DEBUG, OF_LOADED, THOROUGH, allow, amount, assert_gone, assert_runs, check_laws, eq,
                          kill_group, load, load_helper, measure, note, parameter, remove, run, spawn, status, succeeds,
                          unload, within, write, write_file)
from storm import storm


def left():
    return int(parameter("churn", "left"))


def leave(number):
    """Lets the threads of churn run until they have left their CPUs that often."""
    write_file(OF_LOADED / "churn/parameters/leave", str(number))


def leaving(number):
    return spawn(leave, number)


def move_often(threads):
    """Moves the threads of churn between two cgroups until this is killed."""
    while True:
        for pid in threads:
            cgroup.move(pid, BASE / f"churn{random.randrange(2)}")
        time.sleep(0.05)


def churn_once(all_at_once, threads, rule, number, *names):
    """Loads the module, measures so many switches of threads that are in these groups by the rule, checks all
    sums, and unloads the module. The threads run while the module is loaded and while it is unloaded. Returns
    the number of all switches."""
    early = leaving(number // 20)
    load("group_by=comm")
    succeeds(early)
    begin(rule)
    if rule == "list":
        # The threads do not run, so none of their slices is in another group.
        write("group_rules", "add churn comm churn/*")
    before = left()
    mover = spawn(move_often, threads, leads=True)
    leave(number)
    assert_runs(mover)
    kill_group(mover)
    measure(0)
    all_at_once.pause()
    eq(f"slices of {names}", sum(of_group(name, "oncpu_count") for name in names), left() - before)
    check_laws()
    check_group_laws()
    switches = status("switches")
    all_at_once.resume()
    measure(1)
    late = leaving(number // 20)
    unload()
    assert_gone()
    succeeds(late)
    return switches


@allow(7200 if THOROUGH else 600)
def test_churn():
    """An emulator affords few of them, and User Mode Linux, at the speed of the host, many more: a hundred
    million in the long form."""
    lives, total, started = amount(2, 6, 20), 0, time.monotonic()
    number = 40000 if DEBUG else amount(60000, 1000000, 100000000)
    cgroup.on()
    load_helper("churn")
    cgroup.make("churn0", "churn1")
    threads = list(map(int, run("pgrep", "^churn/").split()))
    # Before the first one is loaded: the one that moves them may begin late.
    for pid in threads:
        cgroup.move(pid, BASE / "churn0")
    all_at_once = storm("fork", "into", "move", "rename")
    for _ in range(0, lives, 2):
        total += churn_once(all_at_once, threads, "list", number // lives, "churn")
        total += churn_once(all_at_once, threads, "cgroup under /schedhist depth 1", number // lives,
                            "/schedhist/churn0", "/schedhist/churn1")
    all_at_once.stop()
    remove("churn")
    note(f"{total} switches in {lives} lives of the module, in {int(time.monotonic() - started)} s")
    within("switches", number, total, number * 100)
