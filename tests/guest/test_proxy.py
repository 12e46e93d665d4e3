# SPDX-License-Identifier: GPL-2.0
"""Tasks that sleep for a mutex, whose owner may run in their turn (`SCHED_PROXY_EXEC`): see tests/helpers/mutex.c."""

import time
from pathlib import Path

from harness.groups import of_group
from harness.kernel import has_symbol
from harness.test import (OF_LOADED, busy, check_laws, load, load_helper, measure, note, parameter, skip, wait_until,
                          within, write_file)

KEYS = {"offcpu_count": "sleeps", "offcpu_sum_ns": "slept", "runq_count": "waits", "runq_sum_ns": "waited"}


def look():
    """Returns what the group of the threads has, and what the tracepoints told the helper."""
    ours = {key: of_group("mutex", key) for key in KEYS}
    return ours, {key: int(parameter("mutex", name)) for key, name in KEYS.items()}


def look_at_rest():
    """Looks when all threads sleep: until nothing changes."""
    last = None
    while (now := look()) != last:
        last = now
        time.sleep(1)
    return now


def test_mutex_sleeps():
    """A sleep for a mutex is no wait for a CPU, whoever runs meanwhile, and wherever the task is queued."""
    if not has_symbol("__sched_proxy_exec") or "sched_proxy_exec=0" in Path("/proc/cmdline").read_text():
        skip("the kernel has no proxy execution")
    rest = OF_LOADED / "mutex/parameters/off"
    load("group_by=comm")
    load_helper("mutex", "off=1")
    with busy():
        before = look_at_rest()
        write_file(rest, "0")
        wait_until("sleeps", lambda: int(parameter("mutex", "sleeps")) - before[1]["offcpu_count"] >= 200)
        wait_until("sleeps on a run queue", lambda: int(parameter("mutex", "donors")) >= 30)
        write_file(rest, "1")
        after = look_at_rest()
    donors = int(parameter("mutex", "donors"))
    for key in KEYS:
        ours, theirs = (now[key] - then[key] for now, then in zip(after, before, strict=True))
        note(f"{key}: {ours} where the tracepoints say {theirs}")
        # Of a task on no run queue, the kernel's stamp is from just before the event of its wakeup.
        room = 10_000_000 + theirs // 20 if key.endswith("_ns") else 0
        within(key, theirs - room, ours, theirs + room)
    within("sleeps", 100, after[1]["offcpu_count"] - before[1]["offcpu_count"])
    note(f"{donors} sleeps on a run queue")
    measure(0)
    check_laws()
