# SPDX-License-Identifier: GPL-2.0
"""Computes the expected recordings from the events alone, by the definitions."""

import itertools
from collections import Counter as Tally
from dataclasses import dataclass, field

from .common import Interval, die, inconclusive
from .events import Other, Switch, Trace
from .recorded import Module

# prev_state of sched_switch: include/trace/events/sched.h. A preempted task has TASK_REPORT_MAX.
INTERRUPTIBLE = 0x01
UNINTERRUPTIBLE = 0x02
DEAD = 0x10 | 0x20
PREEMPTED = 0x100
# The absences that have a counter instead of a histogram.
COUNTED = {
    0x04: "blocked_stopped",
    0x08: "blocked_traced",
    0x40: "blocked_parked",
    0x80: "blocked_idle",
}


def manner(state: int) -> str:
    """Returns how a task left its CPU."""
    if state in (0, PREEMPTED):
        return "preempt"
    if state == INTERRUPTIBLE:
        return "blocked_interruptible"
    if state == UNINTERRUPTIBLE:
        return "blocked_uninterruptible"
    return "dead" if state & DEAD else COUNTED.get(state, "blocked_other")


@dataclass(slots=True)
class Task:
    """The reference's state of a task."""

    # The last switch-out that schedhist saw, if the task has not run since.
    out: Switch | None = None
    forked: int | None = None
    waking: int = 0
    waking_between: Interval | None = None
    # The interval of the last wakeup while the task had the CPU, if there was one.
    woken_early: Interval | None = None
    # The interval in which the task was put on a run queue.
    queued: Interval | None = None
    moved: bool = False
    runs: bool = False


@dataclass
class Result:
    """The expected recordings of one CPU."""

    counters: Tally[str] = field(default_factory=Tally)
    samples: dict[str, list[Interval]] = field(default_factory=dict)
    # Waits that may or may not be samples, each with the time when it began.
    open: list[tuple[int, Interval]] = field(default_factory=list)
    # Absences of zombies that came back: the event shows that state instead of the one they left
    # in.
    hidden: int = 0
    wide: int = 0
    # Waits of tasks that were woken while they left.
    early: int = 0

    def add(self, metric: str, low: int, high: int) -> None:
        self.samples.setdefault(metric, []).append((max(low, 0), max(high, 0)))


def slices(seen: list[Switch], result: Result) -> None:
    """Adds the slices on a CPU: each switch seen but the first ends one."""
    result.counters["start_unseen"] += bool(seen)
    for one, two in itertools.pairwise(seen):
        metric = "oncpu" if two.prev else "idle"
        result.add(metric, two.a - one.b, two.b - one.a)


def leave(switch: Switch, tasks: dict[int, Task], result: Result | None) -> None:
    task = tasks.setdefault(switch.prev, Task())
    how = manner(switch.state)
    if result:
        result.counters["involuntary" if how == "preempt" else "voluntary"] += 1
    if task.forked is not None and not task.runs:
        # The old task gave up its PID while it exited, and the PID now belongs to another task,
        # which waits.
        if how != "dead":
            inconclusive(f"two tasks are pid {switch.prev}")
        return
    task.out = switch if result else None
    task.queued = None
    task.waking_between = None
    task.moved = False
    task.runs = False


def enter(switch: Switch, tasks: dict[int, Task], result: Result | None, on: Interval) -> None:
    task = tasks.setdefault(switch.next, Task())
    if task.runs:
        die(f"pid {switch.next} runs twice at {switch.a}")
    if result:
        wait(switch, task, result, on)
    task.out = None
    task.forked = None
    task.woken_early = None
    task.runs = True


def wait(switch: Switch, task: Task, result: Result, on: Interval) -> None:
    """Adds a wait that ends with this switch, by the definitions."""
    counters = result.counters
    if task.forked is not None:
        low, high = task.queued or die(f"pid {switch.next} was never woken")
        if high < on[0]:
            counters["wait_unseen"] += 1
        elif low > on[1]:
            if task.moved:
                low, high, result.wide = task.forked, switch.b, result.wide + 1
            result.add("runq_wakeup", switch.a - high, switch.b - low)
        else:
            result.open.append((high, (switch.a - high, switch.b - low)))
        return
    out = task.out
    if out is None:
        counters["wait_unseen"] += 1
        return
    counters["migrations"] += out.cpu != switch.cpu
    away = switch.a - out.b, switch.b - out.a
    how = manner(out.state)
    if how == "preempt":
        result.add("runq_preempt", *away)
        return
    result.add("offcpu", *away)
    if task.queued is None:
        # `pick_next_task()` drops the run queue's lock for a newidle balance. A task whose dequeue
        # is delayed can be woken then, before the tracepoint of the switch.
        task.waking_between = task.woken_early or die(
            f"pid {switch.next} got cpu {switch.cpu} at {switch.a} without a wakeup"
        )
        task.queued, result.early = (out.a, out.b), result.early + 1
    low, high = task.queued
    if task.moved:
        low, high, result.wide = out.a, switch.b, result.wide + 1
    result.add("runq_wakeup", switch.a - high, switch.b - low)
    if task.waking_between:
        result.add("wakeup", switch.a - task.waking_between[1], switch.b - task.waking_between[0])
    if how == "dead":
        result.hidden += 1
    elif how.endswith("interruptible"):
        result.add(how, low - out.b, high - out.a)
    else:
        counters[how] += 1


def note(event: Other, tasks: dict[int, Task]) -> None:
    """Updates the tasks for any event but a switch."""
    task = tasks.setdefault(event.pid, Task())
    if event.kind == "sched_process_fork":
        # A reused PID is another task.
        if task.out and manner(task.out.state) == "preempt":
            inconclusive(f"two tasks are pid {event.pid}")
        tasks[event.pid] = Task(forked=event.time)
    elif event.kind == "sched_waking":
        task.waking = event.time
    elif event.kind == "sched_wakeup_new":
        # The fork may have been before the trace began.
        if task.forked is not None:
            task.queued = (task.forked, event.time)
    elif event.kind == "sched_wakeup":
        # Only the first wakeup queues the task; a task that has not left its CPU is usually still
        # queued.
        if task.runs:
            task.woken_early = (task.waking, event.time)
        elif task.queued is None:
            # The wakeup may begin before the task is off its CPU, but the queueing does not.
            left = task.out.a if task.out else 0
            task.queued = (max(task.waking, left), event.time)
            # The waking may lie before the task was off its CPU.
            task.waking_between = (task.waking, event.time)
    elif event.kind == "sched_migrate_task" and task.queued:
        task.moved = True


def unhide(order: list[Switch | Other]) -> int:
    """Gives zombies that left runnable the state that they left in; returns their number.

    `__trace_sched_switch_state()` adds the exit state of an exiting task to the state in which it
    left. If it comes back without a wakeup, it was runnable: it was woken before it was off its
    CPU, as when it waits for a PREEMPT_RT lock that is free by then.
    """
    number = 0
    new: set[int] = set()
    left: dict[int, Switch] = {}
    for event in order:
        if isinstance(event, Other):
            if event.kind == "sched_process_fork":
                new.add(event.pid)
            if event.kind in ("sched_process_fork", "sched_wakeup"):
                left.pop(event.pid, None)
            continue
        # A task that has yet to run has the PID of another, which leaves for good.
        if manner(event.state) == "dead" and event.prev not in new:
            left[event.prev] = event
        new.discard(event.next)
        if out := left.pop(event.next, None):
            out.state = 0
            number += 1
    return number


def replay(trace: Trace, module: Module, order: list[Switch | Other]) -> dict[int, Result]:
    """Computes the expected recordings from the switches that are marked as seen."""
    results = {cpu: Result() for cpu in trace.switches}
    for cpu, switches in trace.switches.items():
        slices([switch for switch in switches if switch.seen], results[cpu])
    on = trace.marks["schedhist on"], trace.marks["schedhist is on"]
    tasks: dict[int, Task] = {}
    for event in order:
        if isinstance(event, Other):
            note(event, tasks)
            continue
        result = results[event.cpu] if event.seen else None
        if result:
            result.counters["switches"] += 1
            result.counters["to_idle"] += event.next == 0
        if event.prev:
            leave(event, tasks, result)
        if event.next:
            enter(event, tasks, result, on)
    close(module, results)
    for result in results.values():
        waits = result.samples.get("runq_wakeup", []) + result.samples.get("runq_preempt", [])
        result.samples["runq"] = waits
    return results


def close(module: Module, results: dict[int, Result]) -> None:
    """Decides about the open waits. The last to begin are samples, as many as were recorded:
    measuring began at one moment."""
    for cpu, result in results.items():
        known = len(result.samples.get("runq_wakeup", []))
        late = module.histograms[cpu]["runq_wakeup"].values["count"] - known
        late = min(max(late, 0), len(result.open))
        result.open.sort(reverse=True)
        for _, interval in result.open[:late]:
            result.add("runq_wakeup", *interval)
        result.counters["wait_unseen"] += len(result.open) - late
