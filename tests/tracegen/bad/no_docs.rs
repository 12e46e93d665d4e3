// SPDX-License-Identifier: GPL-2.0

//! Nothing is documented.

trace_events! {
    system sample;

    enum Kind {
        One = 1 => "one",
    }

    class shared {
        pid: Pid,
    } => "pid={pid}";

    event sample: shared;
}
