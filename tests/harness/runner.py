# SPDX-License-Identifier: GPL-2.0
"""Runs the tests in a guest, one after the other, each in a child of this interpreter."""

import importlib
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Callable, Iterator, NoReturn

GUEST = Path(__file__).parents[1] / "guest"


def tests_found() -> dict[str, Path]:
    """Returns the file of each test, by the test's name. Executes none: that takes long when emulated."""
    found: dict[str, Path] = {}
    for path in sorted(GUEST.glob("test_*.py")):
        for name in re.findall(r"^def test_(\w+)\(\)", path.read_text(encoding="utf-8"), re.MULTILINE):
            if name in found:
                sys.exit(f"{path.name} and {found[name].name} both have a test {name}")
            found[name] = path
    return dict(sorted(found.items()))


class Test:
    """A test, with how it is to be treated."""

    def __init__(self, name: str, path: Path) -> None:
        self.name, self.path = name, path
        self.limit, self.lacking, self.seeking = 300, False, False

    def load(self) -> None:
        """Reads its file. The import of a file happens once, in the parent of all its tests."""
        try:
            self.function = getattr(importlib.import_module(self.path.stem), f"test_{self.name}")
        except Exception:
            # A file that cannot be read must not end the other tests.
            broken = traceback.format_exc()
            self.function = lambda: sys.exit(broken)
        for key in ("limit", "lacking", "seeking"):
            setattr(self, key, getattr(self.function, key, getattr(self, key)))


def extended(limit: int) -> int:
    """A busy host makes tests slow, so they get twice the limit; a debug kernel checks everything, so
    there they get five times the limit."""
    from .kernel import DEBUG

    return limit * (5 if DEBUG else 2)


# --- one process group ---


def run_deferred() -> None:
    """Does all that the test has put off, even if some of it fails. Then raises the first exception."""
    from .ktap import deferred

    failed: list[BaseException] = []
    while deferred:
        action, arguments = deferred.pop()
        try:
            action(*arguments)
        except BaseException as error:  # the time may be over meanwhile
            failed.append(error)
    if failed:
        raise failed[0]


def _in_child(function: Callable[[], object], out: int) -> NoReturn:
    """Calls the function, with its output in `out`. Ends with 0, or 77 if it asks to be skipped."""
    from .ktap import Late, Skipped
    from .process import WORK

    def late(*_: object) -> NoReturn:
        raise Late

    status = 1
    try:
        os.setpgid(0, 0)
        os.dup2(out, 1)
        os.dup2(out, 2)
        signal.signal(signal.SIGTERM, late)
        try:
            function()
            status = 0
        finally:
            run_deferred()
    except Skipped as reason:
        (WORK / "skip").write_text(str(reason))
        status = 77
    except AssertionError as error:
        place = traceback.extract_tb(error.__traceback__)
        calls = [f"{Path(frame.filename).name}:{frame.lineno}" for frame in place if "/guest/test_" in frame.filename]
        print(f"{' '.join(calls)}: {error or place[-1].line}")
        if error.__context__ and not error.__suppress_context__:
            traceback.print_exception(error.__context__)
        status = 1
    except BaseException:  # must not return into the runner
        traceback.print_exc()
        status = 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


class Stuck(Exception):
    """A test that no signal ends, as it is in the kernel: its output, and its stack there."""


def guarded(seconds: int, function: Callable[[], object], out: int, known: set[int]) -> int | None:
    """Calls the function in a child, and ends its whole process group after this time. Returns the
    status, or None if it was late. If even SIGKILL does not end it, ends all processes but those that are
    known, since one of them may have what it waits for."""
    pid = os.fork()
    if pid == 0:
        _in_child(function, out)
    try:
        os.setpgid(pid, pid)
    except PermissionError:
        pass  # the child has begun, and did so itself
    late = False
    ended = os.pidfd_open(pid)
    for action, patience in ((None, seconds), (signal.SIGTERM, 5), (signal.SIGKILL, extended(30))):
        if action:
            late = True
            os.killpg(pid, action)
        if select.select([ended], [], [], patience)[0]:
            break
    else:
        for line in end_leftovers(known):
            os.write(out, line)
        if not select.select([ended], [], [], 0)[0]:
            stack = Path(f"/proc/{pid}/stack")
            os.write(out, b"does not end; its stack in the kernel:\n")
            os.write(out, stack.read_bytes() if stack.exists() else b"unknown\n")
            raise Stuck(Path(f"/proc/self/fd/{out}").read_text(encoding="utf-8", errors="replace"))
    os.close(ended)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return None if late else status


# --- what a test leaves behind ---


def user_processes() -> set[int]:
    """Returns the PIDs of all processes but kernel threads and init."""
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
                parent = int(file.read().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent not in (0, 2):
            found.add(int(pid))
    return found


def end_leftovers(known: set[int]) -> Iterator[bytes]:
    """Kills the processes that a test has left running, waits for their end, and names them: they would
    disturb all later tests."""
    killed = []
    for pid in user_processes() - known - {os.getpid()}:
        try:
            os.stat(f"/proc/{pid}/exe")
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            killed.append(os.pidfd_open(pid))
            os.kill(pid, signal.SIGKILL)
        except OSError:
            continue  # it has ended
        yield b"# left running: %s\n" % command.replace(b"\0", b" ")[:150]
    for process in killed:
        if not select.select([process], [], [], extended(30))[0]:
            yield b"# one of them does not end\n"
        os.close(process)


def tracing_reset() -> None:
    from .kernel import TRACEFS
    from .module import EVENTFS
    from .process import write_file

    for instance in TRACEFS.glob("instances/schedhist*"):
        instance.rmdir()
    for event in EVENTFS.glob("*/"):
        # Opening the file for writing removes all triggers.
        if (event / "trigger").exists():
            os.close(os.open(event / "trigger", os.O_WRONLY | os.O_TRUNC))
        if (event / "filter").exists():
            write_file(event / "filter", "0")
    write_file(TRACEFS / "events/enable", "0")
    write_file(TRACEFS / "tracing_on", "1")
    if (TRACEFS / "snapshot").exists():
        write_file(TRACEFS / "snapshot", "0")
    write_file(TRACEFS / "trace", "\n")


def cleanup() -> None:
    """Undoes all that a test left behind, but for processes: one that has a file of ours open makes the
    removal of the module fail, as it must."""
    from . import cgroup, kernel, module, needs
    from .process import write_file

    kernel.expedite_rcu()
    # Only kernels of ours can make allocations fail.
    for file in Path("/sys/kernel/debug").glob("fail*/probability"):
        write_file(file, "0")
    cgroup.off()
    write_file("/proc/sys/kernel/pid_max", "4194304")
    if needs.CPU1.exists():
        write_file(needs.CPU1, "1")
    tracing_reset()
    # Two of the helpers have probes in the module.
    names = ["fail_call", "late", "schedhist", "schedhisu"]
    helpers = sorted(path.stem for path in Path(os.environ.get("SCHEDHIST_WITH", "")).glob("*.ko"))
    for name in names + [name for name in helpers if name not in names]:
        if module.loaded(name):
            module.remove(name)
    module.assert_gone()


# --- all of them ---


def run_test(test: Test, following: Test | None, known: set[int]) -> bool:
    """Runs a test and prints its result. Looks for leaks after the last of several tests in a row that ask
    for it; scripts/bed/vm looks for them at the end."""
    from . import log
    from .process import WORK

    log.begin(test.name, test.lacking)
    with open(WORK / "out", "w+b") as file:
        status = guarded(extended(test.limit), test.function, file.fileno(), known)
        good = status in (0, 77)
        if status is None:
            file.write(b"took too long\n")

        file.flush()
        clean = guarded(extended(300), cleanup, file.fileno(), known) == 0
        file.writelines(end_leftovers(known))
        if not clean:
            file.write(b"cleaning up failed, or took too long\n")
            file.flush()
            good = False
            # For the tests that follow: what was in the way has ended.
            guarded(extended(300), cleanup, file.fileno(), known)
        file.flush()
        if test.seeking and following and not following.seeking:
            leaks = [GUEST / "../../scripts/bed/find-leaks"]
            good &= subprocess.run(leaks, stdout=file, stderr=file, check=False).returncode == 0
        file.seek(0)
        said = file.read().decode("utf-8", "replace").splitlines()
    assert log.current
    reports, tail = log.take(*log.current)
    if reports:
        said += ["the kernel log:", *reports.splitlines()]
        good = False
    if not good:
        print(f"not ok {test.name}")
        for line in said:
            print(f"# {line.removeprefix('# ')}")
        for line in tail.splitlines():
            print(f"#   log: {line}")
    elif status == 77:
        print(f"skip {test.name}: {(WORK / 'skip').read_text()}")
    else:
        print(f"ok {test.name}")
        for line in said:
            if line.startswith("# "):
                print(line)
    sys.stdout.flush()
    return good


def run_tests(tests: list[Test]) -> bool:
    from . import kernel
    from .module import KO

    # On a file system of the guest's own, and without debug information: many loads become fast.
    subprocess.run(["objcopy", "--strip-debug", os.environ["SCHEDHIST_KO"], KO], check=True)
    os.setpriority(os.PRIO_PROCESS, 0, -20)
    kernel.expedite_rcu()
    known = user_processes()
    good = True
    for test, following in zip(tests, [*tests[1:], None]):
        test.load()
        if following:
            following.load()
        try:
            good &= run_test(test, following, known)
        except Stuck as stuck:
            # What holds it would disturb all later tests.
            print(f"not ok {test.name}")
            print(*(f"# {line}" for line in str(stuck).splitlines()), sep="\n", flush=True)
            return False
    return good


def bad_usage(text: str) -> NoReturn:
    print(f"tests/guest/run: {text}; see tests/guest/run --help", file=sys.stderr)
    sys.exit(2)


def main(usage: str) -> None:
    arguments, found = sys.argv[1:], tests_found()
    thorough = listed = False
    while arguments and arguments[0].startswith("-") and arguments[0] != "--except":
        option = arguments.pop(0)
        if option in ("-h", "--help"):
            print(usage.strip())
            return
        if option not in ("--thorough", "--list"):
            bad_usage(f"unknown option {option}")
        thorough |= option == "--thorough"
        listed |= option == "--list"
    names = list(found)
    if arguments and arguments[0] == "--except":
        names = [name for name in names if name not in arguments[1:]]
    elif arguments:
        names = arguments
        for name in names:
            if name not in found:
                bad_usage(f"there is no test '{name}'")
    if listed:
        print("\n".join(names) if names else bad_usage("there are no such tests"))
        return
    if "SCHEDHIST_KO" not in os.environ:
        sys.exit("tests/guest/run: run this through scripts/bed/vm")
    work = tempfile.mkdtemp()
    # The tree is read-only, and compiling imports takes longer than running most programs.
    os.environ |= {"SCHEDHIST_TEST_WORK": work, "PYTHONPYCACHEPREFIX": f"{work}/pycache",
                   "SCHEDHIST_THOROUGH": "1" if thorough else ""}
    sys.pycache_prefix = f"{work}/pycache"
    sys.path.insert(0, str(GUEST))
    os.chdir(GUEST)
    try:
        good = run_tests([Test(name, found[name]) for name in names])
    finally:
        shutil.rmtree(work)
    sys.exit(not good)
