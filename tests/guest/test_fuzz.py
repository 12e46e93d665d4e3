# SPDX-License-Identifier: GPL-2.0
"""Random input, and input that is nearly right, for the files and the module parameters: see fuzz.c and
fuzz_params.c. Input that is right by the documentation is accepted; all other input is refused and changes
nothing.

SCHEDHIST_SEED          the seed of a run, which a fuzzer prints
SCHEDHIST_FUZZ_INPUTS   the maximum number of inputs for the files
SCHEDHIST_FUZZ_LOADS    the maximum number of loads of the module
SCHEDHIST_FUZZ_SECONDS  the maximum run time of a fuzzer

Pass them into the guest with env(1): see docs/testing.md.
"""

import os
import random
import re
import subprocess
from pathlib import Path

from harness import log
from harness.test import (DEBUG, DEBUGFS, KO, THOROUGH, WORK, Wrong, allow, amount, assert_gone, bursts, check_laws,
                          expedite_rcu, helper, load, measure, messages, reset, seeks_leaks, unload, write)


def fuzz(program, target, limit, most, seconds):
    """Runs a fuzzer, which prints all log lines but our own. Asserts that there is no report in them."""
    seed = os.environ.get("SCHEDHIST_SEED", str(random.randrange(1 << 32)))
    bounds = os.environ.get(limit, str(most)), os.environ.get("SCHEDHIST_FUZZ_SECONDS", str(seconds))
    with log.quiet():
        done = subprocess.run([helper(program), target, *bounds, seed], stderr=subprocess.PIPE, text=True,
                              errors="replace", check=False)
    print(done.stderr)
    if done.returncode:
        raise Wrong(f"status {done.returncode}")
    lines = re.findall("^the log: (.*\n)", done.stderr, re.MULTILINE)
    (WORK / "fuzz.log").write_text("".join(lines))
    subprocess.run([log.CHECK, "--allocations", WORK / "fuzz.log"], check=True)
    # Lockdep stops after its first report.
    lockdep = Path("/proc/lockdep_stats")
    if lockdep.exists() and re.search(r"^ debug_locks: *0$", lockdep.read_text(), re.MULTILINE):
        raise Wrong("lockdep is off")
    log.restored()


@seeks_leaks
@allow(4000)
def test_fuzz_files():
    load()
    expedite_rcu()
    with bursts():
        # As many inputs as the time allows; kernels of ours are slow.
        fuzz("fuzz", DEBUGFS, "SCHEDHIST_FUZZ_INPUTS", 1000000, amount(10, 20, 600 if DEBUG else 2400))
    # The module still works.
    measure(0)
    write("metrics", "all")
    reset()
    measure(1)
    messages(5)
    measure(0)
    check_laws()
    unload()
    assert_gone()


@seeks_leaks
@allow(900)
def test_fuzz_parameters():
    expedite_rcu()
    fuzz("fuzz_params", KO, "SCHEDHIST_FUZZ_LOADS", 1000, 300 if THOROUGH else 8)
    assert_gone()
