# SPDX-License-Identifier: GPL-2.0
"""Ten tasks of a user, each with at most two commands: those of docs/tasks.md, as they are written there, but for
how long they measure, unless with --thorough. tests/tools/captures draws what `top` shows of them."""

import base64
import os
import re
import subprocess
import time
from pathlib import Path

from harness import cgroup
from harness.test import (THOROUGH, TREE, allow, cpus, defer, eq, helper, matches, note, script, skip, start,
                          wait_until, write_file)
from harness.terminal import need_terminal, on_screen, open_terminal, terminal
from harness.tool import TOOL, Job, begin, scrape, tool

# What answers each task, and the status of its last command.
ANSWERS: dict[str, tuple[int, tuple[str, ...]]] = {
    "1": (0, (r"the longest ended at \S+:\n## CPU \d: runq_\w+ of [^%]*\d% +\S+  \S+:\d+ ",
              r"\nwho had the CPU meanwhile:\n +\d+\.\d% +\S+ in +\d+  backup\n")),
    "2": (0, (r" /system.slice/batch.service\n +\d+% of the waits of /system.slice/web.service\n",)),
    "3": (0, (r"\ncgroup +runq ", r"\ncgroup +offcpu ")),
    "4": (0, (r"/report.service\n +throttled [1-9]\d* times, \S+ in total\n",)),
    "5": (0, (r"/web.service\n +[1-9]\d* long waits, \S+: idle CPUs could have served \d+ % of it\n",)),
    "6": (3, (r"^## CPU \d: runq_\w+ of [^%]*\d% +\S+  \S+:\d+ ", "\n  backwards, who woke whom:\n")),
    "7": (0, (r"night.html: \d+ bytes",)),
    "8": (0, (r"\nrunq +p75 +\S+ +\S+ +\S+ +\S+  (different|cannot tell)\n",)),
    "9": (1, (r"^BROKEN +runq.p90 of web.service < 50us: \d",)),
    "10": (0, ("",)),
}
# How long commands measure.
SECONDS = re.compile(r"(?<=^schedhist groups )10(?= 1 )|(?<= -d )10(?=s$)")


def tasks() -> dict[str, list[str]]:
    """Returns the commands of each chapter of the page, by its number."""
    page = (TREE / "docs/tasks.md").read_text(encoding="utf-8")
    found = {}
    # What they print has headings of its own.
    page = re.sub(r"^```.*?^```", "", page, flags=re.DOTALL | re.MULTILINE)
    for chapter in page.split("\n## ")[1:]:
        commands = re.findall(r"^    (\S.*)", chapter, re.MULTILINE)
        found[chapter.split("\n")[0].split(".")[0]] = [THOROUGH and it or SECONDS.sub("3", it) for it in commands]
    return found


def service(name: str, *command: str | Path, quota: str = "") -> None:
    """Starts a program in the cgroup of a service."""
    folder = cgroup.ROOT / "system.slice" / f"{name}.service"
    folder.mkdir(parents=True)
    if quota:
        write_file(cgroup.ROOT / "cgroup.subtree_control", "+cpu")
        write_file(folder.parent / "cgroup.subtree_control", "+cpu")
        write_file(folder / "cpu.max", quota)
    process = start(*command)
    cgroup.move(process.pid, folder)
    # Who starts up has another name: on a slow machine for as long as the longest wait.
    comm = Path(f"/proc/{process.pid}/comm")
    wait_until(f"{name} to run", lambda: comm.read_text(encoding="utf-8") == f"{name}\n")


# Bash's `read -t` may sleep for ever if the shell waits for its CPU as long as that.
PROGRAM = """
import time
open("/proc/self/comm", "w").write("{name}")
while True:
    end = time.thread_time() + {runs}
    while time.thread_time() < end:
        pass
    time.sleep({sleeps})
"""


def program(name: str, runs: float, sleeps: float) -> tuple[str, str, str]:
    """Returns a program that runs and sleeps in turns, for so many seconds each."""
    return "python3", "-c", PROGRAM.format(name=name, runs=runs, sleeps=sleeps)


def make_scene() -> None:
    """Starts the services that the page speaks of."""
    defer(cgroup.remove, cgroup.ROOT / "system.slice")
    service("web", "taskset", "-c", "1", *program("web", 0.001, 0.01))
    service("batch", "taskset", "-c", "1", *program("batch", 1000, 0))
    service("backup", "taskset", "-c", "1", "chrt", "-f", "1", *program("backup", 0.5, 2))
    service("report", "taskset", "-c", "0", *program("report", 1000, 0), quota="20000 100000")
    delay = helper("delay")
    script("before", f"exec {delay} 200 2000")
    script("after", f"exec {delay} 200 4000")


def set_clock(seconds: float) -> None:
    time.clock_settime(time.CLOCK_REALTIME, seconds)


def in_the_night() -> None:
    """Sets the clock to two at night."""
    defer(lambda now, at: set_clock(now + time.monotonic() - at), time.time(), time.monotonic())
    set_clock(time.time() // 86400 * 86400 + 7200 - time.localtime().tm_gmtoff)


def answer(number: str, commands: list[str]) -> None:
    status, wanted = ANSWERS[number]
    done = subprocess.run(["bash", "-c", "\n".join(commands)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    note(f"--- {number}: {commands}")
    for line in done.stdout.splitlines():
        note(line)
    eq(f"status of {commands}: {done.stdout}", done.returncode, status)
    for pattern in wanted:
        matches(f"answer to task {number}", pattern, done.stdout)


def scraped(commands: list[str]) -> None:
    """Runs the task whose last command goes on: Prometheus gets its figures."""
    start("bash", "-c", "\n".join(commands))
    wait_until("the exporter to serve", scrape)
    [series] = re.findall(r"schedhist\w+_bucket", Path("rules.yml").read_text())
    matches("the series of the rule", rf'{series}{{group="/system.slice/web.service",service="web",le="', scrape())


def live_view() -> None:
    """`top` shows the limit that is broken, and who is in the way."""
    open_terminal("100x30", "schedhist top --limits limits.txt")
    on_screen(r"^Limits  BROKEN runq.p90 of web.service < 50us: [\s\S]*batch.service +\d+%")
    if os.environ.get("SCHEDHIST_CAPTURES"):
        for size in "100x30", "80x24":
            columns, lines = size.split("x")
            terminal("resize-window", "-x", columns, "-y", lines)
            time.sleep(100)
            drawn = base64.b64encode(terminal("capture-pane", "-peN").encode()).decode()
            note(f"capture top-{size} {drawn}")
    terminal("send-keys", "q")


@allow(900)
def test_tool_tasks():
    if cpus() < 2:
        skip("it needs two CPUs")
    need_terminal()
    begin()
    cgroup.on()
    make_scene()
    in_the_night()
    os.mkdir("bin")
    os.symlink(TOOL, "bin/schedhist")
    os.environ["PATH"] = f"{Path.cwd()}/bin:{os.environ['PATH']}"
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    all_tasks = tasks()
    *settings, recorder = all_tasks.pop("Before")
    subprocess.run(["bash", "-c", "\n".join(settings)], check=True)
    recorder = Job(*recorder.split()[1:])
    eq("tasks", list(all_tasks), list(ANSWERS))
    eq("tasks of more than two commands", [name for name, commands in all_tasks.items() if len(commands) > 2], [])
    wait_until("a recording", Path("schedhist.data").exists)
    time.sleep(5)
    for number, commands in all_tasks.items():
        if number == "10":
            scraped(commands)
        else:
            answer(number, commands)
    live_view()
    page = Path("night.html").read_text(encoding="utf-8")
    matches("the headline", r"the longest [^.]+ 02:0\d:\d\d [^<]*on CPU 1", page)
    matches("a culprit", r"backup:\d+", page)
    # Then all names of groups are sure.
    recorder.interrupt()
    matches("the culprit", r"in +\d+  /system.slice/backup.service\n", tool("report").out)
    tool("ctl", "long_wait_ns", "none")
    tool("ctl", "group_by", "none")
