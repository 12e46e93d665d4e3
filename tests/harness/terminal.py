# SPDX-License-Identifier: GPL-2.0
"""A terminal that tmux makes: what a program shows there."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from .ktap import Wrong, defer, skip, wait_until
from .process import run


def need_terminal() -> None:
    if not shutil.which("tmux"):
        skip("tmux is not installed")


def terminal(*words: str) -> str:
    return run("tmux", "-u", "-f", "/dev/null", "-S", Path("tmux").absolute(), *words)


def open_terminal(size: str, command: str) -> None:
    """Runs a command in a terminal of so many columns and lines, such as 80x24."""
    os.environ |= {"LC_ALL": "C.UTF-8", "TERM": "xterm-256color"}
    defer(subprocess.run, ["tmux", "-S", Path("tmux").absolute(), "kill-server"])
    columns, lines = size.split("x")
    terminal("new-session", "-d", "-x", columns, "-y", lines, command)


def screen() -> str:
    return terminal("capture-pane", "-p")


def on_screen(pattern: str) -> str:
    """Waits until the terminal shows it. Returns the screen."""
    text = ""

    def is_there() -> bool:
        nonlocal text
        text = screen()
        return bool(re.search(pattern, text, re.M))

    try:
        wait_until(f"{pattern!r} on the screen", is_there, 0.2)
    except Wrong as wrong:
        raise Wrong(f"{wrong}: {text}") from None
    return text
