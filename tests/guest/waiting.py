# SPDX-License-Identifier: GPL-2.0
"""Waits for outliers as they happen."""

from __future__ import annotations

import errno
import os
import threading
import time

from harness.module import DEBUGFS, waits_in_kernel
from outlier_text import HEAD, Outlier, read_text


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
        return waits_in_kernel(self.native_id)
