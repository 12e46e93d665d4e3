# SPDX-License-Identifier: GPL-2.0
"""Rules that name a cgroup which is made at that moment, or is made again."""

import contextlib
import errno
import os
import signal
import time

from harness import cgroup, log
from harness.cgroup import BASE
from harness.groups import begin, check_group_laws, names, of_group, tasks
from harness.test import (allow, amount, defer, eq, fails, kill_group, load, measure, note, spawn, start, unload,
                          within, write)

# For how long a cgroup is made and removed.
SECONDS = amount(4, 10, 600)
AGAIN, NAME = BASE / "again", "/schedhist/again"


def remade_begin(*parameters):
    """Loads the module and makes a cgroup whose rule keeps the probe of new cgroups."""
    cgroup.on()
    load(*parameters)
    cgroup.make("keep")


def use_cpu(number):
    # There may be only one.
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, {number})


class Remade:
    """A cgroup that another process removes and makes again, without a pause, but while it is there to stay."""

    def __init__(self):
        self.early = 0
        self.pid = spawn(self._churn, leads=True)
        defer(kill_group, self.pid)

    @staticmethod
    def _churn():
        use_cpu(1)
        path = str(AGAIN)
        while True:
            try:
                os.rmdir(path)
            except OSError:
                pass  # A task that has ended is still in it.
            try:
                os.mkdir(path)
            except FileExistsError:
                pass

    def goes(self):
        os.kill(self.pid, signal.SIGCONT)

    def stays(self):
        os.kill(self.pid, signal.SIGSTOP)
        os.waitpid(self.pid, os.WUNTRACED)
        AGAIN.mkdir(exist_ok=True)

    def take(self, function, *arguments):
        """Calls this until there is such a cgroup. Each call that finds none leaves a line in the kernel log."""
        while True:
            try:
                return function(*arguments)
            except OSError as error:
                eq("the error", error.errno, errno.ENOENT)
            self.early += 1
            # The other process may wait for this CPU.
            if self.early % 16 == 0:
                time.sleep(0.001)
            if self.early % 5000 == 0:
                log.so_far()


def look():
    """Asserts that a new task in the cgroup is in the group of its own that the rule gives it."""
    pid = spawn(signal.pause)
    cgroup.move(pid, AGAIN)
    within("the group of the task", 1, tasks()[pid], 255)
    # So that the cgroup can be removed at once.
    cgroup.move(pid, cgroup.ROOT)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def remake(name_it, forget_it):
    """Names the cgroup while it is made again and again. What it said of that is true when the cgroup is there to
    stay, and when it is made once more."""
    again, looks = Remade(), 0
    use_cpu(0)
    end = time.monotonic() + SECONDS
    # On a slow machine, too, there are several.
    while looks < 8 or time.monotonic() < end:
        again.goes()
        name_it(again)
        again.stays()
        look()
        cgroup.remove(AGAIN)
        AGAIN.mkdir()
        look()
        forget_it()
        looks += 2
    note(f"{again.early} writes too early, {looks} looks")


@allow(SECONDS + 200)
def test_group_remade_rule():
    remade_begin("group_by=list")
    write("group_rules", "add keep cgroup /schedhist/keep")

    def name_it(again):
        for number in range(50):
            if number:
                write("group_rules", "remove remade")
            again.take(write, "group_rules", f"add remade cgroup {NAME}")

    remake(name_it, lambda: write("group_rules", "remove remade"))


@allow(SECONDS + 200)
def test_group_remade_under():
    remade_begin()

    def name_it(again):
        # That is faster while measuring is off.
        measure(0)
        again.take(write, "group_by", f"cgroup under {NAME}")
        measure(1)

    remake(name_it, lambda: None)


def test_group_remade_parameters():
    """The same for the parameters."""
    cgroup.on()
    task, again = start("sleep", "1000").pid, Remade()
    for attempt in range(4):
        parameters = [f'group_by="cgroup under {NAME}"']
        if attempt % 2:
            parameters = ["group_by=list", f'group_rules="again cgroup {NAME}"']
        again.goes()
        again.take(load, *parameters)
        again.stays()
        cgroup.move(task, AGAIN)
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
