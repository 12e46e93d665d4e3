#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Checks that each task is in the group that its cgroup, process, or name asks for, or the list of
rules.

usage: group_audit.py RULE

RULE is what was written to group_by. Tasks that move, end or begin meanwhile do not count.
"""

from __future__ import annotations

import os
import sys

from group_files import groups, lines_of, read, tasks, unescape

# PF_KTHREAD
KTHREAD = 0x200000

rule = sys.argv[1].split()
# The rules of a list: name, kind and argument.
rules = []
if rule[0] == "list":
    # Takes long.
    from fnmatch import fnmatchcase

    rules = [line.split(" ", 3)[1:] for line in lines_of("group_rules") if line.startswith("rule ")]
options = dict(zip(rule[1::2], rule[2::2], strict=True))
under, depth = options.get("under", "/"), int(options.get("depth", 1 << 30))


def cgroup_group(text: str) -> str:
    """Returns the name of the group of a task with these cgroups."""
    [path] = [line[3:] for line in text.splitlines() if line.startswith("0::")]
    base = under.rstrip("/")
    if path != base and not path.startswith(f"{base}/"):
        return "other"
    parts = [part for part in path[len(base) :].split("/") if part]
    return "/".join([base, *parts[:depth]]) or "/"


def comm_group(folder: str) -> str:
    """Returns the name of the group of a task. That of a kernel thread may be longer here."""
    name = read(f"{folder}/comm").removesuffix("\n")
    return f"{name}*" if int(read(f"{folder}/stat").rpartition(")")[2].split()[6]) & KTHREAD else name


def matches(kind: str, argument: str, process: str, folder: str, name: str) -> bool:
    """Returns whether a rule of a list matches a task."""
    if kind == "cgroup":
        [path] = [line[3:] for line in read(f"{folder}/cgroup").splitlines() if line.startswith("0::")]
        return path == argument or path.startswith(f"{argument}/")
    if kind == "pid":
        return process in argument.replace(",", " ").split()
    if kind == "comm":
        return fnmatchcase(read(f"{folder}/comm").removesuffix("\n"), argument)
    # What a process has in its environment, those that it forks have, too.
    return f"SCHEDHIST_RULE={name}" in read(f"/proc/{process}/environ").split("\0")


def list_group(process: str, folder: str) -> str:
    """Returns the name of the first rule that matches a task."""
    for name, kind, argument in rules:
        if matches(kind, argument, process, folder, unescape(name)):
            return unescape(name)
    return "other"


def wanted() -> dict[int, str]:
    """Returns the name of the group of each task, by PID. Leaves zombies out."""
    found = {}
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            for task in os.listdir(f"/proc/{process}/task"):
                folder = f"/proc/{process}/task/{task}"
                if read(f"{folder}/stat").rpartition(")")[2].split()[0] in "ZX":
                    continue
                if rules:
                    found[int(task)] = list_group(process, folder)
                elif rule[0] == "comm":
                    found[int(task)] = comm_group(folder)
                elif rule[0] == "process":
                    found[int(task)] = f"{process}:{comm_group(f'/proc/{process}')}"
                elif rule[0] == "thread":
                    found[int(task)] = f"{task}:{comm_group(folder)}"
                else:
                    found[int(task)] = cgroup_group(read(f"{folder}/cgroup"))
        except (FileNotFoundError, ProcessLookupError):
            pass
    return found


before = wanted()
grouped = tasks()
names = {number: group.name for number, group in groups().items()}
after = wanted()
steady = {pid: name for pid, name in before.items() if after.get(pid) == name}
wrong = []
for pid, name in steady.items():
    if pid not in grouped:
        wrong.append(f"{pid}: not in group_tasks")
    elif name.endswith("*") and names[grouped[pid]] and name.startswith(names[grouped[pid]]):
        pass
    elif names[grouped[pid]] != name:
        wrong.append(f"{pid}: in {names[grouped[pid]]}, wanted {name}")
used = len(set(steady.values()))
print(f"# {len(steady)} tasks in {used} groups, {len(wrong)} in a wrong one")
for line in wrong[:20]:
    print(line)
# With few tasks this would prove nothing.
sys.exit(bool(wrong) or len(steady) < 20 or used < 2)
