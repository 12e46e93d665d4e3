// SPDX-License-Identifier: GPL-2.0

//! Outliers: their thresholds, their limits, and the handling of samples above a threshold.

mod budget;

use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Relaxed,
            Release, //
        },
        Arc,
        Mutex,
        SetOnce, //
    },
};

use self::budget::Budget;
use crate::{
    boundary::{
        abstractions::{
            context::cond_resched,
            local_clock,
            new_irq_work,
            tracepoint,
            zeroed,
            DeferredWaitQueue,
            IrqWork,
            PerCpu,
            RcuArc,
            RcuReader, //
        },
        tracing, //
    },
    chains::AllChains,
    engine::{
        chain::{
            Hop,
            Walked,
            HOPS, //
        },
        format::Actions,
        idle::LongWait,
        outlier::{
            next_after,
            Culprit,
            Log,
            Outlier,
            Thresholds,
            CULPRITS, //
        },
        switch::Sample,
        Identity,
        MetricSet,
        ShownMetric, //
    },
    events, //
};

/// Returns the numbers of the outliers of which something is kept, in order, each with its CPU.
/// `kept` has those of each CPU. Sleeps.
pub(crate) fn in_order(
    kept: impl Iterator<Item = (u32, impl Iterator<Item = u64>)>,
) -> Result<KVVec<(u64, u32)>> {
    let mut found = KVVec::new();
    for (cpu, ids) in kept {
        for id in ids {
            found.push((id, cpu), GFP_KERNEL)?;
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Emits the events of the chain of an outlier of `task`.
fn emit_chain(
    id: u64,
    cpu: u32,
    sample: &Sample,
    task: &Identity,
    walked: &Walked,
    hops: impl Iterator<Item = Hop>,
) {
    events::trace_chain(
        id,
        sample.metric,
        task.pid,
        &task.comm,
        cpu,
        task.group.number(),
        sample.value,
        walked.end,
        walked.blocked,
        walked.missing,
        walked.hops,
    );
    if events::trace_hop_enabled() {
        for (hop, number) in hops.zip(0..HOPS as u32) {
            events::trace_hop(
                id,
                number,
                hop.pid,
                &hop.comm,
                hop.cpu,
                hop.group.number(),
                hop.via,
                hop.sum(),
                hop.ran,
                hop.waited,
                hop.preempted,
                hop.throttled,
            );
        }
    }
}

/// The outliers of all CPUs.
///
/// While no threshold is set, no outlier is kept, and the check costs a switch one patched branch.
#[pin_data]
pub(crate) struct Outliers {
    /// The metrics that are measured. The lock serialises all changes of settings.
    #[pin]
    measured: Mutex<MetricSet>,
    thresholds: Thresholds,
    /// Whether a metric with a threshold is measured, so that outliers can come.
    can_come: Atomic<bool>,
    budget: Arc<Budget>,
    actions: Atomic<u32>,
    /// Allocated when the first threshold is set, and kept until unload.
    logs: SetOnce<PerCpu<KVBox<Log>>>,
    /// Present while chains are kept.
    chains: RcuArc<AllChains>,
    #[pin]
    wait_queue: DeferredWaitQueue,
    /// Logs the notices of the budget.
    #[pin]
    printer: IrqWork<Budget>,
}

/// Where the outliers of a CPU are kept.
#[derive(Clone, Copy)]
pub(crate) struct Watched<'a> {
    pub(crate) log: &'a Log,
    /// `None` while chains are not kept.
    chains: Option<&'a AllChains>,
}

impl Outliers {
    /// Creates the outliers with no threshold set. Sleeps; fails with `ENOMEM`.
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            measured <- new_mutex!(MetricSet::NONE, "schedhist::Outliers::measured"),
            thresholds: Thresholds::default(),
            can_come: Atomic::new(false),
            budget: Arc::new(Budget::new(), GFP_KERNEL)?,
            actions: Atomic::new(Actions::NONE.bits()),
            logs: SetOnce::new(),
            chains: RcuArc::none(),
            wait_queue <- DeferredWaitQueue::new(),
            printer <- new_irq_work!(budget.clone(), c"schedhist::Outliers::printer"),
        })
    }

    /// Returns the threshold of `shown`, in nanoseconds; 0 for none.
    pub(crate) fn threshold(&self, shown: ShownMetric) -> u64 {
        self.thresholds.get(shown)
    }

    /// Sets the threshold of `shown`, in nanoseconds; 0 removes it. Sleeps.
    ///
    /// Fails with `ENOMEM` if the logs cannot be allocated, and then changes nothing.
    pub(crate) fn set_threshold(&self, shown: ShownMetric, nanoseconds: u64) -> Result {
        let measured = self.measured.lock();
        if nanoseconds != 0 && self.logs.as_ref().is_none() {
            // Only the holder of the lock populates it.
            self.logs.populate(PerCpu::new(zeroed)?);
        }
        let set = || self.thresholds.set(shown, nanoseconds);
        let budget = &self.budget;
        budget.rate_notice.renew(|| budget.limit_notice.renew(set));
        tracing::observe_outliers(self.thresholds.is_any_set());
        if self.can_come.load(Relaxed) && !self.thresholds.is_any_set_of(*measured) {
            // A probe may still be reporting an outlier by the old threshold.
            tracepoint::synchronize();
        }
        self.settle(*measured);
        Ok(())
    }

    /// Sets which metrics are measured from now on; none while measuring is off. No probe that
    /// measures other metrics may be registered. Sleeps.
    pub(crate) fn set_measured(&self, metrics: MetricSet) {
        let mut measured = self.measured.lock();
        *measured = metrics;
        self.settle(metrics);
    }

    /// Sets where chains are kept from now on, if anywhere. Sleeps.
    pub(crate) fn set_chains(&self, chains: Option<Arc<AllChains>>) {
        self.chains.replace(chains);
    }

    /// Updates `can_come`, and wakes the waiters if no outlier can come any more. In that case no
    /// probe may still be reporting one.
    fn settle(&self, measured: MetricSet) {
        let can_come = self.thresholds.is_any_set_of(measured);
        self.can_come.store(can_come, Release);
        if !can_come {
            self.wait_queue.wake_all();
        }
    }

    /// Returns how many outliers may be reported per second; 0 for no limit.
    pub(crate) fn rate(&self) -> u64 {
        self.budget.rate.get()
    }

    /// Sets how many outliers may be reported per second, and in a burst; 0 for no limit. Sleeps.
    pub(crate) fn set_rate(&self, per_second: u64) {
        let _guard = self.measured.lock();
        self.budget.rate_notice.renew(|| {
            self.budget.rate.set(per_second);
            // An outlier that a probe suppresses by the old rate must not trigger the notice of the
            // new one.
            tracepoint::synchronize();
        });
    }

    /// Returns how many outliers may be reported; 0 for no limit.
    pub(crate) fn limit(&self) -> u64 {
        self.budget.limit.get()
    }

    /// Sets how many more outliers may be reported from now on; 0 for no limit. Outliers that other
    /// CPUs report during the call count. Sleeps.
    pub(crate) fn set_limit(&self, limit: u64) {
        let _guard = self.measured.lock();
        self.budget.limit_notice.renew(|| {
            self.budget.limit.set(limit);
            // An outlier that a probe suppresses by the old limit must not trigger the notice of
            // the new one.
            tracepoint::synchronize();
        });
        // Reports on other CPUs may have used up the limit meanwhile: the waiters must see that.
        self.wait_queue.wake_all();
    }

    pub(crate) fn actions(&self) -> Actions {
        Actions::from_bits(self.actions.load(Relaxed))
    }

    pub(crate) fn set_actions(&self, actions: Actions) {
        self.actions.store(actions.bits(), Relaxed);
    }

    /// Returns how much memory the outliers take, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.logs().count() * size_of::<Log>()
    }

    /// Iterates over the logs of all possible CPUs, with the CPUs' numbers. There are no logs
    /// before the first threshold is set.
    pub(crate) fn logs(&self) -> impl Iterator<Item = (u32, &Log)> + '_ {
        let logs = self.logs.as_ref().into_iter().flat_map(PerCpu::numbered);
        logs.map(|(cpu, log)| (cpu, &**log))
    }

    /// Returns where outliers of `cpu` are kept if a threshold is set.
    pub(crate) fn watched<'a>(&'a self, cpu: u32, rcu: &'a impl RcuReader) -> Option<Watched<'a>> {
        match self.thresholds.is_any_set() {
            true => Some(Watched {
                log: self.logs.as_ref()?.get(cpu)?,
                chains: self.chains.get(rcu),
            }),
            false => None,
        }
    }

    /// Reports `sample` if it is above its threshold.
    ///
    /// `task` identifies the task of the sample, and `long_wait` is about it, too. `cpu` is the CPU
    /// on which the sample was taken, and `watched` that of that CPU. To be called in a probe, on
    /// `cpu` itself, with interrupts off, before the next switch.
    #[inline(always)]
    pub(crate) fn check(
        &self,
        watched: Watched<'_>,
        cpu: u32,
        sample: &Sample,
        long_wait: Option<&LongWait>,
        task: impl FnOnce() -> Identity,
    ) {
        if self.thresholds.is_exceeded_by(sample) {
            self.report(watched, cpu, sample, long_wait, &task());
        }
    }

    #[cold]
    #[inline(never)]
    fn report(
        &self,
        Watched { log, chains }: Watched<'_>,
        cpu: u32,
        sample: &Sample,
        long_wait: Option<&LongWait>,
        task: &Identity,
    ) {
        // Not the end of the sample: a task that was blocked is reported when it runs again.
        let id = match self.budget.take(local_clock(), log) {
            Ok(id) => id,
            Err(notice) => {
                if notice.is_first() {
                    self.printer.queue();
                }
                return log.suppress();
            }
        };
        // First: who finds the outlier finds its chain.
        let chain = chains.and_then(|chains| chains.keep(cpu, id, sample));
        let longest = long_wait.and_then(|wait| wait.longest);
        // Cannot fail: the log always has a slot.
        let Some((outlier, culprits)) = log.report(id, sample, task, longest) else {
            return self.budget.limit.done();
        };
        events::trace_outlier(
            id,
            sample.metric,
            outlier.task.pid,
            &outlier.task.comm,
            outlier.task.prio,
            cpu,
            sample.cause,
            sample.end,
            sample.value,
            outlier.culprits,
            outlier.missing,
            outlier.task.group.number(),
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
                    task.group.number(),
                );
            }
        }
        if let Some((walked, hops)) = chain {
            emit_chain(id, cpu, sample, &outlier.task, &walked, hops);
        }
        self.act();
        self.budget.limit.done();
        self.wait_queue.wake_all();
    }

    /// Takes the actions of an outlier. Called after its events, so that a stopped trace has them.
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
        self.budget.limit.last()
    }

    /// Returns how many outliers were not reported because there were too many.
    pub(crate) fn suppressed(&self) -> u64 {
        self.logs()
            .fold(0, |sum, (_, log)| sum.wrapping_add(log.suppressed()))
    }

    /// Returns a copy of outlier `id` with its CPU, and copies its culprits into `culprits`.
    /// Returns `None` if the outlier is not, or no longer, kept.
    pub(crate) fn read(
        &self,
        id: u64,
        culprits: &mut [Culprit; CULPRITS],
    ) -> Option<(u32, Outlier)> {
        self.logs()
            .find_map(|(cpu, log)| Some((cpu, log.read(id, culprits)?)))
    }

    /// Calls `visit` with all kept outliers, in the order of their numbers, each with its CPU and
    /// a slice that begins with its culprits, [`Outlier::culprits`] of them. Stops on an error.
    /// Sleeps.
    pub(crate) fn for_each(
        &self,
        mut visit: impl FnMut(u32, &Outlier, &[Culprit]) -> Result,
    ) -> Result {
        let mut culprits = [Culprit::default(); CULPRITS];
        let logs = self.logs().map(|(cpu, log)| (cpu, log.ids()));
        for (id, cpu) in in_order(logs)?.iter().copied() {
            cond_resched();
            let log = self.logs.as_ref().and_then(|logs| logs.get(cpu));
            // Others may have taken its place since.
            if let Some(outlier) = log.and_then(|log| log.read(id, &mut culprits)) {
                visit(cpu, &outlier, &culprits)?;
            }
        }
        Ok(())
    }

    /// Returns the number of the oldest kept outlier after the number `seen`. Returns `None` while
    /// a lower number may still be in flight on another CPU, so that readers never skip an outlier.
    pub(crate) fn next_after(&self, seen: u64) -> Option<u64> {
        let first = |seen| {
            self.logs()
                .filter_map(|(_, log)| log.first_after(seen))
                .min()
        };
        let find = |seen| first(seen).map(|id| (id, ()));
        // After the end a CPU may still have announced a number that it does not get.
        let is_any_before = |id| {
            !self.budget.limit.has_ended() && self.logs().any(|(_, log)| log.may_report_before(id))
        };
        next_after(seen, find, is_any_before).map(|(id, ())| id)
    }

    /// Returns whether no outlier can come any more. Once this has returned true,
    /// [`Outliers::next_after`] finds all outliers that were reported.
    pub(crate) fn has_ended(&self) -> bool {
        !self.can_come.load(Acquire) || self.budget.limit.has_ended()
    }

    /// Returns the wait queue of readers. It is woken at each outlier, and when
    /// [`Outliers::has_ended`] becomes true.
    pub(crate) fn wait_queue(&self) -> &DeferredWaitQueue {
        &self.wait_queue
    }
}
