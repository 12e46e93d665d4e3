// SPDX-License-Identifier: GPL-2.0

//! How far CPUs are from each other, for migrations and long waits.

use core::sync::atomic::Ordering;

use kernel::cpu::nr_cpu_ids;

use crate::{
    boundary::abstractions::{
        are_of_one_core,
        context::cond_resched,
        is_online,
        node_of,
        share_llc,
        smp::without_hotplug, //
        topology_of,
    },
    engine::{
        distance::CpuTopology,
        idle::Distance, //
    },
};

/// Returns how far two different CPUs are from each other. Any context.
#[inline(always)]
pub(crate) fn distance(one: u32, two: u32) -> Distance {
    match (get(one), get(two)) {
        (Some(one), Some(two)) => one.distance(two),
        // Does not happen: these are possible CPUs.
        _ => Distance::Remote,
    }
}

/// Learns where all CPUs are that are online. Those that come online later must be reported to
/// [`learn`] already. Sleeps.
pub(crate) fn learn_all() {
    without_hotplug(learn);
}

/// Learns where all CPUs are that are online. No CPU may come or go meanwhile: to be called within
/// a callback of CPU hotplug. Sleeps.
///
/// What CPUs share is known only of those that are online, and some of it only while another one
/// is, too. So what each shares is found anew. The others keep theirs: tasks that last ran there
/// may run again.
pub(crate) fn learn() {
    let online = || (0..nr_cpu_ids()).filter(|cpu| is_online(*cpu));
    for cpu in online() {
        let before = online()
            .take_while(|other| *other < cpu)
            .filter_map(|other| Some((other, get(other)?)));
        let share = |other| {
            if are_of_one_core(cpu, other) {
                Some(Distance::Core)
            } else {
                share_llc(cpu, other).then_some(Distance::Llc)
            }
        };
        set(
            cpu,
            CpuTopology::of_online(cpu, node_of(cpu), before, share),
        );
        // There may be thousands, and each looks at all before it.
        cond_resched();
    }
}

#[inline(always)]
fn get(cpu: u32) -> Option<CpuTopology> {
    Some(CpuTopology::from_bits(
        topology_of(cpu)?.load(Ordering::Relaxed),
    ))
}

/// Sets what is known of all CPUs from the start. To be called once, before anything else.
pub(crate) fn begin() {
    for cpu in 0..nr_cpu_ids() {
        set(cpu, CpuTopology::of_unknown(cpu, node_of(cpu)));
    }
}

/// Does nothing if `cpu` is no possible CPU.
fn set(cpu: u32, topology: CpuTopology) {
    if let Some(word) = topology_of(cpu) {
        word.store(topology.bits(), Ordering::Relaxed);
    }
}
