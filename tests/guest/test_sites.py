# SPDX-License-Identifier: GPL-2.0
"""The cost of the events while nobody listens: see sites.py; tests/bed/sites.py tests that it detects
violations."""

import os

import sites
from harness.test import KO, OWN, skip


def test_event_sites():
    if OWN:
        skip("with assertions, which panic, and other compilers, the code is not what users run")
    if os.uname().machine != "x86_64":
        skip("it knows the machine code of x86_64 only")
    sites.main(str(KO))
