# SPDX-License-Identifier: GPL-2.0
"""Programs that listen to trace events in the background: perf, trace-cmd and bpftrace.

None of them looks up symbols in the kernel or in programs, which takes a minute.
"""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from .kernel import RELEASE, TRACEFS
from .ktap import Wrong, defer, eq, wait_until
from .names import EVENTS
from .process import WORK, run
from .workload import interrupt, start

BTF = Path("/sys/kernel/btf/vmlinux")


def scratch() -> Path:
    """Returns a folder on a fast file system, which goes with the test."""
    folder = Path(tempfile.mkdtemp(dir=WORK))
    defer(shutil.rmtree, folder)
    return folder


def shown(symbols: Path | str) -> list[str]:
    """Returns a prefix for a command: runs it in a mount namespace where these are all symbols of the
    kernel. There are 200000, which perf and trace-cmd read, some of them twice, for many seconds on an
    emulated machine."""
    return ["unshare", "--mount", "bash", "-c", 'mount --bind "$0" /proc/kallsyms && exec "$@"', str(symbols)]


NO_SYMBOLS = shown("/dev/null")


class Listener:
    """A program in the background, with its output in a file."""

    def __init__(self, *command: str | Path, folder: Path | None = None, **options: object) -> None:
        self.folder = folder or scratch()
        self.out = self.folder / "said"
        with open(self.out, "w", encoding="utf-8") as out:
            self.process = start(*command, stdout=out, stderr=subprocess.STDOUT, **options)

    def said(self) -> str:
        return self.out.read_text(errors="surrogateescape")

    def goes_on(self) -> bool:
        """Asserts that it has not ended."""
        if self.process.poll() is not None:
            raise Wrong(f"{self.process.args} has ended: {self.said()[-2000:]}")
        return True

    def end(self) -> str:
        """Interrupts it, and returns what it has printed."""
        interrupt(self.process)
        return self.said()


class Held(Listener):
    """A listener that runs until `off`: it gets a child, which begins when it listens and ends then. CHILD
    in its command stands for the child's."""

    CHILD = "CHILD"

    def __init__(self, *command: str | Path, **options: object) -> None:
        folder = scratch()
        for name in ("on", "off"):
            os.mkfifo(folder / name)
        child = folder / "child"
        child.write_text(f"echo on > {folder}/on\nread -r _ < {folder}/off\n")
        self.on = os.open(folder / "on", os.O_RDWR | os.O_NONBLOCK)
        words = [str(word).replace(self.CHILD, f"/bin/bash {child}") for word in command]
        super().__init__(*words, folder=folder, **options)

    def wait(self) -> None:
        """Waits until it listens."""

        def is_on() -> bool:
            try:
                return bool(os.read(self.on, 100))
            except BlockingIOError:
                return not self.goes_on()

        wait_until(f"{self.process.args}", is_on)

    def off(self) -> None:
        (self.folder / "off").write_text("\n")
        eq(f"status of {self.process.args}, which said {self.said()[-2000:]}", self.process.wait(), 0)


class Perf:
    """`perf record` of all our events, on all CPUs."""

    def __init__(self) -> None:
        self.folder = scratch()
        for name in ("control", "ack"):
            os.mkfifo(self.folder / name)
        self.data = self.folder / "data"
        self.listener = Listener(
            *NO_SYMBOLS, "perf", "record", "-q", "-a", "-e", "schedhist:*", "-m", "1024", "--no-buildid",
            "--no-buildid-cache", "-D", "-1", "--control", f"fifo:{self.folder}/control,{self.folder}/ack",
            "-o", self.data)

    def wait(self) -> None:
        control = os.open(self.folder / "control", os.O_RDWR)
        ack = os.open(self.folder / "ack", os.O_RDWR | os.O_NONBLOCK)
        os.write(control, b"enable\n")

        def answer() -> bytes:
            try:
                return os.read(ack, 100)
            except BlockingIOError:
                self.listener.goes_on()
                return b""

        found = b""

        def answers() -> bool:
            nonlocal found
            found += answer()
            return b"\n" in found

        wait_until("perf", answers)
        eq("what perf answers", found.strip(b"\n\0"), b"ack")
        os.close(control)
        os.close(ack)

    def end(self) -> None:
        self.listener.end()

    def events(self) -> list[str]:
        """Returns each event with its text."""
        said = script(self.data, "--show-lost-events", "-F", "event,trace")
        return [re.sub(r"^ *schedhist:([a-z_]+): +", r"\1: ", line) for line in said.splitlines()]


def script(data: Path, *options: str, prefix: list[str] | None = None) -> str:
    """Returns what perf script prints."""
    command = [*(prefix or NO_SYMBOLS), "perf", "script", "-i", str(data), *options]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                          errors="surrogateescape").stdout


class TraceCmd:
    """`trace-cmd record` of all our events."""

    INSTANCE = TRACEFS / "instances/schedhist_trace_cmd"

    def __init__(self) -> None:
        self.data = scratch() / "trace.dat"
        self.listener = Listener(*NO_SYMBOLS, "trace-cmd", "record", "-q", "-B", self.INSTANCE.name, "-b", "8192",
                                 "-e", "schedhist", "-o", self.data)

    def wait(self) -> None:
        def is_on() -> bool:
            files = self.INSTANCE / "events/schedhist/enable", self.INSTANCE / "tracing_on"
            return self.listener.goes_on() and all(file.exists() and file.read_text() == "1\n" for file in files)

        wait_until("trace-cmd", is_on)

    def end(self) -> None:
        self.listener.end()

    def lines(self) -> list[str]:
        said = subprocess.run(["trace-cmd", "report", self.data], check=True, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True, errors="surrogateescape").stdout
        return [line for line in said.splitlines() if not line.startswith(("#", "cpus="))]


class Bpftrace(Held):
    """bpftrace, by default counting each of these events; there is a map for each event, as a map with keys
    may lose a count when several CPUs add a new key at once."""

    def __init__(self, program: str = "", probes: list[str] | None = None) -> None:
        probes = probes or [f"tracepoint:schedhist:{event}" for event in EVENTS]
        program = program or " ".join(f"{probe} {{ @{probe.rpartition(':')[2]} = count(); }}" for probe in probes)
        env = dict(os.environ)
        # For a kernel without BTF it needs the headers. virtme-ng mounts an empty folder over that of
        # their source.
        if not BTF.exists():
            env["BPFTRACE_KERNEL_BUILD"] = f"/lib/modules/{RELEASE}/build"
            env["BPFTRACE_KERNEL_SOURCE"] = f"{env['BPFTRACE_KERNEL_BUILD']}/source"
            if os.path.ismount("/var/cache"):
                run("umount", "/var/cache")
        super().__init__("bpftrace", "-q", "-e", program, "-c", self.CHILD, env=env)

    def missed(self) -> int:
        """Returns how many events its programs have missed: the kernel runs no program of BPF while another
        one, or a system call on maps, goes on on the CPU. It does not give such an event to perf either, if
        a program listens to it."""
        texts = [path.read_text() for path in Path(f"/proc/{self.process.pid}/fdinfo").iterdir()]
        return sum(int(number) for text in texts for number in re.findall(r"^recursion_misses:\s+(\d+)", text, re.M))

    def count(self, name: str) -> int:
        """Returns the number in a map without keys, once it has ended."""
        found = re.findall(rf"^@{name}: (\d+)$", self.said(), re.MULTILINE)
        return int(found[0]) if found else 0
