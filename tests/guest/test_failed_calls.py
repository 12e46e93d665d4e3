# SPDX-License-Identifier: GPL-2.0
"""Each kernel function that registers an object of ours fails in turn, with an error of its own:
tests/helpers/fail_call.c makes it fail. The operation fails with that error and leaves nothing behind."""

import errno

from faults import assert_no_probe, assert_no_trace
from harness import cgroup
from harness.groups import rules
from harness.test import (DEBUGFS, EVENTFS, HAS_RESCHED, OF_LOADED, PROBED, THOROUGH, TRACEFS, allow, assert_gone,
                          check_laws, defer, eq, fails, has_symbol, load, load_helper, measure, note, remove, run,
                          seeks_leaks, unload, value, write, write_file)


def fail(function, result):
    """Makes calls of the function return the result from now on."""
    load_helper("fail_call", f"function={function}", f"result={result}")


def with_failure(nth, function, *arguments):
    """Calls this while the call of that number of the function that fails."""
    write_file(OF_LOADED / "fail_call/parameters/nth", str(nth))
    function(*arguments)


def load_fails(error):
    """Asserts that loading fails with this error and leaves nothing behind."""
    fails(error, load)
    assert_no_trace()


def enable_fails(error):
    fails(error, measure, 1)
    eq("enable", value("enable"), "0")
    assert_no_probe()


def load_works():
    load()
    run("/bin/true")
    measure(0)
    check_laws()
    unload()
    assert_no_trace()


@seeks_leaks
@allow(600)
def test_failed_calls():
    """Fails each call in turn; of the many that create a file, every fifth, unless the run is thorough."""
    load()
    files = sum(path.is_file() for path in DEBUGFS.rglob("*"))
    folders = 1 + sum(path.is_dir() for path in DEBUGFS.rglob("*"))
    unload()
    create_file = "debugfs_create_file"
    if has_symbol(f"{create_file}_full"):
        create_file += "_full"
    for function, result, last, step, error in [
        ("debugfs_create_dir", -errno.EPERM, folders, 1, errno.EPERM),
        (create_file, -errno.ENOMEM, files, 5, errno.ENOMEM),
        ("for_each_kernel_tracepoint", 0, len(PROBED), 1, errno.ENOENT),
        ("tracepoint_probe_register", -errno.ENOMEM, len(PROBED), 1, errno.ENOMEM),
        ("__cpuhp_setup_state", -errno.ENOSPC, 2, 1, errno.ENOSPC),
        ("__cpuhp_state_add_instance", -errno.EBUSY, 2, 1, errno.EBUSY),
    ]:
        step = 1 if THOROUGH else step
        fail(function, result)
        for nth in range(1, last + 1, step):
            with_failure(nth, load_fails, error)
        with_failure(last + 1, load_works)
        remove("fail_call")
        note(f"{function}: {last} calls, one in {step} failed with {errno.errorcode[error]}")


def fail_enable(probes, *parameters):
    """Fails each call in turn while measuring is switched on, which registers so many probes."""
    # Two probes more: of requests to reschedule, and of calls of the scheduler that were no switch.
    probes += 2 * HAS_RESCHED
    load("metrics=all", "precision=7", *parameters)
    measure(0)
    for function, result, last, error in [
        ("for_each_kernel_tracepoint", 0, probes, errno.ENOENT),
        ("tracepoint_probe_register", -errno.ENOMEM, probes, errno.ENOMEM),
        ("__cpuhp_setup_state", -errno.ENOSPC, 2, errno.ENOSPC),
        ("__cpuhp_state_add_instance", -errno.EBUSY, 2, errno.EBUSY),
    ]:
        fail(function, result)
        for nth in range(1, last + 1):
            with_failure(nth, enable_fails, error)
        with_failure(last + 1, measure, 1)
        remove("fail_call")
        eq("enable", value("enable"), "1")
        measure(0)
        check_laws()


@seeks_leaks
def test_failed_calls_enable():
    """Seven probes more for chains and groups: of new tasks that are woken, of softirqs that are raised and that
    begin, of timers that expire and that have, of programs that are executed, and of renames or moves."""
    fail_enable(len(PROBED) + 7, "chain=16", "group_by=comm")
    unload()
    fail_enable(len(PROBED) + 2, "group_by=cgroup")


@seeks_leaks
def test_failed_calls_rules():
    """A rule that follows forks needs two probes more, and one of a cgroup needs one. If they cannot be
    registered, the rule is not added."""
    number = 0
    cgroup.on()
    load("group_by=list")
    fail("tracepoint_probe_register", -errno.ENOMEM)
    for probes, add in (2, "add children children 1"), (1, "add root cgroup /"), (0, "add named comm *"):
        for nth in range(1, probes + 1):
            with_failure(nth, fails, errno.ENOMEM, write, "group_rules", add)
            eq("number of rules", len(rules()), number)
        with_failure(probes + 1, write, "group_rules", add)
        number += 1
        eq("number of rules", len(rules()), number)
    remove("fail_call")
    unload()
    assert_gone()


@seeks_leaks
def test_failed_calls_listen():
    """An event that cannot get the probe that emits it in its context cannot be enabled; nor one that then cannot
    get its own."""
    runq, names = EVENTFS / "runq/enable", TRACEFS / "options/record-cmd"
    load()
    # Recording names of tasks takes probes of its own, and the kernel does not expect them to fail.
    write_file(names, "0")
    defer(write_file, names, "1")
    fail("tracepoint_probe_register", -errno.ENOMEM)
    # Without this tracepoint, an interrupt delivers the event in its context.
    probes = 2 if has_symbol("__tracepoint_sched_exit_tp") else 1
    for nth in range(1, probes + 1):
        with_failure(nth, fails, errno.ENOMEM, write_file, runq, "1")
        eq("enable of runq", runq.read_text(), "0\n")
    with_failure(probes + 1, write_file, runq, "1")
    eq("enable of runq", runq.read_text(), "1\n")
    write_file(runq, "0")
    remove("fail_call")
    unload()
    assert_gone()
