# SPDX-License-Identifier: GPL-2.0
"""An independent reference for the recordings of schedhist.

`record` measures a window with schedhist (which must be loaded, and off) while ftrace records the
scheduler's events, and keeps both recordings in a folder. A command runs within the window; with `running`
the window of so many seconds lies within the command, which is ended after it.

`check` computes every metric and counter from the events alone, by the definitions, and compares
them with what schedhist recorded, CPU by CPU:

 - counts and counters must be equal;
 - every histogram, sum, minimum and maximum must be possible.

Intervals decide what is possible, not a tolerance. A tracepoint calls its probes in the order in
which they were registered. We register schedhist between two ftrace instances, A before it and B
after it, on trace_clock `perf`, which is local_clock(), the clock that schedhist reads. So for
every switch, A's stamp <= schedhist's <= B's, on the same CPU and clock, however long the emulator
takes in between. The start of a wait, which schedhist takes from the kernel's enqueue stamp, lies
between the events sched_waking (or sched_process_fork) and sched_wakeup (or sched_wakeup_new). This
gives an interval for each sample, and with them a band in which the cumulative histogram must lie.

Three kinds of samples have wider intervals. They are few, which is checked:
 - Until B is on, a switch has no stamp of B: then the next stamp of A on this CPU bounds it.
 - A wait that was moved to another run queue: the kernel does not count the time between the two
   queues, and stamps may be stale there. The wait lies between 0 and the whole absence.
 - A task forked while measuring was being switched on: its wait may or may not be a sample.

On each CPU schedhist saw consecutive switches, as many as `switches` says. The first and the last
one lie between the marks that we write before and after switching on and off. Of the few
candidates, those are used whose sums are possible: the slices on a CPU add up to the time between
the first and the last switch, to within a microsecond or so.
"""

import itertools
from pathlib import Path

from harness.ktap import note

from .common import Inconclusive, die, inconclusive
from .comparison import candidates, compare, report
from .events import in_order, read_trace
from .recorded import read_module
from .recording import record
from .reference import replay, unhide

__all__ = ["Inconclusive", "check", "record"]


def check(folder: Path) -> None:
    trace, module = read_trace(folder), read_module(folder)
    if set(trace.switches) != set(module.counters):
        die("ftrace and schedhist have different CPUs")
    order = in_order(trace)
    if number := unhide(order):
        note(f"{number} times a zombie was runnable when it left")
    choices = {cpu: candidates(cpu, trace, module) for cpu in trace.switches}
    if len(list(itertools.product(*choices.values()))) > 16:
        inconclusive(f"which switches were seen is not clear: {choices}")
    problems: list[str] = []
    for firsts in itertools.product(*choices.values()):
        for (cpu, switches), first in zip(trace.switches.items(), firsts, strict=True):
            number = module.counters[cpu]["switches"]
            for i, switch in enumerate(switches):
                switch.seen = first <= i < first + number
        results = replay(trace, module, order)
        found = compare(module, results)
        if not found:
            report(module, results, trace)
            return
        if not problems or len(found) < len(problems):
            problems = found
    die("\n".join([f"{len(problems)} differences", *problems[:40]]))
