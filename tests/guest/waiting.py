# SPDX-License-Identifier: GPL-2.0
"""Waits for outliers as they happen."""

from __future__ import annotations

import errno
import os
import threading
import time
from pathlib import Path
from typing import Callable

from outlier_text import HEAD, Outlier, Wrong, read_text

DEBUGFS = Path("/sys/kernel/debug/schedhist")


def until(what: str, condition: Callable[[], object]) -> None:
    """Waits until the condition holds."""
    end = time.monotonic() + 60
    while not condition():
        if time.monotonic() > end:
            raise Wrong(f"waited in vain for {what}")
        time.sleep(0.02)


class Waiting(threading.Thread):
    """Reads the stream of outliers; `texts` holds the pieces that it got.

    If no outlier can come any more, it counts that, and tries again.
    """

    def __init__(self, fd: int | None = None) -> None:
        super().__init__(daemon=True)
        self.fd = os.open(DEBUGFS / "outlier_pipe", os.O_RDONLY) if fd is None else fd
        self.texts: list[str] = []
        self.ends = 0
        self.start()

    def run(self) -> None:
        while True:
            try:
                text = os.read(self.fd, 1 << 16)
            except OSError as error:
                if error.errno != errno.ENODATA:
                    self.texts.append(f"errno {error.errno}\n")
                    return
                self.ends += 1
                time.sleep(0.02)
                continue
            self.texts.append(text.decode())

    def outliers(self) -> list[Outlier]:
        text = "".join(list(self.texts))
        return read_text(text) if text else []

    def number(self) -> int:
        """Returns the number of outliers in the texts, without parsing them."""
        return "".join(list(self.texts)).count("outlier id ")

    def bare(self) -> list[Outlier]:
        """Returns the same outliers if another reader may have got the head."""
        return read_text(HEAD + "".join(list(self.texts)).removeprefix(HEAD))

    def is_blocked(self) -> bool:
        stack = Path(f"/proc/self/task/{self.native_id}/stack").read_text()
        return "schedhist_wait_event" in stack
