// SPDX-License-Identifier: GPL-2.0

//! The data that a reader of a file sees: records, added up over CPUs, since the last reset or
//! since the module was loaded.

use kernel::{
    cpu::nr_cpu_ids,
    prelude::*,
    sync::Arc, //
};

use crate::{
    boundary::abstractions::{
        is_online,
        local_clock,
        PerCpu, //
    },
    chains::AllChains,
    engine::{
        format::Scope,
        histogram::{
            Baseline,
            Snapshot, //
        },
        idle::WaitSums,
        switch::CurrentSlice,
        Counter,
        Metric,
        MetricSet,
        ShownMetric, //
    },
    groups::{
        Groups,
        Limits, //
    },
    long_waits::CpuIdles,
    outliers::Outliers,
    recorder::Recorder,
    records::{
        CpuRecords,
        Records, //
    },
};

type CpuBaseline = Baseline<KVBox<[u64]>>;

/// The counts at the last reset.
pub(crate) struct Baselines {
    /// With the sums of long waits.
    pub(crate) cpus: PerCpu<(CpuBaseline, WaitSums)>,
    pub(crate) reported: u64,
    pub(crate) suppressed: u64,
}

/// The moment from which a count starts. All counts of a file start from the same moment.
#[derive(Clone, Copy)]
pub(crate) enum Since {
    /// The load of the module: for programs, which subtract an earlier reading themselves.
    Load,
    /// The last reset: for people.
    Reset,
}

/// The settings, and what is measured by them.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) enabled: bool,
    /// The metrics that are on while measuring is on.
    pub(crate) metrics: MetricSet,
    pub(crate) records: Arc<Records>,
    /// The groups; `None` while tasks are not grouped.
    pub(crate) groups: Option<Arc<Groups>>,
    pub(crate) group_limits: Limits,
    /// A wait of this many nanoseconds is long; 0 for none.
    pub(crate) long_wait: u64,
    /// What CPUs keep for long waits; `None` if there was no limit so far.
    pub(crate) idles: Option<CpuIdles>,
    /// The number of slices that are kept of each CPU for chains; 0 for none.
    pub(crate) chain: u64,
    /// The slices and the chains; `None` while there are none.
    pub(crate) chains: Option<Arc<AllChains>>,
    /// The counts to subtract from the records; `None` before the first reset.
    pub(crate) baselines: Option<Arc<Baselines>>,
    pub(crate) resets: u64,
}

/// A consistent view of the settings and the records, taken under the monitor's lock.
///
/// The probes go on recording meanwhile.
pub(crate) struct Reading {
    pub(crate) setup: Setup,
    /// The recorder; `None` while no probe is registered: measuring is off, or no metric is on.
    pub(crate) recorder: Option<Arc<Recorder>>,
    pub(crate) outliers: Arc<Outliers>,
}

impl Reading {
    /// Returns how much memory the states of tasks take, in bytes.
    pub(crate) fn task_memory(&self) -> usize {
        self.recorder
            .as_ref()
            .map_or(0, |recorder| recorder.memory())
    }

    /// Iterates over the records of the CPUs in `scope`, each with its baseline if there was a
    /// reset.
    pub(crate) fn cpus(
        &self,
        scope: Scope,
    ) -> impl Iterator<Item = (&CpuRecords, Option<&CpuBaseline>)> + '_ {
        let numbers = match scope {
            Scope::All => 0..nr_cpu_ids(),
            Scope::Cpu(cpu) => cpu..cpu + 1,
        };
        let baseline = |cpu| Some(&self.setup.baselines.as_ref()?.cpus.get(cpu)?.0);
        numbers.filter_map(move |cpu| Some((self.setup.records.get(cpu)?, baseline(cpu))))
    }

    /// Returns the slice in progress on a CPU; `None` if measuring is off, or the CPU is offline.
    pub(crate) fn current_slice(&self, cpu: &CpuRecords) -> Option<CurrentSlice> {
        // An offline CPU may not record its last switch.
        let is_known = self.recorder.is_some() && is_online(cpu.number());
        is_known.then(|| cpu.current_slice(local_clock)).flatten()
    }

    /// Adds up a count over the CPUs in `scope`. `now` returns the count in a CPU's records,
    /// `before` the one in its baseline.
    fn sum(
        &self,
        since: Since,
        scope: Scope,
        now: impl Fn(&CpuRecords) -> u64,
        before: impl Fn(&CpuBaseline) -> u64,
    ) -> u64 {
        self.cpus(scope).fold(0, |sum, (records, baseline)| {
            let before = match since {
                Since::Load => 0,
                Since::Reset => baseline.map_or(0, &before),
            };
            sum.wrapping_add(now(records).wrapping_sub(before))
        })
    }

    /// Returns a counter, added up over the CPUs in `scope`.
    pub(crate) fn counter(&self, since: Since, scope: Scope, counter: Counter) -> u64 {
        self.sum(
            since,
            scope,
            |records| records.counter(counter),
            |baseline| baseline.counter(counter),
        )
    }

    /// Returns the number of samples of `metric`, added up over the CPUs in `scope`.
    pub(crate) fn count(&self, since: Since, scope: Scope, metric: Metric) -> u64 {
        self.sum(
            since,
            scope,
            |records| records.count_of(metric),
            |baseline| baseline.count(metric),
        )
    }

    /// Copies the histogram of `shown`, added up over the CPUs in `scope`. Fails with `ENOMEM`.
    pub(crate) fn snapshot(
        &self,
        since: Since,
        scope: Scope,
        shown: ShownMetric,
    ) -> Result<Snapshot<KVVec<u64>>> {
        let scheme = self.setup.records.scheme();
        let counts = KVVec::from_elem(0, scheme.buckets(), GFP_KERNEL)?;
        let mut snapshot = Snapshot::new(scheme, counts).ok_or(EINVAL)?;
        for (records, baseline) in self.cpus(scope) {
            for part in shown.parts {
                match since {
                    Since::Load => snapshot.add_since_load(records, baseline, *part),
                    Since::Reset => snapshot.add(records, baseline, *part),
                }
            }
        }
        Ok(snapshot)
    }

    /// Calls `show` with the histogram of each shown metric that is on or has samples. Copies one
    /// histogram at a time. Fails as [`Reading::snapshot`] and `show` do.
    pub(crate) fn for_each_shown(
        &self,
        since: Since,
        scope: Scope,
        mut show: impl FnMut(ShownMetric, &Snapshot<KVVec<u64>>) -> Result,
    ) -> Result {
        for shown in ShownMetric::ALL {
            let snapshot = self.snapshot(since, scope, shown)?;
            if self.setup.metrics.shows(shown) || snapshot.count() != 0 {
                show(shown, &snapshot)?;
            }
        }
        Ok(())
    }

    /// Returns the sums of the long waits that have ended on the CPUs in `scope`; `None` if none
    /// were looked at.
    pub(crate) fn long_waits(&self, since: Since, scope: Scope) -> Option<WaitSums> {
        let idles = self.setup.idles.as_ref()?;
        let mut sums = WaitSums::default();
        for (cpu, _) in self.cpus(scope) {
            sums.add(&idles.sums(cpu.number()));
            let baselines = self.baselines_of(since);
            if let Some((_, before)) = baselines.and_then(|at| at.cpus.get(cpu.number())) {
                sums.subtract(before);
            }
        }
        Some(sums)
    }

    pub(crate) fn reported(&self, since: Since) -> u64 {
        let before = self.baselines_of(since).map_or(0, |at| at.reported);
        self.outliers.last().wrapping_sub(before)
    }

    pub(crate) fn suppressed(&self, since: Since) -> u64 {
        let before = self.baselines_of(since).map_or(0, |at| at.suppressed);
        self.outliers.suppressed().wrapping_sub(before)
    }

    fn baselines_of(&self, since: Since) -> Option<&Baselines> {
        match since {
            Since::Load => None,
            Since::Reset => self.setup.baselines.as_deref(),
        }
    }
}
