# SPDX-License-Identifier: GPL-2.0
"""That everything that the module shows adds up, on each CPU and over all."""

from collections import Counter

from .ktap import Wrong
from .module import Histogram, Status, histogram
from .names import LAWS, METRICS


class Sums:
    """Collects what does not add up, so that all of it is seen at once."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def same(self, what: str, found: object, wanted: object) -> None:
        if found != wanted:
            self.problems.append(f"{what}: {found} is not {wanted}")

    def end(self) -> None:
        if self.problems:
            raise Wrong("\n".join(self.problems[:20]))


def _check_merged(sums: Sums, metric: str, merged: Histogram, of_cpus: list[Histogram]) -> None:
    sums.same(f"{metric} merged, sum", merged.sum, sum(one.sum for one in of_cpus))
    sums.same(f"{metric} merged, min", merged.min, sorted(v for one in of_cpus for v in one.min)[:1])
    sums.same(f"{metric} merged, max", merged.max, sorted(v for one in of_cpus for v in one.max)[-1:])
    buckets: Counter[int] = Counter()
    for one in of_cpus:
        for lower, (_, count) in one.buckets.items():
            buckets[lower] += count
    sums.same(f"{metric} merged, buckets", {lower: count for lower, (_, count) in merged.buckets.items()}, buckets)


def check_laws(**wanted: int) -> None:
    """Asserts that everything adds up. Only exact while measuring is off. With KEY=VALUE, a counter or the
    count of a metric, over all CPUs, must equal VALUE."""
    sums, status = Sums(), Status()
    counts, cpus = status.counters, status.cpus
    measured = set(status.settings["metrics"].split())
    counters = set(counts["cpu0"])
    for metric in METRICS:
        merged = histogram(metric)
        of_cpus = [histogram(metric, cpu[3:]) for cpu in cpus]
        _check_merged(sums, metric, merged, of_cpus)
        for scope, one in zip(["all", *cpus], [merged, *of_cpus]):
            # The counter of the same name counts even while the metric is off.
            if metric not in counts[scope]:
                counts[scope][metric] = one.count
            elif metric in measured:
                sums.same(f"{scope}: the counter {metric}", counts[scope][metric], one.count)
        counters.add(metric)
    for key in sorted(counters):
        sums.same(f"{key} of all CPUs", counts["all"][key], sum(counts[cpu][key] for cpu in cpus))
    for scope, values in counts.items():
        for whole, parts, metrics in LAWS:
            if metrics <= measured:
                total = sum(values[part] for part in parts)
                sums.same(f"{scope}: {whole} and {' + '.join(parts)}", values[whole], total)
        # A stay whose start was not seen may have been one of a task.
        tasks = values["voluntary"] + values["involuntary"]
        if not values["oncpu"] <= tasks <= values["oncpu"] + values["start_unseen"]:
            sums.problems.append(f"{scope}: {tasks} switch-outs of tasks, oncpu {values['oncpu']}")
    for key, number in wanted.items():
        sums.same(key, counts["all"][key], number)
    if not counts["all"]["switches"]:
        sums.problems.append("no switch")
    sums.end()
