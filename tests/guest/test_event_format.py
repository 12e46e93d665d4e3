# SPDX-License-Identifier: GPL-2.0
"""The format of each event, as its readers see it."""

from harness.chains import ENDS
from harness.test import EVENTFS, EVENTS, TRACEFS, about_texts, eq, load

CAUSES = """preempted interruptible uninterruptible stopped dead wakeup fork idle throttled idle_wait traced parked
    frozen other"""
CONTEXTS = "task softirq fork interrupt interrupt_softirq unknown_softirq idle unknown timer"
DISTANCES = "none own core llc node remote"
METRICS = """oncpu runq_wakeup runq_preempt blocked_interruptible blocked_uninterruptible offcpu idle wakeup throttled
    resched resched_lazy"""

# Of each field: type, name, offset, size, whether it is signed.
COMMON = """unsigned short common_type 0 2 0
    unsigned char common_flags 2 1 0
    unsigned char common_preempt_count 3 1 0
    int common_pid 4 4 1"""
SAMPLE = ("""u64 duration_ns 8 8 0
    pid_t pid 16 4 1
    int prio 20 4 1
    unsigned int cpu 24 4 0
    unsigned int group 28 4 0
    char comm[16] 32 16 0
    u8 cause 48 1 0""", "comm pid prio cpu duration_ns cause group")
FORMATS = {
    "idle": ("""u64 duration_ns 8 8 0
    unsigned int cpu 16 4 0
    pid_t next_pid 20 4 1
    int next_prio 24 4 1
    char next_comm[16] 28 16 0""", "cpu duration_ns next_comm next_pid next_prio"),
    "long_wait": ("""u64 duration_ns 8 8 0
    u64 own_idle_ns 16 8 0
    u64 idle_elsewhere_ns 24 8 0
    u64 unknown_ns 32 8 0
    u64 idle_ns 40 8 0
    pid_t pid 48 4 1
    int prio 52 4 1
    unsigned int cpu 56 4 0
    int idle_cpu 60 4 1
    unsigned int group 64 4 0
    char comm[16] 68 16 0
    u8 distance 84 1 0
    u8 cause 85 1 0""", "comm pid prio cpu duration_ns own_idle_ns idle_elsewhere_ns unknown_ns idle_cpu idle_ns "
                         "distance cause group"),
    "outlier": ("""u64 id 8 8 0
    u64 end_ns 16 8 0
    u64 duration_ns 24 8 0
    u64 start_ns 32 8 0
    u64 missing_ns 40 8 0
    pid_t pid 48 4 1
    int prio 52 4 1
    unsigned int cpu 56 4 0
    unsigned int culprits 60 4 0
    unsigned int group 64 4 0
    u8 metric 68 1 0
    char comm[16] 69 16 0
    u8 cause 85 1 0""", "id metric comm pid prio cpu cause duration_ns start_ns end_ns culprits missing_ns group"),
    "culprit": ("""u64 id 8 8 0
    u64 ran_ns 16 8 0
    pid_t pid 24 4 1
    int prio 28 4 1
    unsigned int cpu 32 4 0
    unsigned int slices 36 4 0
    unsigned int group 40 4 0
    char comm[16] 44 16 0""", "id comm pid prio cpu ran_ns slices group"),
    "chain": ("""u64 id 8 8 0
    u64 duration_ns 16 8 0
    u64 blocked_ns 24 8 0
    u64 missing_ns 32 8 0
    pid_t pid 40 4 1
    unsigned int cpu 44 4 0
    unsigned int group 48 4 0
    unsigned int hops 52 4 0
    u8 metric 56 1 0
    char comm[16] 57 16 0
    u8 end 73 1 0""", "id metric comm pid cpu group duration_ns end blocked_ns missing_ns hops"),
    "hop": ("""u64 id 8 8 0
    u64 duration_ns 16 8 0
    u64 ran_ns 24 8 0
    u64 waited_ns 32 8 0
    u64 preempted_ns 40 8 0
    u64 throttled_ns 48 8 0
    unsigned int number 56 4 0
    pid_t pid 60 4 1
    unsigned int cpu 64 4 0
    unsigned int group 68 4 0
    char comm[16] 72 16 0
    u8 via 88 1 0""", "id number comm pid cpu group via duration_ns ran_ns waited_ns preempted_ns throttled_ns"),
}
PRINTED = {"u64": "%llu", "pid_t": "%d", "int": "%d", "unsigned int": "%u", "char": "%s", "u8": "%s"}


def symbolic(field: str, names: str) -> str:
    pairs = ", ".join(f'{{ {value}, "{name}" }}' for value, name in enumerate(names.split()))
    return f"__print_symbolic(REC->{field}, {pairs})"


def expected(event: str) -> list[str]:
    own, shown = FORMATS.get(event, SAMPLE)
    lines, types = [f"name: {event}"], {}
    for field in f"{COMMON}\n{own}".splitlines():
        kind, offset, size, signed = field.strip().rsplit(" ", 3)
        lines.append(f"field:{kind}; offset:{offset}; size:{size}; signed:{signed};")
        type_, name = kind.partition("[")[0].rsplit(" ", 1)
        types[name] = type_
    values = {name: f"(unsigned long long)REC->{name}" if type_ == "u64" else f"REC->{name}"
              for name, type_ in types.items()}
    values |= {"cause": symbolic("cause", CAUSES), "metric": symbolic("metric", METRICS),
               "distance": symbolic("distance", DISTANCES), "end": symbolic("end", " ".join(ENDS)),
               "via": symbolic("via", CONTEXTS)}
    text = " ".join(f"{name}={PRINTED[types[name]]}" for name in shown.split())
    return [*lines, f'print fmt: "{text}", ' + ", ".join(values[name] for name in shown.split())]


def test_event_format():
    """Programs that read a trace take values as numbers: names in the text would be useless to them."""
    about_texts()
    load()
    listed = (TRACEFS / "available_events").read_text().split()
    ours = [name.partition(":")[2] for name in listed if name.startswith("schedhist:")]
    eq("events", sorted(ours), sorted(EVENTS))
    for event in EVENTS:
        text = (EVENTFS / event / "format").read_text()
        found = [line.strip("\t").replace("\t", " ") for line in text.splitlines()]
        found = [line for line in found if line and not line.startswith(("ID: ", "format:"))]
        eq(f"the format of {event}", found, expected(event))
