// SPDX-License-Identifier: GPL-2.0

//! What is noted of wakeups.

use crate::engine::{
    atomic::{
        fence,
        Ordering::Acquire, //
    },
    switch::{
        Task,
        Wakeup, //
    },
};

/// Selects the wakeups that are noted.
pub trait WakeupFilter: 'static {
    /// Whether all wakeups are noted, and not only those of tasks that the kernel has queued
    /// already.
    const ALL: bool;
}

/// Notes all wakeups.
#[derive(Clone, Copy, Debug)]
pub struct AllWakeups;

impl WakeupFilter for AllWakeups {
    const ALL: bool = true;
}

/// Notes only the wakeups of tasks that the kernel has queued already.
#[derive(Clone, Copy, Debug)]
pub struct QueuedWakeups;

impl WakeupFilter for QueuedWakeups {
    const ALL: bool = false;
}

/// Records that a task is being woken: the `sched_waking` event. Any CPU may call this, in any
/// context. Wakers of one task take turns, unless the task wakes itself.
///
/// With [`AllWakeups`], every wakeup is noted, as [`Metric::Wakeup`] requires. With
/// [`QueuedWakeups`], only the wakeup of a task that is on a run queue although it is asleep
/// ([`Task::is_queued`]) is noted: its wait begins at the wakeup, and the kernel's stamp does not
/// say so. There are two kinds of them. The kernel stamps a task when it migrates it, even a
/// sleeping task whose dequeue is delayed, and does not stamp it again at the wakeup. And with
/// proxy execution a task that sleeps for a mutex stays on a run queue, so that the mutex's owner
/// runs in its turn: it is stamped if it is migrated to the owner's CPU, and else not at all. If
/// the owner sleeps, too, the kernel takes it off the queue, and adds the time since that stamp to
/// its `run_delay`; so where [`Wakeup::COUNTS_SLEEPS`] is true, a wait is what is added later.
///
/// Three cases remain, in which the kernel adds the sleep of a task to its `run_delay`:
///
/// - The task is migrated like that, and its delayed dequeue is then completed by a change of its
///   scheduling class, or for another task that waits until it is off the run queue
///   (`wait_task_inactive()`: a tracer, a core dump). Unless `COUNTS_SLEEPS` is true.
/// - The task is being migrated again during the wakeup, and has no stamp for a moment.
/// - The task is migrated like that after `sched_waking`, while the waker waits for the lock of the
///   run queue.
#[inline(always)]
pub fn record_wakeup<F: WakeupFilter, W: Wakeup>(wakeup: W) {
    // Read only once: a task that is being migrated may have no stamp for a moment.
    let was_queued = wakeup.task().is_queued();
    if W::COUNTS_SLEEPS && !was_queued {
        // The kernel counts before it takes the task off the run queue.
        fence(Acquire);
        let task = wakeup.task();
        wakeup.state(task.pid()).forget_sleep(task);
    }
    if F::ALL || was_queued {
        note_wakeup(wakeup, was_queued);
    }
}

/// Notes a wakeup. Not inlined, so that wakeups that are not noted, as most are, save no registers.
#[inline(never)]
fn note_wakeup(wakeup: impl Wakeup, was_queued: bool) {
    let task = wakeup.task();
    let state = wakeup.state(task.pid());
    // A task without a state is counted as untracked when it runs.
    if state.is_of(task) || state.is_free_for(task) {
        state.woken.set((wakeup.now() << 1) | u64::from(was_queued));
    }
}
