#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Check OpenMetrics text of schedhist with a published parser.

The parser is that of the Python package prometheus_client (Debian: python3-prometheus-client). It
refuses text that is not OpenMetrics. In addition this checks the properties of schedhist's
histograms: buckets in ascending order, counts that do not fall, +Inf, _count and _sum present and
in agreement, bounds that are a whole number of nanoseconds, and the end.
"""

import argparse
import sys
from decimal import Decimal
from pathlib import Path

try:
    from prometheus_client import parser as old_parser
    from prometheus_client.openmetrics import parser
except ImportError as error:
    MISSING = error
else:
    MISSING = None


def check(condition, message):
    if not condition:
        sys.exit(f"openmetrics_check: {message}")


def check_histogram(family, lines):
    """Check a histogram, by the parser's numbers and by the text itself."""
    series = {}
    for sample in family.samples:
        labels = {key: value for key, value in sample.labels.items() if key != "le"}
        check(set(labels) in (set(), {"cpu"}, {"group"}), f"{sample}: unexpected label")
        one = series.setdefault(tuple(labels.items()), {"buckets": []})
        if sample.name.endswith("_bucket"):
            one["buckets"].append((sample.labels["le"], sample.value))
        else:
            kind = sample.name[len(family.name) + 1:]
            check(kind not in one, f"{sample}: twice")
            one[kind] = sample.value
    check(series, f"{family.name}: no samples")
    all_bounds = set()
    for labels, one in series.items():
        where = f"{family.name}, {labels}"
        bounds = [le for le, _ in one["buckets"]]
        counts = [count for _, count in one["buckets"]]
        check(len(bounds) > 1, f"{where}: {len(bounds)} buckets")
        check(bounds[-1] == "+Inf", f"{where}: no +Inf at the end")
        check("count" in one and "sum" in one, f"{where}: no _count or no _sum")
        check(counts[-1] == one["count"], f"{where}: +Inf {counts[-1]}, _count {one['count']}")
        check(counts == sorted(counts), f"{where}: counts fall: {counts}")
        numbers = [Decimal(le) for le in bounds[:-1]]
        check(numbers == sorted(set(numbers)), f"{where}: bounds do not rise: {bounds}")
        for number in numbers:
            nanoseconds = number * 1_000_000_000
            check(nanoseconds == int(nanoseconds), f"{where}: le {number} is not exact")
        check((one["sum"] > 0) or counts[0] == counts[-1], f"{where}: samples without a sum")
        all_bounds.add(tuple(bounds))
    check(len(all_bounds) == 1, f"{family.name}: bounds differ")
    check(family.unit == "seconds", f"{family.name}: unit {family.unit!r}")

    # The parser converts counts to floating point; here they are exact.
    exact = {}
    start = f"{family.name}_bucket{{"
    for line in lines:
        if line.startswith(start) and 'le="+Inf"} ' in line:
            labels, _, count = line[len(start):].rpartition('le="+Inf"} ')
            exact[labels.rstrip(",")] = count
    start = f"{family.name}_count"
    for line in lines:
        if line.startswith((f"{start} ", f"{start}{{")):
            labels, _, count = line[len(start):].rpartition(" ")
            check(exact.pop(labels[1:-1], None) == count, f"{line}: not that of +Inf")
    check(not exact, f"{family.name}: +Inf without a count: {exact}")


def check_text(text):
    """Check the whole text of a file."""
    check(text.endswith("\n# EOF\n"), "does not end with # EOF")
    lines = text.splitlines()
    try:
        families = list(parser.text_string_to_metric_families(text))
    except ValueError as error:
        sys.exit(f"openmetrics_check: {error}")

    names = [family.name for family in families]
    check(len(names) == len(set(names)), "a family twice")
    kinds = {"histogram": 0, "counter": 0, "gauge": 0}
    for family in families:
        check(family.name.startswith("schedhist_"), f"{family.name}: not ours")
        check(family.documentation, f"{family.name}: no HELP")
        check(family.type in kinds, f"{family.name}: type {family.type}")
        check(family.samples, f"{family.name}: no samples")
        kinds[family.type] += 1
        if family.type == "histogram":
            check_histogram(family, lines)
    grouped = 'schedhist_group_by_info{rule="none"} 1' not in lines
    check(kinds["counter"] and bool(kinds["histogram"]) == grouped, f"too few families: {kinds}")

    # The older format, which textfile collectors read, contains the same samples.
    old = {sample.name for family in old_parser.text_string_to_metric_families(text)
           for sample in family.samples}
    new = {sample.name for family in families for sample in family.samples}
    check(old == new, f"the older format's parser differs: {old ^ new}")
    samples = sum(len(family.samples) for family in families)
    print(f"ok: {len(families)} families, {samples} samples")


def main():
    arguments = argparse.ArgumentParser(description=__doc__,
                                        formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("file", metavar="FILE", nargs="*",
                           help="such as /sys/kernel/debug/schedhist/openmetrics (default: standard input)")
    files = arguments.parse_args().file
    if MISSING:
        sys.exit(f"openmetrics_check: {MISSING}: install python3-prometheus-client")
    for data in [Path(name).read_bytes() for name in files] or [sys.stdin.buffer.read()]:
        check_text(data.decode("utf-8"))


if __name__ == "__main__":
    main()
