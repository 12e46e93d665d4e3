// SPDX-License-Identifier: GPL-2.0

//! The records of all CPUs.

use kernel::{
    prelude::*,
    sync::Arc, //
};

use crate::{
    boundary::{
        abstractions::{
            local_clock,
            PerCpu, //
        },
        cpu_memory, //
    },
    engine::{
        histogram::Scheme,
        switch::Cpu,
        Cell,
        MetricSet, //
    },
};

/// The records of one CPU, in one allocation.
pub(crate) type CpuRecords = Cpu<[Cell]>;

pub(crate) struct Records {
    cpus: Arc<PerCpu<KVBox<CpuRecords>>>,
    scheme: Scheme,
}

impl Records {
    /// Creates empty records, with room for `metrics`. Sleeps; fails with `ENOMEM`.
    pub(crate) fn new(scheme: Scheme, metrics: MetricSet) -> Result<Self> {
        let cpus = PerCpu::new(|number| cpu_memory::new_cpu(number, scheme, metrics))?;
        Ok(Self {
            cpus: Arc::new(cpus, GFP_KERNEL)?,
            scheme,
        })
    }

    /// Takes over the records of `other`. No probe may be registered.
    pub(crate) fn take_over(&self, other: &Self) {
        for (mine, theirs) in self.cpus().zip(other.cpus()) {
            mine.take_over(theirs);
        }
    }

    pub(crate) fn has_room_for(&self, metrics: MetricSet) -> bool {
        self.cpus().all(|cpu| cpu.capacity().contains_all(metrics))
    }

    pub(crate) fn scheme(&self) -> Scheme {
        self.scheme
    }

    pub(crate) fn per_cpu(&self) -> &Arc<PerCpu<KVBox<CpuRecords>>> {
        &self.cpus
    }

    pub(crate) fn get(&self, cpu: u32) -> Option<&CpuRecords> {
        Some(self.cpus.get(cpu)?)
    }

    /// Iterates over the records of all possible CPUs, in the order of their numbers.
    pub(crate) fn cpus(&self) -> impl Iterator<Item = &CpuRecords> + '_ {
        self.cpus.unboxed()
    }

    /// Begins to measure `metrics`. An interval that began earlier does not become a sample. No
    /// probe may be registered.
    pub(crate) fn begin(&self, metrics: MetricSet) {
        let now = local_clock();
        for cpu in self.cpus() {
            cpu.begin(now, metrics);
        }
    }

    /// Returns how much memory the records take, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.cpus().map(size_of_val).sum()
    }
}
