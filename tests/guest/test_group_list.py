# SPDX-License-Identifier: GPL-2.0
"""Groups by a list of named rules."""

import contextlib
import errno
import functools
import os
import signal
import threading
import time
from pathlib import Path
from typing import Callable

from harness import cgroup
from harness.cgroup import BASE
from harness.groups import (begin, check_group_laws, check_members, group_of, groups, head_of, names, of_group, refuses,
                            rules, tasks)
from harness.parts import Parts, reap
from harness.test import (THOROUGH, WORK, allow, amount, call, check_laws, eq, load, measure, note, read, spawn, start,
                          value, wait_until, within, write)
from storm import storm


def rule(command):
    write("group_rules", command)


# Bad commands.
refused = functools.partial(refuses, "group_rules")


def test_group_list_rules():
    cgroup.on()
    load()
    refused(errno.EINVAL, "group_by is not list", "add a comm x", "remove a")
    one, two, three = (start("sleep", "1000").pid for _ in range(3))
    _, part = cgroup.make("service", "service/part")
    # To the file of the cgroup, which has no name of a process in it.
    cgroup.move(three, part)
    begin("list")
    eq("group_by", value("group_by"), "list")
    eq("groups", names(), ["other"])
    listed = ["service cgroup /schedhist/service", f"one pid {one}", "sleepers comm sl[a-e]?p*"]
    for text in listed:
        rule(f"add {text}")
    eq("rules", rules(), listed)
    found = [group_of(pid) for pid in (one, two, three, os.getpid())]
    eq("groups of the tasks", found, ["one", "sleepers", "service", "other"])
    eq("tasks of one", (of_group("one", "tasks"), of_group("one", "live")), (1, 1))
    # Another user of the list begins the same way, and disturbs nobody.
    write("group_by", "list")
    eq("rules", len(rules()), 3)
    refused(errno.EEXIST, "there is a rule of this name", "add one comm x")
    refused(errno.ENOENT, "no such rule", "remove two")
    refused(errno.ENOENT, "no such cgroup in the default hierarchy (v2)", "add x cgroup /nothing")
    refused(errno.ESRCH, "no such process", f"add x pid {one} 4194303", "add x children 4194303")
    refused(errno.EINVAL, "expected add NAME cgroup PATH", "", "add", "add x", "add x comm", "add x cgroup a",
            "add x cgroup / /", "add x pid", "add x pid 0", "add x pid 1 x", "add x children", "add x children 1 2",
            "add x children -1", "add x process 1", "add other comm x", "add gone comm x", "remove", "remove x y",
            "remove other", f"add {'x' * 65} comm x", "delete one")
    # The first match wins, and the next one takes over.
    rule("remove one")
    eq("group of one", group_of(one), "sleepers")
    eq("tasks of one", (of_group("one", "tasks"), of_group("one", "live")), (0, 0))
    number = of_group("sleepers", "id")
    rule("remove sleepers")
    eq("group of one", group_of(one), "other")
    # A rule that comes back goes on in its group.
    rule("add sleepers comm sleep")
    eq("group of sleepers", of_group("sleepers", "id"), number)
    # A service that restarts is still what its rule names.
    restart(three, "service/part", "other", "service/part")
    # So it is while measuring is off.
    measure(0)
    restart(three, "service", meanwhile=lambda: measure(1))
    for i in range(3, 65):
        rule(f"add rule{i} comm rule{i}")
    refused(errno.ENOSPC, "too many rules", "add x comm x")
    measure(0)
    check_group_laws()
    write("group_by", "none")
    write("group_by", "list")
    eq("rules and groups", (rules(), names()), ([], ["other"]))


def restart(pid, name, *others, meanwhile=None):
    """Removes the cgroup of a service, and makes it again, with the process in `name`."""
    off = meanwhile is not None
    cgroup.move(pid, cgroup.ROOT)
    cgroup.remove(BASE / "service")
    if not off:
        eq("group of one outside", group_of(pid), "sleepers")
    cgroup.make("service", *others)
    cgroup.move(pid, BASE / name)
    if meanwhile:
        meanwhile()
    eq("group of one inside", group_of(pid), "service")


# --- what a process forks ---

GUEST = str(Path(__file__).parent)
CLONE_PARENT = 0x8000


def wait_here() -> None:
    while True:
        time.sleep(0.01)


def leaf(report: int) -> None:
    """Reports the IDs of two threads, and waits."""
    thread = threading.Thread(target=wait_here, daemon=True)
    thread.start()
    os.write(report, f"{os.getpid()} {thread.native_id}\n".encode())
    wait_here()


def fork(report: int) -> None:
    if os.fork() == 0:
        leaf(report)


def double_fork(report: int) -> None:
    """As a daemon does: the process in the middle ends."""
    pid = os.fork()
    if pid == 0:
        os.setsid()
        fork(report)
        os._exit(0)
    os.waitpid(pid, 0)


def sibling(report: int) -> None:
    """A child whose parent is the parent of this process."""
    if call("clone", CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0) == 0:
        leaf(report)


def from_thread(report: int) -> None:
    thread = threading.Thread(target=fork, args=(report,))
    thread.start()
    thread.join()


def execute(report: int) -> None:
    """A program that another thread than the leader executes, and what that forks."""
    if os.fork() == 0:
        os.set_inheritable(report, True)
        program = f"echo $$ $$ >&{report}; sleep 1000 & echo $! $! >&{report}; wait"
        threading.Thread(target=os.execv, args=("/bin/sh", ["sh", "-c", program])).start()
        wait_here()


# Each way of forking, and how many processes it reports.
WAYS: list[tuple[Callable[[int], None], int]] = [
    (fork, 1), (double_fork, 1), (sibling, 1), (from_thread, 1), (execute, 2),
]
EACH = sum(number for _, number in WAYS)


def lines_from(fd: int, number: int) -> list[str]:
    text = ""
    while text.count("\n") < number:
        text += os.read(fd, 4096).decode()
    return text.splitlines()


class Tree:
    """A process that forks in all ways, when it is told to."""

    def __init__(self) -> None:
        self.orders, self.report = os.pipe(), os.pipe()
        # The group that each task must be in.
        self.wanted = {os.getpid(): "other"}
        self.pid = spawn(self._parent)

    def _parent(self) -> None:
        signal.alarm(200)
        for _ in range(2):
            os.read(self.orders[0], 1)
            for way, _ in WAYS:
                way(self.report[1])
        wait_here()

    def forks(self, name: str) -> None:
        os.write(self.orders[1], b"x")
        for line in lines_from(self.report[0], EACH):
            self.wanted.update({int(task): name for task in line.split()})

    def compare(self, when: str) -> None:
        shown, found = {number: group.name for number, group in groups().items()}, tasks()
        wrong = [(task, shown.get(found.get(task, -1)), name) for task, name in self.wanted.items()
                 if shown.get(found.get(task, -1)) != name]
        eq(f"{when}, tasks in a wrong group", wrong, [])

    def end(self) -> None:
        for task in self.wanted:
            # The thread of a process that has just been killed may be gone.
            if task != os.getpid():
                try:
                    os.kill(task, signal.SIGKILL)
                except ProcessLookupError:
                    pass


def test_group_list_children():
    """All that a process forks belongs to it, however it is done, and nothing else."""
    cgroup.on()
    load()
    begin("list")
    tree = Tree()
    # What it has forked before does not belong to it.
    tree.forks("other")
    tree.compare("without a rule")
    rule(f"add tree children {tree.pid}")
    # Nor what it forks while schedhist does not measure is missed.
    measure(0)
    tree.wanted[tree.pid] = "tree"
    tree.forks("tree")
    measure(1)
    tree.compare("with a rule")
    # The first rule that matches has a task; when that is removed, the next has.
    branch = next(task for task, name in tree.wanted.items() if name == "tree" and task != tree.pid)
    rule(f"add branch children {branch}")
    tree.compare("with a branch")
    rule("remove tree")
    tree.wanted = {task: "other" for task in tree.wanted} | {branch: "branch"}
    os.kill(tree.pid, signal.SIGKILL)
    os.waitpid(tree.pid, 0)
    gone = {tree.pid, *(int(task) for task in os.listdir(f"/proc/{branch}/task"))} - {branch}
    found = tasks()
    tree.wanted = {task: name for task, name in tree.wanted.items() if task in found and task not in gone}
    tree.compare("with a branch alone")
    note(f"{len(tree.wanted)} tasks compared")
    within("tasks compared", 10, len(tree.wanted))
    tree.end()
    measure(0)
    check_group_laws()


GROWS = WORK / "grows"


def grow():
    """Forks until it is killed, in all ways, and ends what it has forked. Says so after each round."""
    reading, writing = os.pipe()
    while True:
        for way, number in WAYS:
            way(writing)
            for line in lines_from(reading, number):
                os.kill(int(line.split()[0]), signal.SIGKILL)
            time.sleep(0.01)
            reap()
        GROWS.touch()


def grown():
    """Returns the PIDs of all that `grow` has forked, whatever they execute."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if b"SCHEDHIST_RULE=tree" in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                found.append(int(pid))
        except OSError:
            pass
    return found


def use_list(user):
    """Changes the list, as one of several users."""
    me = os.getpid()
    while True:
        rule(f"add {user}-fork cgroup /schedhist/fork")
        rule(f"add {user}-name comm [{user}-y]*")
        rule(f"add {user}-pid pid {me}")
        rule(f"remove {user}-fork")
        rule(f"add {user}-child children {me}")
        for file in "groups", "group_rules", "group_tasks":
            read(file)
        rule(f"remove {user}-name")
        rule(f"remove {user}-pid")
        # The test removes it, too, wherever this is stopped.
        with contextlib.suppress(FileNotFoundError):
            rule(f"remove {user}-child")
        yield
        # The storm needs time, too.
        time.sleep(0.2)


@allow(1200 if THOROUGH else 200)
def test_group_list_storm():
    """Two users change the list at once, amid a storm: each task is in the group of the first rule that matches
    it, and the groups add up to the machine."""
    cgroup.on()
    load()
    all_at_once = storm("fork", "into", "move", "exec", "rename", "mkdir")
    begin("list")
    rule("add first cgroup /schedhist/move/a")
    GROWS.unlink(missing_ok=True)
    # What is in its environment names what it forks.
    code = f"import sys; sys.path[:0] = {GUEST!r}, {GUEST + '/..'!r}; import test_group_list; test_group_list.grow()"
    said = 'echo "add tree children $$" > /sys/kernel/debug/schedhist/group_rules; exec python3 -W ignore -c "$0"'
    tree = start("sh", "-c", said, code, env=os.environ | {"SCHEDHIST_RULE": "tree"})
    wait_until("the tree's rule", lambda: any(text.startswith("tree ") for text in rules()))
    users = Parts("users", {user: functools.partial(use_list, user) for user in "ab"})
    for _ in range(20 if THOROUGH else 1):
        before = list(users.done)
        time.sleep(amount(2, 6, 16))
        wait_until("rounds of the users", lambda: all(now > then for now, then in zip(users.done, before)))
        users.pause()
        all_at_once.pause()
        # What the two users have followed so far is not known.
        for name in [text.split()[0] for text in rules()]:
            if name in ("a-child", "b-child"):
                rule(f"remove {name}")
        rule("add names comm [a-y]*")
        check_members("list")
        rule("remove names")
        all_at_once.resume()
        users.resume()
    users.stop()
    wait_until("the tree to fork", GROWS.exists)
    time.sleep(1)
    measure(0)
    all_at_once.pause()
    eq("unfollowed", head_of("unfollowed"), 0)
    check_group_laws()
    check_laws()
    within("slices of the tree", 10, of_group("tree", "oncpu_count"))
    eq("status of the tree", tree.poll(), None)
    tree.kill()
    while pids := grown():
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
    all_at_once.stop()
