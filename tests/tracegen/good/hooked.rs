// SPDX-License-Identifier: GPL-2.0

//! A system whose listeners the module wants to know, and events with weights.

trace_events! {
    system sample: hooked;

    /// What takes time.
    class wait {
        /// The CPU.
        cpu: Cpu,
        /// How long it took.
        took_ns: Ns as weight,
        /// How much it was.
        bytes: u64,
    } => "cpu={cpu} took_ns={took_ns} bytes={bytes}";

    /// A wait for input.
    event wait_in: wait;

    /// An event of its own, with a weight, and with a field that is no argument.
    event span {
        /// When it ended.
        end_ns: Ns,
        /// How long it took.
        took_ns: Ns as weight,
        /// When it began.
        start_ns: Ns = end_ns - took_ns,
    } => "{start_ns} {end_ns} {took_ns}";

    /// An event without a weight.
    event light {
        /// The CPU.
        cpu: Cpu,
    } => "cpu={cpu}";
}
