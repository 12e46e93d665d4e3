# SPDX-License-Identifier: GPL-2.0
"""The live view and the exporter, while the module is loaded, unloaded and loaded anew."""

import json
import os
import re
import shutil
import signal
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from harness.test import (THOROUGH, TREE, Wrong, allow, eq, expedite_rcu, load, measure, messages, note, run,
                          skip, wait_until, within)
from harness.terminal import need_terminal, on_screen, open_terminal, terminal
from harness.tool import TOOL, Job, begin, objects, tool, unload_under_readers

# --- top ---


def test_tool_top():
    """The live view outlives the module and goes on with the next load of it, and the terminal is as before,
    whatever ends it. (That it is so after a panic, too, needs a build with debug assertions: see
    tools/schedhist/command/tests/top.rs.)"""
    need_terminal()
    begin()
    expedite_rcu()
    Path("session").write_text(f"""cd {Path.cwd()}
        for how in q INT TERM; do
            stty -a > before.$how
            {TOOL} top -d 0.5
            echo "$?" > status.$how
            stty -a > after.$how
            read -r go
        done
        """)
    open_terminal("80x24", f"sh {Path('session').absolute()}")
    on_screen("CPU 1")
    on_screen("  last [0-9]")
    unload_under_readers()
    text = on_screen(r"^schedhist  \[the module is not loaded: modprobe schedhist\]")
    # What was seen last stays.
    if not re.search("^>runq ", text, re.M):
        raise Wrong(f"nothing is left on the screen: {text}")
    load()
    text = on_screen("^schedhist  [0-9:]{8}  every 500ms  last [0-9]")
    rate = re.findall(r"^.* ([0-9]+)(k?) switches/s", text)
    # The counts of the first load are in no difference.
    within("switches a second", 0, int(rate[0][0]) * (1000 if rate[0][1] else 1), 1_000_000)
    for how in ("q", "INT", "TERM"):
        on_screen("q quit")
        if how == "q":
            terminal("send-keys", "q")
        else:
            os.kill(int(run("pidof", "-s", TOOL)), getattr(signal, f"SIG{how}"))
        after = Path(f"after.{how}")
        wait_until(f"the end by {how}", lambda: after.exists() and after.read_text())
        eq(f"status after {how}", Path(f"status.{how}").read_text(), "0\n")
        eq(f"terminal after {how}", after.read_text(), Path(f"before.{how}").read_text())
        eq(f"alternate screen, cursor and wrapping after {how}",
           terminal("display", "-p", "#{alternate_on}#{cursor_flag}#{wrap_flag}"), "011\n")
        terminal("send-keys", "Enter")


# --- export ---

SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}
# A native bucket of schema 3, and rounding.
NATIVE = 2 ** (1 / 8) * 1.02
# The lowest classic bucket ends at 256 ns.
MIN_LE = 2.6e-7
EXPORTED = ["oncpu", "runq", "runq_wakeup", "runq_preempt", "blocked_interruptible", "offcpu", "idle", "wakeup"]


def query(text: str) -> list[float]:
    """Returns the values of the result."""
    url = "http://127.0.0.1:9764/api/v1/query?query=" + urllib.parse.quote(text)
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            result = json.load(answer)
    except OSError:
        return []
    return [float(series["value"][1]) for series in result["data"]["result"]]


def said(*words: str) -> list[dict[str, Any]]:
    return objects(tool(*words).out)


def switches() -> float:
    """Waits until Prometheus has what the module has counted. Returns it."""
    count = next(float(line["switches"]) for line in said("-j") if "switches" in line)
    wait_until(f"{count:.0f} switches", lambda: query("schedhist_switches_total") == [count])
    return count


def histograms() -> list[dict[str, Any]]:
    ours = said("hist", "-j", "-q", ",".join(name[1:] for name in SHARES), *EXPORTED)
    return [line for line in ours if line["schema"].startswith("schedhist.histogram")]


def check_quantiles() -> None:
    """What measuring has left, while it is off: each count and sum is that of the command, and each quantile, by
    native and by classic histograms, is the command's own to a bucket."""
    wait_until("Prometheus starts and scrapes", lambda: query("up") == [1.0])
    note(f"{switches():.0f} switches are scraped")
    compared, worst = 0, {"native": 1.0, "classic": 1.0}
    for ours in histograms():
        name = f"schedhist_{ours['metric']}_seconds"
        eq(f"count of {name}", query(f"histogram_count({name})"), [float(ours["count"])])
        eq(f"count of {name}_bucket", query(f'{name}_bucket{{le="+Inf"}}'), [float(ours["count"])])
        (total,) = query(f"histogram_sum({name})")
        if abs(total - ours["sum_ns"] / 1e9) > 1e-9 * max(total, 1):
            raise Wrong(f"sum of {name}: {total}, not {ours['sum_ns']} ns")
        for bounds in ours["quantiles"]:
            if bounds.get("upper") is None:
                continue
            low, high = bounds["lower"] / 1e9, (bounds["upper"] + 1) / 1e9
            share = SHARES[bounds["name"]]
            for kind, series, width in ("native", name, NATIVE), ("classic", f"{name}_bucket", 2.0):
                (found,) = query(f"histogram_quantile({share}, {series})")
                if not low / width <= found <= max(high * width, MIN_LE):
                    raise Wrong(f"{bounds['name']} of {series}: {found}, not within {low} to {high}, to a bucket")
                worst[kind] = max(worst[kind], low / found, found / high if high > MIN_LE else 1)
                compared += 1
    # Groups: this guest's tasks are in some cgroup.
    (groups,) = query("sum(histogram_count(schedhist_group_runq_seconds))")
    (everything,) = query("histogram_count(schedhist_runq_seconds)")
    (missing,) = query("sum(schedhist_group_not_in_histogram)")
    if not 0 < groups <= everything or not 0 <= missing:
        raise Wrong(f"groups have {groups} waits, and {missing} not in histograms, of {everything}")
    within("quantiles that were compared", 30, compared)
    note(f"{compared} quantiles: native at most {(worst['native'] - 1) * 100:.1f} % beyond the bucket of the tool, "
         f"classic {(worst['classic'] - 1) * 100:.0f} %")


def check_anew() -> None:
    """After a load that counted less, while measuring is off: one counter reset, and no more in any increase than
    the new load has counted."""
    wait_until("the module is there again", lambda: query("schedhist_up") == [1.0])
    count = switches()
    for series in "schedhist_switches_total", "schedhist_runq_seconds", "schedhist_oncpu_seconds_count":
        eq(f"resets of {series}", query(f"resets({series}[10m])"), [1.0])
    # An increase is extrapolated to the ends of its range, by an interval or so.
    (before,) = query("max_over_time(schedhist_switches_total[10m])")
    (in_all,) = query("increase(schedhist_switches_total[10m])")
    (waits,) = query("histogram_count(increase(schedhist_runq_seconds[10m]))")
    (steepest,) = query("max_over_time(increase(schedhist_switches_total[5s])[5m:1s])")
    note(f"{before:.0f} switches before, {count:.0f} after; increase of all {in_all:.0f}, of waits {waits:.0f}, in 5 s "
         f"at most {steepest:.0f}")
    for increase in in_all, waits, steepest:
        if not 0 < increase <= 1.3 * (before + count):
            raise Wrong(f"a spike: {increase}")
    eq("up throughout", query("min_over_time(up[10m])"), [1.0])
    eq("failed scrapes", query("count_over_time((up == 0)[10m:1s])"), [])


@allow(300)
def test_tool_prometheus():
    """Prometheus scrapes the module of this guest: `up` throughout, the command's quantiles, and a load of the
    module anew is a counter reset and no spike. It takes half a minute under emulation, most of it for Prometheus
    to start."""
    if not THOROUGH:
        skip("it takes long: needs --thorough")
    if not shutil.which("prometheus"):
        skip("prometheus is not installed")
    begin("metrics=all", "group_by=cgroup")
    run("ip", "link", "set", "lo", "up")
    Path("prometheus.yml").write_text(f"""
global:
  scrape_interval: 1s
rule_files: [{TREE}/tools/prometheus/*.rules.yml]
scrape_configs:
  - job_name: schedhist
    scrape_classic_histograms: true
    static_configs:
      - targets: ['127.0.0.1:9763']
""")
    exporter = Job("export")
    prometheus = Job("--config.file=prometheus.yml", "--storage.tsdb.path=data", "--web.listen-address=127.0.0.1:9764",
                     "--enable-feature=native-histograms", program=Path("prometheus"))
    messages(20)
    measure(0)
    check_quantiles()
    unload_under_readers()
    wait_until("the module is gone", lambda: query("schedhist_up") == [0.0])
    eq("up", query("up"), [1.0])
    eq("switches of no module", query("schedhist_switches_total"), [])
    load("metrics=all")
    messages(5)
    measure(0)
    check_anew()
    complaints = re.findall("^.*level=(?:error|warn).*", "".join(prometheus.said()), re.M)
    eq("what Prometheus complains of", complaints, [])
    exporter.process.terminate()
    prometheus.ends(0, signal.SIGTERM)
