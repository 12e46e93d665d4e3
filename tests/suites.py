# SPDX-License-Identifier: GPL-2.0
"""Runs suites side by side, and shows their output one after the other. Not to be run by hand: tests/run does.

usage: suites.py KERNEL KIND RUN EARLIER ADVICE SUITE...
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter, defaultdict, deque
from typing import Any, Iterator

KERNEL, KIND, RUN, EARLIER, ADVICE, *SUITES = sys.argv[1:]
STATE, STAMPS, OURS = os.environ["STATE"], os.environ["STAMPS"], os.environ["DEBUG_KERNELS"].split()
NEWEST = os.environ["SUPPORTED"].split()[0]
QUICK, THOROUGH = KIND == "quick", KIND == "thorough"
RESULT = re.compile(r"(ok|not ok|skip) ([^ :\n]+)")
TIMES = f"{STATE}/seconds-{KERNEL}{'-quick' * QUICK}"

# Where `uml` runs, at the speed of the host, `guest` does not repeat what needs neither an accurate clock nor a stock
# kernel.
ON_UML_ALONE = """chain_unload churn fuzz_files group_gone group_gone_storm group_list_children group_list_rules
    group_list_storm group_reads group_refused_again group_remade_parameters group_remade_rule group_remade_under
    groups_change groups_large_process groups_law groups_limits memory_follows_pids reset_read tool_attach
    tool_children tool_groups tool_killed_anywhere tool_leader_gone""".split()
# The suites that run some tests of the guest on a kernel of ours: Debian stable's own version has a debug kernel.
KERNELS = {"debug": f"{KERNEL}-debug" if f"{KERNEL}-debug" in OURS else "debug", "uml": "uml"}
# On debug, those that find most bugs there in the least time; on User Mode Linux, what is done at random, and
# chains and long waits, which read what other CPUs write.
ON_KERNELS = {
    "debug": """clash enable wait_bursts hold_newtask groups_change fault_enable fault_threshold chain_events
    chain_hotplug""".split(),
    "uml": [*ON_UML_ALONE, "chaos", "chain_control", "long_wait_control", "long_waits_of_groups"],
}
# Where 256 CPUs are possible, and most of them never come.
ON_CPUS = """law groups_law raw histograms memory hotplug groups_hotplug chain_hotplug""".split()
# What the guest's kernel gets for a test, which has a guest of its own then.
PARAMETERS = {"long_waits_isolated": "isolcpus=1"}
# The guest tests of --quick: the laws, load and unload, files and events.
ON_QUICK = """law precision clash unload_enabled files histograms status summary event_filter event_format
    outlier_wakeup groups_law""".split()
IN_ROOT = ["scripts/bed/root", "--"]
COMMANDS = {
    "lint": ["scripts/bed/lint"],
    "tracegen": [*IN_ROOT, "tests/tracegen/run"],
    "engine": [*IN_ROOT, "tests/engine/run", *(["test"] if QUICK else [])],
    "tools": [*IN_ROOT, "tests/tools/run"],
    "bed": ["tests/bed/run"],
    **{suite: [f"tests/{suite}/run", "--kernel", KERNEL] for suite in ("install", "samples", "packages", "lockdown")},
    "cpus": ["scripts/bed/vm", "--kernel", KERNEL, "--possible", "256", "--with", "tests/helpers", "--append", "mitigations=off",
             "--", "tests/guest/run", *ON_CPUS],
    "faults": ["tests/faults/run", KERNEL],
}
CPUS = len(os.sched_getaffinity(0))
# Most jobs are guests, which keep a CPU busy. With more guests than CPUs, the CPU of a guest often spins on
# a lock whose holder the host does not run. The few jobs of a quick run all begin at once.
SLOTS = int(os.environ.get("SCHEDHIST_JOBS") or (5 if QUICK else min(max(CPUS, 2), 5)))


def say(text: str) -> None:
    print(f"schedhist: tests/run: {text}", file=sys.stderr, flush=True)


def show(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def lines_of(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.readlines()
    except OSError:
        return []


def minutes(seconds: float) -> str:
    number = max(1, round(seconds / 60))
    return f"{number} minute{'s' * (number > 1)}"


def read_earlier() -> tuple[dict[str, str], set[str]]:
    """Returns what the run that is resumed has printed for each suite, but failed tests, and which suites it has
    completed without one."""
    taken, done, suite, is_good = defaultdict(str), set(), "", False
    for line in lines_of(EARLIER):
        if line.startswith("=== "):
            suite, is_good = line.split()[1].rstrip(":"), False
            done |= {suite} if re.match(r"=== \S+: \d+ passed, 0 failed", line) else set()
        elif result := RESULT.match(line):
            is_good = result[1] != "not ok"
        if is_good and re.match(r"(ok|skip|#) ", line):
            taken[suite] += line
    return taken, done


def read_times(path: str) -> dict[str, int]:
    """Reads how many seconds jobs and tests took."""
    words = (line.split() for line in lines_of(path) if not line.startswith("#"))
    return {name: int(seconds) for name, seconds in words}


def save_times() -> None:
    """Without these, the next run's estimates are less accurate."""
    try:
        os.makedirs(STATE, exist_ok=True)
        with open(f"{TIMES}.new", "w", encoding="ascii") as file:
            file.writelines(f"{name} {it}\n" for name, it in sorted((read_times(TIMES) | took).items()))
        os.replace(f"{TIMES}.new", TIMES)
    except OSError as error:
        say(f"cannot save how long the tests took, to {TIMES} ({error.strerror})")


class Job(threading.Thread):
    """A suite, or a part of one: tests for a guest. Its output goes to a file."""

    def __init__(self, suite: str, name: str, expected: float, tests: list[str] | None = None, taken: str = "") -> None:
        super().__init__(daemon=True)
        self.suite, self.job, self.expected, self.tests, self.taken = suite, name, expected, tests, taken
        self.path = f"{work}/{name}.out"
        self.began = self.ended = self.process = None
        self.status, self.is_stopped = 0, False
        # Of the tests that were run in a guest.
        self.results: dict[str, str] = {}

    def run(self) -> None:
        status = 137  # of a thread that an exception ends
        try:
            with open(self.path, "a", encoding="utf-8") as self.out:
                try:
                    if self.tests is not None:
                        status = self.in_guest() if self.tests else 0
                    else:
                        status = 0 if self.suite in done else self.command(COMMANDS[self.suite], self.out)
                except Exception:
                    # Python aborts if a thread still prints to stderr as the run ends.
                    traceback.print_exc(file=self.out)
        finally:
            self.status, self.ended = status, time.monotonic()
            changed.set()

    def command(self, words: list[str], stdout: object) -> int:
        """Runs a command in a process group of its own, so that all of its processes can be ended."""
        with lock:
            if self.is_stopped:
                return 143
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "TERM", *words], stdin=subprocess.DEVNULL, stdout=stdout,
                stderr=subprocess.STDOUT, start_new_session=True,
            )
        if stdout == subprocess.PIPE:
            self.copy_results()
        status = self.process.wait()
        return status if status >= 0 else 128 - status

    def stop(self) -> None:
        with lock:
            self.is_stopped = True
            if self.process and self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGTERM)
        self.join(20)

    def copy_results(self) -> None:
        """Copies the output of a guest, and notes which tests are done, and how long each took."""
        last = None
        for raw in self.process.stdout:
            line = raw.decode(errors="replace")
            if (result := RESULT.match(line)) and result[2] in self.tests:
                now = time.monotonic()
                self.results[result[2]] = result[1]
                # The first one's time includes the boot.
                if last and result[1] != "not ok":
                    took[f"{self.suite}/{result[2]}"] = int(now - last)
                last = now
                if self.suite in KERNELS:
                    line = f"{result[1]} {self.suite}/{line[result.start(2):]}"
            self.out.write(line)
            self.out.flush()

    def in_guest(self) -> int:
        """Runs the tests in a guest, and those that are left when it goes down in another one."""
        kernel = KERNELS.get(self.suite, KERNEL)
        # Kernels of our own are slower.
        seconds = 3600 * (3 if kernel in OURS else 1) * (10 if THOROUGH else 1)
        # A CPU that the host does not run keeps others waiting.
        options = ["--kernel", kernel, "--with", "tests/helpers", "--cpus", f"{min(max(CPUS, 2), 4)}"]
        options += ["--timeout", f"{seconds}"]
        # Building the command takes minutes.
        if any(test.startswith("tool_") for test in self.tests):
            options.append("--tool")
        # Mitigations take an eighth of the time in an emulator. The long forms have them, and so do the
        # suites that do not run in here.
        parameters = ["mitigations=off"] * (not THOROUGH) + [PARAMETERS[test] for test in self.tests if test in PARAMETERS]
        if parameters:
            options += ["--append", " ".join(parameters)]
        lapses = 0
        while rest := [test for test in self.tests if test not in self.results]:
            number = len(self.results)
            thorough = ["--thorough"] if THOROUGH else []
            words = ["scripts/bed/vm", *options, "--", "tests/guest/run", *thorough, *rest]
            status = self.command(words, subprocess.PIPE)
            rest = [test for test in rest if test not in self.results]
            if status == 98 and lapses < 5:
                lapses += 1
                self.out.write(f"# the emulator went wrong ({lapses}): the rest in another guest\n")
            # Only if this guest has completed a test: then it can.
            elif rest and len(self.results) > number and not self.is_stopped:
                # On a slow machine, the time of the guest is over. Else the test that was running has taken it down,
                # if not the one before it, which has failed.
                if status != 124 and next(reversed(self.results.values())) != "not ok":
                    self.results[rest[0]] = "not ok"
                    self.out.write(f"not ok {rest[0]}: its guest ended with status {status}\n")
                self.out.write("# the rest in another guest\n")
            else:
                return status
        # The last guest failed after all tests were done: their results count.
        return int("not ok" in self.results.values())

    def seconds_left(self) -> float:
        if self.ended:
            return 0
        if not self.began:
            return self.expected
        if self.tests:
            return self.expected * (1 - len(self.results) / len(self.tests))
        # If it takes longer than expected, a tenth of its work may be left.
        return max(self.expected - (time.monotonic() - self.began), self.expected / 10)


def parts_of(suite: str, tests: list[str]) -> list[tuple[float, list[str]]]:
    """Splits tests into guests that take about the same time, and those with parameters of the kernel. Returns the
    seconds and the tests of each."""
    number, boot, usual = (1 if QUICK or THOROUGH else 2), 25, 6
    if suite == "debug":
        boot, usual = 120, 60
        # This kernel takes long to boot: one guest is best, except at the end of a run that waited for the
        # kernel to be built.
        number = 1 if has_kernel(suite) else number
    elif suite == "uml":
        boot, usual, number = 5, 10, 1
    seconds = {test: known.get(f"{suite}/{test}", usual) for test in tests}
    sums, members = [boot] * number, [[] for _ in range(number)]
    for test in sorted((test for test in tests if test not in PARAMETERS), key=lambda test: -seconds[test]):
        part = sums.index(min(sums))
        sums[part] += seconds[test]
        members[part].append(test)
    apart = [(boot + seconds[test], [test]) for test in tests if test in PARAMETERS]
    return [(total, [t for t in tests if t in of]) for total, of in zip(sums, members)] + apart


def has_kernel(suite: str) -> bool:
    return bool(glob.glob(f"{STAMPS}/kernel-*-schedhist-{KERNELS[suite]}"))


def plan(suite: str) -> list[Job]:
    if suite in done:
        return [Job(suite, suite, 0, taken=taken[suite])]
    if suite not in ("guest", *KERNELS):
        return [Job(suite, suite, known.get(suite, 60))]
    if suite == "guest":
        listed = subprocess.run(["tests/guest/run", "--list"], check=True, stdout=subprocess.PIPE, text=True).stdout
        of_earlier = {result[2] for result in map(RESULT.match, taken[suite].splitlines()) if result}
        # `bed` checks the same module, at the speed of the host.
        elsewhere = ["event_sites"] * ("bed" in SUITES and KERNEL == NEWEST)
        if not THOROUGH:
            # User Mode Linux is of the newest series.
            elsewhere += ON_UML_ALONE * ("uml" in SUITES and KERNEL == NEWEST)
            # groups_law does more where fewer CPUs are possible.
            elsewhere += [test for test in ON_CPUS if test != "groups_law"] * ("cpus" in SUITES)
        tests = [test for test in (ON_QUICK if QUICK else listed.split()) if test not in {*of_earlier, *elsewhere}]
    else:
        tests = ON_KERNELS[suite]
    return [
        Job(suite, f"{suite}.{part}", seconds if of else 0, of, taken["guest"] if (suite, part) == ("guest", 1) else "")
        for part, (seconds, of) in enumerate(parts_of(suite, tests), 1)
    ]


def failures_of(job: Job) -> list[str]:
    """Returns a line for each test of a job that failed, and the last ones of what it said, but for the kernel log."""
    failed, said = [], deque[str](maxlen=5)
    for line in lines_of(job.path):
        if result := RESULT.match(line):
            said = deque(maxlen=5)
            if result[1] == "not ok":
                failed.append((line[len("not ok "):], said))
        elif line.startswith("# ") and not line.startswith("#   log: "):
            said.append(f"#   {line[2:]}")
    return [f"# failed: {job.suite}: {line}{''.join(said)}" for line, said in failed]


class Run:
    def __init__(self) -> None:
        self.jobs = [job for suite in SUITES for job in plan(suite)]
        # First those that find mistakes at once, then the longest.
        self.waiting = sorted(self.jobs, key=lambda job: -(1e6 if job.job in ("lint", "tracegen") else job.expected))
        self.first = time.monotonic()
        self.shown, self.reading, self.headed, self.is_over = 0, None, "", False
        self.totals = Counter()
        # What failed, for the end of the output, where one looks first.
        self.failures: list[str] = []
        self.building: subprocess.Popen | None = None
        # The suites whose kernels are to be built.
        self.lacking = sorted({job.suite for job in self.jobs if job.suite in KERNELS and job.expected})
        self.lacking = [suite for suite in self.lacking if not has_kernel(suite)]

    def ended(self) -> int:
        return sum(job.ended is not None for job in self.jobs)

    def running(self) -> list[Job]:
        return [job for job in self.jobs if job.began and not job.ended]

    def time_left(self) -> float:
        """Uses the expected times at first, and later the speed so far."""
        every, rest = sum(job.expected for job in self.jobs), [job.seconds_left() for job in self.jobs]
        over, left = every - sum(rest), sum(rest) / SLOTS
        if over * 4 > every:
            left = (time.monotonic() - self.first) * sum(rest) / over
        return max([left, *rest])

    def begin(self) -> None:
        """Begins as many jobs as there are slots. Those of a suite wait until its kernel is built, but for one if
        nothing else is left: it shows how the kernel is built, or why the build failed."""
        if self.building and self.building.poll() is not None:
            self.building = None
        while len(self.running()) < SLOTS:
            absent = [suite for suite in self.lacking if self.building and not has_kernel(suite)]
            ready = [job for job in self.waiting if job.suite not in absent]
            ready = ready or ([] if self.running() else self.waiting)
            if not ready:
                return
            job = ready[0]
            self.waiting.remove(job)
            with open(job.path, "w", encoding="utf-8") as out:
                out.write(job.taken)
            job.began = time.monotonic()
            job.start()

    def show(self) -> None:
        """Prints the new output of the job whose turn it is, and that of all jobs after it that are done."""
        for job in self.jobs[self.shown :]:
            if not job.began and not self.is_over:
                return
            is_over = job.ended or self.is_over
            if job.began and not (self.is_over and job.is_stopped and not os.path.getsize(job.path)):
                if self.headed != job.suite:
                    show(f"=== {job.suite}\n")
                self.headed = job.suite
                self.reading = self.reading or open(job.path, encoding="utf-8", errors="replace")
                show(self.reading.read())
            if not is_over:
                return
            self.reading = None
            self.shown += 1
            of = [other for other in self.jobs if other.suite == job.suite]
            if job is of[-1] and all(other.ended and not other.is_stopped for other in of):
                self.sum_up(job.suite)

    def fail(self, suite: str, name: str, why: str) -> Counter:
        """Counts a failure that no test names, if there is one."""
        if not why:
            return Counter()
        show(f"not ok {name}: {why}\n")
        self.failures.append(f"# failed: {suite}: {name}: {why}\n")
        return Counter({"not ok": 1})

    def sum_up(self, suite: str) -> None:
        """Counts the results of a suite. A job that fails without naming a test, a job that ends before all
        of its tests are done, and a suite that runs no test count as one more failure."""
        jobs = [job for job in self.jobs if job.suite == suite]
        sums = Counter()
        for job in jobs:
            self.failures += failures_of(job)
            # A guest may print anything beside the results of its tests.
            lines = lines_of(job.path) if job.tests is None else job.taken.splitlines()
            found = Counter(result[1] for result in map(RESULT.match, lines) if result)
            found.update(job.results.values())
            left = len(set(job.tests or ()) - set(job.results))
            # A kernel report (status 99 of scripts/bed/vm) is already counted as the failure of a test.
            is_counted = found["not ok"] > 0 and (job.status == 1 or (job.status == 99 and job.tests))
            why = ""
            if left:
                why = f"{'1 test was' if left == 1 else f'{left} tests were'} not run"
            elif job.status and not is_counted:
                why = f"exited with status {job.status}"
            sums += found + self.fail(suite, job.job, why)
        if not sums:
            sums = self.fail(suite, suite, "no test was run")
        seconds = max(job.ended for job in jobs) - min(job.began for job in jobs)
        show(f"=== {suite}: {sums['ok']} passed, {sums['not ok']} failed, {int(seconds)} s\n")
        self.totals += sums

    def tell_progress(self) -> None:
        tests = {job: f" {len(job.results)} of {len(job.tests)} tests" if job.tests else "" for job in self.running()}
        names = [job.job + text for job, text in tests.items()]
        text, left = ", ".join(names), self.time_left()
        if self.building:
            text = f"{text and text + ' running; '}the kernel {self.lacked()} is being built;"
        else:
            text = f"{text or 'nothing'} running,"
        so_far = time.monotonic() - self.first
        say(
            f"{int(so_far / 60)} of {minutes(so_far + left)}: {text} {self.ended()} of {len(self.jobs)} "
            f"jobs done, about {minutes(left)} left"
        )

    def lacked(self) -> str:
        return ", and then ".join(KERNELS[suite] for suite in self.lacking)

    def announce(self) -> None:
        """Says how long it will take, and begins to build the kernels of ours that are needed."""
        text = f"{' '.join(SUITES)}: about {minutes(self.time_left())}"
        if self.lacking:
            next(job for job in self.jobs if job.suite in self.lacking).expected += 600
            text += f", and up to {20 * len(self.lacking)} more to build the kernel {self.lacked()}"
        say(f"{text}, on {CPUS} CPU{'s' * (CPUS > 1)} and the kernel {KERNEL}{ADVICE}")
        # All suites need this kernel: installs it once, with its progress shown.
        if any(job.expected for job in self.jobs):
            command = ["scripts/bed/kernel", KERNEL]
            with unstopped():
                self.building = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
            status = self.building.wait()
            self.building = None
            if status == 77:
                why = "".join(lines_of(f"{STATE}/no-{KERNEL}"))
                show(f"skip kernel: {why}0 passed, 0 failed, 1 skipped\n")
                sys.exit(77)
            if status:
                sys.exit(status)
        if self.lacking:
            # At the same priority as the suites, so that they are ready when these are done.
            with unstopped(), open(f"{work}/kernel", "w", encoding="utf-8") as log:
                self.building = subprocess.Popen(
                    ["bash", "-c", 'for kernel; do scripts/bed/kernel "$kernel" || exit; done', "sh",
                     *(KERNELS[suite] for suite in self.lacking)],
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                )

    def all(self) -> int:
        self.announce()
        self.first = told = time.monotonic()
        ended = 0
        every = 60 if sys.stderr.isatty() else 300
        while self.shown < len(self.jobs):
            self.begin()
            changed.wait(1)
            changed.clear()
            now, number = time.monotonic(), self.ended()
            self.show()
            if (number > ended or now - told >= every) and self.shown < len(self.jobs):
                self.tell_progress()
                told = now
            ended = number
        if not THOROUGH:
            # A job that failed may have ended early.
            good = (job for job in self.jobs if job.suite not in done and not job.status)
            took.update({job.job: int(job.ended - job.began) for job in good})
            save_times()
        show("".join(self.failures))
        passed, failed, skipped = (self.totals[result] for result in ("ok", "not ok", "skip"))
        show(f"{passed} passed, {failed} failed" + f", {skipped} skipped" * (skipped > 0) + "\n")
        return int(failed > 0 or passed + skipped == 0)

    def finish(self) -> None:
        """Ends all that runs, and shows the output of jobs that were cut off, so that --after can resume."""
        if self.building and self.building.poll() is None:
            os.killpg(self.building.pid, signal.SIGTERM)
            self.building.wait()
        for job in self.running():
            job.stop()
        self.is_over = True
        self.show()


def on_stop(action: Any) -> None:
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, action)


@contextlib.contextmanager
def unstopped() -> Iterator[None]:
    """Puts off the end of this program: what the block begins must be known to finish()."""
    late = []
    on_stop(lambda number, _: late.append(number))
    try:
        yield
    finally:
        on_stop(stopped)
    for number in late:
        stopped(number, None)


def stopped(number: int, _: object) -> None:
    on_stop(signal.SIG_IGN)
    if number == signal.SIGINT:
        say("interrupted; resume with --after FILE, FILE being this output")
    sys.exit(130 if number == signal.SIGINT else 143)


on_stop(stopped)
lock, changed = threading.Lock(), threading.Event()
work = tempfile.mkdtemp()
show(f"{RUN}\n")
run = None
try:
    taken, done = read_earlier()
    known, took = read_times("tests/seconds") | read_times(TIMES), {}
    run = Run()
    sys.exit(run.all())
finally:
    if run:
        run.finish()
    shutil.rmtree(work, ignore_errors=True)
