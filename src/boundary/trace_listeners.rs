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
//! Each listener has a reference to the module. So no function here runs while the module is being
//! unloaded. Events may be listened to before the module is initialised: the listeners are counted
//! all the time.
//!
//! C header: [`include/linux/trace_events.h`](srctree/include/linux/trace_events.h)

use core::{
    marker::PhantomData,
    pin::Pin,
    ptr, //
};

use kernel::{
    ffi::{
        c_int,
        c_void, //
    },
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Full,
            Relaxed, //
        },
        Arc,
    },
};

use crate::boundary::{
    abstractions::work::{
        Job,
        Work, //
    },
    bindings, //
};

/// The number of listeners that registered through the class of an event.
static THROUGH_CLASS: Atomic<i32> = Atomic::new(0);

/// The number of events whose tracepoint has a probe, whoever registered it.
static IN_USE: Atomic<i32> = Atomic::new(0);

/// Null while there is no [`Listeners`].
static TARGET: Atomic<*mut Target> = Atomic::new(ptr::null_mut());

/// Returns whether there are listeners.
fn is_any() -> bool {
    THROUGH_CLASS.load(Relaxed) != 0 || IN_USE.load(Relaxed) != 0
}

/// Adapts to the listeners of trace events.
pub(crate) trait Adapt: Send + Sync + 'static {
    /// Adapts to whether there are listeners, which `is_any` returns. Several threads may call this
    /// at once: the implementation must serialise them, and call `is_any` within.
    ///
    /// May fail only while there are listeners. Process context, may sleep.
    fn adapt(&self, is_any: fn() -> bool) -> Result;
}

/// An [`Adapt`], called from a work queue.
struct Later<T>(Arc<T>);

impl<T: Adapt> Job for Later<T> {
    fn run(&self) {
        // Without memory the module goes on as it is.
        let _ = self.0.adapt(is_any);
    }
}

/// What the functions that C calls need of a [`Listeners`].
struct Target {
    data: *const c_void,
    work: *const c_void,
    adapt: unsafe fn(*const c_void) -> Result,
    queue: unsafe fn(*const c_void),
}

/// Calls a `T` when listeners come and go, until it is dropped.
///
/// To be dropped when the module is unloaded, and only then. That sleeps.
///
/// # Invariants
///
/// `TARGET` is `target`, whose pointers are those of `data` and `work`.
pub(crate) struct Listeners<T: Adapt> {
    target: *mut Target,
    work: Option<Pin<KBox<Work<Later<T>>>>>,
    data: Arc<T>,
    _owns: PhantomData<KBox<Target>>,
}

// SAFETY: `target` is owned like a box, and its pointers are those of fields that can be sent.
unsafe impl<T: Adapt> Send for Listeners<T> {}

// SAFETY: No method takes a shared reference.
unsafe impl<T: Adapt> Sync for Listeners<T> {}

/// A [`Listeners`] that is not called yet.
pub(crate) struct Prepared<T: Adapt> {
    target: KBox<Target>,
    work: Pin<KBox<Work<Later<T>>>>,
    data: Arc<T>,
}

impl<T: Adapt> Prepared<T> {
    /// Prepares to call `data`. Nothing is called before [`Prepared::start`]. Sleeps; fails with
    /// `ENOMEM`.
    pub(crate) fn new(data: Arc<T>) -> Result<Self> {
        /// # Safety
        ///
        /// `data` must point to a `T`.
        unsafe fn adapt<T: Adapt>(data: *const c_void) -> Result {
            // SAFETY: By the safety requirement.
            unsafe { &*data.cast::<T>() }.adapt(is_any)
        }

        /// # Safety
        ///
        /// `work` must point to a `Work<Later<T>>`.
        unsafe fn queue<T: Adapt>(work: *const c_void) {
            // SAFETY: By the safety requirement.
            unsafe { &*work.cast::<Work<Later<T>>>() }.queue();
        }

        let work = Work::new(Arc::new(Later(data.clone()), GFP_KERNEL)?)?;
        let target = Target {
            data: ptr::from_ref::<T>(&data).cast(),
            work: ptr::from_ref::<Work<Later<T>>>(&work).cast(),
            adapt: adapt::<T>,
            queue: queue::<T>,
        };
        Ok(Self {
            target: KBox::new(target, GFP_KERNEL)?,
            work,
            data,
        })
    }

    /// Starts, and adapts to the listeners there are already. There must be no other [`Listeners`]
    /// in the module, and its initialisation must not fail any more. Sleeps.
    pub(crate) fn start(self) -> Listeners<T> {
        let target = KBox::into_raw(self.target);
        TARGET.store(target, kernel::sync::atomic::Release);
        // A barrier: either a listener that comes meanwhile sees the target, or is seen here.
        THROUGH_CLASS.fetch_add(0, Full);
        let _ = self.data.adapt(is_any);
        // INVARIANT: `TARGET` was just set, and has the addresses of `data` and `work`, which are
        // those of what an `Arc` and a box point to.
        Listeners {
            target,
            work: Some(self.work),
            data: self.data,
            _owns: PhantomData,
        }
    }
}

impl<T: Adapt> Drop for Listeners<T> {
    fn drop(&mut self) {
        // The module is being unloaded: there is no listener, and none can come, as none gets a
        // reference to the module any more. So no function that C calls uses the target now.
        TARGET.store(ptr::null_mut(), Relaxed);
        // The work may be pending, since the last listener that was on a tracepoint itself went.
        // This waits for it.
        self.work = None;
        // Does what the cancelled work would have done.
        let _ = self.data.adapt(|| false);
        // SAFETY: It is the address of a box by the type's invariant, and nothing uses it any more.
        drop(unsafe { KBox::from_raw(self.target) });
    }
}

/// Calls `f` with the target if there is one.
///
/// # Safety
///
/// Must be called by one of the functions that C calls.
unsafe fn with_target<R>(f: impl FnOnce(&Target) -> R) -> Option<R> {
    let target = TARGET.load(Acquire);
    if target.is_null() {
        return None;
    }
    // SAFETY: The pointer is that of a `Listeners`, which is dropped only when the module is
    // unloaded. The caller of C has a reference to the module.
    Some(f(unsafe { &*target }))
}

/// Adapts to the listeners there are.
///
/// # Safety
///
/// As for [`with_target`].
unsafe fn adapt() -> Result {
    // SAFETY: By the safety requirement. The pointer and the function are those of the same `T`.
    unsafe { with_target(|target| (target.adapt)(target.data)) }.unwrap_or(Ok(()))
}

/// See `schedhist_trace.h`.
///
/// # Safety
///
/// Must be called by the generated C code, with a reference to the module.
#[no_mangle]
unsafe extern "C" fn schedhist_trace_listen() -> c_int {
    THROUGH_CLASS.fetch_add(1, Full);
    // SAFETY: By the safety requirement.
    match unsafe { adapt() } {
        Ok(()) => 0,
        Err(error) => {
            THROUGH_CLASS.fetch_add(-1, Full);
            error.to_errno()
        }
    }
}

/// See `schedhist_trace.h`.
///
/// # Safety
///
/// Must be called by the generated C code, with a reference to the module, once for each call of
/// [`schedhist_trace_listen`] that succeeded.
#[no_mangle]
unsafe extern "C" fn schedhist_trace_unlisten() {
    THROUGH_CLASS.fetch_add(-1, Full);
    // Does not fail if there is no listener; if there are others, nothing changes.
    //
    // SAFETY: By the safety requirement.
    let _ = unsafe { adapt() };
}

/// See `schedhist_trace.h`.
///
/// # Safety
///
/// Must be called by the generated C code, with a reference to the module.
#[no_mangle]
unsafe extern "C" fn schedhist_trace_used(used: bool) {
    IN_USE.fetch_add(if used { 1 } else { -1 }, Full);
    // If the module knows about listeners already, it has adapted, or does so when they go.
    if THROUGH_CLASS.load(Relaxed) == 0 {
        // SAFETY: By the safety requirement. The pointer and the function are those of the same
        // `T`.
        unsafe { with_target(|target| (target.queue)(target.work)) };
    }
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
