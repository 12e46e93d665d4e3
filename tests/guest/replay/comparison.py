# SPDX-License-Identifier: GPL-2.0
"""Compares what schedhist recorded with what the reference expects."""

import bisect
import itertools
from typing import Iterator

from harness.test import BLOCKED_OTHERWISE, note

from .common import Interval, die, inconclusive
from .events import Trace
from .recorded import Histogram, Module
from .reference import Result

# These must be 0: nothing here can cause them. sched_switch does not tell a throttled task from a
# preempted one, but no task here has a quota.
NEVER = ["untracked", "clock_backwards", "wake_unseen", "throttled", "blocked_frozen"]
PREDICTED = [
    "switches",
    "voluntary",
    "involuntary",
    "start_unseen",
    "to_idle",
    "wait_unseen",
    "migrations",
]
# Absences of tasks that blocked: how many samples and how many counts there are.
SLEEPS = ["blocked_interruptible", "blocked_uninterruptible"]
OTHERS = [name for name in BLOCKED_OTHERWISE if name not in NEVER]


def candidates(cpu: int, trace: Trace, module: Module) -> list[int]:
    """Returns the first switches with which the slices on this CPU come out as recorded."""
    switches = trace.switches[cpu]
    counters, histograms = module.counters[cpu], module.histograms[cpu]
    number = counters["switches"]
    times = [switch.a for switch in switches]
    low = bisect.bisect_left(times, trace.marks["schedhist on"])
    # A switch may be under way when the mark is made.
    high = bisect.bisect_right(times, trace.marks["schedhist is on"]) + 1
    end = bisect.bisect_left(times, trace.marks["schedhist off"])
    last = bisect.bisect_right(times, trace.marks["schedhist is off"]) + 1
    low = max(low, end - number)
    high = min(high, last - number, len(switches) - number)
    if not number:
        return [0]
    # Sums up to each switch, so that each candidate is checked in constant time.
    oncpu_low, oncpu_high, ends = [0], [0], [0]
    for one, two in itertools.pairwise(switches):
        task = bool(two.prev)
        oncpu_low.append(oncpu_low[-1] + task * max(two.a - one.b, 0))
        oncpu_high.append(oncpu_high[-1] + task * (two.b - one.a))
        ends.append(ends[-1] + task)
    found = []
    total = histograms["oncpu"].values["sum"] + histograms["idle"].values["sum"]
    for k in range(low, high + 1):
        z = k + number - 1
        first, final = switches[k], switches[z]
        if (
            ends[z] - ends[k] == histograms["oncpu"].values["count"]
            and final.a - first.b <= total <= final.b - first.a
            and oncpu_low[z] - oncpu_low[k]
            <= histograms["oncpu"].values["sum"]
            <= oncpu_high[z] - oncpu_high[k]
        ):
            found.append(k)
    if not found:
        die(
            f"cpu {cpu}: no {number} switches in a row, the first of {low} to {high}, have slices "
            f"that add up to {total} ns"
        )
    return found


def width_of(value: int, precision: int) -> int:
    """The width of the bucket of a value: H2."""
    return 1 << max(value.bit_length() - 1 - precision, 0)


def compare_histogram(where: str, histogram: Histogram, samples: list[Interval]) -> Iterator[str]:
    values = histogram.values
    if values["count"] != len(samples):
        yield f"{where}: count {values['count']}, the reference has {len(samples)}"
        return
    lows = sorted(low for low, _ in samples)
    highs = sorted(high for _, high in samples)
    if not sum(lows) <= values["sum"] <= sum(highs):
        yield f"{where}: sum {values['sum']} is not within {sum(lows)} to {sum(highs)}"
    if samples:
        for key, best, i in ("min", min, 0), ("max", max, -1):
            low, high = lows[i], highs[i]
            if (old := values.get(f"{key} before")) is not None:
                low, high = best(low, old), best(high, old)
            if not low <= values[key] <= high:
                yield f"{where}: {key} {values[key]} is not within {low} to {high}"
    total = 0
    for lower, upper, count in histogram.buckets:
        if upper < 2**64 - 1:
            width = width_of(lower, values["precision"])
            if lower % width or upper != lower + width - 1:
                yield f"{where}: {lower} to {upper} is no bucket"
        # The count below the bucket, and the count up to its end.
        for bound, below in (lower - 1, total), (upper, total + count):
            least, most = bisect.bisect_right(highs, bound), bisect.bisect_right(lows, bound)
            if not least <= below <= most:
                yield f"{where}: {below} of at most {bound} ns, not {least} to {most}"
        total += count
    if total != len(samples):
        yield f"{where}: the buckets add up to {total}, not {len(samples)}"


def compare_hidden(where: str, module: Module, cpu: int, result: Result) -> Iterator[str]:
    """Compares the counts of the kinds of blocking, where the kind of some is not known."""
    found = [module.histograms[cpu][kind].values["count"] for kind in SLEEPS]
    known = [len(result.samples.get(kind, [])) for kind in SLEEPS]
    found += [module.counters[cpu][kind] for kind in OTHERS]
    known += [result.counters[kind] for kind in OTHERS]
    if sum(found) != sum(known) + result.hidden or any(a < b for a, b in zip(found, known)):
        yield f"{where}: blocked {found}, the reference has {known} and {result.hidden} zombies'"


def compare(module: Module, results: dict[int, Result]) -> list[str]:
    problems: list[str] = []
    for cpu, result in sorted(results.items()):
        counters = module.counters[cpu]
        if result.hidden:
            problems += compare_hidden(f"cpu {cpu}", module, cpu, result)
        for name in PREDICTED if result.hidden else PREDICTED + OTHERS:
            if counters[name] != result.counters[name]:
                problems.append(
                    f"cpu {cpu}: {name} {counters[name]}, the reference has {result.counters[name]}"
                )
        for name in NEVER:
            if counters.get(name):
                problems.append(f"cpu {cpu}: {name} {counters[name]}")
        for metric, histogram in sorted(module.histograms[cpu].items()):
            if result.hidden and metric.startswith("blocked"):
                continue
            samples = result.samples.get(metric, [])
            problems += compare_histogram(f"cpu {cpu}: {metric}", histogram, samples)
    return problems


def report(module: Module, results: dict[int, Result], trace: Trace) -> None:
    """Prints how much was compared, and how wide the bands are."""
    number = sum(result.counters["switches"] for result in results.values())
    seen = [s for switches in trace.switches.values() for s in switches if s.seen]
    gaps = sorted(switch.b - switch.a for switch in seen)
    loose = sum(not switch.exact for switch in seen)
    wide = sum(result.wide for result in results.values())
    hidden = sum(result.hidden for result in results.values())
    early = sum(result.early for result in results.values())
    unseen = sum(result.counters["wait_unseen"] for result in results.values())
    note(
        f"{number} switches; schedhist's clock read within {gaps[len(gaps) // 2]} ns (median), "
        f"{gaps[-1 - len(gaps) // 100]} ns (p99) of ftrace's; {loose} not enclosed, {wide} waits "
        f"moved, {unseen} waits not seen to begin, {hidden} waits of zombies, "
        f"{early} of tasks that were woken as they left"
    )
    for metric in sorted(module.histograms[0]):
        pairs = [pair for result in results.values() for pair in result.samples.get(metric, [])]
        if not pairs:
            continue
        low, high = sum(p[0] for p in pairs), sum(p[1] for p in pairs)
        total = sum(cpu[metric].values["sum"] for cpu in module.histograms.values())
        place = (total - low) / (high - low) if high > low else 0.5
        widths = sorted(p[1] - p[0] for p in pairs)
        note(
            f"{metric}: {len(pairs)} samples, sum {total} ns; {low} to {high} is possible "
            f"(at {place:.0%}); median width of a sample {widths[len(widths) // 2]} ns"
        )
    undecided = sum(len(result.open) for result in results.values())
    if loose > 0.05 * number + 20 or wide > 0.05 * number + 20 or undecided > 8:
        inconclusive("too many intervals are wide to prove much")
