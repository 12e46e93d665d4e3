# SPDX-License-Identifier: GPL-2.0
"""The events of a window, as all listeners see them: the histograms, ftrace, a histogram of the kernel's,
perf, trace-cmd and bpftrace. Measuring is off when they start and when they end."""

import re
import time
from bisect import bisect_right
from collections import Counter, defaultdict

from harness.listeners import Bpftrace, Perf, TraceCmd
from harness.test import (EVENTS, METRICS, Histogram, Wrong, allow, eq, histogram, load_all, measure, messages, needs,
                          note, possible_cpus, read, status, within, write, write_file)
from harness.trace import Instance, hits, nothing_lost, of_event, outliers_of

VALUES = r"cpu=(?P<cpu>\d+) duration_ns=(?P<ns>\d+)"
SAMPLE = re.compile(r"(?P<event>[a-z_]+): comm=.* pid=\d+ prio=-?\d+ " + VALUES + r" cause=(?P<cause>[a-z_]+) group=0")
IDLE = re.compile(r"(?P<event>idle): " + VALUES + r" next_comm=.* next_pid=\d+ next_prio=-?\d+(?P<cause>)")
Saved = dict[tuple[int, str], Histogram]


def save() -> Saved:
    return {(cpu, metric): histogram(metric, cpu) for cpu in possible_cpus() for metric in METRICS}


def metrics_of(event: str, cause: str) -> list[str]:
    """Returns the histograms that count an event."""
    if event == "runq":
        return ["runq", "runq_preempt" if cause == "preempted" else "runq_wakeup"]
    return [f"blocked_{cause}"] if event == "blocked" else [event]


def check_samples(before: Saved, after: Saved, events: list[str]) -> None:
    """Asserts that the events of a window are its samples, bucket by bucket, on each CPU."""
    samples: dict[tuple[int, str], list[int]] = defaultdict(list)
    for line in events:
        if line.startswith(("long_wait: ", "outlier: ", "culprit: ", "chain: ", "hop: ")):
            continue
        match = SAMPLE.fullmatch(line) or IDLE.fullmatch(line)
        if not match:
            raise Wrong(f"what is this? {line}")
        for metric in metrics_of(match["event"], match["cause"]):
            samples[int(match["cpu"]), metric].append(int(match["ns"]))
    wrong, checked, buckets = [], 0, 0
    for where, new in after.items():
        old = before[where]
        counts = [Counter({lower: number for lower, (_, number) in of.buckets.items()}) for of in (old, new)]
        grown = counts[1] - counts[0]
        lower = sorted(new.buckets)
        found: Counter[int] = Counter()
        values = samples.pop(where, [])
        for value in values:
            # The last nonempty bucket that begins no later than the value.
            index = bisect_right(lower, value) - 1
            found[lower[index] if index >= 0 else -1] += 1
        if found != grown:
            wrong.append(f"{where}: events {dict(found - grown)}, buckets {dict(grown - found)}")
        if sum(values) != new.sum - old.sum:
            wrong.append(f"{where}: {sum(values)} ns, the histogram has {new.sum - old.sum}")
        checked += len(values)
        buckets += len(grown)
    note(f"{checked} samples in {buckets} buckets")
    eq("samples and buckets that differ", wrong + [f"{where}: events of no histogram" for where in samples], [])
    within("samples", 1000, checked)


def test_event_samples():
    """There is exactly one event for each sample, in every bucket."""
    load_all()
    measure(0)
    instance = Instance(*EVENTS)
    before = save()
    measure(1)
    messages(1)
    measure(0)
    after = save()
    instance.nothing_lost()
    check_samples(before, after, [of_event(line) for line in instance.lines()])


def expected_counts(before: Saved, after: Saved, events: list[str]) -> dict[str, int]:
    """Returns how often each event must have been seen."""
    grown = Counter({metric: sum(after[where].count - before[where].count for where in after if where[1] == metric)
                     for metric in METRICS})
    def numbers(pattern: str) -> list[int]:
        return [int(number) for line in events for number in re.findall(pattern, line)]
    return {event: grown[event] for event in EVENTS} | {
        "blocked": grown["blocked_interruptible"] + grown["blocked_uninterruptible"],
        "long_wait": int(re.search(r"^all waits (\d+) ", read("long_waits"), re.MULTILINE)[1]),
        "outlier": status("outliers"),
        "culprit": sum(numbers(r"^outlier: .* culprits=(\d+) ")),
        "chain": len(numbers(r"^outlier: id=(\d+) metric=runq_")),
        "hop": sum(numbers(r"^chain: .* hops=(\d+)$")),
    }


@allow(480)
def test_event_window():
    needs("perf", "trace-cmd", "bpftrace", "hist")
    load_all("chain=1024")
    measure(0)
    outliers_of("runq", 150)
    outliers_of("idle", 150)
    write("long_wait_ns", 1)
    instance = Instance(*EVENTS)
    # Also lets the kernel count each event.
    for event in EVENTS:
        write_file(instance.path / "events/schedhist" / event / "trigger", "hist:keys=cpu")
    listeners = bpftrace, perf, trace_cmd = Bpftrace(), Perf(), TraceCmd()
    for listener in listeners[::-1]:
        listener.wait()
    before = save()
    measure(1)
    messages(1)
    # Idle periods, and chains of sleeps.
    for _ in range(60):
        time.sleep(0.001)
    measure(0)
    after = save()
    # perf misses the same ones.
    missed = bpftrace.missed()
    instance.nothing_lost()
    nothing_lost(TraceCmd.INSTANCE)
    # One after the other: trace-cmd reads the kernel's symbols, and bpftrace removes some.
    trace_cmd.end()
    perf.end()
    bpftrace.off()

    ftrace = [of_event(line) for line in instance.lines()]
    of_perf, of_trace_cmd = perf.events(), [of_event(line) for line in trace_cmd.lines()]
    less, more = Counter(ftrace) - Counter(of_perf), Counter(of_perf) - Counter(ftrace)
    if more or sum(less.values()) != missed:
        raise Wrong(f"perf sees others, and bpftrace missed {missed}: {list(more)[:5]}, {list(less)[:5]}")
    eq("what trace-cmd sees", sorted(of_trace_cmd), sorted(ftrace))
    waits = {event: Counter(re.findall(rf"^{event}: .* pid=(\d+) .* cpu=(\d+) duration_ns=([1-9]\d*) .*cause=(\w+) "
                                       r"group=0$", "\n".join(ftrace), re.MULTILINE)) for event in ("runq", "long_wait")}
    eq("what long_wait has in common with runq", waits["long_wait"], waits["runq"])
    check_samples(before, after, ftrace)
    eq("groups", set(re.findall(r"^(?:outlier|culprit): .* group=(\d+)", "\n".join(ftrace), re.MULTILINE)), {"0"})
    seen = [Counter(line.partition(":")[0] for line in lines) for lines in (ftrace, of_perf, of_trace_cmd)]
    for event, wanted in expected_counts(before, after, ftrace).items():
        by_perf = seen[1][event]
        hist = (instance.path / "events/schedhist" / event / "hist").read_text()
        counts = [of[event] for of in seen] + [bpftrace.count(event), *hits(hist)]
        note(f"{event}: {wanted}; ftrace, perf, trace-cmd, bpftrace, hist: {counts}")
        eq(f"{event} seen by ftrace, perf, trace-cmd, bpftrace, hist", counts,
           [wanted, by_perf, wanted, by_perf, wanted])
        # Nothing has a quota here, and many a kernel requests nothing lazily.
        if event not in ("throttled", "resched", "resched_lazy"):
            within(f"number of {event}", 50, wanted, 100_000)
    eq("outliers", status("outliers"), 150)
