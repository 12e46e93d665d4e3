// SPDX-License-Identifier: GPL-2.0

//! How many outliers are reported, and what is logged when there are more.

use kernel::{
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
};

use crate::{
    boundary::abstractions::Job,
    engine::outlier::{
        Limit,
        Log,
        Rate, //
    },
};

/// The default maximum of outliers per second.
const RATE: u64 = 100;

/// A message that is logged once, until it is armed again.
pub(super) struct Notice(Atomic<u32>);

impl Notice {
    const ARMED: u32 = 0;
    const DUE: u32 = 1;
    const SAID: u32 = 2;

    const fn new() -> Self {
        Self(Atomic::new(Self::ARMED))
    }

    /// Calls `change`, and then arms the notice again if it was due or logged before.
    ///
    /// A notice that was armed stays as it is: an outlier during the change may make it due.
    pub(super) fn renew<T>(&self, change: impl FnOnce() -> T) -> T {
        let is_armed = self.0.load(Relaxed) == Self::ARMED;
        let changed = change();
        if !is_armed {
            self.0.store(Self::ARMED, Relaxed);
        }
        changed
    }

    fn advance(&self, from: u32, to: u32) -> bool {
        // The state rarely is `from`. A load first keeps the cache line shared in all other cases.
        self.0.load(Relaxed) == from && self.0.cmpxchg(from, to, Relaxed).is_ok()
    }

    /// Makes the notice due if it is armed. Returns whether it was armed: the caller then queues
    /// the printer.
    pub(super) fn is_first(&self) -> bool {
        self.advance(Self::ARMED, Self::DUE)
    }

    /// Returns whether the notice is due; it then counts as logged.
    fn take(&self) -> bool {
        self.advance(Self::DUE, Self::SAID)
    }
}

/// Limits how many outliers all CPUs together report.
pub(super) struct Budget {
    pub(super) rate: Rate,
    pub(super) limit: Limit,
    pub(super) rate_notice: Notice,
    pub(super) limit_notice: Notice,
}

impl Budget {
    pub(super) fn new() -> Self {
        Self {
            rate: Rate::new(RATE),
            limit: Limit::new(0),
            rate_notice: Notice::new(),
            limit_notice: Notice::new(),
        }
    }

    /// Takes the number of the next outlier, to be reported in `log`. Fails with the notice of the
    /// limit that forbids a report. `now` is a time as in [`Rate::take`].
    pub(super) fn take(&self, now: u64, log: &Log) -> Result<u64, &Notice> {
        // Checked first so that a used-up limit does not charge the rate. A race for the last
        // number may still charge it.
        if self.limit.is_used_up() {
            return Err(&self.limit_notice);
        }
        if !self.rate.take(now) {
            return Err(&self.rate_notice);
        }
        log.take(&self.limit).ok_or(&self.limit_notice)
    }
}

/// Logs the notices that are due. The probe itself must not print.
impl Job for Budget {
    fn run(&self) {
        const REST: &str = "suppressing more (see outliers_suppressed in status)";

        // A limit that was removed in the meantime is not logged: it suppresses nothing any more.
        if self.rate_notice.take() {
            match self.rate.get() {
                0 => {}
                rate => pr_warn!("outlier_rate: limit of {rate} per second reached, {REST}\n"),
            }
        }
        if self.limit_notice.take() {
            match self.limit.get() {
                0 => {}
                limit => pr_warn!("outlier_limit: limit of {limit} reached, {REST}\n"),
            }
        }
    }
}
