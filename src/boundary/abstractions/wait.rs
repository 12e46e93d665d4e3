// SPDX-License-Identifier: GPL-2.0

//! Waking those who wait for something, from a probe.
//!
//! The locks of wait queues cannot be taken in an interrupt on `PREEMPT_RT`, and so it is work that wakes:
//! see [`super::irq_work`].
//!
//! C header: [`include/linux/wait.h`](srctree/include/linux/wait.h)

use kernel::{
    c_str,
    error::to_result,
    ffi::c_void,
    prelude::*,
    static_lock_class,
    sync::Arc,
    types::Opaque, //
};

use crate::boundary::{
    abstractions::{
        irq_work::IrqWork,
        work::Job, //
    },
    bindings, //
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
                        c_str!("schedhist::DeferredWaitQueue").as_char_ptr(),
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
/// Dropping it waits until nobody is woken any more. That sleeps.
#[pin_data]
pub(crate) struct DeferredWaitQueue {
    #[pin]
    wake: IrqWork<Queue>,
    waiting: Arc<Queue>,
}

impl DeferredWaitQueue {
    /// Creates a bell that nobody waits for. Sleeps; fails with `ENOMEM`.
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            waiting: Arc::pin_init(Queue::new(), GFP_KERNEL)?,
            wake <- IrqWork::new(waiting.clone()),
        })
    }

    /// Wakes those who wait, soon; costs little where nobody does. Any context.
    pub(crate) fn wake_all(&self) {
        // SAFETY: Initialised by the type's invariant.
        if unsafe { bindings::schedhist_has_sleeper(self.waiting.queue.get()) } {
            self.wake.queue();
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
            bindings::schedhist_wait_event(
                self.waiting.queue.get(),
                Some(holds::<F>),
                (&raw const condition).cast_mut().cast(),
            )
        })
    }

    /// Lets who polls `file` wait for the wait_queue, too.
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
        unsafe { bindings::schedhist_poll_wait(file, self.waiting.queue.get(), table) };
    }
}
