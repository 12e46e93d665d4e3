// SPDX-License-Identifier: GPL-2.0

//! Requests to reschedule a CPU, from when they are made until its task leaves it.
//!
//! Each request is counted when it ends, with what became of it, so the law at [`Counter`] holds
//! at all times.

use super::Cpu;
use crate::engine::{
    switch::{
        Cause,
        Observer,
        Settings, //
    },
    Cell,
    Counter,
    Metric,
    MetricSet, //
};

/// Where the request to reschedule a CPU finds its task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requested {
    /// It is the idle task.
    Idle,
    /// It has the CPU.
    Running,
    /// It has not got the CPU yet.
    Coming,
}

/// When the pending requests to reschedule a CPU were made, in nanoseconds; 0 for none.
///
/// Requests are made by any CPU, and end on their own one. The run queue's lock orders a switch and
/// the requests of other CPUs. Nothing orders these and what the CPU itself does otherwise: its own
/// requests, and [`Cpu::withdraw_requests`].
#[derive(Debug, Default)]
pub(super) struct Requests([Cell; 2]);

impl Requests {
    const METRICS: [Metric; 2] = [Metric::Resched, Metric::ReschedLazy];

    fn all(&self) -> impl Iterator<Item = (Metric, &Cell)> {
        Self::METRICS.into_iter().zip(&self.0)
    }
}

impl<B: AsRef<[Cell]> + ?Sized> Cpu<B> {
    /// Records that this CPU requests at `now` that `cpu`, which may be the same, be rescheduled:
    /// of the two kinds of requests the one of `metric`.
    ///
    /// Only the CPU itself may call this, with interrupts off. While the task of `cpu` is
    /// [`Requested::Running`], a pending request of that kind has been withdrawn.
    pub fn request(&self, cpu: &Self, metric: Metric, task: Requested, now: u64) {
        if !MetricSet::from_bits(self.header.on.get() as u32).contains(metric) {
            return;
        }
        match task {
            Requested::Idle => self.count_request(Counter::ReschedIdle),
            Requested::Coming => self.count_request(Counter::ReschedUnused),
            Requested::Running => {
                let place = cpu.header.requests.all().find(|(of, _)| *of == metric);
                let earlier = place.map_or(0, |(_, since)| since.swap(now.max(1)));
                if earlier != 0 {
                    self.count_request(Counter::ReschedUnused);
                }
            }
        }
    }

    /// Returns whether a request to reschedule this CPU is pending, or was withdrawn.
    #[inline(always)]
    pub fn has_requests(&self) -> bool {
        let Requests([full, lazy]) = &self.header.requests;
        full.get() | lazy.get() != 0
    }

    /// Records that the scheduler has left the CPU to its task. `is_pending` returns whether a
    /// request was made since: by the metric of its kind.
    ///
    /// Only the CPU itself may call this, with interrupts off. Another CPU's request is taken for
    /// one from before if it is just being made, so that `is_pending` does not show it yet.
    pub fn withdraw_requests(&self, is_pending: impl Fn(Metric) -> bool) {
        for (metric, since) in self.header.requests.all() {
            let request = since.get();
            if request != 0 && !is_pending(metric) && since.replace(request, 0) {
                self.count_request(Counter::ReschedUnused);
            }
        }
    }

    /// Forgets all requests: what becomes of them is not seen.
    ///
    /// Must not run at the same time as [`Cpu::switch`] or [`Cpu::request`] on the same `Cpu`.
    pub(super) fn forget_requests(&self) {
        for (_, since) in self.header.requests.all() {
            if since.swap(0) != 0 {
                self.count_request(Counter::ReschedUnused);
            }
        }
    }

    /// Records that the task leaves the CPU at `now`, which ends all requests.
    #[cold]
    #[inline(never)]
    pub(super) fn end_requests<S: Settings>(
        &self,
        now: u64,
        cause: Cause,
        observer: impl Observer,
    ) {
        for (metric, since) in self.header.requests.all() {
            let request = since.get();
            if request != 0 {
                since.set(0);
                self.header.counter(Counter::ReschedSet).add(1);
                self.compare(now, request);
                let delay = now.saturating_sub(request);
                self.record::<S>(metric, delay, cause, now, observer);
            }
        }
    }

    /// Counts a request that no switch has followed.
    fn count_request(&self, end: Counter) {
        for counter in [Counter::ReschedSet, end] {
            self.header.counter(counter).add(1);
        }
    }
}
