// SPDX-License-Identifier: GPL-2.0

//! The log of outliers: samples above a threshold, with the tasks that had the CPU meanwhile.

use core::mem::size_of;

use crate::engine::{
    atomic::{
        fence, AtomicU64,
        Ordering::{
            AcqRel,
            Acquire,
            Relaxed,
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
        Slice, //
    },
    switch::{
        sample::SampleCells,
        Sample, //
    },
    Cell,
    Identity,
    Metric,
    MetricSet,
    ShownMetric, //
};

/// The maximum number of culprits of an outlier.
pub const CULPRITS: usize = if cfg!(loom) { 1 } else { 32 };

/// The thresholds: those set for each shown metric, and those that samples are compared with.
///
/// Only one setter at a time writes the cells; any CPU reads them.
#[derive(Debug)]
pub struct Thresholds {
    /// The thresholds that are set, in the order of [`ShownMetric::ALL`]; 0 for none.
    shown: [Cell; ShownMetric::ALL.len()],
    /// The value that a sample of each metric must exceed; `u64::MAX` for none.
    effective: [Cell; Metric::COUNT],
}

impl Default for Thresholds {
    /// None is set.
    fn default() -> Self {
        Self {
            shown: Default::default(),
            effective: [const { Cell::new(u64::MAX) }; Metric::COUNT],
        }
    }
}

impl Thresholds {
    /// Returns the threshold of `shown`, in nanoseconds; 0 for none.
    pub fn get(&self, shown: ShownMetric) -> u64 {
        Self::index(shown)
            .and_then(|index| self.shown.get(index))
            .map_or(0, Cell::get)
    }

    /// Sets the threshold of `shown`, in nanoseconds; 0 removes it.
    ///
    /// A metric that is part of several is compared with the least of their thresholds.
    pub fn set(&self, shown: ShownMetric, nanoseconds: u64) {
        if let Some(cell) = Self::index(shown).and_then(|index| self.shown.get(index)) {
            cell.set(nanoseconds);
        }
        for metric in Metric::ALL {
            let least = ShownMetric::ALL
                .into_iter()
                .filter(|shown| shown.parts.contains(&metric))
                .map(|shown| self.get(shown))
                .filter(|threshold| *threshold != 0)
                .min();
            self.effective[metric as usize].set(least.unwrap_or(u64::MAX));
        }
    }

    /// Returns whether any threshold is set.
    pub fn is_any_set(&self) -> bool {
        self.shown.iter().any(|cell| cell.get() != 0)
    }

    /// Returns whether any threshold is set that applies to one of `metrics`.
    pub fn is_any_set_of(&self, metrics: MetricSet) -> bool {
        ShownMetric::ALL.into_iter().any(|shown| {
            let is_measured = |part: &Metric| metrics.contains(*part);
            self.get(shown) != 0 && shown.parts.iter().any(is_measured)
        })
    }

    /// Returns whether `sample` is above the threshold of its metric.
    #[inline(always)]
    pub fn is_exceeded_by(&self, sample: &Sample) -> bool {
        sample.value > self.effective[sample.metric as usize].get()
    }

    fn index(shown: ShownMetric) -> Option<usize> {
        ShownMetric::ALL
            .into_iter()
            .position(|other| other == shown)
    }
}

/// Limits and numbers the outliers that are reported. All CPUs share it, so it has a cache line of
/// its own.
///
/// # Invariants
///
/// `next` is 1 or more, and never goes back.
#[derive(Debug)]
#[repr(align(64))]
pub struct Limit {
    /// The number of the next outlier.
    next: AtomicU64,
    /// The number of outliers that have taken a number and can be read by now.
    done: AtomicU64,
    /// The first number that cannot be taken; `u64::MAX` for no limit.
    end: AtomicU64,
    /// The limit as it was last set.
    limit: AtomicU64,
}

impl Limit {
    /// Allows `limit` outliers; 0 allows any number.
    pub const fn new(limit: u64) -> Self {
        Self {
            next: AtomicU64::new(1),
            done: AtomicU64::new(0),
            end: AtomicU64::new(Self::end_of(1, limit)),
            limit: AtomicU64::new(limit),
        }
    }

    const fn end_of(next: u64, limit: u64) -> u64 {
        match limit {
            0 => u64::MAX,
            _ => next.saturating_add(limit),
        }
    }

    /// Allows `limit` more outliers from now on; 0 allows any number.
    pub fn set(&self, limit: u64) {
        self.limit.store(limit, Relaxed);
        self.end
            .store(Self::end_of(self.next.load(Relaxed), limit), Relaxed);
    }

    /// Returns the limit as it was last set.
    pub fn get(&self) -> u64 {
        self.limit.load(Relaxed)
    }

    /// Returns whether as many outliers as the limit allows have taken a number.
    pub fn is_used_up(&self) -> bool {
        self.next.load(Relaxed) >= self.end.load(Relaxed)
    }

    /// Returns whether the limit is used up and all its outliers can be read by now. A reader that
    /// looks for an outlier after this has returned true finds any that is left.
    pub fn has_ended(&self) -> bool {
        // Read `done` before `next`: `done` is never ahead of it, so if both agree, `next` has not
        // changed since.
        let done = self.done.load(Acquire);
        self.is_used_up() && done == self.last()
    }

    /// Takes a number for an outlier; returns `None` if the limit is used up.
    ///
    /// The caller sees everything that the takers of all earlier numbers did before they took
    /// theirs.
    pub fn take(&self) -> Option<u64> {
        self.next
            .fetch_update(AcqRel, Relaxed, |next| {
                (next < self.end.load(Relaxed)).then(|| next.wrapping_add(1))
            })
            .ok()
    }

    /// Records that an outlier that has taken a number can be read.
    pub fn done(&self) {
        self.done.fetch_add(1, Release);
    }

    /// Returns the number of the last outlier; 0 for none.
    pub fn last(&self) -> u64 {
        self.next.load(Relaxed).wrapping_sub(1)
    }
}

/// Returns the next outlier after the number `seen`, as `first_after` finds it: its number and any
/// further data.
///
/// Returns `None` if there is no such outlier, or while an earlier one may be in flight on another
/// CPU, however long that takes. A reader that goes from one outlier to the next therefore misses
/// none that is kept. `is_any_before` returns whether [`Log::may_report_before`] holds for a number
/// in any of the logs.
pub fn next_after<T>(
    seen: u64,
    mut first_after: impl FnMut(u64) -> Option<(u64, T)>,
    mut is_any_before: impl FnMut(u64) -> bool,
) -> Option<(u64, T)> {
    let mut found = first_after(seen)?;
    while found.0.wrapping_sub(1) != seen {
        if is_any_before(found.0) {
            return None;
        }
        // All outliers before this one can be read by now, unless they are no longer kept. If this
        // one is no longer kept either, the search may find a later one, with others before it.
        let again = first_after(seen)?;
        if again.0 <= found.0 {
            return Some(again);
        }
        found = again;
    }
    Some(found)
}

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
    /// `id` must be a number that a reader has found, as in [`next_after`].
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
