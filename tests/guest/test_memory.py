# SPDX-License-Identifier: GPL-2.0
"""schedhist's memory: as much as it reports, and no more than its budget."""

import os
import re

from harness.test import (TRACEFS, Wrong, check_laws, eq, load, measure, note, skip, status, task_ids, unload,
                          unreclaimable, wait_until, within, write_file)
from harness.trace import clear, enable, lines

KMALLOC = TRACEFS / "events/kmem/kmalloc"


def pages_of_tasks():
    """Returns the number of pages that hold the state of an existing task, including the idle tasks."""
    return len({task // 64 for task in (0, *task_ids())})


def test_memory():
    """64 KiB for each possible CPU, 64 bytes for each task, in pages of 64 consecutive PIDs, and 512 KiB for a
    table of these pages, at defaults."""
    load()
    each = status("memory_bytes") // status("cpus_possible")
    within("bytes for each CPU", 1, each, 65536)
    tasks, pages, table = status("task_memory_bytes"), pages_of_tasks(), 512 * 1024
    note(f"{each} bytes for each CPU, {tasks} bytes for tasks in {pages} pages")
    # Tasks have come and gone meanwhile.
    within("bytes for tasks", table + (pages - 2) * 4096, tasks, table + (pages + 3) * 4096)
    measure(0)
    eq("bytes for tasks while measuring is off", status("task_memory_bytes"), 0)


def kmallocs(name, function, *arguments):
    """Returns the lines of the kernel's allocator for this process while the function runs, for which the
    filter holds. Skips the test if the kernel does not trace them."""
    if not (KMALLOC / "enable").exists():
        skip("the kernel has no kmem:kmalloc")
    write_file(KMALLOC / "filter", name)
    clear()
    enable("kmem/kmalloc")
    function(*arguments)
    enable("kmem/kmalloc", False)
    write_file(KMALLOC / "filter", "0")
    return [line for line in lines() if f"-{os.getpid()} " in line]


def test_memory_in_pieces():
    """The records of a CPU are one piece, which takes no more than 64 KiB in the allocator."""
    for parameters in ["precision=5"], ["precision=4"], ["precision=5", "metrics=all"], ["precision=7", "metrics=all"]:
        said = kmallocs("bytes_req > 4096", load, *parameters)
        # Large pieces are traced twice, with the same address; the kernel that loads the module also
        # takes some of its own, by other functions.
        pieces = {found.groups() for line in said
                  if (found := re.search(r"=__kvmalloc\S* ptr=(\S+) bytes_req=(\d+) bytes_alloc=(\d+) ", line))}
        each = status("memory_bytes") // status("cpus_possible")
        given = [int(alloc) for _, asked, alloc in pieces if int(asked) == each]
        eq(f"pieces of {each} bytes, with {parameters}, of {pieces}", len(given), status("cpus_possible"))
        note(f"{' '.join(parameters)}: {each} bytes for each CPU, and the allocator gives {set(given)}")
        if parameters == ["precision=5"]:
            eq("sizes of the pieces", len(set(given)), 1)
            within("bytes given", each, given[0], 65536)
        unload()


def test_memory_in_all():
    """Everything that loading allocates: the records, the task states, and 1 MiB for the module and its files.
    Other tasks allocate and free memory meanwhile, so this takes the least of several counts."""
    counts = []
    for _ in range(5):
        before = unreclaimable()
        load()
        counts.append(unreclaimable() - before)
        allowed = status("cpus_possible") * 65536 + status("task_memory_bytes") + (1 << 20)
        unload()
    note(f"{min(counts)} bytes of {allowed}")
    if min(counts) > allowed:
        raise Wrong(f"loading takes {min(counts)} bytes, wanted at most {allowed}")


def test_memory_follows_pids():
    """The task states follow the PIDs in use: thousands of tasks come and go, and leave no more behind than a
    sweep may leave."""
    if not os.path.exists("/proc/sys/kernel/ns_last_pid"):
        skip("the kernel does not say which PID comes next")
    load("metrics=all")
    before = status("task_memory_bytes")
    write_file("/proc/sys/kernel/pid_max", "4194304")
    last = os.open("/proc/sys/kernel/ns_last_pid", os.O_WRONLY)
    # There is a page for each 64 PIDs: here each task needs a page of its own, the last one that of the last PID.
    for pid in range((1 << 22) - 40000, 1 << 22, 64):
        os.pwrite(last, str(pid).encode(), 0)
        child = os.fork() or os._exit(0)
        eq("page of the child", child // 64, pid // 64)
        os.wait()
    # The sweep is a work.
    wait_until("a sweep", lambda: status("task_memory_bytes") <= before + 300 * 4096)
    note(f"{before} bytes before, {status('task_memory_bytes')} after 600 tasks with a page each")
    measure(0)
    check_laws(untracked=0)


def test_memory_at_enable():
    """What may sleep asks for memory as such: the pages of the states of tasks, when measuring is switched on."""
    load()
    measure(0)
    # Not those of tasks that others create meanwhile.
    said = kmallocs("bytes_req == 4096", measure, 1)
    pages = [line for line in said if "schedhist" in line and " bytes_req=4096 " in line]
    within("pages of existing tasks", 1, len(pages), pages_of_tasks())
    eq("these may not sleep", [line for line in pages if "GFP_KERNEL" not in line], [])
