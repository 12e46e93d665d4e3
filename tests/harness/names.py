# SPDX-License-Identifier: GPL-2.0
"""The names of everything that the module shows: its metrics, counters, files, events and probes.

The one table that the tests share. A new metric, counter, file, event or probe is added here.
"""

# In the order of the summary: name, whether it is recorded (or the sum of others), whether it is
# measured by default.
_METRICS = [
    ("oncpu", True, True),
    ("runq", False, True),
    ("runq_wakeup", True, True),
    ("runq_preempt", True, True),
    ("blocked_interruptible", True, True),
    ("blocked_uninterruptible", True, True),
    ("offcpu", True, True),
    ("idle", True, True),
    ("wakeup", True, False),
    ("throttled", True, False),
    ("resched", True, False),
    ("resched_lazy", True, False),
]
METRICS = [name for name, _, _ in _METRICS]
RECORDED = [name for name, recorded, _ in _METRICS if recorded]
DEFAULT = [name for name, recorded, on in _METRICS if recorded and on]

# Metrics and counters of groups.
GROUP_METRICS = ["oncpu", "runq", "offcpu"]
GROUP_COUNTERS = ["voluntary", "involuntary", "migrations", "throttled"]  # in raw, throttled_ns comes next
CULPRITS = ["own", "other", "kernel", "idle"]

# Sums of counters, and of the counts of metrics; each holds if these metrics are measured.
BLOCKED_OTHERWISE = [f"blocked_{state}" for state in ("idle", "stopped", "traced", "parked", "frozen", "other")]
MIGRATIONS = [f"migrations_{distance}" for distance in ("core", "llc", "node", "remote")]
RESCHED_OTHERWISE = ["resched_idle", "resched_unused"]
LAWS: list[tuple[str, list[str], set[str]]] = [
    ("switches", ["oncpu", "idle", "start_unseen"], {"oncpu", "idle"}),
    ("switches", ["to_idle", "runq", "throttled", "wait_unseen", "untracked"], {"runq_wakeup", "runq_preempt"}),
    ("runq", ["runq_wakeup", "runq_preempt"], set()),
    ("offcpu", ["blocked_interruptible", "blocked_uninterruptible", *BLOCKED_OTHERWISE], set()),
    ("offcpu", ["wakeup", "wake_unseen"], {"wakeup"}),
    ("migrations", MIGRATIONS, set()),
    ("resched_set", ["resched", "resched_lazy", *RESCHED_OTHERWISE], set()),
]
# In the order of the summary.
COUNTERS = ["switches", "voluntary", "involuntary", "start_unseen", "to_idle", "wait_unseen", "untracked",
            *BLOCKED_OTHERWISE, "wake_unseen", "migrations", "clock_backwards", "throttled", *MIGRATIONS,
            "resched_set", *RESCHED_OTHERWISE]

# The files, but for those of each metric and CPU. Controls can be read and written; `reset` has no text.
CONTROLS = ["enable", "metrics", "outlier_limit", "outlier_rate", "on_outlier", "group_by", "group_rules",
            "group_limit", "group_memory_limit", "long_wait_ns", "chain"]
TEXTS = ["status", "summary", "openmetrics", "raw", "outliers", "outlier_pipe", "groups", "group_summary",
         "group_tasks", "long_waits", "chains", "slices"]
OF_CPU = ["summary", "openmetrics"]


def files(cpus: list[int]) -> dict[str, int]:
    """Returns the mode of each file and folder."""
    folders = [".", "hist", "group_hist", "per_cpu", "threshold_ns"]
    modes = {name: 0o600 for name in CONTROLS} | {"reset": 0o200} | {name: 0o400 for name in TEXTS}
    modes |= {f"group_hist/{metric}": 0o400 for metric in GROUP_METRICS}
    for metric in METRICS:
        modes |= {f"hist/{metric}": 0o400, f"threshold_ns/{metric}": 0o600}
    for cpu in cpus:
        folders += [f"per_cpu/cpu{cpu}", f"per_cpu/cpu{cpu}/hist"]
        modes |= {f"per_cpu/cpu{cpu}/{name}": 0o400 for name in (*OF_CPU, *(f"hist/{metric}" for metric in METRICS))}
    return modes | {name: 0o755 for name in folders}


# The trace events.
EVENTS = ["oncpu", "runq", "offcpu", "blocked", "wakeup", "throttled", "resched", "resched_lazy", "idle", "long_wait",
          "outlier", "culprit", "chain", "hop"]
# The tracepoints that the module probes while tasks are not grouped and nobody listens.
PROBED = ["sched/sched_switch", "sched/sched_waking", "task/task_newtask"]
PARAMETERS = ["chain", "group_by", "group_rules", "metrics", "precision"]
