# SPDX-License-Identifier: GPL-2.0
"""The live view, while the module is loaded, unloaded and loaded anew."""

import os
import re
import signal
from pathlib import Path

from harness.test import Wrong, eq, load, run, wait_until, within
from harness.terminal import need_terminal, on_screen, open_terminal, terminal
from harness.tool import TOOL, begin, unload_under_readers

# --- top ---


def test_tool_top():
    """The live view outlives the module and goes on with the next load of it, and the terminal is as before,
    whatever ends it. (That it is so after a panic, too, needs a build with debug assertions: see
    tools/schedhist/command/tests/top.rs.)"""
    need_terminal()
    begin()
    Path("session").write_text(f"""cd {Path.cwd()}
        for how in q INT TERM; do
            stty -a > before.$how
            {TOOL} top -d 0.5
            echo "$?" > status.$how
            stty -a > after.$how
            read -r go
        done
        """)
    open_terminal("80x24", f"sh {Path('session').absolute()}")
    on_screen("CPU 1")
    on_screen("  last [0-9]")
    unload_under_readers()
    text = on_screen(r"^schedhist  \[the module is not loaded: modprobe schedhist\]")
    # What was seen last stays.
    if not re.search("^>runq ", text, re.M):
        raise Wrong(f"nothing is left on the screen: {text}")
    load()
    text = on_screen("^schedhist  [0-9:]{8}  every 500ms  last [0-9]")
    rate = re.findall(r"^.* ([0-9]+)(k?) switches/s", text)
    # The counts of the first load are in no difference.
    within("switches a second", 0, int(rate[0][0]) * (1000 if rate[0][1] else 1), 1_000_000)
    for how in ("q", "INT", "TERM"):
        on_screen("q quit")
        if how == "q":
            terminal("send-keys", "q")
        else:
            os.kill(int(run("pidof", "-s", TOOL)), getattr(signal, f"SIG{how}"))
        after = Path(f"after.{how}")
        wait_until(f"the end by {how}", lambda: after.exists() and after.read_text())
        eq(f"status after {how}", Path(f"status.{how}").read_text(), "0\n")
        eq(f"terminal after {how}", after.read_text(), Path(f"before.{how}").read_text())
        eq(f"alternate screen, cursor and wrapping after {how}",
           terminal("display", "-p", "#{alternate_on}#{cursor_flag}#{wrap_flag}"), "011\n")
        terminal("send-keys", "Enter")
