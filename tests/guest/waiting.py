# SPDX-License-Identifier: GPL-2.0
"""Waits for outliers as they happen."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Callable

from outlier_text import Outlier, Wrong, read_text

DEBUGFS = Path("/sys/kernel/debug/schedhist")


def until(what: str, condition: Callable[[], object]) -> None:
    """Waits until it holds."""
    end = time.monotonic() + 30
    while not condition():
        if time.monotonic() > end:
            raise Wrong(f"waited in vain for {what}")
        time.sleep(0.02)


class Waiting(threading.Thread):
    """Waits for outliers, each in its turn; `texts` are those that it got."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.fd = os.open(DEBUGFS / "wait", os.O_RDONLY)
        self.texts: list[str] = []
        self.start()

    def run(self) -> None:
        while True:
            text = b""
            while part := os.read(self.fd, 1 << 16):
                text += part
            self.texts.append(text.decode())
            os.lseek(self.fd, 0, os.SEEK_SET)

    def outliers(self) -> list[Outlier]:
        return [outlier for text in list(self.texts) for outlier in read_text(text)]

    def is_blocked(self) -> bool:
        stack = Path(f"/proc/self/task/{self.native_id}/stack").read_text()
        return "schedhist_wait_event" in stack
