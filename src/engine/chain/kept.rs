// SPDX-License-Identifier: GPL-2.0

//! The chains of outliers.

use core::mem::size_of;

use crate::engine::{
    chain::{
        walk,
        ChainSlice,
        Context,
        End,
        Hop,
        Link,
        Walked,
        HOPS, //
    },
    group::Group,
    identity::CommCells,
    outlier::Last,
    switch::{
        sample::SampleCells,
        Sample, //
    },
    Cell,
    Side, //
};

/// The chain of an outlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    /// The number of the outlier.
    pub id: u64,
    /// The outlier's sample: the interval.
    pub sample: Sample,
    /// How the walk ended.
    pub walked: Walked,
}

#[derive(Debug, Default)]
struct HopCells {
    /// From the lowest bit on: the PID, in 32 bits; the context, in 8; the number of slices.
    task: Cell,
    /// The CPU, and above it the group.
    cpu: Cell,
    comm: CommCells,
    ran: Cell,
    waited: Cell,
    preempted: Cell,
    throttled: Cell,
}

impl HopCells {
    fn set(&self, hop: &Hop) {
        let task = u64::from(hop.pid as u32) | ((hop.via as u64) << 32);
        self.task.set(task | (u64::from(hop.slices) << 40));
        self.cpu
            .set(u64::from(hop.cpu) | (u64::from(hop.group.number()) << 32));
        self.comm.set(&hop.comm);
        self.ran.set(hop.ran);
        self.waited.set(hop.waited);
        self.preempted.set(hop.preempted);
        self.throttled.set(hop.throttled);
    }

    fn get(&self) -> Hop {
        let task = self.task.get();
        let cpu = self.cpu.get();
        let via = Context::ALL.get((task >> 32) as u8 as usize);
        Hop {
            pid: task as i32,
            comm: self.comm.get(),
            group: Group::new((cpu >> 32) as u32).unwrap_or(Group::OTHER),
            cpu: cpu as u32,
            via: via.copied().unwrap_or(Context::Unknown),
            slices: (task >> 40) as u32,
            ran: self.ran.get(),
            waited: self.waited.get(),
            preempted: self.preempted.get(),
            throttled: self.throttled.get(),
        }
    }
}

#[derive(Debug, Default)]
struct ChainCells {
    sample: SampleCells,
    end: Cell,
    len: Cell,
    rest: Cell,
    hops: [HopCells; HOPS],
}

impl ChainCells {
    fn get(&self, id: u64) -> Option<Chain> {
        let end = *End::ALL.get(self.end.get() as usize)?;
        let rest = self.rest.get();
        let (blocked, missing) = if end.is_blocked() {
            (rest, 0)
        } else {
            (0, rest)
        };
        Some(Chain {
            id,
            sample: self.sample.get()?,
            walked: Walked {
                end,
                hops: self.len.get() as u32,
                blocked,
                missing,
            },
        })
    }
}

/// The chains of the last outliers of a CPU.
#[derive(Debug, Default)]
pub struct LastChains(Last<ChainCells>);

// The allocator rounds up to a power of two.
const _: () = assert!(cfg!(loom) || size_of::<LastChains>() <= 32 * 1024);

impl LastChains {
    /// Keeps the chain of the outlier `id`, which is not 0, from the slice `first` on; `read` is
    /// that of [`walk()`]. Returns what was found, with the hops; `None` for a slice, or for a
    /// request to reschedule, which is neither a wait nor a sleep.
    pub fn keep(
        &self,
        id: u64,
        sample: &Sample,
        first: Link,
        read: impl Fn(Link) -> Result<ChainSlice, End>,
    ) -> Option<(Walked, impl Iterator<Item = Hop> + '_)> {
        if sample.metric.side() == Side::Prev {
            return None;
        }
        let (cells, walked) = self.0.keep(id, |cells| {
            cells.sample.set(sample);
            let walked = walk(first, sample.start(), sample.end, read, |number, hop| {
                if let Some(cells) = cells.hops.get(number) {
                    cells.set(hop);
                }
            });
            cells.end.set(walked.end as u64);
            cells.len.set(u64::from(walked.hops));
            cells.rest.set(walked.blocked.wrapping_add(walked.missing));
            walked
        })?;
        let hops = cells.hops.iter().take(walked.hops as usize);
        Some((walked, hops.map(HopCells::get)))
    }

    /// Returns the numbers of the outliers whose chains are kept, in no order.
    pub fn ids(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.ids()
    }

    /// Returns the chain of the outlier `id`, and copies its hops to the beginning of `hops`;
    /// `None` if it is not kept yet, or no longer.
    pub fn read(&self, id: u64, hops: &mut [Hop; HOPS]) -> Option<Chain> {
        self.0.read(id, |cells| {
            for (to, from) in hops.iter_mut().zip(&cells.hops) {
                *to = from.get();
            }
            cells.get(id)
        })
    }
}
