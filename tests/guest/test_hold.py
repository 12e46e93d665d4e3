# SPDX-License-Identifier: GPL-2.0
"""Unloading waits for a task that is about to call a probe of ours: see tests/helpers/hold.c."""

import os
import time

from harness.test import (OF_LOADED, Wrong, assert_gone, busy, eq, load, load_helper, note, parameter, spawn, unload,
                          wait_until, write_file)


def test_hold_newtask():
    """The task is on CPU 1; unloading runs on CPU 0, which needs nothing from CPU 1."""
    state, ours = OF_LOADED / "schedhist/initstate", OF_LOADED / "hold/parameters"

    def is_going():
        try:
            return state.read_text() == "going\n"
        except OSError:
            return True

    os.sched_setaffinity(0, {0})
    load_helper("hold")
    with busy("taskset", "--cpu-list", "1", "bash", "-c", "while :; do /bin/true; done") as forker:
        load()
        write_file(ours / "pid", str(forker.pid))
        wait_until("a task that is held", lambda: parameter("hold", "holding") == "Y")
        begin = time.monotonic()
        unloader = spawn(unload)
        wait_until("the module to go", is_going)
        time.sleep(2)
        ended, _ = os.waitpid(unloader, os.WNOHANG)
        held = parameter("hold", "holding")
        write_file(ours / "release", "Y")
        eq("holding while unloading", held, "Y")
        if ended:
            raise Wrong("unloading did not wait")
        eq("status of unloading", os.waitpid(unloader, 0)[1], 0)
        eq("holding after unloading", parameter("hold", "holding"), "N")
        note(f"unloading took {int((time.monotonic() - begin) * 1000)} ms")
    assert_gone()
