// SPDX-License-Identifier: GPL-2.0

//! The listeners of our trace events, as the module learns about them.
//!
//! The generated C code calls the functions here: see `schedhist_trace.h`. There are two kinds of
//! listeners:
//!
//! - ftrace, perf, and BPF programs on events register through the event's class. We are called
//!   before they do, with no lock of the tracepoints held, so that the module can register a probe
//!   first, and can refuse if that fails.
//! - BPF programs on raw tracepoints and fprobes register on the tracepoint itself. Its callback
//!   runs with `tracepoints_mutex` held, under which no probe can be registered. So the module
//!   adapts a moment later, in a work queue.
//!
//! That callback alone would do for both, without a `trace_event_reg()` of our own. But then the
//! first samples after a write to `enable` has returned would be missing, or emitted in another
//! task than their own.
//!
//! Each listener has a reference to the module. So no function here runs while the module is being
//! unloaded. Events may be listened to before the module is initialised: the listeners are counted
//! all the time.
//!
//! C header: [`include/linux/trace_events.h`](srctree/include/linux/trace_events.h)

use core::{
    pin::Pin,
    ptr, //
};

use kernel::{
    ffi::c_int,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Full,
            Relaxed, //
        },
        rcu,
        Arc,
        ArcBorrow, //
    },
};

use crate::boundary::{
    abstractions::{
        new_work,
        synchronize_rcu,
        Job,
        Work, //
    },
    bindings, //
};

/// The number of listeners that registered through the class of an event, and of events whose
/// tracepoint has a probe, whoever registered it.
static LISTENERS: Atomic<i32> = Atomic::new(0);

/// The address of the target of the [`Listeners`], or null if there is none.
static TARGET: Atomic<*mut Target> = Atomic::new(ptr::null_mut());

fn is_any() -> bool {
    LISTENERS.load(Relaxed) != 0
}

/// Adapts to the listeners of trace events.
pub(crate) trait ListenerHook: Send + Sync + 'static {
    /// Adapts to whether there are listeners, which `is_any` returns. Several threads may call this
    /// at once: the implementation must serialise them, and call `is_any` within.
    ///
    /// May fail only while there are listeners. Process context, may sleep.
    fn adapt(&self, is_any: fn() -> bool) -> Result;
}

/// A [`ListenerHook`], called from a work queue.
struct Later(Arc<dyn ListenerHook>);

impl Job for Later {
    fn run(&self) {
        // Without memory the module goes on as it is.
        let _ = self.0.adapt(is_any);
    }
}

/// The part of [`Listeners`] that callbacks from C use.
struct Target {
    data: Arc<dyn ListenerHook>,
    work: Pin<KBox<Work<Later>>>,
}

/// Calls a [`ListenerHook`] when listeners come and go, until this is dropped. That sleeps.
///
/// # Invariants
///
/// `TARGET` is the address of `target` until the value is dropped.
pub(crate) struct Listeners {
    target: Arc<Target>,
}

impl Listeners {
    /// Calls `data` from now on, also for the listeners there are already. Sleeps; fails with
    /// `EBUSY` if there is another [`Listeners`], and with `ENOMEM`.
    pub(crate) fn new(data: Arc<dyn ListenerHook>) -> Result<Self> {
        let target = Target {
            work: new_work!(
                Arc::new(Later(data.clone()), GFP_KERNEL)?,
                c"schedhist::Listeners::work"
            )?,
            data,
        };
        let target = Arc::new(target, GFP_KERNEL)?;
        // A barrier: either a listener that comes meanwhile sees the target, or is seen here.
        TARGET
            .cmpxchg(ptr::null_mut(), Arc::as_ptr(&target).cast_mut(), Full)
            .map_err(|_| EBUSY)?;
        // INVARIANT: `TARGET` was just set, and only dropping the value changes it again.
        let this = Self { target };
        let _ = this.target.data.adapt(is_any);
        Ok(this)
    }
}

impl Drop for Listeners {
    fn drop(&mut self) {
        TARGET.store(ptr::null_mut(), Relaxed);
        // Whoever has seen the target has its own reference after this, or has queued the work.
        synchronize_rcu();
        // The work may be pending, since a listener that was on a tracepoint itself went.
        self.target.work.cancel();
        // Does what the cancelled work would have done.
        let _ = self.target.data.adapt(|| false);
    }
}

/// Calls `f` with the target if there is one. `f` must not sleep.
fn with_target<R>(f: impl FnOnce(ArcBorrow<'_, Target>) -> R) -> Option<R> {
    let _rcu = rcu::read_lock();
    let target = TARGET.load(Acquire);
    if target.is_null() {
        return None;
    }
    // SAFETY: By the invariant of `Listeners` this is the address that an `Arc` points to. Dropping
    // the `Listeners` clears `TARGET`, and then waits for this RCU read-side critical section
    // before it drops the `Arc`. No mutable reference is made of an `Arc` that is shared.
    Some(f(unsafe { ArcBorrow::from_raw(target) }))
}

fn adapt() -> Result {
    match with_target(|target| Arc::from(target)) {
        Some(target) => target.data.adapt(is_any),
        None => Ok(()),
    }
}

/// See `schedhist_trace.h`.
#[no_mangle]
extern "C" fn schedhist_trace_listen() -> c_int {
    LISTENERS.fetch_add(1, Full);
    match adapt() {
        Ok(()) => 0,
        Err(error) => {
            // Others may have counted this listener meanwhile.
            schedhist_trace_used(false);
            error.to_errno()
        }
    }
}

/// See `schedhist_trace.h`. To be called once for each call of [`schedhist_trace_listen`] that
/// succeeded.
#[no_mangle]
extern "C" fn schedhist_trace_unlisten() {
    LISTENERS.fetch_add(-1, Full);
    // Does not fail if there is no listener; if there are others, nothing changes.
    let _ = adapt();
}

/// See `schedhist_trace.h`.
#[no_mangle]
extern "C" fn schedhist_trace_used(used: bool) {
    LISTENERS.fetch_add(if used { 1 } else { -1 }, Full);
    // Not with a reference: dropping the last one would wait for the work, which may wait for the
    // lock of the tracepoints, which the caller holds.
    with_target(|target| target.work.queue());
}

/// Never called: fails to compile if C declares another type.
#[allow(dead_code)]
fn check_prototypes() {
    let _: [unsafe extern "C" fn() -> c_int; 2] =
        [bindings::schedhist_trace_listen, schedhist_trace_listen];
    let _: [unsafe extern "C" fn(); 2] =
        [bindings::schedhist_trace_unlisten, schedhist_trace_unlisten];
    let _: [unsafe extern "C" fn(bool); 2] = [bindings::schedhist_trace_used, schedhist_trace_used];
}
