# SPDX-License-Identifier: GPL-2.0
"""The module: loaded and unloaded, its controls, and what its text files say."""

import os
import time
from itertools import accumulate
from pathlib import Path
from typing import Iterable

from .kernel import OWN, TRACEFS
from .ktap import Wrong, eq, wait_until, within
from .names import METRICS
from .process import WORK, call, helper, write_file

DEBUGFS = Path("/sys/kernel/debug/schedhist")
EVENTFS = TRACEFS / "events/schedhist"
KO = WORK / "schedhist.ko"
OF_LOADED = Path("/sys/module")

# --- loading ---


def insert(file: Path, *parameters: str) -> None:
    fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        call("finit_module", fd, os.fsencode(" ".join(parameters)), 0)
    finally:
        os.close(fd)


def remove(name: str) -> None:
    call("delete_module", name.encode(), os.O_NONBLOCK)


def load(*parameters: str) -> None:
    insert(KO, *parameters)


def load_all(*parameters: str) -> None:
    """Loads the module with all metrics, including those that are off by default."""
    load("metrics=all", *parameters)


def unload() -> None:
    remove("schedhist")


def loaded(name: str) -> bool:
    return (OF_LOADED / name).is_dir()


def load_helper(name: str, *parameters: str) -> None:
    insert(helper(f"{name}.ko"), *parameters)


def parameter(module: str, name: str) -> str:
    return (OF_LOADED / module / "parameters" / name).read_text().rstrip("\n")


def assert_gone() -> None:
    """Asserts that the module has left nothing behind."""
    for path in (OF_LOADED / "schedhist", DEBUGFS, EVENTFS):
        if path.exists():
            raise Wrong(f"{path} is still there")


# --- its files ---


def read(file: str) -> str:
    """Returns the text of a file. Bytes that are not text are as in the names of files."""
    with open(f"{DEBUGFS}/{file}", encoding="utf-8", errors="surrogateescape", newline="") as opened:
        return opened.read()


def lines_of(file: str) -> list[str]:
    return read(file).splitlines()


def value(file: str) -> str:
    """Returns what a control says."""
    return read(file).rstrip("\n")


def write(file: str, text: str | int) -> None:
    write_file(f"{DEBUGFS}/{file}", f"{text}\n")


def measure(on: bool | int) -> None:
    write("enable", int(on))


def reset() -> None:
    write("reset", 1)


# --- the status ---


class Status:
    """The file `status`, or a copy of it: its settings and counters, of all CPUs and of each."""

    def __init__(self, text: str = "") -> None:
        first, *rest = (text or read("status")).splitlines()
        eq("first line", first, "# schedhist status version 1")
        self.settings: dict[str, str] = {}
        self.counters: dict[str, dict[str, int]] = {"all": {}}
        for line in rest:
            words = line.split(" ")
            key = words[0]
            if key == "metrics":
                self.settings[key] = line[len("metrics "):]
            elif len(words) == 3:
                self.counters.setdefault(key, {})[words[1]] = int(words[2])
            elif len(words) == 2:
                self.settings[key] = words[1]
                if words[1].isdigit():
                    self.counters["all"][key] = int(words[1])
            else:
                raise Wrong(f"status: {line}")

    @property
    def cpus(self) -> list[str]:
        return [scope for scope in self.counters if scope != "all"]


def status(key: str, cpu: str = "all") -> int:
    """Returns a number of the file `status`."""
    return Status().counters[cpu][key]


def let_count(key: str, number: int) -> None:
    """Waits, up to 50 s, until a counter of `status` is at least this. On a busy host that takes long.
    The caller asserts what it wants."""
    try:
        for _ in range(100):
            if status(key) >= number:
                return
            time.sleep(0.5)
    except KeyError:
        raise Wrong(f"there is no {key}") from None


# --- histograms ---

QUANTILES = {"p50": 5000, "p90": 9000, "p99": 9900, "p99.9": 9990, "p99.99": 9999}


class Histogram:
    """A histogram file. Reading it checks that it is written as documented."""

    def __init__(self, text: str, where: str = "") -> None:
        self.where = where
        self.values: dict[str, str] = {}
        # By lower bound: upper bound, and number of samples.
        self.buckets: dict[int, tuple[float, int]] = {}
        self.quantiles: dict[str, tuple[int, float]] = {}
        first, *lines = text.splitlines()
        eq(f"{where}, first line", first, "# schedhist histogram version 1")
        last = -1.0
        for line in lines:
            key, _, rest = line.partition(" ")
            if key == "bucket":
                lower, upper, count = self._numbers(rest, 3)
                if lower <= last or not count:
                    raise Wrong(f"{where}: not after the bucket before, or empty: {line}")
                width = upper - lower + 1
                if width > 1 and width != float("inf") and width * 2 ** int(self.values["precision"]) > lower:
                    raise Wrong(f"{where}: too wide: {line}")
                last = upper
                self.buckets[int(lower)] = upper, int(count)
            elif key in QUANTILES:
                lower, upper = self._numbers(rest, 2)
                self.quantiles[key] = int(lower), upper
            elif key in ("metric", "cpu", "unit", "precision", "count", "sum", "min", "max", "max_cpu", "max_time",
                         "max_pid", "max_prio", "max_comm") and (rest or key == "max_comm"):
                self.values[key] = rest
            else:
                raise Wrong(f"{where}: not understood: {line}")
        self.metric, self.cpu = self.values["metric"], self.values["cpu"]
        self.precision, self.count, self.sum = (int(self.values[key]) for key in ("precision", "count", "sum"))
        self.min, self.max = ([int(self.values[key])] if key in self.values else [] for key in ("min", "max"))
        eq(f"{where}, unit", self.values["unit"], "ns")
        # Even while everything changes.
        eq(f"{where}, sum of the buckets", sum(count for _, count in self.buckets.values()), self.count)

    @staticmethod
    def _numbers(text: str, number: int) -> list[float]:
        words = text.split(" ")
        if len(words) != number:
            raise Wrong(f"not {number} numbers: {text}")
        return [float("inf") if word == "inf" else int(word) for word in words]

    def check(self) -> None:
        """Checks that its parts agree: exact while measuring is off."""
        where, bounds = self.where, {lower: upper for lower, (upper, _) in self.buckets.items()}
        places = list(bounds.items())
        if self.count:
            (low, low_upper), (high, high_upper) = places[0], places[-1]
            within(f"{where}, min in the first bucket", low, self.min[0], low_upper)
            within(f"{where}, max in the last bucket", high, self.max[0], high_upper)
            within(f"{where}, sum", self.min[0], self.sum, self.count * self.max[0])
            if not {"max_comm", "max_time"} <= set(self.values):
                raise Wrong(f"{where}: whose maximum")
            wanted = {name: self._quantile(share) for name, share in QUANTILES.items()}
            eq(f"{where}, quantiles", self.quantiles, wanted)

    def _quantile(self, share: int) -> tuple[int, float]:
        """Returns the bounds of the bucket with this share of the samples at or below it, of 10000."""
        rank = -(-self.count * share // 10_000)
        below = accumulate(count for _, count in self.buckets.values())
        return next((low, high) for (low, (high, _)), sum in zip(self.buckets.items(), below) if sum >= rank)


def histogram(metric: str, cpu: int | str = "all") -> Histogram:
    file = f"hist/{metric}" if cpu == "all" else f"per_cpu/cpu{cpu}/hist/{metric}"
    return Histogram(read(file), file)


def count(metric: str, cpu: int | str = "all") -> int:
    return histogram(metric, cpu).count


def check_histograms(cpus: Iterable[int]) -> None:
    """Checks the histogram of each metric, of all CPUs and of each of these."""
    for cpu in ("all", *cpus):
        for metric in METRICS:
            histogram(metric, cpu).check()


def above_1ns(metrics: Iterable[str] = METRICS) -> int:
    """Returns the number of samples above 1 ns since the last reset. Values this small have a bucket each."""
    return sum(count for metric in metrics if metric != "runq"
               for lower, (_, count) in histogram(metric).buckets.items() if lower > 1)


# --- waiting for what it shows ---


def waits_in_kernel(tid: int, function: str = "schedhist_wait_event") -> bool:
    """Returns whether a task sleeps in this function. User Mode Linux shows no stack: there it must have one of
    our files open, and sleep."""
    if OWN == "uml":
        files = [os.path.realpath(fd) for fd in Path(f"/proc/{tid}/fd").iterdir()]
        is_asleep = "\nState:\tS" in Path(f"/proc/{tid}/status").read_text()
        return is_asleep and any(file.startswith(f"{DEBUGFS}/") for file in files)
    return function in Path(f"/proc/{tid}/stack").read_text()


def wait_for_count(key: str, number: int) -> None:
    wait_until(f"{key} of {number}", lambda: status(key) >= number)
