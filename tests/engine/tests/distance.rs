// SPDX-License-Identifier: GPL-2.0

//! How far CPUs are from each other, as they come online one after the other.

use proptest::{collection::vec, prelude::*};
use schedhist_engine::engine::distance::{Distance, Place};

/// The core, the last-level cache and the node of a CPU. Cores of the same number are on the same
/// cache; a cache may be on two nodes.
type At = (u32, u32, u32);

fn any_cpu() -> impl Strategy<Value = At> {
    (0..6_u32, 0..3_u32).prop_map(|(core, node)| (core, core / 2, node))
}

fn shared(one: At, two: At) -> Option<Distance> {
    if one.0 == two.0 {
        Some(Distance::Core)
    } else {
        (one.1 == two.1).then_some(Distance::Llc)
    }
}

proptest! {
    #[test]
    fn what_cpus_share_is_found(
        (cpus, order) in vec(any_cpu(), 1..24).prop_flat_map(|cpus| {
            let order = vec(0..cpus.len(), 0..32);
            (Just(cpus), order)
        }),
    ) {
        // Two threads of a core are on one node.
        let node = |at: At| cpus.iter().find(|other| other.0 == at.0).map_or(at.2, |first| first.2);
        let mut places: Vec<_> = (0..).zip(&cpus).map(|(cpu, at)| Place::of_unknown(cpu, node(*at))).collect();
        let mut online = vec![false; cpus.len()];
        for cpu in order {
            let others = places.iter().copied().enumerate();
            // Asks only for CPUs that are or were online.
            let share = |other: usize| {
                assert!(online[other]);
                shared(cpus[cpu], cpus[other])
            };
            places[cpu] = places[cpu].learned(others, share);
            online[cpu] = true;
            for one in 0..cpus.len() {
                for two in (0..cpus.len()).filter(|two| *two != one) {
                    let same_node = node(cpus[one]) == node(cpus[two]);
                    let expected = shared(cpus[one], cpus[two])
                        .filter(|_| online[one] && online[two])
                        .unwrap_or(if same_node { Distance::Node } else { Distance::Remote });
                    let place = Place::from_bits(places[one].bits());
                    prop_assert_eq!(place.distance(places[two]), expected);
                }
            }
        }
    }
}

#[test]
fn the_greatest_numbers_fit() {
    const MOST: u32 = (1 << 21) - 1;
    let [one, two] =
        [(MOST, MOST), (MOST - 1, MOST)].map(|(cpu, node)| Place::of_unknown(cpu, node));
    assert_eq!(one.distance(two), Distance::Node);
    let one = one.learned(std::iter::empty(), |(): ()| None);
    let share = |()| Some(Distance::Llc);
    assert_eq!(
        two.learned([((), one)].into_iter(), share).distance(one),
        Distance::Llc
    );
    let share = |()| Some(Distance::Core);
    assert_eq!(
        two.learned([((), one)].into_iter(), share).distance(one),
        Distance::Core
    );
    let other = Place::of_unknown(0, 0).learned(std::iter::empty(), |(): ()| None);
    assert_eq!(other.distance(one), Distance::Remote);
}
