// SPDX-License-Identifier: GPL-2.0

//! How far CPUs are from each other, for migrations and long waits.

use core::sync::atomic::Ordering;

use kernel::cpu::nr_cpu_ids;

use crate::{
    boundary::abstractions::{
        are_of_one_core,
        node_of,
        place_of,
        share_llc,
        smp::for_each_online, //
    },
    engine::{
        distance::Place,
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

/// Learns where all CPUs are. Those that come online later must be reported to [`learn`] already.
/// Sleeps.
pub(crate) fn learn_all() {
    for_each_online(learn);
}

/// Learns where `cpu` is, which is online. To be called within a callback of CPU hotplug, or while
/// there is none: by one thread at a time, then.
pub(crate) fn learn(cpu: u32) {
    let others = (0..nr_cpu_ids()).filter_map(|cpu| Some((cpu, get(cpu)?)));
    let share = |other| {
        if are_of_one_core(cpu, other) {
            Some(Distance::Core)
        } else {
            share_llc(cpu, other).then_some(Distance::Llc)
        }
    };
    let place = get(cpu).map(|place| place.learned(others, share));
    if let Some((place, word)) = place.zip(place_of(cpu)) {
        word.store(place.bits(), Ordering::Relaxed);
    }
}

#[inline(always)]
fn get(cpu: u32) -> Option<Place> {
    Some(Place::from_bits(place_of(cpu)?.load(Ordering::Relaxed)))
}

/// Sets what is known of all CPUs from the start. To be called once, before anything else.
pub(crate) fn begin() {
    for cpu in 0..nr_cpu_ids() {
        if let Some(word) = place_of(cpu) {
            let place = Place::of_unknown(cpu, node_of(cpu));
            word.store(place.bits(), Ordering::Relaxed);
        }
    }
}
