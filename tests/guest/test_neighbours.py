# SPDX-License-Identifier: GPL-2.0
"""Other users of the tracepoints that we probe: ftrace and BPF. The kernel calls all probes in turn, from a
list that changes whenever one comes or goes."""

from harness.listeners import Bpftrace
from harness.test import PROBED, allow, assert_gone, check_laws, load, measure, messages, needs, status, unload, within
from harness.trace import Instance, clear

NAMES = [event.partition("/")[2] for event in PROBED]


class Neighbours:
    """ftrace and bpftrace, on all tracepoints that we probe."""

    def __init__(self):
        self.trace = Instance(*PROBED)
        self.bpftrace = Bpftrace(probes=[*(f"rawtracepoint:{name}" for name in NAMES), "tracepoint:sched:sched_wakeup"])
        self.bpftrace.wait()

    def see(self):
        """Asserts that ftrace sees events, whatever else is on these tracepoints."""
        clear(self.trace.path)
        messages(1)
        lines = "\n".join(self.trace.lines())
        for name in NAMES:
            within(f"{name} in ftrace", 1, lines.count(f" {name}: "))

    def go(self, least):
        """Ends them, and asserts that bpftrace has seen at least that many switches."""
        self.trace.path.rmdir()
        self.bpftrace.off()
        for name in NAMES:
            within(f"{name} counted by bpftrace", 1, self.bpftrace.count(name))
        within("switches counted by bpftrace", least, self.bpftrace.count("sched_switch"))


@allow(600)
def test_neighbours():
    needs("bpftrace")
    first = Neighbours()
    load("metrics=all")
    for on in 0, 1, 0:
        first.see()
        measure(on)
    first.see()
    check_laws()
    switches = status("switches")
    unload()
    first.see()
    first.go(switches)

    load("metrics=all")
    second = Neighbours()
    second.see()
    second.go(100)
    messages(1)
    measure(0)
    check_laws()
    unload()
    assert_gone()
