// SPDX-License-Identifier: GPL-2.0

//! Work that a probe asks for.
//!
//! A probe holds the run queue's lock, and so can neither wake anybody nor queue work. `irq_work` runs a
//! moment later, in an interrupt, and queues it. (Without the interrupt in between `PREEMPT_RT` would
//! leave it to a thread of this CPU, which is parked early when the CPU goes offline.) The last switches
//! of a CPU that goes offline would be too late for `irq_work`, too; of these the kernel does not tell, as
//! the CPU is not online any more.
//!
//! C header: [`include/linux/irq_work.h`](srctree/include/linux/irq_work.h)

use core::pin::Pin;

use kernel::{
    container_of,
    prelude::*,
    sync::Arc,
    types::Opaque, //
};

use crate::boundary::{
    abstractions::{
        context,
        work::{
            Job,
            Work, //
        },
    },
    bindings, //
};

/// A job that can be asked for from any context, a probe included, and is done soon.
///
/// Dropping it waits until nobody asks any more, and then for the job. That sleeps.
///
/// # Invariants
///
/// `irq_work` is initialised with [`call`] for this `T`, and part of a `IrqWork<T>` that does not move.
#[pin_data(PinnedDrop)]
pub(crate) struct IrqWork<T: Job> {
    #[pin]
    irq_work: Opaque<bindings::irq_work>,
    work: Pin<KBox<Work<T>>>,
}

// SAFETY: The functions of `irq_work` can be called from any thread.
unsafe impl<T: Job> Send for IrqWork<T> {}

// SAFETY: As above.
unsafe impl<T: Job> Sync for IrqWork<T> {}

impl<T: Job> IrqWork<T> {
    /// Creates what nobody has asked for. Sleeps; fails with `ENOMEM`.
    pub(crate) fn new(job: Arc<T>) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            // INVARIANT: Initialised here, and pinned.
            irq_work <- Opaque::ffi_init(|slot| {
                // SAFETY: The slot is valid for writing.
                unsafe { bindings::schedhist_init_irq_work(slot, Some(call::<T>)) };
            }),
            work: Work::new(job)?,
        })
    }

    /// Asks for the job to be done; no effect while that is still to come. Any context.
    pub(crate) fn queue(&self) {
        // SAFETY: Initialised by the type's invariant. Who can ask has a reference, and the work is
        // waited for before it goes away.
        unsafe { bindings::irq_work_queue(self.irq_work.get()) };
    }
}

#[pinned_drop]
impl<T: Job> PinnedDrop for IrqWork<T> {
    fn drop(self: Pin<&mut Self>) {
        context::might_sleep();
        // Nobody asks for `work`, which is dropped after this, any more.
        //
        // SAFETY: Initialised by the type's invariant.
        unsafe { bindings::irq_work_sync(self.irq_work.get()) };
    }
}

/// What `irq_work` calls, in an interrupt; or, on a CPU that goes offline, in the task that stops it,
/// with interrupts off.
///
/// # Safety
///
/// Must be called with the `irq_work` of a `IrqWork<T>`.
unsafe extern "C" fn call<T: Job>(irq_work: *mut bindings::irq_work) {
    let irq_work = Opaque::cast_from(irq_work);
    // SAFETY: By the safety requirement; it is not dropped before this returns.
    let soon = unsafe { &*container_of!(irq_work, IrqWork<T>, irq_work) };
    context::assert_irqs_disabled();
    soon.work.queue();
}
