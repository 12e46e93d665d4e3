# SPDX-License-Identifier: GPL-2.0
"""Reads the files of groups. Imported by the tests."""

from __future__ import annotations

# Imports only these: each import takes long on an emulated machine.
import os
import re

DEBUGFS = "/sys/kernel/debug/schedhist"
METRICS = "oncpu", "runq", "offcpu"


def read(path: str) -> str:
    """Returns the text of a file. Bytes that are not text are as in the names of files."""
    with open(path, encoding="utf-8", errors="surrogateescape") as opened:
        return opened.read()


def lines_of(file: str) -> list[str]:
    with open(f"{DEBUGFS}/{file}", encoding="ascii") as opened:
        return opened.read().splitlines()


def unescape(name: str) -> str:
    """Returns the name of which `name` is the text in a file."""
    raw = re.sub(rb"\\x([0-9a-f]{2})", lambda m: bytes([int(m[1], 16)]), name.encode())
    return os.fsdecode(raw)


class Group:
    """A group: its values, and for each other group that kept it waiting a number and a time."""

    def __init__(self, name: str, values: dict[str, int]) -> None:
        self.name = name
        self.values = values
        self.neighbours: dict[int, tuple[int, int]] = {}


def groups() -> dict[int, Group]:
    """Returns the groups, by number."""
    found: dict[int, Group] = {}
    for line in lines_of("groups"):
        kind, _, rest = line.lstrip().partition(" ")
        pairs, _, name = rest.partition(" name ")
        words = pairs.split(" ")
        if kind == "group":
            values = {
                key: 0 if value == "-" else int(value)
                for key, value in zip(words[::2], words[1::2], strict=True)
            }
            found[values["id"]] = Group(unescape(name), values)
        elif kind == "neighbour":
            values = dict(zip(words[::2], map(int, words[1::2]), strict=True))
            counts = values["ended"], values["ended_ns"]
            found[values["of"]].neighbours[values["id"]] = counts
    return found


def tasks() -> dict[int, int]:
    """Returns the number of the group of each task, by PID."""
    words = [line.split() for line in lines_of("group_tasks")[1:]]
    return {int(word[2]): int(word[4]) for word in words}
