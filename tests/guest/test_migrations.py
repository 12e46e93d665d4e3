# SPDX-License-Identifier: GPL-2.0
"""Migrations, by how far CPUs are from each other."""

from pathlib import Path

from harness.groups import groups
from harness.test import CPU1, allow, check_laws, cpu1, cpus, eq, load, measure, run, skip, write, write_file
from replay.idle import cpu_list

MOVES = 20
# Moves between two CPUs, and begins and ends on the first one.
MOVER = """import os, sys
one, two = ({int(cpu)} for cpu in sys.argv[1:3])
os.sched_setaffinity(0, one)
open("/proc/self/comm", "w").write("mover")
for _ in range(int(sys.argv[3])):
    os.sched_setaffinity(0, two)
    os.sched_setaffinity(0, one)
open("/proc/self/comm", "w").write("moved")"""


def shared(one, two):
    """Returns what two CPUs share, as sysfs tells it."""
    cpu = Path(f"/sys/devices/system/cpu/cpu{one}")
    caches = {int((cache / "level").read_text()): cpu_list((cache / "shared_cpu_list").read_text())
              for cache in cpu.glob("cache/index*") if (cache / "type").read_text() != "Instruction\n"}
    if not caches:
        skip("sysfs does not tell which caches there are")
    if two in cpu_list((cpu / "topology/thread_siblings_list").read_text()):
        return "core"
    if two in caches[max(caches)]:
        return "llc"
    nodes = [{node.name for node in Path(f"/sys/devices/system/cpu/cpu{n}").glob("node*")} for n in (one, two)]
    return "node" if nodes[0] == nodes[1] else "remote"


def check_pair(one, two):
    """A task moves between two CPUs."""
    wanted = shared(one, two)
    before = moved(one, two)
    after = moved(one, two)
    eq(f"migrations between CPUs {one} and {two}: {wanted}",
       {name: n - before.get(name, 0) for name, n in after.items() if n != before.get(name, 0)}, {wanted: 2 * MOVES})


def moved(one, two):
    """Lets a task move, and returns the numbers of its migrations so far, by distance."""
    run("python3", "-c", MOVER, str(one), str(two), str(MOVES))
    found = [group.values for group in groups().values() if group.name == "mover"]
    eq("groups", len(found), 1)
    counts = {name: found[0][f"migrations_{name}"] for name in ("core", "llc", "node", "remote")}
    eq("all", found[0]["migrations"], sum(counts.values()))
    return counts


@allow(300)
def test_migrations():
    """Each migration is counted by what its two CPUs share, also after one of them was offline."""
    if cpus() < 2:
        skip("there is one CPU")
    load()
    write("group_by", "comm")
    for cpu in range(1, min(cpus(), 8)):
        check_pair(0, cpu)
    if CPU1.exists():
        write_file(CPU1, "0")
        write_file(CPU1, "1")
        check_pair(0, 1)
    measure(0)
    check_laws()


@allow(300)
def test_migrations_online():
    """What CPUs share is found when they come online, also if one has never been online since the load, and
    another one, which was, comes back after it."""
    files = [cpu1(), *(CPU1.parents[1] / f"cpu{cpu}/online" for cpu in range(2, min(cpus(), 8)))]
    for file in files:
        write_file(file, "0")
    load()
    write("group_by", "comm")
    write_file(files[0], "1")
    check_pair(0, 1)
    write_file(files[0], "0")
    for file in reversed(files):
        write_file(file, "1")
    for cpu in range(1, len(files) + 1):
        check_pair(0, cpu)
    for cpu in range(2, len(files) + 1):
        check_pair(1, cpu)
    measure(0)
    check_laws()
