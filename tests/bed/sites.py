#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Test that tests/guest/sites.py rejects a built module that has one defect.

Prints a line "ok NAME" or "not ok NAME" for each defect.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from pathlib import Path
from subprocess import PIPE, run

GUEST = Path(__file__).parents[1] / "guest"
sys.path.insert(0, str(GUEST))
sys.dont_write_bytecode = True
from sites import EVENTS, Functions, disassembly, named, tool  # noqa: E402

NOP, NOP_OF_5, CALL = b"\x90", bytes.fromhex("0f 1f 44 00 00"), bytes.fromhex("e8 00 00 00 00")

# NAME: the function that is called, the one to call instead, and the expected message.
CALLS = {
    "outside": ("local_clock", "trace_clock_local", "a switch calls {'trace_clock_local'}"),
    "of-kernel": ("__x86_return_thunk", "_raw_spin_lock", "a probe calls {'_raw_spin_lock'} of the kernel"),
    "warning": ("irq_work_queue", "__SCT__WARN_trap", "a probe may come to {'__SCT__WARN_trap'}"),
    "thunk": ("tracing_off", "__x86_indirect_thunk_r11", "a probe may come to {'__x86_indirect_thunk_r11'}"),
    "event-panic": ("perf_trace_buf_alloc", "panic", "an event may come to {'panic'}"),
}
# NAME: the code to put at the start of a function, its name, and the expected message.
CODES = {
    # lock addl $1,(%rbx); ud2; call *%rax
    "locked": ("f0 83 03 01", "16SchedWakingProbe(?!.*7Chained).*5probe", "a probe runs ['lock addl"),
    "stop": ("0f 0b", "16TaskNewtaskProbe.*5probe", "a probe may stop"),
    "indirect": ("ff d0", "12traced_probe", "a probe calls who knows what"),
    "event-stop": ("0f 0b", "^trace_event_raw_event_idle", "an event may stop"),
    "event-indirect": ("ff d0", "^perf_trace_outlier", "an event calls who knows what"),
}


def with_code(module: bytes, functions: Functions, text: int, code: bytes, name: str) -> bytes:
    """Replace the first instructions of a function with code, padded with nops.

    text is the offset of `.text` in the file.
    """
    function, *_ = named(re.compile(name), functions).values()
    start = min(function)
    end = min(address for address in function if address >= start + len(code))
    return module[: text + start] + code.ljust(end - start, NOP) + module[text + end :]


def main(path: str) -> int:
    module = Path(path).read_bytes()
    functions = disassembly(path)
    sections = tool("readelf", "--sections", "--wide", path)
    text = int(re.search(r" \.text +PROGBITS +[0-9a-f]+ ([0-9a-f]+)", sections)[1], 16)
    failed = 0

    def check(name: str, file: str, says: str, events: list[str] = EVENTS) -> None:
        nonlocal failed
        done = run([sys.executable, str(GUEST / "sites.py"), file, *events], stderr=PIPE, stdout=PIPE, text=True)
        # Without an expected message, sites.py must succeed.
        good = done.returncode == 0 if not says else done.returncode == 1 and f"sites: {says}" in done.stderr
        print(f"{'' if good else 'not '}ok sites/{name}", flush=True)
        if not good:
            failed = 1
            print(f"# status {done.returncode}, wanted: {says}\n# {done.stderr}")

    with tempfile.NamedTemporaryFile(suffix=".ko") as copy:

        def check_copy(name: str, content: bytes, says: str) -> None:
            Path(copy.name).write_bytes(content)
            check(name, copy.name, says)

        check("good", path, "")
        check("no-site", path, "no site of {'__tracepoint_unknown'}", [*EVENTS, "unknown"])
        check("other-site", path, f"sites of {{'__tracepoint_{EVENTS[0]}'}}", EVENTS[1:])
        check_copy("nop", module.replace(NOP_OF_5, CALL), "at ")
        for name, (old, new, says) in CALLS.items():
            tool("objcopy", f"--redefine-sym={old}={new}", path, copy.name)
            check(name, copy.name, says)
        for name, (code, function, says) in CODES.items():
            check_copy(name, with_code(module, functions, text, bytes.fromhex(code), function), says)
    return failed


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("module", metavar="MODULE", help="schedhist.ko as it was built")
    sys.exit(main(parser.parse_args().module))
