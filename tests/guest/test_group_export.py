# SPDX-License-Identifier: GPL-2.0
"""The groups as Prometheus gets them from the command. scripts/bed/vm --tool builds the command."""

import shutil
from pathlib import Path

from harness import cgroup
from harness.groups import begin, check_group_laws, head_of, names, of_group
from harness.test import GROUP_METRICS, TREE, eq, lines_of, load, measure, reset, run, value
from harness.tool import need, tool


def exported(file):
    """Returns the samples of the command, and the text, which it keeps in a file."""
    text = tool("export", "--once", "--format", "openmetrics").out
    Path(file).write_text(text, encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return dict(line.rsplit(" ", 1) for line in lines), lines


def has_line(lines, text):
    """Asserts that a line begins so, once."""
    eq(f"lines that begin with {text}", sum(line.startswith(text) for line in lines), 1)


def histogram_counts(metric):
    """Returns the number of samples in the histogram of each group, by its name."""
    found, name = {}, ""
    for line in lines_of(f"group_hist/{metric}"):
        key, _, rest = line.partition(" ")
        if key == "name":
            name = rest
        elif key == "count":
            found[name] = int(rest)
    return found


def of_groups(lines):
    return [line for line in lines if line.startswith("schedhist_group")]


def test_group_export():
    """A published client's parser takes the text, whatever the names are, and it agrees with `groups`."""
    cgroup.on()
    need()
    load()
    eq("samples while tasks are not grouped", of_groups(exported("ungrouped")[1]), [])
    path = "/".join(["x" * 200] * 6)
    cgroup.make('a "b"\\c', "plain", path)
    begin("cgroup")
    cgroup.run_in('a "b"\\c', "sleep", "0.01")
    cgroup.run_in("plain", "hackbench", "--groups", "1", "--loops", "5")
    cgroup.run_in(path, "sleep", "0.01")
    measure(0)
    check_group_laws()
    found, lines = exported("cgroups")
    has_line(lines, 'schedhist_group_by_info{rule="cgroup"} 1')
    has_line(lines, r'schedhist_group_oncpu_seconds_count{group="/schedhist/a \"b\"\\x5cc"} ')
    has_line(lines, f'schedhist_group_oncpu_seconds_count{{group="/schedhist/{path}"}} ')
    has_line(lines, 'schedhist_left_out{scope="group"} 0')
    eq("groups", int(found["schedhist_groups"]), len(names()))
    plain = '{group="/schedhist/plain"}'
    for metric in GROUP_METRICS:
        eq(f"count of {metric} in plain", int(found[f"schedhist_group_{metric}_seconds_count{plain}"]),
           histogram_counts(metric)["/schedhist/plain"])
    total = sum(int(number) for key, number in found.items() if key.startswith("schedhist_group_oncpu_seconds_count{"))
    eq("samples of all groups", total, sum(histogram_counts("oncpu").values()))
    eq("limit", found["schedhist_group_limit"], value("group_limit"))
    eq("memory", int(found["schedhist_group_memory_bytes"]), head_of("memory_bytes"))
    for what in "ended_by", "preempted_by":
        eq(f"{what} others", int(found[f'schedhist_group_{what}_total{{group="/schedhist/plain",culprit="other"}}']),
           of_group("/schedhist/plain", f"{what}_other"))
    reset()
    eq("after a reset", of_groups(exported("reset")[1]), of_groups(lines))

    # A thread may have the name of the group of all others.
    shutil.copy(shutil.which("sleep"), "other")
    begin("comm")
    run("./other", "0.01")
    measure(0)
    _, lines = exported("names")
    has_line(lines, 'schedhist_group_oncpu_seconds_count{group="other"} ')
    has_line(lines, r'schedhist_group_oncpu_seconds_count{group="other\\#')
    # One call: the parser takes seconds to start.
    checked = run(TREE / "tests/engine/openmetrics_check.py", "ungrouped", "cgroups", "reset", "names").splitlines()
    eq("texts checked", len(checked), 4)
