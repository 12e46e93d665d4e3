// SPDX-License-Identifier: GPL-2.0

//! What a histogram holds besides its buckets: sum, extremes, and whose the greatest sample was.

use crate::engine::{
    cell::Cell,
    identity::{
        Identity,
        IdentityCells, //
    },
    seqcount::SeqCount, //
};

/// The greatest sample of a histogram, and whose it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Worst {
    /// The sample, in nanoseconds.
    pub value: u64,
    /// The task.
    pub task: Identity,
    /// When the sample was taken, in nanoseconds of the CPU's clock.
    pub time: u64,
}

/// The least and the greatest sample of a histogram over some period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extremes {
    /// The least sample, in nanoseconds; `u64::MAX` when there is none.
    pub min: u64,
    /// The greatest sample, unless there is none.
    pub worst: Option<Worst>,
}

impl Extremes {
    /// Those of a period without samples.
    pub const NONE: Self = Self {
        min: u64::MAX,
        worst: None,
    };

    /// Returns the extremes of this period and a `later` one together. Of two equal maxima the first
    /// stays, as it does while recording.
    pub fn fold(self, later: Self) -> Self {
        let worst = match (self.worst, later.worst) {
            (Some(first), Some(second)) if second.value > first.value => Some(second),
            (first, second) => first.or(second),
        };
        Self {
            min: self.min.min(later.min),
            worst,
        }
    }
}

/// What a histogram holds besides its buckets.
#[derive(Debug)]
pub(in crate::engine) struct Totals {
    pub(in crate::engine) sum: Cell,
    /// Of the cells below.
    seqcount: SeqCount,
    /// `u64::MAX` while there is no sample.
    pub(in crate::engine) min: Cell,
    /// How much the greatest sample is above the least.
    range: Cell,
    /// When the greatest sample was taken; 0 while there is none.
    time: Cell,
    task: IdentityCells,
}

impl Totals {
    pub(in crate::engine) const fn new() -> Self {
        Self {
            sum: Cell::new(0),
            seqcount: SeqCount::new(),
            min: Cell::new(u64::MAX),
            range: Cell::new(0),
            time: Cell::new(0),
            task: IdentityCells::new(),
        }
    }

    #[inline(always)]
    pub(in crate::engine) fn record(&self, value: u64, time: u64, task: impl FnOnce() -> Identity) {
        self.sum.add(value);
        // Neither less than the least nor greater than the greatest: one comparison for both. Where
        // there is no sample yet this is more than the range of 0, whatever the value; but for
        // u64::MAX, which no duration is.
        if value.wrapping_sub(self.min.get()) > self.range.get() {
            self.extend(value, time, task);
        }
    }

    /// Notes a new least or greatest sample. Rare: it gets ever harder to be one.
    #[cold]
    #[inline(never)]
    fn extend(&self, value: u64, time: u64, task: impl FnOnce() -> Identity) {
        let (min, max) = (self.min.get(), self.max());
        let is_first = self.time.get() == 0;
        if is_first || value > max {
            self.set_extremes(value.min(min), value, time, &task());
        } else {
            self.seqcount.write(|| {
                self.min.set(value);
                self.range.set(max.wrapping_sub(value));
            });
        }
    }

    pub(in crate::engine) fn set_extremes(&self, min: u64, max: u64, time: u64, task: &Identity) {
        self.seqcount.write(|| {
            self.min.set(min);
            self.range.set(max.wrapping_sub(min));
            self.time.set(time);
            self.task.set(task);
        });
    }

    fn max(&self) -> u64 {
        self.min.get().wrapping_add(self.range.get())
    }

    /// Reads the least and the greatest sample, as they were at one time.
    pub(in crate::engine) fn extremes(&self) -> Extremes {
        self.seqcount.read(|| {
            let worst = Worst {
                value: self.max(),
                task: self.task.get(),
                time: self.time.get(),
            };
            Extremes {
                min: self.min.get(),
                worst: (worst.time != 0).then_some(worst),
            }
        })
    }

    /// Begins a new greatest and least sample. Must not run at the same time as the writer.
    pub(in crate::engine) fn restart(&self) {
        self.set_extremes(u64::MAX, u64::MAX, 0, &Identity::default());
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::{
        sync::mpsc,
        thread,
        time::Duration, //
    };

    /// A CPU that is stopped in the midst of its update, as a virtual CPU may be: its samples do not
    /// vanish meanwhile.
    #[test]
    fn a_stopped_writer_hides_no_sample() {
        let totals = Totals::new();
        let task = Identity {
            pid: 7,
            ..Identity::default()
        };
        totals.record(100, 1, || task);
        let (started, has_started) = mpsc::channel();
        let (go_on, may_go_on) = mpsc::channel();
        let (answer, answered) = mpsc::channel();
        let totals = &totals;
        thread::scope(|scope| {
            scope.spawn(move || {
                totals.seqcount.write(|| {
                    totals.min.set(50);
                    started.send(()).expect("the other end is there");
                    may_go_on.recv().expect("the other end is there");
                    totals.range.set(50);
                });
            });
            has_started.recv().expect("the writer does not fail");
            scope.spawn(move || answer.send(totals.extremes()));
            // It may wait, or say what there was before; but not that there was nothing.
            let early = answered.recv_timeout(Duration::from_millis(200)).ok();
            go_on.send(()).expect("the writer does not fail");
            let extremes = early.unwrap_or_else(|| answered.recv().expect("the reader ends"));
            let expected = Worst {
                value: 100,
                task,
                time: 1,
            };
            assert_eq!(extremes.worst, Some(expected));
        });
        assert_eq!(totals.extremes().min, 50);
    }
}
