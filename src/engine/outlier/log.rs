// SPDX-License-Identifier: GPL-2.0

//! Samples above a threshold, with who had the CPU meanwhile.

use core::mem::size_of;

use crate::engine::{
    atomic::{
        fence, //
        AtomicU64,
        Ordering::{
            AcqRel,
            Acquire,
            Relaxed,
            Release, //
        },
    },
    cell::Cell,
    identity::{
        Identity,
        IdentityCells, //
    },
    metric::{
        Metric,
        MetricSet,
        Series, //
    },
    outlier::history::{
        History,
        Stay, //
    },
    seqcount::SeqCount,
    switch::sample::{
        Cause,
        Sample, //
    },
};

/// How many outliers are kept of each CPU. In the model every access counts: there are few.
pub const KEPT: usize = if cfg!(loom) { 2 } else { 16 };

/// How many culprits an outlier can have.
pub const CULPRITS: usize = if cfg!(loom) { 1 } else { 32 };

/// The thresholds that are set: what is shown, and what a sample is compared with.
///
/// The cells are written by whoever sets a threshold, one at a time, and read by any CPU.
#[derive(Debug)]
pub struct Thresholds {
    /// In the order of [`Series::ALL`]; 0 for none.
    shown: [Cell; Series::ALL.len()],
    /// What a sample of each metric must exceed; `u64::MAX` for none.
    effective: [Cell; Metric::COUNT],
}

impl Thresholds {
    /// Sets none.
    pub const fn new() -> Self {
        Self {
            shown: [const { Cell::new(0) }; Series::ALL.len()],
            effective: [const { Cell::new(u64::MAX) }; Metric::COUNT],
        }
    }

    /// Returns the threshold of `shown`, in nanoseconds; 0 for none.
    pub fn get(&self, shown: Series) -> u64 {
        Self::index(shown)
            .and_then(|index| self.shown.get(index))
            .map_or(0, Cell::get)
    }

    /// Sets the threshold of `shown`, in nanoseconds; 0 takes it away.
    ///
    /// A metric that is part of several that are shown is compared with the least of their thresholds.
    pub fn set(&self, shown: Series, nanoseconds: u64) {
        if let Some(cell) = Self::index(shown).and_then(|index| self.shown.get(index)) {
            cell.set(nanoseconds);
        }
        for metric in Metric::ALL {
            let least = Series::ALL
                .into_iter()
                .filter(|shown| shown.parts.contains(&metric))
                .map(|shown| self.get(shown))
                .filter(|threshold| *threshold != 0)
                .min();
            self.effective[metric as usize].set(least.unwrap_or(u64::MAX));
        }
    }

    /// Returns whether any is set.
    pub fn is_any_set(&self) -> bool {
        self.shown.iter().any(|cell| cell.get() != 0)
    }

    /// Returns whether any is set that applies to one of `metrics`.
    pub fn is_any_set_of(&self, metrics: MetricSet) -> bool {
        Series::ALL.into_iter().any(|shown| {
            let is_measured = |part: &Metric| metrics.contains(*part);
            self.get(shown) != 0 && shown.parts.iter().any(is_measured)
        })
    }

    /// Says whether `sample` is above the threshold of its metric.
    #[inline(always)]
    pub fn is_exceeded_by(&self, sample: &Sample) -> bool {
        sample.value > self.effective[sample.metric as usize].get()
    }

    fn index(shown: Series) -> Option<usize> {
        Series::ALL.into_iter().position(|other| other == shown)
    }
}

impl Default for Thresholds {
    fn default() -> Self {
        Self::new()
    }
}

/// How many outliers may be reported, and the number of the next. All CPUs share it, and so it has a
/// cache line of its own.
///
/// # Invariants
///
/// `next` is 1 or more, and never goes back.
#[derive(Debug)]
#[repr(align(64))]
pub struct Limit {
    /// The number of the next outlier.
    next: AtomicU64,
    /// How many of the numbers taken are those of outliers that can be read by now.
    done: AtomicU64,
    /// The number at which it ends; `u64::MAX` for no end.
    end: AtomicU64,
    /// What was last set.
    limit: AtomicU64,
}

impl Limit {
    /// Allows `limit` outliers, or all for 0.
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

    /// Allows `limit` more outliers from now on, or all for 0.
    pub fn set(&self, limit: u64) {
        self.limit.store(limit, Relaxed);
        self.end
            .store(Self::end_of(self.next.load(Relaxed), limit), Relaxed);
    }

    /// Returns what was last set.
    pub fn get(&self) -> u64 {
        self.limit.load(Relaxed)
    }

    /// Returns whether there were as many outliers as may be reported.
    pub fn is_used_up(&self) -> bool {
        self.next.load(Relaxed) >= self.end.load(Relaxed)
    }

    /// Returns whether there were as many, and all of them can be read by now. Whoever looks for one
    /// after this has returned true finds any that is left.
    pub fn has_ended(&self) -> bool {
        // First: it is never ahead of `next`, which then has not changed since.
        let done = self.done.load(Acquire);
        self.is_used_up() && done == self.last()
    }

    /// Returns a number for an outlier, unless there were too many already.
    ///
    /// Whoever takes a number sees all that those did who took the numbers before it, up to there.
    pub fn take(&self) -> Option<u64> {
        self.next
            .fetch_update(AcqRel, Relaxed, |next| {
                (next < self.end.load(Relaxed)).then(|| next.wrapping_add(1))
            })
            .ok()
    }

    /// Notes that the outlier of a number that was taken can be read.
    pub fn done(&self) {
        self.done.fetch_add(1, Release);
    }

    /// Returns the number of the last outlier; 0 for none.
    pub fn last(&self) -> u64 {
        self.next.load(Relaxed).wrapping_sub(1)
    }
}

/// Returns what `first_after` finds after the number `seen`: an outlier's number, and any more.
///
/// `None` if there is none, or if an earlier one may be on its way on another CPU, however long that
/// takes: so a reader who goes from one to the next misses none that is kept. `is_any_before` says of
/// a number whether [`Log::may_report_before`] it in any of the logs.
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
        // All before it can be read by now, unless they are no longer kept. If it is itself no longer
        // kept, this may find one before which there are others.
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
    /// Its number, from 1 on.
    pub id: u64,
    /// The sample.
    pub sample: Sample,
    /// Whose it is.
    pub task: Identity,
    /// How many culprits there are.
    pub culprits: u32,
    /// For how much of the time nobody is named, in nanoseconds: the CPU's history does not reach
    /// back so far, or too many tasks had the CPU.
    pub missing: u64,
}

impl Outlier {
    /// Returns when it began.
    pub fn start(&self) -> u64 {
        self.sample.end.saturating_sub(self.sample.value)
    }
}

/// A task that had the CPU during an outlier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Culprit {
    /// The task.
    pub task: Identity,
    /// How long it had the CPU during the outlier, in nanoseconds.
    pub ran: u64,
    /// In how many stays.
    pub slices: u32,
}

#[derive(Debug)]
struct CulpritCells {
    task: IdentityCells,
    ran: Cell,
    slices: Cell,
}

impl CulpritCells {
    const fn new() -> Self {
        Self {
            task: IdentityCells::new(),
            ran: Cell::new(0),
            slices: Cell::new(0),
        }
    }

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

/// A place for an outlier with its culprits.
#[derive(Debug)]
struct Place {
    /// Of the cells below.
    seqcount: SeqCount,
    id: Cell,
    metric_and_cause: Cell,
    value: Cell,
    end: Cell,
    task: IdentityCells,
    missing: Cell,
    len: Cell,
    culprits: [CulpritCells; CULPRITS],
}

impl Place {
    const fn new() -> Self {
        Self {
            seqcount: SeqCount::new(),
            id: Cell::new(0),
            metric_and_cause: Cell::new(0),
            value: Cell::new(0),
            end: Cell::new(0),
            task: IdentityCells::new(),
            missing: Cell::new(0),
            len: Cell::new(0),
            culprits: [const { CulpritCells::new() }; CULPRITS],
        }
    }

    /// Fills the place. Only the CPU it belongs to may.
    fn fill(&self, id: u64, sample: &Sample, task: &Identity, history: &History) {
        self.seqcount.write(|| {
            self.id.set(id);
            self.metric_and_cause
                .set(((sample.metric as u64) << 8) | sample.cause as u64);
            self.value.set(sample.value);
            self.end.set(sample.end);
            self.task.set(task);
            self.blame(sample, history);
        });
    }

    /// Notes who had the CPU during `sample`.
    fn blame(&self, sample: &Sample, history: &History) {
        let start = sample.end.saturating_sub(sample.value);
        let mut missing = sample.value;
        let mut len = 0;
        for stay in history.between(start, sample.end) {
            let ran = stay.until.wrapping_sub(stay.since);
            // The name may have changed meanwhile: it is the PID that counts.
            let same = |cells: &&CulpritCells| cells.task.pid() == stay.task.pid;
            let known = self.culprits.iter().take(len).find(same);
            if let Some(cells) = known {
                cells.ran.add(ran);
                cells.slices.add(1);
            } else if let Some(cells) = self.culprits.get(len) {
                cells.set(&Culprit {
                    task: stay.task,
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

    fn outlier(&self) -> Option<Outlier> {
        let kind = self.metric_and_cause.get();
        Some(Outlier {
            id: self.id.get(),
            sample: Sample {
                metric: *Metric::ALL.get((kind >> 8) as usize)?,
                value: self.value.get(),
                end: self.end.get(),
                cause: *Cause::ALL.get((kind & 0xff) as usize)?,
            },
            task: self.task.get(),
            culprits: self.len.get() as u32,
            missing: self.missing.get(),
        })
    }

    fn culprits(&self) -> impl Iterator<Item = Culprit> + '_ {
        let len = self.len.get() as usize;
        self.culprits.iter().take(len).map(CulpritCells::get)
    }
}

/// What a CPU keeps of its outliers: the last [`KEPT`] of them, and who had it lately.
///
/// Only that CPU writes it, with interrupts off; any CPU may read the outliers meanwhile.
#[derive(Debug)]
pub struct Log {
    history: History,
    /// A number which the outlier that the CPU is about to report has at least; 0 while there is none.
    pending: Cell,
    /// How many outliers there ever were.
    count: Cell,
    suppressed: Cell,
    places: [Place; KEPT],
}

// It is allocated as it is, and an allocator rounds up to a power of two.
const _: () = assert!(cfg!(loom) || size_of::<Log>() <= 32 * 1024);

impl Log {
    /// Creates an empty one.
    pub const fn new() -> Self {
        Self {
            history: History::new(),
            pending: Cell::new(0),
            count: Cell::new(0),
            suppressed: Cell::new(0),
            places: [const { Place::new() }; KEPT],
        }
    }

    /// Notes who just had the CPU. To be called at every switch.
    pub fn stay(&self, stay: &Stay) {
        self.history.push(stay);
    }

    /// Notes that there were too many outliers for another one.
    pub fn suppress(&self) {
        self.suppressed.add(1);
    }

    /// Returns how many outliers were not reported.
    pub fn suppressed(&self) -> u64 {
        self.suppressed.get()
    }

    /// Returns how many outliers were reported.
    pub fn reported(&self) -> u64 {
        self.count.get()
    }

    /// Takes a number of `limit` for an outlier that is to be reported here next, unless there were too
    /// many already. Readers wait for it from now on.
    ///
    /// First the number is announced, then taken. So whoever sees a later outlier sees that this one
    /// is on its way, or that it has come.
    pub fn take(&self, limit: &Limit) -> Option<u64> {
        self.pending.set(limit.last().wrapping_add(1));
        let id = limit.take();
        if id.is_none() {
            self.pending.set(0);
        }
        id
    }

    /// Says whether an outlier whose number is less than `id` may be on its way. If not, whoever looks
    /// now finds all of them that are kept.
    ///
    /// Of a number that somebody has found, as in [`next_after`].
    pub fn may_report_before(&self, id: u64) -> bool {
        let pending = self.pending.get();
        fence(Acquire);
        pending != 0 && pending < id
    }

    /// Notes the outlier `id`, and returns it with its culprits, oldest first.
    pub fn report(
        &self,
        id: u64,
        sample: &Sample,
        task: &Identity,
    ) -> Option<(Outlier, impl Iterator<Item = Culprit> + '_)> {
        let count = self.count.get();
        let place = self.places.get(count as usize % KEPT)?;
        place.fill(id, sample, task, &self.history);
        fence(Release);
        self.pending.set(0);
        self.count.set(count.wrapping_add(1));
        Some((place.outlier()?, place.culprits()))
    }

    /// Returns the number of the oldest outlier kept that comes after the outlier `seen`, unless there
    /// is none. One that is still being written is not kept yet.
    pub fn first_after(&self, seen: u64) -> Option<u64> {
        self.places
            .iter()
            .filter_map(|place| place.seqcount.try_read(|| place.id.get()))
            .filter(|id| *id > seen)
            .min()
    }

    /// Copies the outlier `id`, and its culprits into `copied`, of which the first are theirs, as many
    /// as it says. `None` when it is not kept yet, or no longer.
    ///
    /// One try is enough: if the place is being written, the outlier that was there is no longer kept,
    /// and the new one is not kept yet.
    pub fn read(&self, id: u64, copied: &mut [Culprit; CULPRITS]) -> Option<Outlier> {
        let is_it = |place: &&Place| id != 0 && place.id.get() == id;
        let place = self.places.iter().find(is_it)?;
        let outlier = place.seqcount.try_read(|| {
            for (to, from) in copied.iter_mut().zip(&place.culprits) {
                *to = from.get();
            }
            place.outlier()
        });
        outlier?.filter(|outlier| outlier.id == id)
    }
}

impl Default for Log {
    fn default() -> Self {
        Self::new()
    }
}
