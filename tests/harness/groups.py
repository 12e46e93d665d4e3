# SPDX-License-Identifier: GPL-2.0
"""The groups of tasks: what the files say of them, and that they add up to the machine."""

import os
import re
from fnmatch import fnmatchcase

from . import log
from .ktap import Wrong, eq, fails, note, within
from .laws import Sums
from .module import histogram, lines_of, measure, read, reset, status, value, write
from .names import CULPRITS, GROUP_COUNTERS, GROUP_METRICS, MIGRATIONS

KTHREAD = 0x200000  # PF_KTHREAD


class Group:
    """A group: its values, and for each other group that kept it waiting a number and a time."""

    def __init__(self, name: str, values: dict[str, int]) -> None:
        self.name = name
        self.values = values
        self.neighbours: dict[int, tuple[int, int]] = {}


def unescape(name: str) -> str:
    """Returns the name of which `name` is the text in a file."""
    raw = re.sub(rb"\\x([0-9a-f]{2})", lambda m: bytes([int(m[1], 16)]), name.encode())
    return os.fsdecode(raw)


def groups() -> dict[int, Group]:
    """Returns the groups, by number."""
    found: dict[int, Group] = {}
    for line in lines_of("groups"):
        kind, _, rest = line.lstrip().partition(" ")
        pairs, _, name = rest.partition(" name ")
        words = pairs.split(" ")
        if kind == "group":
            values = {key: 0 if text == "-" else int(text) for key, text in zip(words[::2], words[1::2], strict=True)}
            found[values["id"]] = Group(unescape(name), values)
        elif kind == "neighbour":
            values = dict(zip(words[::2], map(int, words[1::2]), strict=True))
            found[values["of"]].neighbours[values["id"]] = values["ended"], values["ended_ns"]
    return found


def tasks() -> dict[int, int]:
    """Returns the number of the group of each task, by PID."""
    words = [line.split() for line in lines_of("group_tasks")[1:]]
    return {int(word[2]): int(word[4]) for word in words}


def names() -> list[str]:
    """Returns the names of all groups, as the file has them."""
    return re.findall(r"^group .* name (.*)$", read("groups"), re.MULTILINE)


def of_group(name: str, key: str) -> int:
    """Returns a value of a group, by its name as the file has it."""
    for group in groups().values():
        if group.name == unescape(name):
            return group.values[key]
    raise Wrong(f"there is no group {name}")


def group_of(pid: int) -> str | None:
    """Returns the name of the group of a task."""
    number = tasks().get(pid)
    return None if number is None else groups()[number].name


def head_of(key: str) -> int:
    """Returns a value of the head of `groups`."""
    for line in lines_of("groups"):
        words = line.split(" ")
        if words[0] == key:
            return int(words[1])
    raise Wrong(f"the head of groups has no {key}")


def rules() -> list[str]:
    return [line.removeprefix("rule ") for line in lines_of("group_rules")[1:]]


def begin(rule: str) -> None:
    """Begins to measure with new groups. Nothing is counted yet when both begin."""
    measure(0)
    reset()
    write("group_by", rule)
    measure(1)


def settings() -> tuple[object, ...]:
    """Returns what bad input must not change: the controls, the rules, and the groups."""
    text = re.sub(r"^time .*\n", "", read("groups").partition("\nlimit")[0] + "\n", flags=re.MULTILINE)
    controls = [value(name) for name in ("enable", "group_by", "group_limit", "group_memory_limit")]
    return controls, text, head_of("limit"), rules() if controls[1] == "list" else [], names()


def refuses(file: str, error: int, why: str, *texts: str | int) -> None:
    """Asserts that each write is refused with one line in the log, and that all of them change nothing."""
    before, mark = settings(), log.Mark()
    for text in texts:
        fails(error, write, file, text)
    eq(f"after bad input to {file}", settings(), before)
    lines = mark.ours()
    eq(f"lines for bad input to {file}", len(lines), len(texts))
    for line in lines:
        if not (line.startswith(f'schedhist: {file}: "') and why in line):
            raise Wrong(f"not of {file}, or without '{why}': {line}")


# --- the laws ---


def check_group_laws() -> None:
    """Asserts that the groups add up to the machine. Only exact while measuring is off, if the groups and
    the machine's counts begin at the same time."""
    found, sums = groups(), Sums()
    machine = {metric: histogram(metric) for metric in (*GROUP_METRICS, "runq_preempt")}

    def total(key: str) -> int:
        return sum(group.values[key] for group in found.values())

    def of_culprits(what: str, unit: str) -> list[str]:
        return [f"{what}_{culprit}{unit}" for culprit in CULPRITS]

    for metric in GROUP_METRICS:
        sums.same(metric, total(f"{metric}_count"), machine[metric].count)
        sums.same(f"{metric}, sum", total(f"{metric}_sum_ns"), machine[metric].sum)
        longest = max(group.values[f"{metric}_max_ns"] for group in found.values())
        sums.same(f"{metric}, max", [longest], machine[metric].max or [0])
    for counter in [*GROUP_COUNTERS, *MIGRATIONS]:
        sums.same(counter, total(counter), status(counter))
    for unit, wanted in ("", machine["runq_preempt"].count), ("_ns", machine["runq_preempt"].sum):
        sums.same(f"preempted_by{unit}", sum(map(total, of_culprits("preempted_by", unit))), wanted)
    for group in found.values():
        values = group.values
        for unit, whole in ("", "runq_count"), ("_ns", "runq_sum_ns"):
            ended = sum(values[key] for key in of_culprits("ended_by", unit))
            sums.same(f"{group.name}: ended_by{unit}", ended, values[whole])
        count = sum(count for count, _ in group.neighbours.values())
        time = sum(time for _, time in group.neighbours.values())
        if count > values["ended_by_other"] or time > values["ended_by_other_ns"]:
            sums.problems.append(f"{group.name}: neighbours ended {count} waits, {time} ns")
    _check_histograms(found, sums)
    if not machine["oncpu"].count:
        sums.problems.append("nothing was measured")
    busy = sum(group.values["oncpu_count"] > 0 for group in found.values())
    note(f"{len(found)} groups, {busy} of them with samples, {machine['oncpu'].count} slices,"
         f" {total('not_in_histogram')} samples in no histogram")
    sums.end()


def _check_histograms(found: dict[int, Group], sums: Sums) -> None:
    """Checks that each sample is in a histogram, or is counted as being in none."""
    missing = {number: group.values["not_in_histogram"] for number, group in found.items()}
    for metric in GROUP_METRICS:
        seen: set[int] = set()
        number = count = 0
        for line in lines_of(f"group_hist/{metric}"):
            key, _, rest = line.partition(" ")
            if key == "group":
                sums.same(f"{metric}: buckets of {number}", count, 0)
                number = int(rest)
                seen.add(number)
            elif key == "count":
                count = int(rest)
                missing[number] -= found[number].values[f"{metric}_count"] - count
            elif key == "sum":
                sums.same(f"{metric}: sum of {number}", int(rest), found[number].values[f"{metric}_sum_ns"])
            elif key == "bucket":
                count -= int(rest.split()[2])
        sums.same(f"{metric}: buckets of {number}", count, 0)
        sums.same(f"{metric}: groups", seen, set(found))
    for number, group in found.items():
        sums.same(f"{group.name}: not_in_histogram", missing[number], 0)


# --- who is in which group ---


class Members:
    """What the groups of tasks must be by a rule."""

    def __init__(self, rule: str) -> None:
        self.kind, *words = rule.split()
        # The rules of a list: name, kind and argument.
        self.rules = [line.split(" ", 2) for line in rules()] if self.kind == "list" else []
        options = dict(zip(words[::2], words[1::2], strict=True)) if self.kind == "cgroup" else {}
        self.under, self.depth = options.get("under", "/").rstrip("/"), int(options.get("depth", 1 << 30))

    def of(self, process: str, folder: str) -> str:
        """Returns the name of the group of a task."""
        if self.kind == "list":
            matching = (name for name, kind, argument in self.rules
                        if self._matches(kind, argument, process, folder, unescape(name)))
            return unescape(next(matching, "other"))
        if self.kind == "comm":
            return _comm(folder)
        if self.kind == "process":
            return f"{process}:{_comm(f'/proc/{process}')}"
        if self.kind == "thread":
            return f"{os.path.basename(folder)}:{_comm(folder)}"
        path = _cgroup(folder)
        if path != self.under and not path.startswith(f"{self.under}/"):
            return "other"
        parts = [part for part in path[len(self.under):].split("/") if part]
        return "/".join([self.under, *parts[:self.depth]]) or "/"

    @staticmethod
    def _matches(kind: str, argument: str, process: str, folder: str, name: str) -> bool:
        if kind == "cgroup":
            path = _cgroup(folder)
            return path == argument or path.startswith(f"{argument}/")
        if kind == "pid":
            return process in argument.replace(",", " ").split()
        if kind == "comm":
            return fnmatchcase(_text(f"{folder}/comm").removesuffix("\n"), argument)
        # What a process has in its environment, those that it forks have, too.
        return f"SCHEDHIST_RULE={name}" in _text(f"/proc/{process}/environ").split("\0")

    def all(self) -> dict[int, str]:
        """Returns the name of the group of each task, by PID. Leaves zombies out."""
        found = {}
        for process in filter(str.isdigit, os.listdir("/proc")):
            try:
                for task in os.listdir(f"/proc/{process}/task"):
                    folder = f"/proc/{process}/task/{task}"
                    if _text(f"{folder}/stat").rpartition(")")[2].split()[0] not in "ZX":
                        found[int(task)] = self.of(process, folder)
            except (FileNotFoundError, ProcessLookupError):
                pass
        return found


def _text(path: str) -> str:
    with open(path, encoding="utf-8", errors="surrogateescape") as opened:
        return opened.read()


def _comm(folder: str) -> str:
    """Returns the name of a task. That of a kernel thread may be longer here."""
    name = _text(f"{folder}/comm").removesuffix("\n")
    return f"{name}*" if int(_text(f"{folder}/stat").rpartition(")")[2].split()[6]) & KTHREAD else name


def _cgroup(folder: str) -> str:
    [path] = [line[3:] for line in _text(f"{folder}/cgroup").splitlines() if line.startswith("0::")]
    return path


def check_members(rule: str) -> None:
    """Asserts that each task is in the group that its cgroup, process, or name asks for, or the list of rules.
    Tasks that move, end or begin meanwhile do not count."""
    members = Members(rule)
    before, grouped = members.all(), tasks()
    shown = {number: group.name for number, group in groups().items()}
    after = members.all()
    steady = {pid: name for pid, name in before.items() if after.get(pid) == name}
    wrong = []
    for pid, name in steady.items():
        found = shown[grouped[pid]] if pid in grouped else None
        if found != name and not (name.endswith("*") and found and name.startswith(found)):
            wrong.append(f"{pid}: in {found}, wanted {name}")
    used = len(set(steady.values()))
    note(f"{len(steady)} tasks in {used} groups, {len(wrong)} in a wrong one")
    eq("tasks in a wrong group", wrong[:20], [])
    # With few tasks this would prove nothing.
    within("tasks", 20, len(steady))
    within("groups", 2, used)
