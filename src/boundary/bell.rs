// SPDX-License-Identifier: GPL-2.0

//! Waking those who wait for something, from a probe.
//!
//! A probe holds the run queue's lock and so cannot wake anybody. `irq_work` runs a moment later, in an
//! interrupt, where the locks of wait queues cannot be taken on `PREEMPT_RT`: so that asks for work,
//! which then wakes. (Without the interrupt in between `PREEMPT_RT` would leave it to a thread of this
//! CPU, which is parked early when the CPU goes offline.) The last switches of a CPU that goes offline would
//! be too late for `irq_work`, too; of these the kernel does not tell, as the CPU is not online any more.
//!
//! C headers: [`include/linux/irq_work.h`](srctree/include/linux/irq_work.h),
//! [`include/linux/wait.h`](srctree/include/linux/wait.h)

use core::pin::Pin;

use kernel::{
    bindings,
    c_str,
    container_of,
    error::to_result,
    ffi::c_void,
    prelude::*,
    static_lock_class,
    sync::Arc,
    types::Opaque, //
};

use super::{
    bindings as ours,
    context,
    work::{
        Job,
        Work, //
    }, //
};

/// Those who wait.
///
/// # Invariants
///
/// Initialised, and does not move.
#[pin_data]
struct Queue {
    #[pin]
    queue: Opaque<bindings::wait_queue_head>,
}

// SAFETY: The functions of wait queues can be called from any thread.
unsafe impl Send for Queue {}

// SAFETY: As above.
unsafe impl Sync for Queue {}

impl Queue {
    fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            // INVARIANT: Initialised here, and pinned.
            queue <- Opaque::ffi_init(|slot| {
                // SAFETY: The slot is valid for writing, the name is static, and the key too.
                unsafe {
                    bindings::__init_waitqueue_head(
                        slot,
                        c_str!("schedhist::Bell").as_char_ptr(),
                        static_lock_class!().as_ptr(),
                    )
                }
            }),
        })
    }
}

impl Job for Queue {
    fn run(&self) {
        // SAFETY: Initialised by the type's invariant.
        unsafe {
            bindings::__wake_up(
                self.queue.get(),
                bindings::TASK_NORMAL,
                0,
                core::ptr::null_mut(),
            )
        };
    }
}

/// A bell that can be rung from any context, and that many can wait for.
///
/// Dropping it waits until nobody is woken any more: first `irq_work`, then what that asks for. That
/// sleeps.
///
/// # Invariants
///
/// `soon` is initialised with [`ask`], and part of a `Bell` that does not move.
#[pin_data(PinnedDrop)]
pub(crate) struct Bell {
    #[pin]
    soon: Opaque<bindings::irq_work>,
    wake: Pin<KBox<Work<Queue>>>,
    waiting: Arc<Queue>,
}

// SAFETY: The functions of `irq_work` can be called from any thread.
unsafe impl Send for Bell {}

// SAFETY: As above.
unsafe impl Sync for Bell {}

impl Bell {
    /// Creates a bell that nobody waits for. Sleeps; fails with `ENOMEM`.
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            // INVARIANT: Initialised here, and pinned.
            soon <- Opaque::ffi_init(|slot| {
                // SAFETY: The slot is valid for writing.
                unsafe { ours::schedhist_init_irq_work(slot, Some(ask)) };
            }),
            waiting: Arc::pin_init(Queue::new(), GFP_KERNEL)?,
            wake: Work::new(waiting.clone())?,
        })
    }

    /// Wakes those who wait, soon; costs little where nobody does. Any context.
    pub(crate) fn ring(&self) {
        // SAFETY: Initialised by the type's invariant.
        if unsafe { ours::schedhist_has_sleeper(self.waiting.queue.get()) } {
            // SAFETY: Initialised by the type's invariant. Who can ring has a reference, and the work
            // is waited for before it goes away.
            unsafe { bindings::irq_work_queue(self.soon.get()) };
        }
    }

    /// Waits until `condition` holds, which is looked at again whenever the bell rings.
    ///
    /// Fails with `ERESTARTSYS` when a signal comes first. Process context, sleeps.
    pub(crate) fn wait_until<F: Fn() -> bool>(&self, condition: F) -> Result {
        /// # Safety
        ///
        /// `condition` must point to an `F`.
        unsafe extern "C" fn holds<F: Fn() -> bool>(condition: *mut c_void) -> bool {
            // SAFETY: This is the condition below.
            let condition = unsafe { &*condition.cast::<F>() };
            condition()
        }

        // SAFETY: The queue is initialised by the type's invariant, and `holds` expects the
        // condition, which outlives the call.
        to_result(unsafe {
            ours::schedhist_wait_event(
                self.waiting.queue.get(),
                Some(holds::<F>),
                (&raw const condition).cast_mut().cast(),
            )
        })
    }

    /// Lets who polls `file` wait for the bell, too.
    ///
    /// # Safety
    ///
    /// Must be called from the `poll` operation of `file`, with its `table`. The file must be closed
    /// before the bell is dropped.
    pub(crate) unsafe fn poll_wait(
        &self,
        file: *mut bindings::file,
        table: *mut bindings::poll_table_struct,
    ) {
        // SAFETY: The queue is initialised by the type's invariant, and is there as long as the file
        // is open; the rest by the safety requirements.
        unsafe { ours::schedhist_poll_wait(file, self.waiting.queue.get(), table) };
    }
}

#[pinned_drop]
impl PinnedDrop for Bell {
    fn drop(self: Pin<&mut Self>) {
        context::may_sleep();
        // Nobody asks for `wake`, which is dropped after this, any more.
        //
        // SAFETY: Initialised by the type's invariant.
        unsafe { bindings::irq_work_sync(self.soon.get()) };
    }
}

/// What `irq_work` calls, in an interrupt; or, on a CPU that goes offline, in the task that stops it,
/// with interrupts off.
///
/// # Safety
///
/// Must be called with the work of a [`Bell`].
unsafe extern "C" fn ask(soon: *mut bindings::irq_work) {
    let soon = Opaque::cast_from(soon);
    // SAFETY: By the safety requirement; it is not dropped before this returns.
    let bell = unsafe { &*container_of!(soon, Bell, soon) };
    context::irqs_off();
    bell.wake.ask();
}
