// SPDX-License-Identifier: GPL-2.0

//! The log of outliers: samples above a threshold, with the tasks that had the CPU meanwhile.

use core::mem::size_of;

use crate::engine::{
    atomic::{
        fence,
        Ordering::{
            Acquire,
            Release, //
        },
    },
    identity::IdentityCells,
    idle::{
        Longest,
        LongestCells, //
    },
    outlier::{
        History,
        Last,
        Limit,
        Slice, //
    },
    switch::{
        sample::SampleCells,
        Sample, //
    },
    Cell,
    Identity, //
};

/// The maximum number of culprits of an outlier.
pub const CULPRITS: usize = if cfg!(loom) { 1 } else { 32 };

/// A sample above the threshold of its metric; times in nanoseconds of its CPU's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outlier {
    /// The number of the outlier, from 1 on.
    pub id: u64,
    /// The sample.
    pub sample: Sample,
    /// The task that the sample belongs to.
    pub task: Identity,
    /// The number of culprits.
    pub culprits: u32,
    /// The part of the duration that no culprit accounts for, in nanoseconds: the CPU's history
    /// does not reach back so far, or too many tasks had the CPU.
    pub missing: u64,
    /// The CPU that was idle for most of it, if it is a long wait and any was.
    pub longest: Option<Longest>,
}

/// A task that had the CPU during an outlier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Culprit {
    /// The task.
    pub task: Identity,
    /// The time for which the task had the CPU during the outlier, in nanoseconds.
    pub ran: u64,
    /// The number of slices in which the task had the CPU.
    pub slices: u32,
}

#[derive(Debug, Default)]
struct CulpritCells {
    task: IdentityCells,
    ran: Cell,
    slices: Cell,
}

impl CulpritCells {
    fn set(&self, culprit: &Culprit) {
        self.task.set(&culprit.task);
        self.ran.set(culprit.ran);
        self.slices.set(u64::from(culprit.slices));
    }

    fn get(&self) -> Culprit {
        Culprit {
            task: self.task.get(),
            ran: self.ran.get(),
            slices: self.slices.get() as u32,
        }
    }
}

#[derive(Debug, Default)]
struct OutlierCells {
    sample: SampleCells,
    task: IdentityCells,
    missing: Cell,
    longest: LongestCells,
    len: Cell,
    culprits: [CulpritCells; CULPRITS],
}

impl OutlierCells {
    /// Records the tasks that had the CPU during `sample`.
    fn blame(&self, sample: &Sample, history: &History) {
        let mut missing = sample.value;
        let mut len = 0;
        for slice in history.between(sample.start(), sample.end) {
            let ran = slice.until.wrapping_sub(slice.since);
            // Only the PID is compared: the name may have changed meanwhile.
            let same = |cells: &&CulpritCells| cells.task.pid() == slice.task.pid;
            let known = self.culprits.iter().take(len).find(same);
            if let Some(cells) = known {
                cells.ran.add(ran);
                cells.slices.add(1);
            } else if let Some(cells) = self.culprits.get(len) {
                cells.set(&Culprit {
                    task: slice.task,
                    ran,
                    slices: 1,
                });
                len += 1;
            } else {
                continue;
            }
            missing = missing.saturating_sub(ran);
        }
        self.missing.set(missing);
        self.len.set(len as u64);
    }

    fn outlier(&self, id: u64) -> Option<Outlier> {
        Some(Outlier {
            id,
            sample: self.sample.get()?,
            task: self.task.get(),
            culprits: self.len.get() as u32,
            missing: self.missing.get(),
            longest: self.longest.get(),
        })
    }

    fn culprits(&self) -> impl Iterator<Item = Culprit> + '_ {
        let len = self.len.get() as usize;
        self.culprits.iter().take(len).map(CulpritCells::get)
    }
}

/// The last outliers of a CPU, and the history of the tasks that had the CPU.
///
/// Only that CPU writes it, with interrupts off; any CPU may read the outliers meanwhile.
#[derive(Debug, Default)]
pub struct Log {
    history: History,
    /// A lower bound of the number of the outlier that the CPU is about to report; 0 while it is
    /// about to report none.
    pending: Cell,
    suppressed: Cell,
    last: Last<OutlierCells>,
}

// A log is allocated on its own, and the allocator rounds its size up to a power of two.
const _: () = assert!(cfg!(loom) || size_of::<Log>() <= 32 * 1024);

impl Log {
    /// Records the slice on the CPU that has just ended. Must be called at every switch.
    pub fn slice(&self, slice: &Slice) {
        self.history.push(slice);
    }

    /// Counts an outlier that is not reported because there were too many.
    pub fn suppress(&self) {
        self.suppressed.add(1);
    }

    /// Returns how many outliers were not reported.
    pub fn suppressed(&self) -> u64 {
        self.suppressed.get()
    }

    /// Returns how many outliers were reported.
    pub fn reported(&self) -> u64 {
        self.last.count()
    }

    /// Takes a number from `limit` for the outlier to be reported next in this log; returns `None`
    /// if the limit is used up. Readers wait for that outlier from now on.
    ///
    /// The number is announced before it is taken. A reader that sees a later outlier therefore
    /// sees either that this one is in flight, or that it has been reported.
    pub fn take(&self, limit: &Limit) -> Option<u64> {
        self.pending.set(limit.last().wrapping_add(1));
        let id = limit.take();
        if id.is_none() {
            self.pending.set(0);
        }
        id
    }

    /// Returns whether an outlier with a number less than `id` may be in flight. If not, a search
    /// from now on finds all such outliers that are kept.
    ///
    /// `id` must be a number that a reader has found, as in [`next_after`](super::next_after).
    pub fn may_report_before(&self, id: u64) -> bool {
        let pending = self.pending.get();
        fence(Acquire);
        pending != 0 && pending < id
    }

    /// Records the outlier `id`, with the CPU that was idle for most of it, if that is known.
    /// Returns it with its culprits, oldest first.
    pub fn report(
        &self,
        id: u64,
        sample: &Sample,
        task: &Identity,
        longest: Option<Longest>,
    ) -> Option<(Outlier, impl Iterator<Item = Culprit> + '_)> {
        let (cells, ()) = self.last.keep(id, |cells| {
            cells.sample.set(sample);
            cells.task.set(task);
            cells.longest.set(longest);
            cells.blame(sample, &self.history);
        })?;
        fence(Release);
        self.pending.set(0);
        Some((cells.outlier(id)?, cells.culprits()))
    }

    /// Returns the numbers of the kept outliers, in no order.
    pub fn ids(&self) -> impl Iterator<Item = u64> + '_ {
        self.last.ids()
    }

    /// Returns the number of the oldest kept outlier after the outlier `seen`, or `None` if there
    /// is none.
    pub fn first_after(&self, seen: u64) -> Option<u64> {
        self.last.ids().filter(|id| *id > seen).min()
    }

    /// Returns the outlier `id`, and copies its culprits to the beginning of `copied`;
    /// [`Outlier::culprits`] is their number. Returns `None` if the outlier is not kept yet, or no
    /// longer.
    pub fn read(&self, id: u64, copied: &mut [Culprit; CULPRITS]) -> Option<Outlier> {
        self.last.read(id, |cells| {
            for (to, from) in copied.iter_mut().zip(&cells.culprits) {
                *to = from.get();
            }
            cells.outlier(id)
        })
    }
}
