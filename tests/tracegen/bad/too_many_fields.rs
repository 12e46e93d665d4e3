// SPDX-License-Identifier: GPL-2.0

//! More fields than a tracepoint has arguments.

trace_events! {
    system sample;

    /// An event.
    event sample {
        /// Number 1.
        f1: u64,
        /// Number 2.
        f2: u64,
        /// Number 3.
        f3: u64,
        /// Number 4.
        f4: u64,
        /// Number 5.
        f5: u64,
        /// Number 6.
        f6: u64,
        /// Number 7.
        f7: u64,
        /// Number 8.
        f8: u64,
        /// Number 9.
        f9: u64,
        /// Number 10.
        f10: u64,
        /// Number 11.
        f11: u64,
        /// Number 12.
        f12: u64,
        /// Number 13.
        f13: u64,
        /// Number 14.
        f14: u64,
    } => "{f1} {f2} {f3} {f4} {f5} {f6} {f7} {f8} {f9} {f10} {f11} {f12} {f13} {f14}";
}
