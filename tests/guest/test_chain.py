# SPDX-License-Identifier: GPL-2.0
"""Chains: who could have woken a task earlier, and what that one was doing."""

import errno
import mmap
import os
import re
import socket
import time
from collections import Counter
from pathlib import Path

from harness import raw
from harness.chains import ENDS, PARTS, chains
from harness.groups import groups
from harness.outliers import escaped
from harness.test import (DEBUGFS, IS_RT, KO, bursts, busy, check_laws, cpu1, eq, fails, fails_with, has_clock, load,
                          measure, messages, note, parameter, read, reset, run, skip, spawn, state_of, status, unload,
                          value, wait_until, within, write, write_file)
from harness.trace import Instance

MS = 10**6


def work(seconds):
    """Keeps a CPU busy."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def named(name, function, *arguments):
    def begin():
        Path("/proc/self/comm").write_text(name)
        function(*arguments)
    return spawn(begin)


def of_task(name, metric="offcpu"):
    """Returns the chains of the outliers of a task, the longest last."""
    found = [chain for chain in chains() if chain.hops[0].comm == name and chain.metric == metric]
    return sorted(found, key=lambda chain: chain.duration_ns)


def newest():
    """Returns the number of the newest chain."""
    return max((chain.id for chain in chains()), default=0)


def sleeps(pid, name):
    """Returns whether a task has this name, and sleeps."""
    return Path(f"/proc/{pid}/comm").read_text() == f"{name}\n" and state_of(pid) == "S"


def relay(source, target, seconds):
    """For each byte, works, and wakes the next one."""
    while os.read(source, 1):
        work(seconds)
        os.write(target, b"x")


def begin(slices=1024, threshold=10 * MS):
    load(f"chain={slices}")
    write("threshold_ns/offcpu", threshold)
    # Of all tasks of the guest together.
    write("outlier_rate", "none")


def test_chain_events():
    """Each chain is an event, with one for each hop, in the context of the task of the outlier."""
    begin(threshold=MS // 2)
    measure(0)
    # This forgets the chains so far.
    write("chain", 2048)
    trace = Instance("outlier", "chain", "hop")
    measure(1)
    with busy():
        time.sleep(1)
        measure(0)
    trace.nothing_lost()
    found = [re.fullmatch(r".*-(\d+) +\[(\d+)\] .*?: ((?:chain|hop|outlier): .*)", line).groups() for line in trace.lines()]
    ids = [sorted(re.findall(rf"{event}: id=(\d+) metric", "\n".join(text for *_, text in found)))
           for event in ("outlier", "chain")]
    eq("chains", ids[1], ids[0])
    within("chains that are kept", 5, len(chains()))
    for chain in chains():
        first = chain.hops[0]
        wanted = [f"chain: id={chain.id} metric={chain.metric} comm={first.comm} pid={first.pid} cpu={chain.cpu} group=0 "
                  f"duration_ns={chain.duration_ns} end={chain.end} blocked_ns={chain.blocked_ns} "
                  f"missing_ns={chain.missing_ns} hops={chain.number}"]
        wanted += [f"hop: id={chain.id} number={number} comm={hop.comm} pid={hop.pid} cpu={hop.cpu} group=0 "
                   f"via={hop.via.replace('-', 'unknown')} duration_ns={hop.sum} "
                   + " ".join(f"{part}={getattr(hop, part)}" for part in PARTS)
                   for number, hop in enumerate(chain.hops)]
        eq("its events", [event for event in found if re.match(rf"(chain|hop): id={chain.id} ", event[2])],
           [(str(first.pid), f"{chain.cpu:03}", text) for text in wanted])


def test_chain_groups_of_hops():
    """Each hop has the group of its task."""
    begin()
    write("group_by", "comm")
    wake_in_turn()
    measure(0)
    names = {number: group.name for number, group in groups().items()}
    hops = [hop for chain in of_task("first") for hop in chain.hops if hop.comm in ("first", "second", "third")]
    within("hops", 3, len(hops))
    eq("their groups", [names.get(hop.group) for hop in hops], [hop.comm for hop in hops])


def test_chain_control():
    """By default nothing is kept, and nothing is allocated. What is written begins anew."""
    load()
    eq("default", (value("chain"), status("chain_memory_bytes"), parameter("schedhist", "chain")), ("0", 0, "0"))
    eq("the file", read("chains"), "# schedhist chains version 1\n# chain 0\n")
    for bad in ("8", "17", "131072", "-16", "none", "x", "16 32", ""):
        fails(errno.EINVAL, write, "chain", bad)
    write("threshold_ns/offcpu", MS // 10)
    seen = 0
    with busy():
        for slices in (16, 1024, 65536, 64):
            write("chain", slices)
            eq("it is set", value("chain"), str(slices))
            within("memory of a CPU", slices * 64, status("chain_memory_bytes") // status("cpus_possible"),
                   slices * 64 + 40_000)
            wait_until("newer chains", lambda: newest() > seen)
            seen = newest()
        write("metrics", "oncpu")
        write("metrics", "default")
        # The laws of these metrics hold from here on.
        reset()
        seen = max(seen, newest())
        wait_until("chains once the metrics need tasks again", lambda: newest() > seen)
        measure(0)
        kept = read("chains")
        measure(1)
        write("chain", 64)
        within("those kept stay if nothing changes", len(kept) // 2, len(read("chains")))
        write("chain", 0)
    eq("nothing is left", (read("chains"), status("chain_memory_bytes")), ("# schedhist chains version 1\n# chain 0\n", 0))
    measure(0)
    check_laws()


def test_chain_parameter():
    """A wrong number is refused when the module is loaded."""
    for bad in (8, 100, 131072):
        fails_with("Invalid parameters", "insmod", KO, f"chain={bad}")
    load("chain=256")
    eq("chain", (value("chain"), parameter("schedhist", "chain")), ("256", "256"))


def wake_in_turn(rounds=3):
    """`first` wakes `second`, that wakes `third`, and that wakes `first`, which waits."""
    to_b, to_c, to_a = os.pipe(), os.pipe(), os.pipe()

    def first():
        for _ in range(rounds):
            time.sleep(0.01)
            os.write(to_b[1], b"x")
            os.read(to_a[0], 1)

    relays = {"second": named("second", relay, to_b[0], to_c[1], 0.03),
              "third": named("third", relay, to_c[0], to_a[1], 0.06)}
    wait_until("the relays", lambda: all(sleeps(pid, name) for name, pid in relays.items()))
    pid = named("first", first)
    os.waitpid(pid, 0)


def test_chain_known():
    """The chain of a task whose wakers are known, and their work."""
    begin()
    wake_in_turn()
    measure(0)
    found = of_task("first")
    if not found:
        raise AssertionError(read("chains"))
    check_laws()
    chain = found[-1]
    note(f"{chain}")
    eq("who woke whom", [(hop.comm, hop.via) for hop in chain.hops[:3]],
       [("first", "-"), ("third", "task"), ("second", "task")])
    eq("nothing is missing", chain.missing_ns, 0)
    # A task may have waited for nothing but its first waker, which is the task itself: it ran until it slept.
    eq("the rest", [hop.comm for hop in chain.hops[3:]], ["first"] * (len(chain.hops) - 3))
    if has_clock():
        within("the work of the third", 60 * MS - 5 * MS, chain.hops[1].ran_ns)
        within("the work of the second", 30 * MS - 5 * MS, chain.hops[2].ran_ns)


def test_chain_sleep():
    """A timer ends a sleep: the chain ends there. On PREEMPT_RT a thread expires it, which the timer's interrupt wakes
    as it ends: a task that the interrupt came upon has nothing to do with it."""
    # Only the last 16 of a CPU are kept, and real-time kernels have threads that often sleep for less.
    begin(threshold=500 * MS)
    hog = ("sh", "-c", "while :; do :; done")
    with busy(*hog), busy(*hog):
        pid = named("sleeper", time.sleep, 1)
        os.waitpid(pid, 0)
    measure(0)
    chain = of_task("sleeper")[-1]
    note(f"{chain}")
    if IS_RT:
        eq("what expired the timer", [hop.comm.split("/")[0] for hop in chain.hops[1:]], ["ktimers"])
        eq("end", chain.end in ("interrupt", "interrupt_softirq"), True)
    else:
        eq("hops", len(chain.hops), 1)
        eq("end", chain.end, "timer")
    # The time of its sleep.
    within("it was blocked", 950 * MS, chain.blocked_ns, chain.duration_ns)


def test_chain_fork():
    """A new task was woken by the one that created it."""
    begin()
    pipe = os.pipe()

    def parent():
        time.sleep(0.05)
        if os.fork() == 0:
            work(0.05)
            os.write(pipe[1], b"x")
            os._exit(0)
        os.wait()

    pid = named("victim", os.read, pipe[0], 1)
    creator = named("parent", parent)
    os.waitpid(pid, 0)
    measure(0)
    chain = of_task("victim")[-1]
    note(f"{chain}")
    eq("who woke whom", [hop.via for hop in chain.hops[:3]], ["-", "task", "fork"])
    eq("the creator", (chain.hops[1].pid != creator, chain.hops[2].pid), (True, creator))


def test_chain_exited():
    """A waker that has exited, and whose PID another task has got since, is still named."""
    # Only the last 16 of a CPU are kept, and real-time kernels have threads that often sleep for less.
    begin(16384, 150 * MS)
    early, late, is_reused = os.pipe(), os.pipe(), mmap.mmap(-1, 1)

    def short():
        # It has its name from the next slice on.
        time.sleep(0.01)
        work(0.2)
        os.write(early[1], b"x")

    def pass_on():
        os.read(early[0], 1)
        while not is_reused[0]:
            pass
        os.write(late[1], b"x")

    for number in range(5):
        is_reused[0] = 0
        pids = [named(f"victim{number}", os.read, late[0], 1), named("between", pass_on)]
        wait_until("both", lambda: sleeps(pids[0], f"victim{number}") and sleeps(pids[1], "between"))
        waker = named(f"waker{number}", short)
        os.waitpid(waker, 0)
        # Soon: the slices of a chain are limited, and who spins has some.
        for _ in range(100):
            write_file("/proc/sys/kernel/ns_last_pid", str(waker - 1))
            if (other := spawn(int)) == waker:
                break
            os.waitpid(other, 0)
        eq("the PID of another task", other, waker)
        is_reused[0] = 1
        for pid in [*pids, other]:
            os.waitpid(pid, 0)
        chain = of_task(f"victim{number}")[-1]
        hops = chain.hops
        eq(f"who woke whom in {chain}", [hop.comm for hop in hops[:3]], [f"victim{number}", "between", f"waker{number}"])
        eq("the PID of the first", hops[2].pid, waker)
    measure(0)
    check_laws()


def test_chain_tcp():
    """On loopback a softirq delivers what a task sends: it is that task's."""
    if not Path("/proc/net/tcp").exists():
        skip("the kernel has no TCP")
    run("ip", "link", "set", "lo", "up")
    begin()
    server = socket.create_server(("127.0.0.1", 0))

    def serve():
        connection, _ = server.accept()
        while connection.recv(1):
            work(0.03)
            connection.send(b"x")

    def ask():
        with socket.create_connection(server.getsockname()) as connection:
            for _ in range(5):
                connection.send(b"x")
                connection.recv(1)

    named("server", serve)
    pid = named("client", ask)
    os.waitpid(pid, 0)
    measure(0)
    found = of_task("client")
    ways = [(chain.hops[1].comm, chain.hops[1].via) if len(chain.hops) > 1 else chain.end for chain in found]
    note(f"{ways}")
    # Now and then an interrupt raises that softirq, too, or a thread runs it. Nobody else is ever named.
    others = [way for way in ways if way != ("server", "softirq")]
    eq("other ways", [way for way in others if way not in ("interrupt", "interrupt_softirq", "unknown_softirq", "timer")
                      and not way[0].startswith(("ksoftirqd/", "ktimers/"))], [])
    within("chains through the softirq", 1, ways.count(("server", "softirq")))


def test_chain_laws():
    """The parts of each chain add up, whatever the load does. A reader that is slower than the ring notices, and
    nothing is made up. What is kept is in `raw`, too."""
    begin(16, MS // 2)
    found = Counter()
    with busy():
        while not found["overwritten"]:
            found.update(chain.end for chain in chains())
        write("chain", 1024)
        end = time.monotonic() + 3
        while time.monotonic() < end or found.total() < 10:
            found.update(chain.end for chain in chains())
        measure(0)
    check_laws()
    note(f"{found.total()} chains, of which {dict(found)}")
    data = (DEBUGFS / "raw").read_bytes()
    records = [record for _, record in raw.records(data, raw.header_of(data).header_length)]
    hops = [record.fields for record in records if record.kind == "HOP"]
    found = [(fields.outlier, fields.cpu, fields.duration_ns, ENDS[fields.end], fields.blocked_ns, fields.missing_ns,
              [(hop.pid, escaped(hop.comm.decode("latin1")), *(getattr(hop, part) for part in PARTS))
               for hop in hops if hop.outlier == fields.outlier])
             for fields in (record.fields for record in records if record.kind == "CHAIN")]
    eq("raw", found, [(chain.id, chain.cpu, chain.duration_ns, chain.end, chain.blocked_ns, chain.missing_ns,
                       [(hop.pid, hop.comm, *(getattr(hop, part) for part in PARTS)) for hop in chain.hops])
                      for chain in chains()])


def test_chain_hotplug():
    """The laws hold as a CPU goes offline and comes back."""
    online = cpu1()
    begin(threshold=MS // 2)
    with busy():
        for _ in range(4):
            for state in "01":
                write_file(online, state)
                seen = newest()
                wait_until("newer chains", lambda: newest() > seen)
        measure(0)
    check_laws()


def test_chain_unload():
    """The module goes while chains are kept, and comes back; nothing of before is found."""
    with bursts():
        for _ in range(3):
            begin(threshold=MS // 2)
            wait_until("chains", chains)
            unload()
            load("chain=1024")
            eq("chains without a threshold", chains(), [])
            unload()


def test_chain_groups():
    """With groups, with long waits and with other metrics, too, the laws hold."""
    for parameters in (("group_by=comm",), ("metrics=all",), ("group_by=process", "metrics=all", "precision=3")):
        load("chain=512", *parameters)
        write("long_wait_ns", 1000)
        messages(5)
        eq("chains without a threshold", chains(), [])
        write("threshold_ns/offcpu", MS // 10)
        messages(5)
        measure(0)
        check_laws()
        within("chains", 1, len(chains()))
        unload()
