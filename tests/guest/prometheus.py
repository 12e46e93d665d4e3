#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Asks a Prometheus that scrapes `schedhist export` in this guest.

usage: prometheus.py quantiles TOOL
       prometheus.py gone
       prometheus.py anew TOOL

quantiles  what measuring has left, while it is off: each count and sum is that of TOOL, and each
           quantile, by native and by classic histograms, is the tool's own to a bucket
gone       waits until the module is known to be gone; the exporter is still there
anew       after a load that counted less, while measuring is off: one counter reset, and no more
           in any increase than the new load has counted
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from typing import Any, Callable

SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}
# A native bucket of schema 3, and rounding.
NATIVE = 2 ** (1 / 8) * 1.02
# The lowest classic bucket ends at 256 ns.
LEAST = 2.6e-7


def die(text: str) -> None:
    sys.exit(f"prometheus: {text}")


def same(what: str, found: object, wanted: object) -> None:
    if found != wanted:
        die(f"{what}: found {found}, wanted {wanted}")


def query(text: str) -> list[float]:
    """Returns the values of the result."""
    url = "http://127.0.0.1:9764/api/v1/query?query=" + urllib.parse.quote(text)
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            result = json.load(answer)
    except OSError:
        return []
    return [float(series["value"][1]) for series in result["data"]["result"]]


def until(what: str, holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not holds():
        if time.monotonic() > end:
            die(f"not within two minutes: {what}")
        time.sleep(0.3)


def tool(*words: str) -> list[dict[str, Any]]:
    """Returns what the command prints with -j."""
    said = subprocess.run(words, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    return [json.loads(line) for line in said.splitlines()]


def switches(path: str) -> float:
    """Waits until Prometheus has what the module has counted. Returns it."""
    count = next(float(line["switches"]) for line in tool(path, "-j") if "switches" in line)
    until(f"{count:.0f} switches", lambda: query("schedhist_switches_total") == [count])
    return count


def histograms(path: str) -> list[dict[str, Any]]:
    ours = tool(path, "hist", "-j", "-q", ",".join(name[1:] for name in SHARES), *METRICS)
    return [line for line in ours if line["schema"].startswith("schedhist.histogram")]


METRICS = ["oncpu", "runq", "runq_wakeup", "runq_preempt", "blocked_interruptible", "offcpu", "idle", "wakeup"]


def quantiles(path: str) -> None:
    until("Prometheus starts and scrapes", lambda: query("up") == [1.0])
    print(f"# {switches(path):.0f} switches are scraped", flush=True)
    compared, worst = 0, {"native": 1.0, "classic": 1.0}
    for ours in histograms(path):
        name = f"schedhist_{ours['metric']}_seconds"
        same(f"count of {name}", query(f"histogram_count({name})"), [float(ours["count"])])
        same(f"count of {name}_bucket", query(f'{name}_bucket{{le="+Inf"}}'), [float(ours["count"])])
        (total,) = query(f"histogram_sum({name})")
        if abs(total - ours["sum_ns"] / 1e9) > 1e-9 * max(total, 1):
            die(f"sum of {name}: {total}, not {ours['sum_ns']} ns")
        for bounds in ours["quantiles"]:
            if bounds.get("upper") is None:
                continue
            low, high = bounds["lower"] / 1e9, (bounds["upper"] + 1) / 1e9
            share = SHARES[bounds["name"]]
            for kind, series, width in ("native", name, NATIVE), ("classic", f"{name}_bucket", 2.0):
                (found,) = query(f"histogram_quantile({share}, {series})")
                if not low / width <= found <= max(high * width, LEAST):
                    die(f"{bounds['name']} of {series}: {found}, not within {low} to {high}, to a bucket")
                worst[kind] = max(worst[kind], low / found, found / high if high > LEAST else 1)
                compared += 1
    # Groups: this guest's tasks are in some cgroup.
    (groups,) = query("sum(histogram_count(schedhist_group_runq_seconds))")
    (everything,) = query("histogram_count(schedhist_runq_seconds)")
    (missing,) = query("sum(schedhist_group_not_in_histogram)")
    if not 0 < groups <= everything or not 0 <= missing:
        die(f"groups have {groups} waits, and {missing} not in histograms, of {everything}")
    if compared < 30:
        die(f"only {compared} quantiles were compared")
    print(
        f"# {compared} quantiles: native at most {(worst['native'] - 1) * 100:.1f} % beyond the bucket of "
        f"the tool, classic {(worst['classic'] - 1) * 100:.0f} %",
        flush=True,
    )


def gone() -> None:
    until("the module is gone", lambda: query("schedhist_up") == [0.0])
    same("up", query("up"), [1.0])
    same("switches of no module", query("schedhist_switches_total"), [])


def anew(path: str) -> None:
    until("the module is there again", lambda: query("schedhist_up") == [1.0])
    count = switches(path)
    for series in "schedhist_switches_total", "schedhist_runq_seconds", "schedhist_oncpu_seconds_count":
        same(f"resets of {series}", query(f"resets({series}[10m])"), [1.0])
    # An increase is extrapolated to the ends of its range, by an interval or so.
    (before,) = query("max_over_time(schedhist_switches_total[10m])")
    (in_all,) = query("increase(schedhist_switches_total[10m])")
    (waits,) = query("histogram_count(increase(schedhist_runq_seconds[10m]))")
    (steepest,) = query("max_over_time(increase(schedhist_switches_total[5s])[5m:1s])")
    print(
        f"# {before:.0f} switches before, {count:.0f} after; increase of all {in_all:.0f}, of waits {waits:.0f}, "
        f"in 5 s at most {steepest:.0f}",
        flush=True,
    )
    for increase in in_all, waits, steepest:
        if not 0 < increase <= 1.3 * (before + count):
            die(f"a spike: {increase}")
    same("up throughout", query("min_over_time(up[10m])"), [1.0])
    same("failed scrapes", query("count_over_time((up == 0)[10m:1s])"), [])


if __name__ == "__main__":
    if sys.argv[1] == "quantiles":
        quantiles(sys.argv[2])
    elif sys.argv[1] == "gone":
        gone()
    else:
        anew(sys.argv[2])
