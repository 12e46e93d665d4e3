// SPDX-License-Identifier: GPL-2.0

//! Outliers: what is to be watched for, and what happens when one is seen.

use core::sync::atomic::{
    AtomicU32,
    Ordering::Relaxed, //
};

use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Mutex,
        SetOnce, //
    },
};

use crate::{
    boundary::{
        bell::Bell,
        debugfs::News,
        per_cpu::PerCpu,
        records,
        tracing,
        watching, //
    },
    engine::{
        control::Actions,
        identity::Identity,
        metric::Shown,
        outlier::{
            Culprit,
            Limit,
            Log,
            Outlier,
            Thresholds,
            CULPRITS, //
        },
        sample::Sample, //
    },
    events,
};

/// How many outliers are reported unless told otherwise.
const LIMIT: u64 = 1000;

/// The outliers of all CPUs.
///
/// While no threshold is set, nothing is kept, and watching costs a switch one patched branch.
#[pin_data]
pub(crate) struct Outliers {
    /// Held by who sets a threshold.
    #[pin]
    setting: Mutex<()>,
    thresholds: Thresholds,
    limit: Limit,
    actions: AtomicU32,
    /// Made when the first threshold is set, and kept.
    logs: SetOnce<PerCpu<Log>>,
    #[pin]
    bell: Bell,
}

impl Outliers {
    /// Watches for nothing.
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            setting <- new_mutex!((), "schedhist::Outliers::setting"),
            thresholds: Thresholds::new(),
            limit: Limit::new(LIMIT),
            actions: AtomicU32::new(Actions::NONE.bits()),
            logs: SetOnce::new(),
            bell <- Bell::new(),
        })
    }

    /// Returns the threshold of `metric`, in nanoseconds; 0 for none.
    pub(crate) fn threshold(&self, metric: Shown) -> u64 {
        self.thresholds.get(metric)
    }

    /// Sets the threshold of `metric`, in nanoseconds; 0 takes it away. Sleeps.
    ///
    /// Fails with `ENOMEM` when there is no room for outliers, and then changes nothing.
    pub(crate) fn set_threshold(&self, metric: Shown, nanoseconds: u64) -> Result {
        let _guard = self.setting.lock();
        if nanoseconds != 0 && self.logs.as_ref().is_none() {
            // Nobody else populates it.
            self.logs.populate(PerCpu::new(records::new_log)?);
        }
        self.thresholds.set(metric, nanoseconds);
        watching::switch(self.thresholds.is_any_set());
        Ok(())
    }

    /// Returns how many outliers may be reported; 0 for all.
    pub(crate) fn limit(&self) -> u64 {
        self.limit.get()
    }

    /// Lets so many more outliers be reported from now on; 0 for all.
    pub(crate) fn set_limit(&self, limit: u64) {
        let _guard = self.setting.lock();
        self.limit.set(limit);
    }

    /// Returns what is done at an outlier.
    pub(crate) fn actions(&self) -> Actions {
        Actions::from_bits(self.actions.load(Relaxed))
    }

    /// Chooses what is done at an outlier.
    pub(crate) fn set_actions(&self, actions: Actions) {
        self.actions.store(actions.bits(), Relaxed);
    }

    /// Returns how much memory the outliers take, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.logs().count() * size_of::<Log>()
    }

    /// Goes through the logs of all possible CPUs, with the CPUs' numbers; there are none before the
    /// first threshold is set.
    pub(crate) fn logs(&self) -> impl Iterator<Item = (u32, &Log)> + '_ {
        self.logs.as_ref().into_iter().flat_map(PerCpu::numbered)
    }

    /// Returns the log of `cpu`, if outliers are watched for.
    pub(crate) fn watched_log(&self, cpu: u32) -> Option<&Log> {
        match self.thresholds.is_any_set() {
            true => self.logs.as_ref()?.get(cpu),
            false => None,
        }
    }

    /// Reports `sample` of `task`, taken on `cpu` and noted in its `log`, if it is above the threshold.
    ///
    /// To be called in the `sched_switch` probe, by the CPU itself.
    pub(crate) fn check(
        &self,
        log: &Log,
        cpu: u32,
        sample: &Sample,
        task: impl FnOnce() -> Identity,
    ) {
        if !self.thresholds.is_exceeded_by(sample) {
            return;
        }
        let Some(id) = self.limit.take() else {
            return log.suppress();
        };
        // There always is a place.
        let Some((outlier, culprits)) = log.report(id, sample, &task()) else {
            return self.limit.done();
        };
        events::trace_outlier(
            id,
            sample.metric.into(),
            outlier.task.pid,
            &outlier.task.comm,
            outlier.task.prio,
            cpu,
            sample.cause.into(),
            outlier.start(),
            sample.end,
            sample.value,
            outlier.culprits,
            outlier.missing,
        );
        if events::trace_culprit_enabled() {
            for culprit in culprits {
                let task = culprit.task;
                events::trace_culprit(
                    id,
                    task.pid,
                    &task.comm,
                    task.prio,
                    cpu,
                    culprit.ran,
                    culprit.slices,
                );
            }
        }
        self.act();
        self.limit.done();
        self.bell.ring();
    }

    /// Does what is to be done at an outlier. Last, so that the trace ends with its events.
    fn act(&self) {
        let actions = self.actions();
        if actions.takes_snapshot() {
            tracing::snapshot();
        }
        if actions.stops_tracing() {
            tracing::off();
        }
    }

    /// Returns the number of the last outlier that was reported; 0 for none.
    pub(crate) fn last(&self) -> u64 {
        self.limit.last()
    }

    /// Returns how many outliers were not reported, as there were too many.
    pub(crate) fn suppressed(&self) -> u64 {
        self.logs()
            .fold(0, |sum, (_, log)| sum.wrapping_add(log.suppressed()))
    }

    /// Copies the outlier `id`, and its culprits into `culprits`, with the CPU that it was on; `None` when
    /// it is not kept, or no longer.
    pub(crate) fn read(
        &self,
        id: u64,
        culprits: &mut [Culprit; CULPRITS],
    ) -> Option<(u32, Outlier)> {
        self.logs()
            .find_map(|(cpu, log)| Some((cpu, log.read(id, culprits)?)))
    }

    /// Returns the number of the oldest outlier kept that comes after the number `seen`, with the CPU
    /// that it was on.
    pub(crate) fn first_after(&self, seen: u64) -> Option<(u64, u32, &Log)> {
        self.logs()
            .filter_map(|(cpu, log)| Some((log.first_after(seen)?, cpu, log)))
            .min_by_key(|(id, ..)| *id)
    }
}

impl News for Outliers {
    fn bell(&self) -> &Bell {
        &self.bell
    }

    fn latest(&self) -> u64 {
        self.last()
    }

    fn next_after(&self, seen: u64) -> Option<u64> {
        let find = |seen| self.first_after(seen).map(|(id, ..)| (id, ()));
        self.limit.next_after(seen, find).map(|(id, ())| id)
    }
}
