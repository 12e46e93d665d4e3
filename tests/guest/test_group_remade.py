# SPDX-License-Identifier: GPL-2.0
"""Rules that name a cgroup which is made at that moment, or is made again."""

import errno
import os
import subprocess

from harness import cgroup, log
from harness.cgroup import BASE
from harness.groups import begin, check_group_laws, names, of_group, tasks
from harness.test import (THOROUGH, allow, eq, expedite_rcu, fails, helper, load, measure, run, start, unload, within,
                          write)

# For how long a cgroup is made and removed.
SECONDS = 600 if THOROUGH else 10


def remade_begin(*parameters):
    """Loads the module and makes a cgroup whose rule keeps the probe of new cgroups."""
    helper("remake")
    cgroup.on()
    expedite_rcu()
    load(*parameters)
    cgroup.make("keep")


def remake(mode):
    """Runs the helper. Each write that finds no cgroup leaves a line in the kernel log."""
    for _ in range(0, SECONDS, 5):
        print(run(helper("remake"), mode, "/schedhist/again", "5", stderr=None))
        log.so_far()


@allow(SECONDS + 200)
def test_group_remade_rule():
    remade_begin("group_by=list")
    write("group_rules", "add keep cgroup /schedhist/keep")
    remake("rule")


@allow(SECONDS + 200)
def test_group_remade_under():
    remade_begin()
    remake("under")


def test_group_remade_parameters():
    """The same for the parameters."""
    program = helper("remake")
    cgroup.on()
    expedite_rcu()
    task = start("sleep", "1000").pid
    for attempt in range(4):
        parameters = ['group_by="cgroup under /schedhist/again"']
        if attempt % 2:
            parameters = ["group_by=list", 'group_rules="again cgroup /schedhist/again"']
        churn = start(program, "churn", "/schedhist/again", stdin=subprocess.PIPE)
        while True:
            try:
                load(*parameters)
                break
            except OSError as error:
                eq("the error of loading", error.errno, errno.ENOENT)
        # That was its last round.
        churn.stdin.close()
        eq("status of the helper", churn.wait(), 0)
        cgroup.move(task, BASE / "again")
        within(f"group with {parameters}", 1, tasks()[task], 255)
        cgroup.move(task, cgroup.ROOT)
        eq("group of a task outside", tasks()[task], 0)
        unload()


def test_group_remade_service():
    """What `under` names is followed to the cgroup that is made in its place, at all times."""
    remade_begin()
    service = BASE / "service"
    service.mkdir()
    task = start("sleep", "1000").pid
    begin("cgroup under /schedhist/service depth 1")
    for on in 1, 0, 1:
        measure(on)
        cgroup.move(task, cgroup.ROOT)
        cgroup.remove(service)
        cgroup.make("other", "service/part")
        cgroup.move(task, service / "part")
        measure(1)
        eq("name of the group", [name for name in names() if "part" in name], ["/schedhist/service/part"])
        eq("tasks of the group", of_group("/schedhist/service/part", "tasks"), 1)
    measure(0)
    check_group_laws()


def test_group_remade_file():
    """No path goes through a file, be it open or not."""
    remade_begin("group_by=list")
    opened = os.open(BASE / "keep/cgroup.procs", os.O_RDONLY)
    for path in ["keep/cgroup.procs/x", "keep/cgroup.procs/", "keep/cgroup.procs//", "keep/cgroup.procs/cgroup.procs",
                 "keep/x", "keep/../keep", "keep/.", "x" * 256]:
        fails(errno.ENOENT, write, "group_rules", f"add a cgroup /schedhist/{path}")
        fails(errno.ENOENT, write, "group_by", f"cgroup under /schedhist/{path}")
    os.close(opened)
    for path in "keep", "keep/", "/keep//":
        write("group_rules", f"add a cgroup /schedhist/{path}")
        write("group_rules", "remove a")
