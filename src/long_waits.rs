// SPDX-License-Identifier: GPL-2.0

//! Long waits: what other CPUs did meanwhile.

use kernel::{
    prelude::*,
    sync::Arc, //
};

use crate::{
    boundary::{
        abstractions::{
            local_clock,
            next_allowed,
            run_if_online,
            with_current,
            zeroed,
            CpuRef,
            PerCpu,
            RcuReader,
            Task,
            ThisCpu, //
        },
        GroupMemory, //
    },
    engine::{
        idle::{
            split::split,
            Candidates,
            CpuIdle,
            Distance,
            IdlePeriods,
            LongWait,
            Wait,
            WaitSums, //
        },
        switch::Sample, //
    },
    topology, //
};

/// What CPUs keep for long waits. Allocated when the first limit is set, and kept until unload.
#[derive(Clone)]
pub(crate) struct CpuIdles(Arc<PerCpu<KVBox<CpuIdle>>>);

impl CpuIdles {
    /// Sleeps; fails with `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self(Arc::new(PerCpu::new(zeroed)?, GFP_KERNEL)?))
    }

    /// Forgets what `cpu` did, which is offline, or has no probe.
    pub(crate) fn forget(&self, cpu: u32) {
        if let Some(idle) = self.0.get(cpu) {
            idle.periods.forget();
        }
    }

    /// Begins to know what the CPUs that are online do. The probe must be registered. Sleeps.
    pub(crate) fn start(&self) {
        for (cpu, idle) in self.0.numbered() {
            run_if_online(cpu, || {
                let is_idle = with_current(|task| task.is_idle());
                idle.periods.start(local_clock(), is_idle);
            });
        }
    }

    /// Returns the sums of a CPU.
    pub(crate) fn sums(&self, cpu: u32) -> WaitSums {
        self.0
            .get(cpu)
            .map_or_else(WaitSums::default, |idle| idle.sums.read())
    }

    /// Returns how much memory they take, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.0.unboxed().map(size_of_val).sum()
    }
}

/// What the switch probe needs on one CPU to look at long waits.
pub(crate) struct WaitWatch {
    /// A wait of this many nanoseconds is long.
    limit: u64,
    own: CpuRef<CpuIdle>,
    /// The groups on this CPU, while tasks are grouped.
    groups: Option<CpuRef<GroupMemory>>,
}

impl WaitWatch {
    /// Returns whether a wait of this many nanoseconds is long.
    #[inline(always)]
    pub(crate) fn is_long(&self, wait: u64) -> bool {
        wait >= self.limit
    }

    /// Creates this for `cpu`; fails with `EINVAL` if that is no possible CPU.
    pub(crate) fn new(
        limit: u64,
        idles: &CpuIdles,
        groups: Option<CpuRef<GroupMemory>>,
        cpu: u32,
    ) -> Result<Self> {
        Ok(Self {
            limit,
            own: PerCpu::of(&idles.0, cpu).ok_or(EINVAL)?,
            groups,
        })
    }

    /// Returns the idle periods of this CPU.
    #[inline(always)]
    pub(crate) fn periods(&self) -> &IdlePeriods {
        &self.own.periods
    }

    /// Counts a long wait of `task`, which gets this CPU at `end`, and returns what CPUs did
    /// meanwhile.
    #[cold]
    #[inline(never)]
    pub(crate) fn count(
        &self,
        task: Task<'_>,
        sample: &Sample,
        here: impl RcuReader + ThisCpu,
    ) -> LongWait {
        let wait = Wait {
            start: sample.start(),
            end: sample.end,
            queued: task.last_queued(),
            cause: sample.cause,
            moved: sample.moved,
        };
        let allowed = Allowed {
            watch: self,
            task,
            here,
        };
        let found = split(&wait, &self.own.periods, &self.own.gaps, &allowed);
        self.own.sums.add(&found);
        let groups = self.groups.as_ref();
        if let Some(placement) = groups.and_then(|groups| groups.current_placement()) {
            placement.long_waits.add(&found);
        }
        found
    }
}

/// The CPUs that a task may use.
struct Allowed<'a, R> {
    watch: &'a WaitWatch,
    task: Task<'a>,
    here: R,
}

impl<R: RcuReader + ThisCpu> Candidates for Allowed<'_, R> {
    fn next(&self, cpu: Option<u32>) -> Option<u32> {
        next_allowed(self.task, cpu, &self.here)
    }

    fn is_near(&self, cpu: u32) -> bool {
        matches!(self.distance(cpu), Distance::Core | Distance::Llc)
    }

    fn periods(&self, cpu: u32) -> Option<&IdlePeriods> {
        Some(&self.watch.own.all().get(cpu)?.periods)
    }

    fn own_cpu(&self) -> u32 {
        self.here.cpu()
    }

    fn distance(&self, cpu: u32) -> Distance {
        let own = self.own_cpu();
        match cpu == own {
            true => Distance::Own,
            false => topology::distance(own, cpu),
        }
    }
}
