// SPDX-License-Identifier: GPL-2.0

//! The samples that a switch leaves for the task that gets the CPU.

use proptest::{collection::vec, prelude::*};

use schedhist_engine::engine::{
    group::task_group::Group,
    identity::Identity,
    metric::Metric,
    switch::{
        pending::{Pending, MAX},
        sample::{Cause, Sample},
    },
};

fn samples() -> impl Strategy<Value = Vec<Sample>> {
    let sample = (
        0..Metric::COUNT,
        any::<u64>(),
        any::<u64>(),
        0..Cause::COUNT,
    )
        .prop_map(|(metric, value, end, cause)| {
            Sample::new(Metric::ALL[metric], value, Cause::ALL[cause], end)
        });
    vec(sample, 0..=MAX + 2)
}

fn identities() -> impl Strategy<Value = Identity> {
    (any::<(i32, [u8; 16])>(), -1..140, 0..Group::MAX as u32).prop_map(
        |((pid, comm), prio, group)| Identity {
            pid,
            prio,
            comm,
            group: Group::new(group).expect("below the maximum"),
        },
    )
}

fn taken(pending: &Pending) -> Vec<(Sample, Identity)> {
    let mut all = Vec::new();
    pending.take(|sample, task, _| all.push((*sample, *task)));
    all
}

proptest! {
    /// Each switch's samples come out once, in their order, with the task of the first; those for
    /// which there is no room are refused, and nothing is left for the next switch.
    #[test]
    fn comes_out_as_it_went_in(switches in vec((samples(), identities(), any::<bool>()), 1..6)) {
        let pending = Pending::default();
        for (samples, task, is_taken) in switches {
            pending.clear();
            prop_assert!(pending.is_empty());
            let other = Identity { pid: task.pid.wrapping_add(1), ..task };
            for (number, sample) in samples.iter().enumerate() {
                let of = || if number == 0 { task } else { other };
                prop_assert_eq!(pending.push(sample, of), number < MAX);
            }
            let kept: Vec<_> = samples.iter().take(MAX).map(|sample| (*sample, task)).collect();
            prop_assert_eq!(pending.is_empty(), kept.is_empty());
            if is_taken {
                prop_assert_eq!(taken(&pending), kept);
                prop_assert!(pending.is_empty());
                prop_assert_eq!(taken(&pending), vec![]);
            }
        }
    }
}
