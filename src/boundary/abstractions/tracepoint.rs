// SPDX-License-Identifier: GPL-2.0

//! Probes on the kernel's tracepoints.
//!
//! C header: [`include/linux/tracepoint.h`](srctree/include/linux/tracepoint.h)

use core::{
    mem::transmute_copy,
    ptr::NonNull, //
};

use kernel::{
    error::to_result,
    ffi::c_void,
    prelude::*,
    str::CStr,
    sync::Arc, //
};

use super::{
    bindings,
    context, //
};

/// A tracepoint of the kernel image.
///
/// # Invariants
///
/// Points to a `struct tracepoint` of the kernel image, which is valid for ever.
#[derive(Clone, Copy)]
struct Tracepoint(NonNull<bindings::tracepoint>);

impl Tracepoint {
    /// Finds a tracepoint by name. Process context.
    ///
    /// The kernel does not export the scheduler's tracepoints, so that a module can reach them only
    /// by a search.
    fn find(name: &CStr) -> Option<Self> {
        struct Search<'a> {
            name: &'a CStr,
            found: Option<Tracepoint>,
        }

        /// # Safety
        ///
        /// `search` must point to a `Search` to which there is no other reference in use,
        /// `tracepoint` to a tracepoint.
        unsafe extern "C" fn visit(tracepoint: *mut bindings::tracepoint, search: *mut c_void) {
            // SAFETY: `find()` passes its `Search`, and does not use it during the walk.
            let search = unsafe { &mut *search.cast::<Search<'_>>() };
            // SAFETY: `for_each_kernel_tracepoint()` passes valid tracepoints, whose name is a C
            // string.
            let name = unsafe { CStr::from_char_ptr((*tracepoint).name) };
            if name == search.name {
                // INVARIANT: The tracepoints visited are those of the kernel image.
                search.found = NonNull::new(tracepoint).map(Tracepoint);
            }
        }

        let mut search = Search { name, found: None };
        // SAFETY: `visit` expects a `Search`, and is called only before this returns.
        unsafe {
            bindings::for_each_kernel_tracepoint(Some(visit), (&raw mut search).cast::<c_void>());
        }
        search.found
    }
}

/// Waits until all calls of probes that are in progress now have returned, on all CPUs. Sleeps.
pub(crate) fn synchronize() {
    context::might_sleep();
    // SAFETY: Process context.
    unsafe { bindings::schedhist_tracepoint_synchronize_unregister() };
}

/// A function that can be registered on a tracepoint.
///
/// # Safety
///
/// - `Function` must be the type `Option<unsafe extern "C" fn(..)>` that bindgen makes of a C
///   function pointer, and C must check it against the prototype of `TRACEPOINT`, with
///   `check_trace_callback_type_<tracepoint>()`.
/// - `FUNCTION` must not be `None`. It must be sound to call with what `argument()` returned as its
///   first argument, as long as the `Data` exists, in any context in which the tracepoint is hit.
pub(crate) unsafe trait Probe {
    /// The data that the function is called with.
    type Data: Send + Sync + 'static;

    type Function: Copy;

    const TRACEPOINT: &'static CStr;

    const FUNCTION: Self::Function;

    /// Returns what the function is called with for `data`: its address by default. It must be
    /// valid as long as `data` exists.
    fn argument(data: &Self::Data) -> *mut c_void {
        core::ptr::from_ref(data).cast_mut().cast()
    }

    /// Calls the function with `data` whenever the tracepoint is hit, until the guard is dropped.
    ///
    /// Fails with `ENOENT` if the kernel has no such tracepoint, and with `ENOMEM`. Sleeps.
    fn register(data: Arc<Self::Data>) -> Result<Registration<Self::Data>> {
        Registration::new::<Self>(data)
    }
}

/// Declares the type `$name` of a probe that calls a `$t`, and implements [`Probe`] for it.
///
/// The body is that of the function that C calls with the arguments of `$tracepoint`. `$receiver`
/// is the `$t` there. `$function` is the type of the function in `glue.h`.
///
/// # Safety
///
/// `glue.c` must check `$function` against `$tracepoint`.
macro_rules! declare_probe {
    (
        $(#[$attribute:meta])*
        unsafe $name:ident<$t:ident: $trait:path $(, $v:ident)?>, $tracepoint:literal, $function:ident;
        fn(
            $receiver:ident $(, $(#[$condition:meta])* $argument:ident: $type:ty)* $(,)?
        ) $body:block
    ) => {
        $(#[$attribute])*
        pub(crate) struct $name<$t $(, $v)?>(core::marker::PhantomData<fn() -> ($t, $($v)?)>);

        impl<$t: $trait $(, $v)?> $name<$t $(, $v)?> {
            /// The probe itself.
            ///
            /// # Safety
            ///
            /// Must be called by the tracepoint, with a pointer to the receiver as `data`.
            unsafe extern "C" fn probe(
                data: *mut kernel::ffi::c_void
                $(, $(#[$condition])* $argument: $type)*
            ) {
                // SAFETY: `register()` passed `data`: the address of a `$t` in an `Arc`, which is
                // kept while the probe can be called.
                let $receiver = unsafe { &*data.cast::<$t>() };
                $body
            }
        }

        // SAFETY: The caller of the macro ensures that the type is that of the tracepoint, and
        // `probe()` expects a pointer to a `$t`. It may be called there by the contract of the
        // trait.
        unsafe impl<$t: $trait $(, $v)?> super::tracepoint::Probe for $name<$t $(, $v)?> {
            type Data = $t;
            type Function = super::bindings::$function;

            const TRACEPOINT: &'static kernel::str::CStr = $tracepoint;
            const FUNCTION: Self::Function = Some(Self::probe);
        }
    };
}

pub(crate) use declare_probe;

/// A registered probe and its data.
///
/// Dropping it unregisters the probe, then waits with `tracepoint_synchronize_unregister()` until
/// no CPU runs the probe any more, and only then drops the data. Unregistering and waiting both
/// sleep.
///
/// # Invariants
///
/// `probe` is registered on `tracepoint` with `argument`, which is that of `_data`.
pub(crate) struct Registration<T: Send + Sync + 'static> {
    tracepoint: Tracepoint,
    probe: *mut c_void,
    argument: *mut c_void,
    /// Kept until the probe is unregistered and no CPU runs it.
    _data: Arc<T>,
}

// SAFETY: `probe` is the address of a function, `tracepoint` that of a static, `argument` is not
// dereferenced, and an `Arc<T>` can be sent to another thread if `T` is `Send` and `Sync`.
unsafe impl<T: Send + Sync + 'static> Send for Registration<T> {}

// SAFETY: No method takes a shared reference, so threads can do nothing with one.
unsafe impl<T: Send + Sync + 'static> Sync for Registration<T> {}

impl<T: Send + Sync + 'static> Registration<T> {
    /// Registers the function of `P`: see [`Probe::register`].
    fn new<P: Probe<Data = T> + ?Sized>(data: Arc<T>) -> Result<Self> {
        const { assert!(size_of::<P::Function>() == size_of::<*mut c_void>()) };
        context::might_sleep();
        let tracepoint = Tracepoint::find(P::TRACEPOINT).ok_or(ENOENT)?;
        // SAFETY: By the contract of `Probe` a `Function` is a function pointer or null. It has the
        // size of a pointer.
        let probe = unsafe { transmute_copy::<P::Function, *mut c_void>(&P::FUNCTION) };
        let argument = P::argument(&data);
        // SAFETY: The tracepoint is valid by the type's invariant, and the probe fits it by the
        // contract of `Probe`. `data` is kept until the probe is unregistered and no CPU runs it.
        to_result(unsafe {
            bindings::tracepoint_probe_register(tracepoint.0.as_ptr(), probe, argument)
        })?;
        // INVARIANT: The probe was just registered, with this argument.
        Ok(Self {
            tracepoint,
            probe,
            argument,
            _data: data,
        })
    }
}

impl<T: Send + Sync + 'static> Drop for Registration<T> {
    fn drop(&mut self) {
        context::might_sleep();
        // SAFETY: The probe is registered with these arguments by the type's invariant. Only an
        // unregistered probe makes this fail: without memory for a shorter list of probes the
        // kernel replaces ours by a stub.
        unsafe {
            bindings::tracepoint_probe_unregister(
                self.tracepoint.0.as_ptr(),
                self.probe,
                self.argument,
            );
        }
        // A CPU may still be in the probe. `_data`, which is dropped after this, and the module's
        // code must outlive that call. Dropping a registration sleeps, by the documentation of the
        // type.
        synchronize();
    }
}
