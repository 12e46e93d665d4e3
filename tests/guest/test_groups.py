# SPDX-License-Identifier: GPL-2.0
"""The groups of tasks: who is in which, and what they did."""

import errno
import os
import subprocess
import sys
import time

from harness import cgroup, log
from harness.cgroup import BASE
from harness.groups import (begin, check_group_laws, check_members, groups, head_of, names, of_group, refuses,
                            tasks)
from harness.test import (DEBUG, EXISTS, GROUP_METRICS, OWN, THOROUGH, allow, amount, assert_gone, check_laws, cpu1, eq,
                          fails, lines_of, load, measure, messages, note, parameter, read, reset, seeks_leaks, start,
                          status, stop, unload, value, wait_until, within, write, write_file)
from storm import storm

# How long a storm takes.
SECONDS = amount(1, 4, 60)
NO_CGROUP = "no such cgroup in the default hierarchy (v2)"


@allow(1200 if THOROUGH else 200)
def test_groups_law():
    """Whatever happens to tasks, each is in the group of its cgroup, name or process whenever the storm stops, and
    the groups add up to the machine, exactly."""
    cgroup.on()
    load()
    rules = ["cgroup under /schedhist depth 1", "comm", *(["cgroup", "cgroup depth 2"] if THOROUGH else [])]
    # The storm makes more processes than there are groups by default. Each group has counters for each possible CPU.
    if status("cpus_possible") <= 16:
        write("group_limit", 4095)
        rules += ["process", *(["thread"] if THOROUGH else [])]
    all_at_once = storm()
    for rule in rules:
        begin(rule)
        for _ in range(5 if THOROUGH else 1):
            time.sleep(SECONDS)
            all_at_once.pause()
            note(f"by {rule}")
            eq("group_by", value("group_by"), rule)
            eq("refused", head_of("refused"), 0)
            check_members(rule)
            all_at_once.resume()
        measure(0)
        all_at_once.pause()
        check_group_laws()
        check_laws()
        all_at_once.resume()
    all_at_once.stop()


def test_groups_hotplug():
    """The same while a CPU comes and goes."""
    cpu1()
    cgroup.on()
    load("metrics=all")
    all_at_once = storm("hotplug", "fork", "move", "rename")
    begin("cgroup")
    time.sleep(SECONDS + 2)
    measure(0)
    all_at_once.stop()
    check_group_laws()
    check_laws()


# --- input ---


def test_groups_bad_input():
    load()
    measure(0)
    write("group_by", "cgroup depth 2")
    refuses("group_by", errno.EINVAL, "expected none, cgroup",
            "cgroups", "cgroup under", "cgroup under x", "cgroup depth", "cgroup depth 0", "cgroup depth -1",
            "cgroup depth 4294967295", "cgroup depth 1 depth 1", "cgroup under / under /", "cgroup /", "comm x",
            "none none", "under /", "cgroup under /a b", "process x", "thread 0", "cgroup depth 1 under")
    refuses("group_limit", errno.EINVAL, "expected a number of groups, 1 to 4095",
            0, 4096, 4294967297, 18446744073709551616, "none", "1k", -1)
    refuses("group_memory_limit", errno.EINVAL, "expected a number of bytes", 0, 18446744073709551616, "1M", -1)
    measure(1)
    # No process has the highest PID, and 2 is the thread kthreadd.
    refuses("group_by", errno.ESRCH, "no such process", "process 4194303", "thread 2 4194303")
    refuses("group_by", errno.ENOENT, NO_CGROUP,
            *(f"cgroup under {path}" for path in ("/nothing", "/../x", "//.", "/" + "x" * 300)))
    cgroup.on()
    refuses("group_by", errno.ENOENT, NO_CGROUP,
            *(f"cgroup under {path}" for path in ("/nothing", "/schedhist/nothing", "/schedhist/cgroup.procs")))
    eq("group_by", value("group_by"), "cgroup depth 2")
    write("group_by", " cgroup  depth 3	under /schedhist ")
    eq("group_by", value("group_by"), "cgroup under /schedhist depth 3")
    write("group_limit", 7)
    write("group_memory_limit", "none")
    eq("limit", head_of("limit"), 255)
    write("group_by", "none")
    eq("group_by", value("group_by"), "none")
    eq("limits of no groups", [head_of(key) for key in ("limit", "refused", "memory_bytes")], [0, 0, 0])
    write("group_by", "cgroup")
    eq("limit", head_of("limit"), 7)


def load_refused(error, line, *parameters):
    """Asserts that the module is not loaded with these parameters, and that the log says why."""
    mark = log.Mark()
    fails(error, load, *parameters)
    if line:
        eq(f"the log of {parameters}, {mark.ours()}", mark.ours()[0].startswith(line), True)
    assert_gone()


def test_groups_parameter():
    load("group_by=comm")
    eq("group_by", value("group_by"), "comm")
    eq("parameter", parameter("schedhist", "group_by"), "comm")
    with open("/proc/self/comm", encoding="utf-8") as comm:
        eq("this program is a group", comm.read().rstrip("\n") in names(), True)
    unload()
    # Without cgroup2 mounted, too.
    load('group_by="cgroup under / depth 1"')
    eq("group_by", value("group_by"), "cgroup depth 1")
    eq("groups", names(), ["other", "/"])
    messages(2)
    measure(0)
    check_group_laws()
    within("slices in /", 100, of_group("/", "oncpu_count"))
    unload()
    for text, error in [("bogus", errno.EINVAL), ("cgroup under x", errno.EINVAL),
                        ("cgroup under /nothing", errno.ENOENT)]:
        load_refused(error, 'schedhist: group_by: "', f'group_by="{text}"')


def test_groups_rules_parameter():
    me = os.getpid()
    # With each kind of rule, and what may stand around one.
    shown = [f"mine pid {me}", "work comm k[a-z]orker/*", f"build children {me}", "root cgroup /"]
    text = f"mine pid  {me} ; work comm k[a-z]orker/*\nbuild  children {me};; root cgroup /;"
    load("group_by=list", f'group_rules="{text}"')
    eq("parameter", parameter("schedhist", "group_rules"), text)
    eq("group_by", value("group_by"), "list")
    eq("rules", lines_of("group_rules")[1:], [f"rule {rule}" for rule in shown])
    eq("tasks", of_group("mine", "tasks"), 1)
    within("tasks of kworkers", 1, of_group("work", "tasks"), 1000)
    messages(1)
    within("slices of children", 20, of_group("build", "oncpu_count"))
    within("slices of the rest", 1, of_group("root", "oncpu_count"))
    eq("tasks of no rule", of_group("other", "tasks"), 0)
    unload()
    load("group_by=list", "group_rules=")
    eq("no rules", lines_of("group_rules")[1:], [])
    unload()

    def refused(error, line, rules, by="list"):
        load_refused(error, f"schedhist: group_rules: {line}", f"group_by={by}", f'group_rules="{rules}"')

    refused(errno.EINVAL, '"db com pg*": expected NAME cgroup PATH', "web cgroup /; db com pg*; sh comm sh")
    refused(errno.EINVAL, '"gone pid 1": expected', "gone pid 1")
    refused(errno.EINVAL, '"x": expected', "x")
    refused(errno.EINVAL, '"web": group_by is not list', "web cgroup /", "none")
    refused(errno.EINVAL, '"web": group_by is not list', "web cgroup /", "cgroup")
    refused(EXISTS, '"a": there is a rule of this name', "a comm x; a comm y")
    refused(errno.ESRCH, '"b": no such process', "a comm x; b pid 4194303")
    refused(errno.ENOENT, '"b": no such cgroup', f"a children {me}; b cgroup /nothing")
    # Longer than the parameter can be: the kernel's own message. User Mode Linux reads beyond such arguments.
    if OWN == "uml":
        note("a parameter that is too long: not tried")
    else:
        load_refused(errno.ENOSPC, "", "group_by=list", 'group_rules="%s"' % ("x" * 8200))


def test_groups_names():
    """Any name is a single word in the text or comes last, and each group has its own."""
    cgroup.on()
    load()
    shown = {"a b": "a b", "back\\slash": r"back\x5cslash", "tab\there": r"tab\x09here", "name x": "name x",
             "caf\xe9": r"caf\xc3\xa9", "c d/e  f": "c d/e  f"}
    cgroup.make(*shown)
    begin("cgroup")
    for name in shown:
        cgroup.run_in(name, "sleep", "0.01")
    measure(0)
    check_group_laws()
    for text in shown.values():
        eq(f"names of {text}", names().count(f"/schedhist/{text}"), 1)
        within(f"slices in {text}", 1, of_group(f"/schedhist/{text}", "oncpu_count"), 1000)
    # A backslash is taken as it is, and shown so: systemd names units with it.
    write("group_by", r"cgroup under /schedhist/back\slash")
    eq("group_by", value("group_by"), r"cgroup under /schedhist/back\slash")
    # Paths of all lengths.
    parent = "/".join(["x" * 200] * 9)
    path = f"{parent}/{'x' * 200}"
    cgroup.make(path)
    begin(f"cgroup under /schedhist/{parent}")
    eq("group_by", value("group_by"), f"cgroup under /schedhist/{parent}")
    cgroup.run_in(path, "sleep", "0.01")
    measure(0)
    check_group_laws()
    within("slices in a long path", 1, of_group(f"/schedhist/{path}", "oncpu_count"), 1000)
    eq("groups", names(), ["other", f"/schedhist/{path}"])


def threads(number):
    """Starts a process of so many threads, which sleep."""
    code = f"""import threading, time
for _ in range({number - 1}): threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
print(flush=True)
time.sleep(1000)"""
    process = start(sys.executable, "-SE", "-c", code, stdout=subprocess.PIPE)
    process.stdout.readline()
    return process


def verdicts_in(name):
    """Returns how many tasks have the group /schedhist/NAME as their verdict."""
    [number] = [number for number, group in groups().items() if group.name == f"/schedhist/{name}"]
    return list(tasks().values()).count(number)


def test_groups_large_process():
    """A process that moves may have more threads than are decided at once. The others follow soon, and are
    counted."""
    cgroup.on()
    load()
    one, other = cgroup.make("one", "other")
    begin("cgroup")
    few = threads(32)
    for folder in one, other:
        cgroup.move(few.pid, folder)
        eq(f"tasks in {folder.name}", verdicts_in(folder.name), 32)
    eq("late", head_of("late"), 0)
    stop(few)
    many = threads(300)
    cgroup.move(many.pid, one)
    wait_until("all in one", lambda: verdicts_in("one") == 300)
    wait_until("late", lambda: head_of("late") == 268)
    for _ in range(20):
        cgroup.move(many.pid, other)
        cgroup.move(many.pid, one)
    cgroup.move(many.pid, other)
    wait_until("all in the other", lambda: verdicts_in("other") == 300)
    within("late", 536, head_of("late"), 42 * 268)
    check_members("cgroup")
    measure(0)
    check_group_laws()


# --- limits ---


def test_groups_limits():
    """Too many groups for the limits: the others are counted as such, and all of it adds up."""
    number, memory = 1000 if THOROUGH else 300, 131072
    cgroup.on()
    load()
    cpus = status("cpus_possible")
    # All counters, and cells that no group reads, for each CPU.
    write("group_memory_limit", memory)
    for limit in 4095, memory // 512 // cpus:
        write("group_limit", limit)
        refuses("group_by", errno.ENOMEM, "group_memory_limit", "cgroup depth 1", "comm", "list")
    for limit in 50, 1:
        write("group_limit", limit)
        write("group_memory_limit", memory)
        measure(0)
        reset()
        write("group_by", "cgroup under /schedhist")
        counters = head_of("memory_bytes")
        within("memory of counters", (limit + 2) * 512 * cpus + 7000, counters, memory)
        measure(1)
        cgroup.visit(number, keep=True)
        time.sleep(0.3)
        messages(1)
        measure(0)
        eq("limit", head_of("limit"), limit)
        eq("number of groups", len(names()), limit + 1)
        within("refused", number - limit, head_of("refused"), 1000000)
        within("memory", counters, head_of("memory_bytes"), memory)
        within("slices of other", 1, of_group("other", "oncpu_count"))
        check_group_laws()
        if limit != 1:
            missing = sum(group.values["not_in_histogram"] for group in groups().values())
            within("samples in no histogram", 1, missing, 1000000)
        for folder in BASE.glob("*/"):
            folder.rmdir()
    eq("group_memory_limit", value("group_memory_limit"), str(memory))
    # The limits are those of the next groups.
    write("group_memory_limit", "none")
    write("group_limit", 1000)
    begin("cgroup under /schedhist")
    cgroup.visit(number, keep=True)
    time.sleep(0.3)
    measure(0)
    eq("number of groups", len(names()), number + 1)
    eq("refused", head_of("refused"), 0)
    check_group_laws()


def test_groups_long_path():
    """The kernel cuts a path that is too long without an error: its cgroup has no group of its own."""
    cgroup.on()
    load()
    begin("cgroup under /schedhist")
    os.chdir(BASE)
    for _ in range(17):
        os.mkdir("x" * 250)
        os.chdir("x" * 250)
    for leaf in "ab":
        os.mkdir(leaf)
        write_file(f"{leaf}/cgroup.procs", "0")
        time.sleep(0.001)
        cgroup.move(0, cgroup.ROOT)
        os.rmdir(leaf)
    for _ in range(17):
        os.chdir("..")
        os.rmdir("x" * 250)
    measure(0)
    within("refused", 2, head_of("refused"), 1000)
    eq("groups", names(), ["other"])
    check_group_laws()


def test_groups_restart():
    """A service that starts again goes on in its group, however often: its new cgroup has the old path."""
    cgroup.on()
    load()
    write("group_limit", 5)
    begin("cgroup under /schedhist")
    for _ in range(50):
        [folder] = cgroup.make("service")
        cgroup.move(0, folder)
        time.sleep(0.0001)
        cgroup.move(0, cgroup.ROOT)
        folder.rmdir()
    measure(0)
    eq("refused", head_of("refused"), 0)
    eq("groups", names(), ["other", "/schedhist/service"])
    # It sleeps in each of them.
    within("slices of the service", 25, of_group("/schedhist/service", "oncpu_count"), 10000)
    check_group_laws()


# --- change and unload ---


@seeks_leaks
@allow(1200 if THOROUGH else 200)
def test_groups_change():
    cycles, kinds = 1, ["fork", "into", "move", "rename"]
    rules = ["cgroup", "comm", "cgroup under /schedhist depth 1", "none", "cgroup"]
    cgroup.on()
    if THOROUGH:
        cycles, kinds = 50, []
    elif DEBUG:
        # A kernel that checks every access takes minutes for more.
        kinds, rules = ["fork", "move"], ["none", "cgroup"]
    all_at_once = storm(*kinds)
    for _ in range(cycles):
        load("group_by=comm")
        for rule in rules:
            write("group_by", rule)
            for file in "groups", "group_summary", "group_tasks", *(f"group_hist/{metric}" for metric in GROUP_METRICS):
                read(file)
            measure(0)
            measure(1)
        begin("cgroup depth 2")
        time.sleep(0.5)
        measure(0)
        time.sleep(0.2)
        # Goes on in the same groups.
        measure(1)
        time.sleep(0.5)
        measure(0)
        # What is to be read does not change any more: let the reader have the CPUs.
        all_at_once.pause()
        check_group_laws()
        all_at_once.resume()
        measure(1)
        unload()
        assert_gone()
    all_at_once.stop()
