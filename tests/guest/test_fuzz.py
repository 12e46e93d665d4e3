# SPDX-License-Identifier: GPL-2.0
"""Random input, and input that is nearly right, for the files, by fuzzer.py, and for the module parameters. Input
that is right by the documentation is accepted; all other input is refused and changes nothing.

SCHEDHIST_SEED          the seed of a run, which is printed
SCHEDHIST_FUZZ_INPUTS   the maximum number of inputs for the files
SCHEDHIST_FUZZ_SECONDS  the maximum time of a run

Pass them into the guest with env(1): see docs/testing.md.
"""

import errno
import os
import random
import re
import time
from pathlib import Path

from harness import log
from harness.test import (DEBUG, THOROUGH, Wrong, allow, amount, assert_gone, bursts, check_laws, eq, load, measure,
                          messages, note, reset, seeks_leaks, status, unload, value, write)
from fuzzer import LONGEST, SETS, fuzz, words_of

SEED = os.environ.get("SCHEDHIST_SEED", str(random.randrange(1 << 32)))


def seconds(usual):
    return int(os.environ.get("SCHEDHIST_FUZZ_SECONDS", usual))


def fuzz_files():
    """As many inputs as the time allows; kernels of ours are slow."""
    most = int(os.environ.get("SCHEDHIST_FUZZ_INPUTS", 1_000_000))
    end = time.monotonic() + seconds(amount(10, 20, 600 if DEBUG else 2400))
    note(f"SCHEDHIST_SEED={SEED}")
    with log.quiet():
        note(fuzz(SEED, lambda inputs: inputs < most and time.monotonic() < end))
    # Lockdep stops after its first report.
    lockdep = Path("/proc/lockdep_stats")
    if lockdep.exists() and re.search(r"^ debug_locks: *0$", lockdep.read_text(), re.MULTILINE):
        raise Wrong("lockdep is off")


@seeks_leaks
@allow(4000)
def test_fuzz_files():
    load()
    with bursts():
        fuzz_files()
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


PRECISIONS = [*"1234567", *"08", "07", "08", "0x5", "0X7", "0b101", "0o7", "+5", "-1", "-0", "", "5\n", " 5", "5 ",
              "1_0", "4294967301", "18446744073709551621", "0x", "0x+5", "++5", "5.0", "five", "\u0665", "5".zfill(68)]
# The last ones are the longest value that fits, and one that does not.
SPECS = ["default", "all", "none", "oncpu", "runq,idle", " offcpu\n", "wakeup\toncpu", "all," * 62 + "default,",
         "all," * 62 + "default, "]

def precision_of(text):
    """Returns the precision that the parameter takes from a value, as the kernel parses numbers, or None."""
    found = re.fullmatch(r"\+?(?:0[xX]([0-9a-fA-F]+)|(0[0-7]*)|([1-9][0-9]*))\n?", text)
    number = next(int(digits, base) for digits, base in zip(found.groups(), (16, 8, 10)) if digits) if found else 0
    return number if 1 <= number <= 7 else None


def metrics_of(text):
    """Returns what the file shows of the metrics that the parameter takes from a value, or None."""
    return words_of(text) if len(os.fsencode(text)) <= LONGEST else None


def some_metrics():
    """Returns a value, which may hold anything but the quotes around it."""
    if random.randrange(2):
        return random.choice(SPECS)
    text = random.choice(", \t\n").join(random.choices([*SETS, "Idle", "runq_", "max", "1"], k=random.randrange(6)))
    for _ in range(random.randrange(4)):
        at = random.randrange(len(text) + 1)
        byte = bytes([random.randrange(256)]).decode("utf-8", "surrogateescape")
        text = text[:at] + random.choice([byte, ",", " "]) + text[at + random.randrange(3):]
    return re.sub('["\0]', "_", text)


def load_some(number):
    """Loads the module with some parameters, and returns whether it took them: those that are right, and no others."""
    precision, metrics = random.choice(PRECISIONS[: random.choice([7, None])]), some_metrics()
    parameters, shown = [], {"precision": 5, "metrics": metrics_of("default")}
    if random.randrange(4):
        parameters.append(f'precision="{precision}"')
        shown["precision"] = precision_of(precision)
    if random.randrange(2):
        parameters.append(f'metrics="{metrics}"')
        shown["metrics"] = metrics_of(metrics)
    # The kernel does not refuse an unknown parameter.
    more, is_good = random.choice([(f"bogus={number}", True), ("precision", False), ('metrics=""', False),
                                   (" " * 60000, True), ("metrics=" + "x" * 60000, False), *[("", True)] * 19])
    is_good = is_good and None not in shown.values()
    try:
        load(*parameters, more)
    except OSError as error:
        if is_good or error.errno not in (errno.EINVAL, errno.ERANGE, errno.ENOSPC, errno.EEXIST):
            raise Wrong(f"{parameters} {more:.80} were refused: {error}") from error
        is_good = False
    else:
        if not is_good:
            raise Wrong(f"{parameters} {more:.80} were taken")
        eq(f"{parameters}", {"precision": status("precision"), "metrics": value("metrics")}, shown)
        unload()
    assert_gone()
    return is_good


@seeks_leaks
@allow(900)
def test_fuzz_parameters():
    note(f"SCHEDHIST_SEED={SEED}")
    random.seed(SEED)
    end, taken = time.monotonic() + seconds(300 if THOROUGH else 8), []
    with log.quiet():
        # Longer if it takes that until there was one of each.
        while time.monotonic() < end or len({*taken}) < 2:
            taken.append(load_some(len(taken)))
    note(f"{len(taken)} loads, {sum(taken)} accepted")
