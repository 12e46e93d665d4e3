// SPDX-License-Identifier: GPL-2.0

//! Chains: who could have woken a task earlier, and what that one was doing.

use kernel::{
    prelude::*,
    sync::Arc, //
};

use crate::{
    boundary::abstractions::{
        context::cond_resched,
        interruption,
        is_softirq_thread,
        local_clock,
        zeroed,
        zeroed_slice,
        CpuRef,
        HardTimer,
        HrtimerExpire,
        Interruption,
        PerCpu,
        Softirq,
        Softirqs,
        Task,
        ThisCpu, //
    },
    engine::{
        chain::{
            Chain,
            End,
            Hop,
            Interrupted,
            LastChains,
            Link,
            Ring,
            SliceCells,
            SoftirqOf,
            Walked,
            HOPS, //
        },
        switch::Sample, //
    },
    outliers::in_order, //
};

/// The last slices of a CPU, and the chains of its last outliers.
pub(crate) struct CpuChain {
    pub(crate) ring: Ring<KVBox<[SliceCells]>>,
    kept: KVBox<LastChains>,
}

/// What all CPUs keep for chains, from when chains are switched on until they are switched off.
pub(crate) struct AllChains {
    cpus: Arc<PerCpu<KVBox<CpuChain>>>,
    /// When they were switched on: slices are counted from then on.
    since: u64,
}

impl AllChains {
    /// Creates rings of `slices` slices, a power of two. Sleeps; fails with `ENOMEM`.
    pub(crate) fn new(slices: u64) -> Result<Arc<Self>> {
        let cpus = PerCpu::new(|cpu| {
            let entries = zeroed_slice(cpu, slices as usize)?;
            let chain = CpuChain {
                ring: Ring::new(cpu, entries).ok_or(EINVAL)?,
                kept: zeroed(cpu)?,
            };
            Ok(KVBox::new(chain, GFP_KERNEL)?)
        })?;
        let all = Self {
            cpus: Arc::new(cpus, GFP_KERNEL)?,
            since: local_clock(),
        };
        Ok(Arc::new(all, GFP_KERNEL)?)
    }

    /// Returns when they were switched on, in nanoseconds of `local_clock()`; not 0.
    pub(crate) fn since(&self) -> u64 {
        self.since
    }

    /// Returns what `cpu` keeps, if that is a possible CPU.
    pub(crate) fn of(&self, cpu: u32) -> Option<CpuRef<CpuChain>> {
        PerCpu::of(&self.cpus, cpu)
    }

    /// Returns the ring of this CPU.
    #[inline(always)]
    fn ring(&self, here: &impl ThisCpu) -> &Ring<KVBox<[SliceCells]>> {
        &self.cpus.this(here).ring
    }

    /// Keeps the chain of the outlier `id` with this sample, of the task that has `cpu`, and
    /// returns it. To be called on `cpu` itself, with interrupts off, before the next switch, up to
    /// which the hops last.
    pub(crate) fn keep(
        &self,
        cpu: u32,
        id: u64,
        sample: &Sample,
    ) -> Option<(Walked, impl Iterator<Item = Hop> + '_)> {
        let chain = self.cpus.get(cpu)?;
        let first = chain.ring.now();
        let read = |link: Link| match self.cpus.get(link.cpu()) {
            Some(chain) => chain.ring.read(link.number()),
            None => Err(End::Unknown),
        };
        chain.kept.keep(id, sample, first, read)
    }

    /// Calls `visit` with all kept chains, in the order of their numbers, each with its CPU and its
    /// hops. Stops on an error. Sleeps.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(u32, &Chain, &[Hop]) -> Result) -> Result {
        // Too large for the stack beside what `visit` needs.
        let mut hops = KBox::new([Hop::NONE; HOPS], GFP_KERNEL)?;
        let kept = self.cpus.numbered();
        let kept = kept.map(|(cpu, chain)| (cpu, chain.kept.ids()));
        for (id, cpu) in in_order(kept)?.iter().copied() {
            cond_resched();
            let Some(chain) = self.cpus.get(cpu) else {
                continue;
            };
            // Others may have taken its place since.
            if let Some(chain) = chain.kept.read(id, &mut hops) {
                let hops = hops.get(..chain.walked.hops as usize).unwrap_or(&[]);
                visit(cpu, &chain, hops)?;
            }
        }
        Ok(())
    }

    /// Returns what the possible CPUs keep, by their numbers.
    pub(crate) fn rings(&self) -> impl Iterator<Item = (u32, &Ring<KVBox<[SliceCells]>>)> {
        self.cpus.numbered().map(|(cpu, chain)| (cpu, &chain.ring))
    }

    /// Returns how much memory they take, in bytes.
    pub(crate) fn memory(&self) -> usize {
        let of_cpu =
            |chain: &CpuChain| size_of_val(chain) + chain.ring.memory() + size_of_val(&*chain.kept);
        self.cpus.unboxed().map(of_cpu).sum()
    }
}

impl CpuChain {
    /// Returns who wakes `task` on this CPU now.
    pub(crate) fn waker(&self, task: Task<'_>) -> Link {
        match interrupted() {
            Interrupted::Hard => self.ring.waker(Interrupted::Hard),
            // At the end of an interrupt, too, which is not in the preemption count any more:
            // `__irq_exit_rcu()`.
            _ if task.is_softirq_thread() => self.ring.softirqs_waker(),
            interrupted => self.ring.waker(interrupted),
        }
    }
}

fn interrupted() -> Interrupted {
    match interruption() {
        Interruption::None => Interrupted::No,
        Interruption::Softirq if is_softirq_thread() => Interrupted::No,
        Interruption::Softirq => Interrupted::Softirq,
        Interruption::Hard => Interrupted::Hard,
    }
}

impl Softirqs for AllChains {
    fn softirq_raise(&self, softirq: &Softirq) {
        self.ring(softirq)
            .raise_softirq(softirq.kind, interrupted(), softirq.is_for_all());
    }

    fn softirq_entry(&self, softirq: &Softirq) {
        let of = match softirq.is_of_timers() {
            _ if is_softirq_thread() => SoftirqOf::Thread,
            true => SoftirqOf::Timers,
            false => SoftirqOf::Raiser,
        };
        self.ring(softirq).run_softirq(softirq.kind, of);
    }
}

impl HrtimerExpire for AllChains {
    fn hrtimer_expire_entry(&self, timer: &HardTimer) {
        self.ring(timer).run_timer(true);
    }

    fn hrtimer_expire_exit(&self, timer: &HardTimer) {
        self.ring(timer).run_timer(false);
    }
}
