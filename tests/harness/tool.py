# SPDX-License-Identifier: GPL-2.0
"""The command `schedhist`, which scripts/bed/vm --tool builds: run, and what it prints."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple

from . import schema
from .kernel import TRACEFS
from .ktap import Wrong, eq, skip, wait_until
from .listeners import scratch
from .module import load, unload, value
from .needs import not_on_debug
from .process import WORK
from .workload import start

TOOL = WORK / "tool"
CGROUPS = Path("/sys/fs/cgroup")


def need() -> None:
    """Skips the test if there is no command. Goes to a folder of the test's own."""
    not_on_debug("what the command prints does not depend on what the kernel checks")
    source = os.environ.get("SCHEDHIST_TOOL")
    if not source:
        skip("it needs scripts/bed/vm --tool")
    # It starts faster from memory than from the host.
    if not TOOL.exists():
        shutil.copy(str(source), TOOL)
    os.chdir(scratch())


def begin(*parameters: str) -> None:
    need()
    load(*parameters)


class Said(NamedTuple):
    out: str
    err: str


def status_of(returncode: int) -> int:
    """Returns a status as a shell has it."""
    return returncode if returncode >= 0 else 128 - returncode


def ends(status: int, *command: str | Path, **options: Any) -> Said:
    """Runs a program, and asserts its status."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
                          errors="surrogateescape", check=False, **options)
    if status_of(done.returncode) != status:
        raise Wrong(f"{command} ended with {status_of(done.returncode)}, not {status}: {done.stdout}{done.stderr}")
    return Said(done.stdout, done.stderr)


def tool(*words: str | Path, status: int = 0, **options: Any) -> Said:
    return ends(status, TOOL, *words, **options)


class Job:
    """The command in the background; it ends with the test."""

    def __init__(self, *words: str | Path, prefix: tuple[str | Path, ...] = ()) -> None:
        folder = scratch()
        self.paths = folder / "out", folder / "err"
        with open(self.paths[0], "w", encoding="utf-8") as out, open(self.paths[1], "w", encoding="utf-8") as err:
            self.process = start(*prefix, TOOL, *words, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        self.pid = self.process.pid

    def said(self) -> Said:
        return Said(*(path.read_text(errors="surrogateescape") for path in self.paths))

    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def ends(self, status: int, by: int = 0) -> Said:
        """Waits for its end, sends it this signal before if there is one, and asserts the status."""
        if by:
            self.process.send_signal(by)
        eq(f"status of {self.process.args}, {self.said()}", status_of(self.process.wait()), status)
        return self.said()

    def interrupt(self, status: int = 0) -> Said:
        return self.ends(status, signal.SIGINT)

    def kill(self) -> None:
        self.ends(137, signal.SIGKILL)

    def wait(self) -> None:
        """Waits until it handles signals as the command does while it waits."""

        def catches() -> bool:
            folder = f"/proc/{self.pid}/fd"
            try:
                return any("signalfd" in os.readlink(f"{folder}/{fd}") for fd in os.listdir(folder))
            except FileNotFoundError:  # It has just closed one.
                return False

        wait_until(f"{self.process.args} to wait", catches)


# --- what it prints ---


def scrape() -> str:
    """Returns what `schedhist export` serves at its own port; nothing if it does not."""
    try:
        with urllib.request.urlopen("http://127.0.0.1:9763/metrics", timeout=120) as answer:
            return answer.read().decode()
    except OSError:
        return ""


def says(text: str, *parts: str) -> None:
    """Asserts that an output has these parts; its line breaks count as spaces."""
    plain = re.sub(r"[ \n]+", " ", text)
    for part in parts:
        if part not in plain:
            raise Wrong(f"no {part!r} in: {text}")


def narrow(*texts: str) -> None:
    """Asserts that no line is wider than 80 columns."""
    eq("lines wider than 80 columns", [line for text in texts for line in text.splitlines() if len(line) > 80], [])


def objects(text: str) -> list[dict[str, Any]]:
    """Parses lines of JSON, of which each must match its schema."""
    found = [json.loads(line) for line in text.splitlines()]
    if not found:
        raise Wrong(f"no objects: {text}")
    for one in found:
        schema.check(one)
    return found


def lines_of_json(text: str) -> str:
    """Leaves out notes."""
    return "\n".join(line for line in text.splitlines() if line.startswith("{"))


Table = dict[int, int]


def tables(text: str) -> dict[str, Table]:
    """Parses the tables that BCC's tools print, as a program that knows only these would. Returns them by the
    lines above them, and their counts by their lower bounds in microseconds."""
    found: dict[str, Table] = {}
    section = ""
    for line in text.splitlines():
        if re.fullmatch(r"(pid|tid|pidns) = .*", line):
            section = line
        elif re.fullmatch(r" +(usecs|msecs) +: count +distribution", line):
            found.setdefault(section, {})
        elif row := re.fullmatch(r" *(\d+) -> (\d+) +: (\d+) +\|\**[ +*]*\|", line):
            low, high, count = map(int, row.groups())
            eq("bounds", high, max(2 * low - 1, 1))
            found[section][low] = found[section].get(low, 0) + count
    return found


def one_table(text: str) -> Table:
    found = tables(text)
    eq("tables", list(found), [""])
    return found[""]


def samples(text: str) -> int:
    """Returns how many samples the tables have."""
    return sum(sum(table.values()) for table in tables(text).values())


# --- what it leaves ---


def grouped_by(rule: str) -> None:
    eq("group_by", value("group_by"), rule)


def soon_grouped_by(rule: str) -> None:
    """Waits until a command in the background has set this rule."""
    wait_until(f"group_by of {rule}", lambda: value("group_by") == rule)


def unload_under_readers() -> None:
    """As `unload`, but the command may be reading a file at this moment."""
    for last in [False] * 50 + [True]:
        try:
            return unload()
        except OSError:
            if last:
                raise
            time.sleep(0.1)


def no_cgroup_is_left() -> None:
    eq("cgroups that are left", list(CGROUPS.rglob("schedhist-run-*")), [])


def instances() -> list[str]:
    return sorted(path.name for path in (TRACEFS / "instances").iterdir())
