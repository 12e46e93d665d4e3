# SPDX-License-Identifier: GPL-2.0
"""The actions at an outlier, besides reporting it."""

import re

from harness.test import TRACEFS, eq, helper, load, matches, read, run, status, value, within, write, write_file
from harness.trace import clear, enable

TRACED = "sched/sched_switch", "sched/sched_waking", "runq", "outlier", "culprit"


def outlier_at(actions: str) -> tuple[str, str]:
    """Traces the scheduler, and makes a task wait for 800 ms. Only the first outlier is reported. Returns
    its CPU and its PID."""
    hog = helper("hog")
    load()
    write("on_outlier", actions)
    eq("on_outlier", value("on_outlier"), actions)
    for event in TRACED:
        enable(event)
    clear()
    # Not before everything is traced: on a busy machine other tasks may wait for long while code is patched.
    write("outlier_limit", 1)
    write("threshold_ns/runq", 600_000_000)
    run("taskset", "--cpu-list", "0", hog, "wakeup", "1", "800")
    eq("outliers", status("outliers"), 1)
    found = re.search(r"^outlier .* cpu (\d+) .* pid (\d+) ", read("outliers"), re.MULTILINE)
    assert found
    return found[1], found[2]


def lines_of(file: str, cpu: str = "") -> list[str]:
    path = TRACEFS / "per_cpu" / f"cpu{cpu}" / file if cpu else TRACEFS / file
    return [line for line in path.read_text(errors="replace").splitlines() if not line.startswith("#")]


def ends_with_outlier(outlier: tuple[str, str], file: str) -> None:
    """Asserts that the trace of the CPU ends with the outlier and all its culprits, and shows before them
    what led to it."""
    cpu, pid = outlier
    found = lines_of(file, cpu)
    text = "\n".join(found)
    matches("the outlier", " outlier: id=1 .* culprits=", text)
    number = int(re.findall(r" outlier: id=1 .* culprits=(\d+) ", text)[0])
    within("culprits", 1, number, 32)
    first, *culprits = found[-number - 1:]
    matches("where the end begins", " outlier: id=1 ", first)
    eq("culprits at the end", sum(" culprit: id=1 " in line for line in culprits), number)
    matches("culprits", r" comm=hog pid=\d* ", "\n".join([first, *culprits]))
    # That wait is a sample as well.
    eq("what it is an outlier of", sum(" runq: " in line for line in found[-number - 2:]), 1)
    matches("the trace", " sched_switch: .* ==> next_comm=hog ", text)
    # On any CPU.
    matches("the trace", f" sched_waking: .* pid={pid} ", "\n".join(lines_of(file)))


def goes_on(cpu: str) -> bool:
    """Returns whether new events still get into the trace."""
    clear()
    run("taskset", "--cpu-list", cpu, "sleep", "0.1")
    return any(" sched_switch: " in line for line in lines_of("trace"))


def tracing_on() -> str:
    return (TRACEFS / "tracing_on").read_text().strip()


def test_on_outlier_tracing_off():
    outlier = outlier_at("tracing_off")
    eq("tracing_on", tracing_on(), "0")
    ends_with_outlier(outlier, "trace")
    eq("tracing goes on", goes_on(outlier[0]), False)
    # Once switched on again, tracing stays on: there was only one outlier.
    write_file(TRACEFS / "tracing_on", "1")
    eq("tracing goes on", goes_on(outlier[0]), True)


def test_on_outlier_snapshot():
    write_file(TRACEFS / "snapshot", "1")
    outlier = outlier_at("snapshot")
    eq("tracing_on", tracing_on(), "1")
    ends_with_outlier(outlier, "snapshot")
    eq("outliers that are still in the trace", [line for line in lines_of("trace") if " outlier: " in line], [])
    eq("tracing goes on", goes_on(outlier[0]), True)


def test_on_outlier_both():
    write_file(TRACEFS / "snapshot", "1")
    outlier = outlier_at("tracing_off snapshot")
    eq("tracing_on", tracing_on(), "0")
    ends_with_outlier(outlier, "snapshot")
    eq("tracing goes on", goes_on(outlier[0]), False)


def test_on_outlier_no_snapshot():
    """Without a snapshot buffer the kernel stops tracing, and logs so."""
    write_file(TRACEFS / "snapshot", "0")
    cpu, _ = outlier_at("snapshot")
    eq("tracing_on", tracing_on(), "0")
    matches("the trace", "SNAPSHOT NOT ALLOCATED", "\n".join(lines_of("trace")))
    matches("the trace", " outlier: id=1 ", "\n".join(lines_of("trace", cpu)))
