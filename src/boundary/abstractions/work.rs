// SPDX-License-Identifier: GPL-2.0

//! Work that a work queue does later. Dropping the work cancels it.
//!
//! This does not use `kernel::workqueue`: its work cannot be cancelled, and a module must not be
//! unloaded while any is pending.
//!
//! C header: [`include/linux/workqueue.h`](srctree/include/linux/workqueue.h)

use core::pin::Pin;

use kernel::{
    container_of,
    prelude::*,
    static_lock_class,
    str::CStr,
    sync::{
        Arc,
        LockClassKey, //
    },
    time::{
        msecs_to_jiffies,
        Msecs, //
    },
    types::Opaque, //
};

use super::{
    bindings,
    context, //
};

/// A job for a work queue.
pub(crate) trait Job: Send + Sync + 'static {
    /// Does the job. Process context, may sleep. Never runs twice at the same time.
    fn run(&self);

    /// Returns how soon the job wants to run again. Called after each run.
    fn again(&self) -> Option<Msecs> {
        None
    }
}

/// A job that can be queued from any context in which no lock of the scheduler is held, and runs
/// soon after. [`super::irq_work`] has no such limit.
///
/// Dropping it cancels the job if it is pending, and waits for it if it is running. That sleeps.
///
/// # Invariants
///
/// `work` is initialised with [`call`] for this `T`, and part of a `Work<T>` that does not move.
#[pin_data(PinnedDrop)]
pub(crate) struct Work<T: Job> {
    #[pin]
    work: Opaque<bindings::delayed_work>,
    job: Arc<T>,
}

// SAFETY: The functions of work queues can be called from any thread.
unsafe impl<T: Job> Send for Work<T> {}

// SAFETY: A shared reference gives access to `queue()`, `queue_after()` and `cancel()` only. Any
// number of threads may call `queue_delayed_work_on()` and `cancel_delayed_work_sync()`, as these
// do, at the same time.
unsafe impl<T: Job> Sync for Work<T> {}

/// Creates [`Work`] of a job, with a name and a lockdep class of its own.
macro_rules! new_work {
    ($job:expr, $name:expr) => {
        Work::new($job, $name, kernel::static_lock_class!())
    };
}

pub(crate) use new_work;

impl<T: Job> Work<T> {
    /// Creates work that is not queued, of this class: see [`new_work`]. Sleeps; fails with
    /// `ENOMEM`.
    pub(crate) fn new(
        job: Arc<T>,
        name: &'static CStr,
        class: Pin<&'static LockClassKey>,
    ) -> Result<Pin<KBox<Self>>> {
        KBox::pin_init(
            pin_init!(Self {
                // INVARIANT: Initialised here, and pinned.
                work <- Opaque::ffi_init(|slot: *mut bindings::delayed_work| {
                    // SAFETY: The slot is valid for writing, and the names and the keys are static.
                    // Only the work queue sets the timer, which runs with interrupts off.
                    unsafe {
                        bindings::init_work_with_key(
                            &raw mut (*slot).work,
                            Some(call::<T>),
                            false,
                            name.as_char_ptr(),
                            class.as_ptr(),
                        );
                        bindings::timer_init_key(
                            &raw mut (*slot).timer,
                            Some(bindings::delayed_work_timer_fn),
                            bindings::TIMER_IRQSAFE,
                            name.as_char_ptr(),
                            static_lock_class!().as_ptr(),
                        );
                    }
                }),
                job,
            }),
            GFP_KERNEL,
        )
    }

    /// Queues the job; no effect while the job is pending. Any context, without a lock of the
    /// scheduler.
    pub(crate) fn queue(&self) {
        self.queue_after(0);
    }

    /// Queues the job, which then runs after `delay` milliseconds; otherwise as [`Work::queue`].
    pub(crate) fn queue_after(&self, delay: Msecs) {
        // SAFETY: Initialised by the type's invariant. The caller has a reference, and `drop()`
        // cancels the work before its memory is freed.
        unsafe {
            bindings::queue_delayed_work_on(
                bindings::wq_misc_consts_WORK_CPU_UNBOUND as i32,
                bindings::system_dfl_wq,
                self.work.get(),
                msecs_to_jiffies(delay),
            );
        }
    }

    /// Cancels the job if it is pending, and waits for it if it is running. Sleeps.
    pub(crate) fn cancel(&self) {
        context::might_sleep();
        // SAFETY: Initialised by the type's invariant.
        unsafe { bindings::cancel_delayed_work_sync(self.work.get()) };
    }
}

#[pinned_drop]
impl<T: Job> PinnedDrop for Work<T> {
    fn drop(self: Pin<&mut Self>) {
        self.cancel();
    }
}

/// The function that the work queue calls.
///
/// # Safety
///
/// Must be called by a work queue, with the work of a `Work<T>`.
unsafe extern "C" fn call<T: Job>(work: *mut bindings::work_struct) {
    // SAFETY: By the safety requirement this is the work of a `delayed_work`.
    let work = Opaque::cast_from(unsafe { container_of!(work, bindings::delayed_work, work) });
    // SAFETY: By the safety requirement `work` is part of a `Work<T>`, whose `drop()` waits until
    // this function has returned.
    let work = unsafe { &*container_of!(work, Work<T>, work) };
    context::might_sleep();
    work.job.run();
    // If it is being cancelled, this has no effect.
    if let Some(delay) = work.job.again() {
        work.queue_after(delay);
    }
}
