// SPDX-License-Identifier: GPL-2.0

//! Work that a probe can queue.
//!
//! A probe holds the run queue's lock, and so can neither wake a task nor queue work. `irq_work`
//! runs a moment later, in a hard interrupt, and queues the work from there. (Any other `irq_work`
//! is run on `PREEMPT_RT` by a thread of this CPU, which is parked early when the CPU goes
//! offline.)
//!
//! The last switches of a CPU that goes offline come too late even for `irq_work`. No probe sees
//! them: tracepoints are not hit on a CPU that is no longer online.
//!
//! C header: [`include/linux/irq_work.h`](srctree/include/linux/irq_work.h)

use core::pin::Pin;

use kernel::{
    container_of,
    prelude::*,
    str::CStr,
    sync::{
        Arc,
        LockClassKey, //
    },
    types::Opaque, //
};

use super::{
    bindings, context,
    rcu::synchronize_rcu,
    work::{
        Job,
        Work, //
    },
};

/// A job that can be queued in any context, a probe included, and runs soon after.
///
/// Dropping it waits for a pending `irq_work`, and then cancels the job or waits for it. That
/// sleeps.
///
/// # Invariants
///
/// `irq_work` is initialised with [`call`] for this `T`, and part of an `IrqWork<T>` that does not
/// move.
#[pin_data(PinnedDrop)]
pub(crate) struct IrqWork<T: Job> {
    #[pin]
    irq_work: Opaque<bindings::irq_work>,
    work: Pin<KBox<Work<T>>>,
}

// SAFETY: The functions of `irq_work` can be called from any thread, and `Work<T>` is `Send`.
unsafe impl<T: Job> Send for IrqWork<T> {}

// SAFETY: A shared reference gives access to `queue()` only. It calls `irq_work_queue()`, which any
// number of CPUs may call at the same time.
unsafe impl<T: Job> Sync for IrqWork<T> {}

/// Creates [`IrqWork`] of a job, with a name and a lockdep class of its own.
macro_rules! new_irq_work {
    ($job:expr, $name:expr) => {
        IrqWork::new($job, $name, kernel::static_lock_class!())
    };
}

pub(crate) use new_irq_work;

impl<T: Job> IrqWork<T> {
    /// Creates an `irq_work` that is not queued, of this class: see [`new_irq_work`]. Sleeps; fails
    /// with `ENOMEM`.
    pub(crate) fn new(
        job: Arc<T>,
        name: &'static CStr,
        class: Pin<&'static LockClassKey>,
    ) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            // INVARIANT: Initialised here, and pinned.
            irq_work <- Opaque::ffi_init(|slot| {
                // SAFETY: The slot is valid for writing.
                unsafe { bindings::schedhist_init_irq_work(slot, Some(call::<T>)) };
            }),
            work: Work::new(job, name, class)?,
        })
    }

    /// Queues the job; no effect while the job is pending. Callable in any context.
    pub(crate) fn queue(&self) {
        // SAFETY: Initialised by the type's invariant. The caller has a reference, and `drop()`
        // waits for the `irq_work` before its memory is freed.
        unsafe { bindings::irq_work_queue(self.irq_work.get()) };
    }
}

#[pinned_drop]
impl<T: Job> PinnedDrop for IrqWork<T> {
    fn drop(self: Pin<&mut Self>) {
        context::might_sleep();
        // Nothing queues `work` after this, so that it can be dropped next.
        //
        // SAFETY: Initialised by the type's invariant.
        unsafe { bindings::irq_work_sync(self.irq_work.get()) };
        // For work that runs in a hard interrupt, that waits only for `IRQ_WORK_BUSY`. On
        // `PREEMPT_RT`, `irq_work_single()` reads the flags once more after it has cleared that, to
        // find out whether a thread waits.
        if cfg!(CONFIG_PREEMPT_RT) {
            synchronize_rcu();
        }
    }
}

/// The function that `irq_work` calls, in an interrupt. On a CPU that goes offline, the task that
/// stops the CPU may call it instead, with interrupts off.
///
/// # Safety
///
/// Must be called with the `irq_work` of an `IrqWork<T>`.
unsafe extern "C" fn call<T: Job>(irq_work: *mut bindings::irq_work) {
    let irq_work = Opaque::cast_from(irq_work);
    // SAFETY: By the safety requirement `irq_work` is part of an `IrqWork<T>`, whose `drop()` waits
    // until this function has returned.
    let this = unsafe { &*container_of!(irq_work, IrqWork<T>, irq_work) };
    context::assert_irqs_disabled();
    this.work.queue();
}
