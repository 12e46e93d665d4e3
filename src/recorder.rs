// SPDX-License-Identifier: GPL-2.0

//! What the probes do: from a tracepoint to the engine, and on to our own events.

use kernel::prelude::*;

use crate::{
    boundary::{
        clock::local_clock,
        per_cpu::PerCpu,
        sched_switch::{
            SchedSwitch,
            Switch, //
        },
    },
    engine::{
        bucket::Scheme,
        cell::Cell,
        cpu::{
            Cpu,
            Prev, //
        },
        slice::SliceEnd,
    },
    events, //
};

/// The records of one CPU, in memory of the kernel's.
pub(crate) type CpuRecords = Cpu<KVVec<Cell>>;

/// The records of all possible CPUs, and the probes that fill them.
pub(crate) struct Recorder {
    cpus: PerCpu<CpuRecords>,
    scheme: Scheme,
}

impl Recorder {
    /// Creates empty records. Sleeps; fails with `ENOMEM`.
    pub(crate) fn new(scheme: Scheme) -> Result<Self> {
        let cpus = PerCpu::new(|_| {
            let cells = CpuRecords::cells(scheme);
            let mut buckets = KVVec::with_capacity(cells, GFP_KERNEL)?;
            for _ in 0..cells {
                buckets.push(Cell::new(0), GFP_KERNEL)?;
            }
            Cpu::new(scheme, buckets).ok_or(EINVAL)
        })?;
        Ok(Self { cpus, scheme })
    }

    /// Returns the scheme of the buckets.
    pub(crate) fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Returns the records of `cpu`, if that is a possible CPU.
    pub(crate) fn cpu(&self, cpu: u32) -> Option<&CpuRecords> {
        self.cpus.get(cpu)
    }

    /// Goes through the records of all possible CPUs, in the order of their numbers.
    pub(crate) fn cpus(&self) -> impl Iterator<Item = (u32, &CpuRecords)> + '_ {
        self.cpus.iter()
    }

    /// Makes every CPU forget what it runs. No probe may be registered.
    pub(crate) fn forget(&self) {
        for (_, cpu) in self.cpus() {
            cpu.forget();
        }
    }

    /// Returns how much memory the records take, in bytes.
    pub(crate) fn memory(&self) -> usize {
        let each = size_of::<CpuRecords>() + CpuRecords::cells(self.scheme) * size_of::<Cell>();
        self.cpus().count() * each
    }
}

impl SchedSwitch for Recorder {
    #[inline(always)]
    fn sched_switch(&self, switch: &Switch<'_>) {
        let this_cpu = switch.cpu();
        // Every CPU that runs is possible, and so has its records.
        let Some(records) = self.cpus.get(this_cpu) else {
            return;
        };
        let prev = if switch.prev.is_idle() {
            Prev::Idle
        } else if SliceEnd::is_runnable(switch.preempt, switch.prev_state) {
            Prev::Runnable
        } else {
            Prev::Blocked
        };
        let duration = records.switch(local_clock(), prev);

        if events::trace_oncpu_enabled() {
            if let (Some(duration), Prev::Blocked | Prev::Runnable) = (duration, prev) {
                emit_oncpu(switch, this_cpu, duration);
            }
        }
    }
}

/// Emits `schedhist:oncpu`.
#[cold]
fn emit_oncpu(switch: &Switch<'_>, cpu: u32, duration: u64) {
    let end = SliceEnd::new(switch.preempt, switch.prev_state);
    events::trace_oncpu(
        switch.prev.pid(),
        &switch.prev.comm(),
        switch.prev.prio(),
        cpu,
        duration,
        end.into(),
    );
}

impl From<SliceEnd> for events::SliceEnd {
    fn from(end: SliceEnd) -> Self {
        match end {
            SliceEnd::Preempted => Self::Preempted,
            SliceEnd::Interruptible => Self::Interruptible,
            SliceEnd::Uninterruptible => Self::Uninterruptible,
            SliceEnd::Stopped => Self::Stopped,
            SliceEnd::Dead => Self::Dead,
        }
    }
}
