# SPDX-License-Identifier: GPL-2.0
"""Unloading while every operation on the module runs at once, and CPUs go offline and online.

There is a process for each kind of use. For each life of the module it is random which uses go on, whether they
begin before it is loaded, and for how long. It is unloaded during the uses: that succeeds, or fails because the
module is in use; then some more tries follow, and after all uses have ceased, it must succeed. In its first life
the module stays until each use has succeeded once.

SCHEDHIST_SECONDS bounds it; SCHEDHIST_SEED repeats what is done at random, as far as processes can be controlled
"""

import contextlib
import errno
import mmap
import os
import random
import select
import signal
import time
from pathlib import Path

from harness.parts import Parts
from harness.test import (CPU1, DEBUGFS, EVENTFS, METRICS, OF_LOADED, THOROUGH, TRACEFS, allow, append_file,
                          assert_gone, assert_no_growth, busy, fails, has_hist, has_perf_events, helper,
                          kernel_memory, load, note, perf_event_open, seeks_leaks, unload, wait_until, write_file)
from harness.trace import enable
from storm import hotplug

READABLE = ["summary", "status", "openmetrics", "raw", "outliers", "hist/oncpu", "hist/runq", "hist/idle",
            "hist/wakeup", "per_cpu/cpu0/summary", "per_cpu/cpu1/hist/oncpu", "per_cpu/cpu1/openmetrics",
            "threshold_ns/runq", "enable", "metrics", "groups"]
CONTROLS = [("enable", "0"), ("enable", "1"), ("metrics", "all"), ("metrics", "default"), ("metrics", "none"),
            ("metrics", "runq idle"), ("reset", "1"), ("reset", "1"), ("on_outlier", "snapshot"),
            ("on_outlier", "none")]
REFUSED = [("enable", "2"), ("metrics", "bogus")]
TRACED = ["runq", "offcpu", "blocked", "idle", "outlier", "culprit"]
# What the kernel itself shows of the module.
SHOWN = [OF_LOADED / "schedhist/refcnt", OF_LOADED / "schedhist/parameters/metrics", OF_LOADED / "schedhist/initstate",
         Path("/proc/modules"), TRACEFS / "available_events", TRACEFS / "set_event", TRACEFS / "trace",
         EVENTFS / "runq/format", EVENTFS / "enable", EVENTFS / "outlier/filter"]


class Absent(Exception):
    """What a use needs of the module is not there at the moment."""


@contextlib.contextmanager
def opened(path, flags=os.O_RDONLY):
    """Opens a file, which keeps the module loaded, and works. It may be absent at any time."""
    try:
        fd = os.open(path, flags | os.O_CLOEXEC)
    except OSError as error:
        # Absent, being removed, removed while it was opened, or not yet ready.
        if error.errno not in (errno.ENOENT, errno.ENXIO, errno.EIO, errno.EAGAIN, errno.ENODEV):
            raise
        raise Absent from error
    try:
        yield fd
    finally:
        os.close(fd)


def one_in(number):
    return random.randrange(number) == 0


def nap(milliseconds):
    time.sleep(random.uniform(0, milliseconds / 1000))


def drain(name, size):
    """Reads to the end, or 100 times."""
    with opened(DEBUGFS / name) as fd:
        for _ in range(100):
            if not os.read(fd, size):
                break


def use_read():
    drain(random.choice(READABLE), random.randint(1, 100) if one_in(3) else 5000)


def use_raw():
    drain("raw", 1 << 16)


def use_pread():
    with opened(DEBUGFS / random.choice(READABLE)) as fd:
        for _ in range(random.randint(1, 6)):
            os.pread(fd, random.randrange(5000), random.randrange(9000))


def use_hold():
    with contextlib.ExitStack() as files:
        is_any = False
        for _ in range(3):
            with contextlib.suppress(Absent):
                flags = random.choice([os.O_RDONLY, os.O_WRONLY, os.O_RDWR])
                files.enter_context(opened(DEBUGFS / random.choice(READABLE), flags))
                is_any = True
        nap(30)
    if not is_any:
        raise Absent


def interrupt(*_):
    raise TimeoutError


def use_pipe():
    is_patient = one_in(2)
    with opened(DEBUGFS / "outlier_pipe", os.O_RDONLY | (0 if is_patient else os.O_NONBLOCK)) as fd:
        if not is_patient:
            select.select([fd], [], [], random.uniform(0, 0.03))
        # Sleeps until there is an outlier, or none can come any more, or a signal arrives.
        with contextlib.suppress(TimeoutError):
            # Once more after a second, as the first signal may come just before the read sleeps.
            signal.setitimer(signal.ITIMER_REAL, random.uniform(0.001, 0.3), 1)
            try:
                os.read(fd, random.randint(1, 3000))
            except OSError as error:
                if error.errno not in (errno.EAGAIN, errno.ENODATA):
                    raise
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        # If a signal came before that did it.
        signal.setitimer(signal.ITIMER_REAL, 0)


def control(name, text):
    with opened(DEBUGFS / name, os.O_WRONLY) as fd:
        os.write(fd, text.encode())


def use_control():
    if one_in(6):
        fails(errno.EINVAL, control, *random.choice(REFUSED))
    else:
        control(*random.choice(CONTROLS))
    nap(40)


def use_outliers():
    """Reports all outliers that are possible."""
    control("outlier_rate", "none")
    control(f"threshold_ns/{random.choice(METRICS)}", "none" if one_in(8) else "1")
    nap(20)


def use_perf():
    if not has_perf_events():
        return
    events, rings = [], []
    for cpu in range(2):
        # CPU 1 may be offline, and the event may be gone.
        with contextlib.suppress(OSError, Absent), opened(EVENTFS / random.choice(TRACED) / "id") as fd:
            RAW_AND_TIME = 1 << 10 | 1 << 2
            events.append(perf_event_open(int(os.read(fd, 32)), -1, cpu, 1, RAW_AND_TIME))
            rings.append(mmap.mmap(events[-1], 9 * mmap.PAGESIZE))
    nap(30)
    for ring in rings:
        ring.close()
    for event in events:
        os.close(event)
    if not rings:
        raise Absent


def use_file(path, on, off):
    """Writes to a file of tracefs. An enabled event keeps the module loaded, so that it can be disabled."""
    with opened(TRACEFS / path, os.O_WRONLY | os.O_APPEND) as fd:
        try:
            os.write(fd, on.encode())
        except OSError as error:
            raise Absent from error
    nap(20)
    append_file(TRACEFS / path, off)


def use_ftrace():
    # All of them, or one.
    use_file(f"events/schedhist/{random.choice(['', *(f'{event}/' for event in TRACED)])}enable", "1", "0")


def use_set_event():
    use_file("set_event", "schedhist:oncpu", "!schedhist:oncpu")


def use_trigger():
    text = "hist:keys=pid" if has_hist() else "traceon"
    use_file("events/schedhist/wakeup/trigger", text, f"!{text}")


def use_look():
    path = random.choice(SHOWN)
    # These files do not keep the module loaded, and may end at any time.
    with opened(path, os.O_RDONLY | os.O_NONBLOCK) as fd, contextlib.suppress(OSError):
        for _ in range(100):
            if not os.read(fd, 5000):
                break
    nap(10)
    if "schedhist" not in str(path):
        raise Absent


OF_EVENTS = [use_perf, use_ftrace, use_set_event, use_trigger]
USES = [use_read, use_raw, use_pread, use_hold, use_pipe, use_control, use_outliers, use_look, *OF_EVENTS]


class Stress:
    """The uses, and the lives of the module."""

    def __init__(self, seed):
        # For each use, whether it goes on and whether it is busy; how often it has succeeded.
        self.acting, self.busy, self.acts = (memoryview(mmap.mmap(-1, 8 * len(USES))).cast("Q") for _ in range(3))
        self.lives = self.in_use = 0
        names = {use.__name__: lambda number=number: self.shoot(number) for number, use in enumerate(USES)}
        self.parts = Parts("uses", names, seed)

    def shoot(self, number):
        signal.signal(signal.SIGALRM, interrupt)
        while True:
            self.busy[number] = 1
            if self.acting[number]:
                with contextlib.suppress(Absent):
                    USES[number]()
                    self.acts[number] += 1
            self.busy[number] = 0
            nap(2)
            yield

    def act(self, uses):
        for number, use in enumerate(USES):
            self.acting[number] = use in uses

    def cease(self):
        self.act([])
        wait_until("all uses to end", lambda: not any(self.busy))

    def is_unloaded(self):
        try:
            unload()
        except BlockingIOError:
            self.in_use += 1
            return False
        return True

    def live_and_die(self):
        # Now and then all uses.
        mix = USES if one_in(8) else [use for use in USES if one_in(4)]
        # Everything waits for grace periods: most are short, so that more cycles fit.
        write_file("/sys/kernel/rcu_expedited", "0" if one_in(8) else "1")
        if one_in(16):
            # The kernel shows a module's events before the module can fail to load, and then removes them from
            # their users: with a warning, or worse.
            self.cease()
            self.act([use for use in mix if use not in OF_EVENTS])
            fails(errno.EINVAL, load, "precision=9")
        if one_in(2):
            self.act(mix)
        metrics = random.choice(["default", "all", "none", "oncpu,idle", "runq", "wakeup"])
        load(f"precision={random.randint(1, 7)}", f"metrics={metrics}")
        if not self.lives:
            self.act(USES)
            wait_until("each use to succeed", lambda: all(self.acts))
        self.act(mix)
        if not one_in(4):
            nap(300 if one_in(8) else 60)
        for _ in range(random.randint(1, 5)):
            if self.is_unloaded():
                break
            # Some of the uses cease.
            mix = [use for use in mix if one_in(2)]
            self.act(mix)
            nap(10)
        else:
            self.cease()
            wait_until("it to be unloaded", self.is_unloaded)
        assert_gone()
        # Now and then the uses go on into the next life.
        if one_in(2):
            self.cease()
        self.parts.goes_on()
        self.lives += 1

    def run(self, seconds):
        """Lives and dies under a storm, which yields to it, so that it completes many cycles."""
        load_of_it = f"while :; do {helper('storm')} 100; hackbench --groups 1 --loops 2; sleep 0.5; done"
        plugger, end, least = CPU1.exists() and Parts("plugger", {"hotplug": hotplug}), time.monotonic() + seconds, 5
        with busy("bash", "-c", load_of_it):
            while time.monotonic() < end or (least := least - 1) >= 0:
                self.live_and_die()
            self.cease()
        if plugger:
            plugger.stop()
            write_file(CPU1, "1")


@seeks_leaks
@allow(2400 if THOROUGH else 600)
def test_unload_stress():
    # Another user of a tracepoint that the module probes.
    enable("sched/sched_switch")
    seconds = int(os.environ.get("SCHEDHIST_SECONDS", 900 if THOROUGH else 25))
    seed = os.environ.get("SCHEDHIST_SEED", str(random.randrange(1 << 32)))
    note(f"SCHEDHIST_SEED={seed}")
    random.seed(seed)
    stress = Stress(seed)
    # The warm-up makes the kernel allocate what it keeps, such as trace buffers.
    stress.run(seconds // 4)
    before, lives = kernel_memory(), stress.lives
    stress.run(seconds)
    assert_no_growth(before, kernel_memory(), stress.lives - lives)
    note(f"{stress.lives} load/unload cycles; in use {stress.in_use} times")
    stress.parts.stop()
    assert_gone()
