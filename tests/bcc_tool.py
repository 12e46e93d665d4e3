#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Runs a tool of BCC with the compiler flag that the kernel's headers need since 6.19.

usage: tests/bcc_tool.py PATH [ARGUMENT...]

The kernel is built with -fms-extensions, and its headers do not compile without. BCC 0.31 does not
know, and has no setting for flags. The tool itself is left as it is.
"""

import runpy
import sys

import bcc


class Flagged(bcc.BPF):
    def __init__(self, *arguments, **options):
        options["cflags"] = [*options.get("cflags", []), "-fms-extensions"]
        super().__init__(*arguments, **options)


bcc.BPF = Flagged
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
