// SPDX-License-Identifier: GPL-2.0

//! How far CPUs are from each other, as they come online one after the other.

use proptest::{collection::vec, prelude::*};
use schedhist_engine::engine::distance::{CpuTopology, Distance};

/// A machine whose kernel knows what CPUs share only while both are online.
struct Machine {
    /// The core of each CPU. Two cores share a cache, two caches are in one package.
    cores: Vec<u32>,
    /// What node the kernel says that each CPU is on.
    nodes: Vec<u32>,
    online: Vec<bool>,
}

impl Machine {
    fn cpus(&self) -> std::ops::Range<u32> {
        0..u32::try_from(self.cores.len()).unwrap()
    }

    fn online(&self) -> impl Iterator<Item = u32> + '_ {
        self.cpus().filter(|cpu| self.online[*cpu as usize])
    }

    fn core(&self, cpu: u32) -> u32 {
        assert!(self.online[cpu as usize]);
        self.cores[cpu as usize]
    }

    /// Returns what two CPUs share, both of which must be online. As on arm64, one that is alone on
    /// its cache is taken to share one with the others of its package that are.
    fn shared(&self, one: u32, two: u32) -> Option<Distance> {
        let (core, other) = (self.core(one), self.core(two));
        let is_alone = |cpu| {
            let mut online = self.online();
            online.all(|mate| mate == cpu || self.core(mate) / 2 != self.core(cpu) / 2)
        };
        let share =
            core / 2 == other / 2 || (core / 4 == other / 4 && is_alone(one) && is_alone(two));
        match core == other {
            true => Some(Distance::Core),
            false => share.then_some(Distance::Llc),
        }
    }

    fn learn(&self, places: &mut [CpuTopology]) {
        for cpu in self.online() {
            let before: Vec<_> = self
                .online()
                .take_while(|other| *other < cpu)
                .map(|other| (other, places[other as usize]))
                .collect();
            let share = |other| self.shared(cpu, other);
            places[cpu as usize] =
                CpuTopology::of_online(cpu, self.nodes[cpu as usize], before.into_iter(), share);
        }
    }
}

/// Returns how far all pairs of CPUs are from each other, which is the same in both directions.
fn distances(places: &[CpuTopology]) -> Vec<Vec<Distance>> {
    let distances = |one: &CpuTopology| -> Vec<_> {
        let distance = |two: &CpuTopology| {
            assert_eq!(one.distance(*two), two.distance(*one));
            one.distance(CpuTopology::from_bits(two.bits()))
        };
        places.iter().map(distance).collect()
    };
    places.iter().map(distances).collect()
}

/// CPUs, each with its core and the node that the kernel says until it is online, the nodes of the
/// cores, and which CPUs go offline, or come online, one after the other.
type History = (Vec<(u32, u32)>, Vec<u32>, Vec<usize>);

fn any_history() -> impl Strategy<Value = History> {
    vec((0..12_u32, 0..3_u32), 1..16).prop_flat_map(|cpus| {
        let steps = vec(0..cpus.len(), 0..48);
        (Just(cpus), vec(0..3_u32, 12), steps)
    })
}

proptest! {
    #[test]
    fn what_cpus_share_is_found((cpus, nodes, steps) in any_history()) {
        let mut machine = Machine {
            cores: cpus.iter().map(|cpu| cpu.0).collect(),
            nodes: cpus.iter().map(|cpu| cpu.1).collect(),
            online: vec![false; cpus.len()],
        };
        let unknown = |(cpu, node): (u32, &u32)| CpuTopology::of_unknown(cpu, *node);
        let mut places: Vec<_> = machine.cpus().zip(&machine.nodes).map(unknown).collect();
        let mut was_online = machine.online.clone();
        for cpu in steps {
            machine.online[cpu] ^= true;
            if !machine.online[cpu] {
                continue;
            }
            was_online[cpu] = true;
            machine.nodes[cpu] = nodes[machine.cores[cpu] as usize];
            machine.learn(&mut places);
            let distances = distances(&places);
            for one in machine.cpus() {
                for two in machine.cpus().filter(|two| *two != one) {
                    let found = distances[one as usize][two as usize];
                    let [one_at, two_at] = [one, two].map(|cpu| cpu as usize);
                    let by_node = match machine.nodes[one_at] == machine.nodes[two_at] {
                        true => Distance::Node,
                        false => Distance::Remote,
                    };
                    if machine.online[one_at] && machine.online[two_at] {
                        prop_assert_eq!(found, machine.shared(one, two).unwrap_or(by_node));
                    } else if !(was_online[one_at] && was_online[two_at]) {
                        prop_assert_eq!(found, by_node);
                    } else if found == Distance::Core {
                        prop_assert_eq!(machine.cores[one_at], machine.cores[two_at]);
                    } else if found == Distance::Llc {
                        prop_assert_eq!(machine.cores[one_at] / 4, machine.cores[two_at] / 4);
                    } else {
                        prop_assert_eq!(found, by_node);
                    }
                }
            }
        }
    }
}

#[test]
fn the_greatest_numbers_fit() {
    const MAX: u32 = (1 << 21) - 1;
    let [one, two] =
        [(MAX, MAX), (MAX - 1, MAX)].map(|(cpu, node)| CpuTopology::of_unknown(cpu, node));
    assert_eq!(one.distance(two), Distance::Node);
    for distance in [Distance::Llc, Distance::Core] {
        let one =
            CpuTopology::of_online(MAX, MAX, [(MAX - 1, two)].into_iter(), |_| Some(distance));
        assert_eq!(one.distance(two), distance);
    }
    let other = CpuTopology::of_online(0, 0, std::iter::empty(), |_| None);
    assert_eq!(other.distance(one), Distance::Remote);
}
