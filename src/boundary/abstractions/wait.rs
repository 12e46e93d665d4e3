// SPDX-License-Identifier: GPL-2.0

//! A wait queue that a probe can wake.
//!
//! On `PREEMPT_RT` the lock of a wait queue cannot be taken in an interrupt. So the wakeup is left
//! to work: see [`super::irq_work`].
//!
//! C header: [`include/linux/wait.h`](srctree/include/linux/wait.h)

use kernel::{
    error::to_result,
    ffi::c_void,
    prelude::*,
    static_lock_class,
    sync::Arc,
    types::Opaque, //
};

use super::{
    bindings,
    irq_work::{
        new_irq_work,
        IrqWork, //
    },
    work::Job, //
};

/// The wait queue itself.
///
/// # Invariants
///
/// `queue` is initialised, and does not move.
#[pin_data]
struct Queue {
    #[pin]
    queue: Opaque<bindings::wait_queue_head>,
}

// SAFETY: The functions of wait queues can be called from any thread.
unsafe impl Send for Queue {}

// SAFETY: A shared reference gives access to the functions of wait queues only, which any number of
// threads may call at the same time.
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
                        c"schedhist::DeferredWaitQueue".as_char_ptr(),
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

/// A wait queue that can be woken from any context, and on which any number of tasks can wait.
///
/// Dropping it waits until no wakeup is pending. That sleeps.
#[pin_data]
pub(crate) struct DeferredWaitQueue {
    #[pin]
    wake: IrqWork<Queue>,
    waiting: Arc<Queue>,
}

impl DeferredWaitQueue {
    /// Creates an empty wait queue. Sleeps; fails with `ENOMEM`.
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            waiting: Arc::pin_init(Queue::new(), GFP_KERNEL)?,
            wake <- new_irq_work!(waiting.clone(), c"schedhist::DeferredWaitQueue::wake"),
        })
    }

    /// Wakes all waiters soon; costs little if there are none. Callable in any context.
    pub(crate) fn wake_all(&self) {
        // SAFETY: Initialised by the type's invariant.
        if unsafe { bindings::schedhist_has_sleeper(self.waiting.queue.get()) } {
            self.wake.queue();
        }
    }

    /// Waits until `condition` returns true. Each wakeup has it checked again.
    ///
    /// Fails with `ERESTARTSYS` if a signal comes first. Process context, sleeps.
    pub(crate) fn wait_until<F: Fn() -> bool>(&self, condition: F) -> Result {
        /// # Safety
        ///
        /// `condition` must point to an `F`.
        unsafe extern "C" fn holds<F: Fn() -> bool>(condition: *mut c_void) -> bool {
            // SAFETY: `wait_until()` passes the address of its `condition`.
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

    /// Adds this wait queue to those that a poll of `file` waits on.
    ///
    /// # Safety
    ///
    /// Must be called from the `poll` operation of `file`, with its `table`. The file must be
    /// closed before the wait queue is dropped.
    pub(crate) unsafe fn poll_wait(
        &self,
        file: *mut bindings::file,
        table: *mut bindings::poll_table_struct,
    ) {
        // SAFETY: The queue is initialised by the type's invariant. By the safety requirements it
        // exists as long as the file is open, and `file` and `table` are those of a `poll`
        // operation.
        unsafe { bindings::schedhist_poll_wait(file, self.waiting.queue.get(), table) };
    }
}
