// SPDX-License-Identifier: GPL-2.0

//! Work that is done later, and that dies with its owner.
//!
//! Not `kernel::workqueue`: its work cannot be cancelled, and a module must not be unloaded while
//! any is pending.
//!
//! C header: [`include/linux/workqueue.h`](srctree/include/linux/workqueue.h)

use core::pin::Pin;

use kernel::{
    bindings,
    c_str,
    container_of,
    prelude::*,
    static_lock_class,
    sync::Arc,
    types::Opaque, //
};

use crate::boundary::abstractions::context;

/// What is to be done.
pub(crate) trait Job: Send + Sync + 'static {
    /// Does it. Process context, may sleep; one at a time.
    fn run(&self);
}

/// A job that can be asked for from any context, and is done soon.
///
/// Dropping it waits until the job is done, or takes care that it is not. That sleeps.
///
/// # Invariants
///
/// `work` is initialised with [`call`] for this `T`, and part of a `Work<T>` that does not move.
#[pin_data(PinnedDrop)]
pub(crate) struct Work<T: Job> {
    #[pin]
    work: Opaque<bindings::work_struct>,
    job: Arc<T>,
}

// SAFETY: The functions of work queues can be called from any thread.
unsafe impl<T: Job> Send for Work<T> {}

// SAFETY: As above.
unsafe impl<T: Job> Sync for Work<T> {}

impl<T: Job> Work<T> {
    /// Creates work that nobody has asked for. Sleeps; fails with `ENOMEM`.
    pub(crate) fn new(job: Arc<T>) -> Result<Pin<KBox<Self>>> {
        KBox::pin_init(
            pin_init!(Self {
                // INVARIANT: Initialised here, and pinned.
                work <- Opaque::ffi_init(|slot| {
                    // SAFETY: The slot is valid for writing, the name is static, and the key too.
                    unsafe {
                        bindings::init_work_with_key(
                            slot,
                            Some(call::<T>),
                            false,
                            c_str!("schedhist::Work").as_char_ptr(),
                            static_lock_class!().as_ptr(),
                        )
                    }
                }),
                job,
            }),
            GFP_KERNEL,
        )
    }

    /// Asks for the job to be done; no effect while that is still to come. Any context.
    pub(crate) fn queue(&self) {
        // SAFETY: Initialised by the type's invariant. Who can ask has a reference, and the work is
        // cancelled before it goes away.
        unsafe {
            bindings::queue_work_on(
                bindings::wq_misc_consts_WORK_CPU_UNBOUND as i32,
                bindings::system_dfl_wq,
                self.work.get(),
            );
        }
    }
}

#[pinned_drop]
impl<T: Job> PinnedDrop for Work<T> {
    fn drop(self: Pin<&mut Self>) {
        context::might_sleep();
        // SAFETY: Initialised by the type's invariant.
        unsafe { bindings::cancel_work_sync(self.work.get()) };
    }
}

/// What the work queue calls.
///
/// # Safety
///
/// Must be called by a work queue, with the work of a `Work<T>`.
unsafe extern "C" fn call<T: Job>(work: *mut bindings::work_struct) {
    let work = Opaque::cast_from(work);
    // SAFETY: By the safety requirement; it is not dropped before this returns.
    let work = unsafe { &*container_of!(work, Work<T>, work) };
    context::might_sleep();
    work.job.run();
}
