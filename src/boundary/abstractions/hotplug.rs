// SPDX-License-Identifier: GPL-2.0

//! A callback for CPUs that come online.
//!
//! C header: [`include/linux/cpuhotplug.h`](srctree/include/linux/cpuhotplug.h)

use core::{
    mem::transmute,
    pin::Pin, //
};

use kernel::{
    bindings,
    container_of,
    error::to_result,
    ffi::{
        c_int,
        c_uint, //
    },
    prelude::*,
    sync::Arc,
    types::Opaque, //
};

use super::context;

/// Receives CPU hotplug callbacks.
pub(crate) trait Hotplug: Send + Sync + 'static {
    /// Called when `cpu` is about to come online. Nothing runs on it yet.
    ///
    /// Process context, may sleep.
    fn prepare(&self, cpu: u32);

    /// Called on a CPU that has come online, but that tasks may not use yet.
    ///
    /// Process context, may sleep. No other CPU comes or goes meanwhile.
    fn online(&self);
}

/// A state of the CPU hotplug machine.
///
/// # Invariants
///
/// [`Callback::new`] allocated the state, whose callbacks expect the node of an [`Instance`].
struct State(bindings::cpuhp_state);

impl Drop for State {
    fn drop(&mut self) {
        // SAFETY: By the type's invariant; process context.
        unsafe { bindings::__cpuhp_remove_state(self.0, false) };
    }
}

/// An instance of a [`State`]. The callbacks find it by its node.
#[pin_data]
struct Instance<T> {
    listener: Arc<T>,
    #[pin]
    node: Opaque<bindings::hlist_node>,
}

/// A listener that is called for CPUs that come online, until the registration is dropped.
///
/// Dropping it sleeps.
pub(crate) struct Registration<T: Hotplug> {
    _online: Callback<T, true>,
    _prepare: Callback<T, false>,
}

impl<T: Hotplug> Registration<T> {
    /// Registers `listener` for CPUs that come online; not for those that are online already.
    /// Sleeps.
    ///
    /// Fails with `ENOMEM`, and with `ENOSPC` if the kernel has no hotplug state left.
    pub(crate) fn new(listener: Arc<T>) -> Result<Self> {
        Ok(Self {
            _prepare: Callback::new(listener.clone())?,
            _online: Callback::new(listener)?,
        })
    }
}

/// One of the two functions of a listener: [`Hotplug::online`] if `ONLINE`, or else
/// [`Hotplug::prepare`].
///
/// # Invariants
///
/// `instance` is linked into `state`.
struct Callback<T: Hotplug, const ONLINE: bool> {
    // `state` is dropped last. It must have no instance then.
    instance: Pin<KBox<Instance<T>>>,
    state: State,
}

// SAFETY: The functions of CPU hotplug can be called from any thread, and the node is linked and
// unlinked under their lock.
unsafe impl<T: Hotplug, const ONLINE: bool> Send for Callback<T, ONLINE> {}

// SAFETY: No method takes a shared reference, so threads can do nothing with one.
unsafe impl<T: Hotplug, const ONLINE: bool> Sync for Callback<T, ONLINE> {}

impl<T: Hotplug, const ONLINE: bool> Callback<T, ONLINE> {
    /// Sleeps; fails as [`Registration::new`] does.
    fn new(listener: Arc<T>) -> Result<Self> {
        context::might_sleep();
        let instance = KBox::pin_init(
            pin_init!(Instance {
                listener,
                node <- Opaque::zeroed(),
            }),
            GFP_KERNEL,
        )?;
        // SAFETY: CPU hotplug calls the callbacks of a state with several instances with a CPU and
        // a node. `cpuhp_setup_state_multi()` makes the same cast.
        let callback = unsafe {
            transmute::<
                unsafe extern "C" fn(c_uint, *mut bindings::hlist_node) -> c_int,
                unsafe extern "C" fn(c_uint) -> c_int,
            >(call::<T, ONLINE>)
        };
        let (state, name) = match ONLINE {
            true => (
                bindings::cpuhp_state_CPUHP_AP_ONLINE_DYN,
                c"schedhist:online",
            ),
            false => (
                bindings::cpuhp_state_CPUHP_BP_PREPARE_DYN,
                c"schedhist:prepare",
            ),
        };
        // SAFETY: The name is static. The callback is code of this module, which stays loaded until
        // the state is dropped.
        let state = unsafe {
            bindings::__cpuhp_setup_state(
                state,
                name.as_char_ptr(),
                false,
                Some(callback),
                None,
                true,
            )
        };
        to_result(state)?;
        // INVARIANT: The state was just allocated, with a callback that expects an `Instance<T>`.
        let state = State(state as bindings::cpuhp_state);
        // SAFETY: The node is part of an `Instance<T>` that is pinned. `drop()` removes the node
        // before the instance is dropped.
        to_result(unsafe {
            bindings::__cpuhp_state_add_instance(state.0, instance.node.get(), false)
        })?;
        // INVARIANT: The instance was just linked into the state.
        Ok(Self { instance, state })
    }
}

impl<T: Hotplug, const ONLINE: bool> Drop for Callback<T, ONLINE> {
    fn drop(&mut self) {
        context::might_sleep();
        // SAFETY: The instance is linked into the state by the type's invariant. No callback runs
        // after this.
        unsafe {
            bindings::__cpuhp_state_remove_instance(self.state.0, self.instance.node.get(), false);
        }
    }
}

/// The callback that CPU hotplug calls.
///
/// # Safety
///
/// Must be called by CPU hotplug with the node of an `Instance<T>`.
unsafe extern "C" fn call<T: Hotplug, const ONLINE: bool>(
    cpu: c_uint,
    node: *mut bindings::hlist_node,
) -> c_int {
    let node = Opaque::cast_from(node);
    // SAFETY: By the safety requirement the node is part of an `Instance<T>`, which exists as long
    // as the node is linked.
    let instance = unsafe { &*container_of!(node, Instance<T>, node) };
    context::might_sleep();
    if ONLINE {
        instance.listener.online();
    } else {
        context::assert_offline(cpu);
        instance.listener.prepare(cpu);
    }
    0
}
