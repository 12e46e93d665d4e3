# SPDX-License-Identifier: GPL-2.0
"""Chains are those that a reference finds in ftrace's events: see replay/chains.py."""

import shutil

from harness.test import WORK, about_numbers, allow, check_laws, load, measure, note, run, within, write
from replay import chains

FOLDER = WORK / "replay_chains"
MS = 10**6
STRESS = ("stress-ng", "--temp-path", "/tmp", "--quiet", "--timeout", "60")


def check(*command):
    """Compares the chains of outliers while a command runs."""
    about_numbers()
    load("chain=16384")
    measure(0)
    for metric in ("offcpu", "runq"):
        write(f"threshold_ns/{metric}", MS // 2)
    write("outlier_rate", "none")
    shutil.rmtree(FOLDER, ignore_errors=True)
    chains.record(FOLDER, [*command], 1)
    check_laws()
    result = chains.check(FOLDER)
    note(f"{result.hops_agree} of {result.hops} hops agree, {result.chains_agree} of {result.chains} chains; "
         f"{dict(result.ends)}")
    for difference in result.differences[:10]:
        note(difference)
    within("chains", 20, result.chains)
    within("hops that agree", 0.995 * result.hops - 1, result.hops_agree)
    within("chains that agree", 0.97 * result.chains - 1, result.chains_agree)
    # These ends are taken as they are.
    cut_short = result.ends["overwritten"] + result.ends["limit"]
    within("chains that are cut short", 0, cut_short, 1 + 0.02 * result.chains)


@allow(900)
def test_replay_chains_messages():
    check("hackbench", "--groups", "1", "--loops", "100000")


@allow(900)
def test_replay_chains_tcp():
    run("ip", "link", "set", "lo", "up")
    check(*STRESS, "--sock", "2", "--sock-domain", "ipv4")


@allow(900)
def test_replay_chains_mixed():
    # By default the timers expire every microsecond, which leaves no time for much else.
    kinds = "futex", "mutex", "nanosleep", "fork", "timerfd", "itimer"
    rates = "--timerfd-freq", "10000", "--itimer-freq", "10000"
    check(*STRESS, *(word for kind in kinds for word in (f"--{kind}", "1")), *rates)
