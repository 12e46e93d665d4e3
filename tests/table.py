# SPDX-License-Identifier: GPL-2.0
"""Prints the results of runs on several kernels as a table. Not to be run by hand: tests/matrix does.

usage: table.py KERNELS TESTS

KERNELS are the names of files with results, and TESTS those that every kernel is to run.
"""

import re
import sys

kernels, tests = (words.split() for words in sys.argv[1:])
# Figures that the tests print.
FIGURES = {
    "load/unload cycles": r"# (\d+) load/unload cycles;",
    "inputs to files": r"# (\d+) inputs, \d+ accepted",
    "allocations failed": r".*?(\d+) allocations failed",
    "minutes": r"# all of it took (\d+)",
}
tested, reasons, counts, cut = {}, {}, {"ok": 0, "FAIL": 0, "skip": 0}, 0
# By row and kernel. The rows are in the order in which the first kernel that has a test ran it.
cells: dict[str, dict[str, str]] = {}
figures: dict[str, dict[str, int]] = {}

for kernel in kernels:
    is_complete = False
    for line in open(kernel, encoding="utf-8", errors="replace").read().splitlines():
        if result := re.match(r"(ok|not ok|skip) ([^ :]+):? *(.*)", line):
            verdict = result[1].replace("not ok", "FAIL")
            counts[verdict] += 1
            if verdict == "skip":
                verdict = f"({reasons.setdefault(result[3], len(reasons) + 1)})"
            # The names of tests/faults contain the kernel.
            cells.setdefault(result[2].replace(f"faults/{kernel}/", "faults/"), {})[kernel] = verdict
        for name, pattern in FIGURES.items():
            if found := re.match(pattern, line):
                row = figures.setdefault(name, {})
                row[kernel] = row.get(kernel, 0) + int(found[1])
        is_complete |= bool(re.match(r"\d+ passed, \d+ failed", line))
        if line.startswith("# tested "):
            tested[kernel] = line.removeprefix("# tested ")
    if not is_complete:
        print(f"\nthe run on {kernel} was cut off")
        cut += 1
for test in tests:
    for kernel in kernels:
        if cells.setdefault(test, {}).setdefault(kernel, "none") == "none":
            cut += 1

width = max(map(len, [*cells, *figures, "test"]))


def row(name: str, of: dict, last: str = "") -> None:
    print(f"{name:<{width}}" + "".join(f"  {of.get(kernel, '-'):>9}" for kernel in kernels) + last)


print()
row("test", dict(zip(kernels, kernels)))
for name, of in cells.items():
    row(name, of)
print()
for name, of in figures.items():
    row(name, of, f"  {sum(of.values()):>10} in all")
print()
for kernel in kernels:
    print(f"{kernel:<9}  {tested.get(kernel, '')}")
print("\n-: not run on this kernel: faults needs our kernels, lockdown a stock one;")
print("none: the run ended before this test")
for reason, number in reasons.items():
    print(f"({number}) {reason}")
failed = counts["FAIL"] + cut
print(f"\n{counts['ok']} passed, {failed} failed, {counts['skip']} skipped")
sys.exit(failed > 0)
