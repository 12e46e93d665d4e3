// SPDX-License-Identifier: GPL-2.0

//! The `cgroup_mkdir` tracepoint.
//!
//! C header: [`include/trace/events/cgroup.h`](srctree/include/trace/events/cgroup.h)

use core::marker::PhantomData;

use kernel::{
    c_str,
    ffi::{
        c_char,
        c_void, //
    },
    str::CStr, //
};

use super::{
    bindings,
    cgroup::Cgroup,
    tracepoint::Probe, //
};

/// Receives `cgroup_mkdir`.
pub(crate) trait CgroupMkdir: Send + Sync + 'static {
    /// Called for each new cgroup of the default hierarchy, before any task can be in it. A look at
    /// its path finds it already.
    ///
    /// Interrupts are off, except on `PREEMPT_RT`: the implementation must not sleep, but for a
    /// `spinlock_t` there.
    fn cgroup_mkdir(&self, cgroup: &Cgroup<'_>);
}

/// The probe itself: C calls it, and it calls `T`, for each cgroup of the default hierarchy.
///
/// # Safety
///
/// Must be called by the `cgroup_mkdir` tracepoint, with a pointer to a `T` as `data`.
unsafe extern "C" fn probe<T: CgroupMkdir>(
    data: *mut c_void,
    cgroup: *mut bindings::cgroup,
    _path: *const c_char,
) {
    // SAFETY: `register()` passed `data`: the address of a `T` in an `Arc`, which is kept while the
    // probe can be called.
    let receiver = unsafe { &*data.cast::<T>() };
    // SAFETY: `cgroup_mkdir()` has the cgroup from `cgroup_create()`. It activates the cgroup's
    // node after this, so that nobody else uses or removes the cgroup yet.
    if let Some(cgroup) = unsafe { Cgroup::from_raw(cgroup) } {
        receiver.cgroup_mkdir(&cgroup);
    }
}

/// The probe that calls `T` for every new cgroup.
pub(crate) struct CgroupMkdirProbe<T>(PhantomData<fn() -> T>);

// SAFETY: `glue.c` checks the type against `cgroup_mkdir`, and `probe` expects a pointer to a `T`.
// `probe` may be called there by the contract of `CgroupMkdir`.
unsafe impl<T: CgroupMkdir> Probe for CgroupMkdirProbe<T> {
    type Data = T;
    type Function = bindings::schedhist_cgroup_mkdir_probe;

    const TRACEPOINT: &'static CStr = c_str!("cgroup_mkdir");
    const FUNCTION: Self::Function = Some(probe::<T>);
}
