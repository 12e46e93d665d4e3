// SPDX-License-Identifier: GPL-2.0

//! Moves the records of one group to another.

use super::{
    neighbours::{
        Neighbour,
        NeighbourValues, //
    },
    CulpritKind,
    GroupCounter,
    GroupMetric,
    GroupRecords, //
};

impl GroupRecords {
    /// Adds all that `other` recorded on the same CPU.
    ///
    /// Nothing else may write either of the two meanwhile: neither is of a group that has tasks.
    pub fn absorb(&self, other: &Self) {
        for metric in GroupMetric::ALL {
            let i = metric as usize;
            self.counts[i].add(other.samples(metric));
            let sum = self.sum(metric).wrapping_add(other.sum(metric));
            self.seqcount.write(|| {
                self.sums[i].set(sum as u64);
                // As many as bit 63 has changed while the sum grew.
                self.half_wraps[i].set((sum >> 63) as u64);
            });
            if let Some(worst) = other.worst(metric) {
                if self.is_greatest(metric, worst.value) {
                    self.extend(metric, worst.value, worst.time, || worst.task);
                }
            }
        }
        for counter in GroupCounter::ALL {
            self.counters[counter as usize].add(other.counter(counter));
        }
        for culprit in CulpritKind::ALL {
            self.ended_by[culprit as usize].add_all(other.ended_by(culprit));
            self.preempted_by[culprit as usize].add_all(other.preempted_by(culprit));
        }
        let others = other.neighbours.iter().map(Neighbour::get);
        for waits in others.filter(|waits| !waits.is_free()) {
            self.absorb_neighbour(waits);
        }
    }

    /// Forgets all that was recorded. Nothing else may write these records meanwhile.
    pub fn clear(&self) {
        self.seqcount.write(|| {
            for metric in GroupMetric::ALL {
                let i = metric as usize;
                for cells in [&self.counts, &self.sums, &self.maxima, &self.half_wraps] {
                    cells[i].set(0);
                }
            }
            self.counters.iter().for_each(|cell| cell.set(0));
            let waits = self.ended_by.iter().chain(&self.preempted_by);
            waits.for_each(|waits| {
                waits.count.set(0);
                waits.nanoseconds.set(0);
            });
            let neighbours = self.neighbours.iter();
            neighbours.for_each(|known| known.set(NeighbourValues::default()));
        });
    }
}
