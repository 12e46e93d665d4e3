// SPDX-License-Identifier: GPL-2.0

//! CPUs that come online.
//!
//! C header: [`include/linux/cpuhotplug.h`](srctree/include/linux/cpuhotplug.h)

use core::{
    mem::transmute,
    pin::Pin, //
};

use kernel::{
    bindings,
    c_str,
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

use crate::boundary::abstractions::context;

/// Who wants to know.
pub(crate) trait Hotplug: Send + Sync + 'static {
    /// Is told of a CPU that is about to come online. Nothing runs on it yet.
    ///
    /// Process context, may sleep.
    fn prepare(&self, cpu: u32);
}

/// A state of the CPU hotplug machine.
///
/// # Invariants
///
/// Allocated by us, with callbacks that expect an [`Instance`].
struct State(bindings::cpuhp_state);

impl Drop for State {
    fn drop(&mut self) {
        // SAFETY: By the type's invariant; process context.
        unsafe { bindings::__cpuhp_remove_state(self.0, false) };
    }
}

/// What the callbacks find by its node.
#[pin_data]
struct Instance<T> {
    listener: Arc<T>,
    #[pin]
    node: Opaque<bindings::hlist_node>,
}

/// Tells a listener of CPUs that come online, until it is dropped. That sleeps.
///
/// # Invariants
///
/// `instance` is linked into `state`.
pub(crate) struct Registration<T: Hotplug> {
    // The state goes last: it must be empty then.
    instance: Pin<KBox<Instance<T>>>,
    state: State,
}

// SAFETY: The functions of CPU hotplug can be called from any thread, and the node is linked and
// unlinked under their lock.
unsafe impl<T: Hotplug> Send for Registration<T> {}

// SAFETY: As above; and nothing can be done with a shared reference.
unsafe impl<T: Hotplug> Sync for Registration<T> {}

impl<T: Hotplug> Registration<T> {
    /// Begins to tell `listener` of CPUs that come online; not of those that are. Sleeps.
    ///
    /// Fails with `ENOMEM`, and with `ENOSPC` when there is no state left.
    pub(crate) fn new(listener: Arc<T>) -> Result<Self> {
        context::might_sleep();
        let instance = KBox::pin_init(
            pin_init!(Instance {
                listener,
                node <- Opaque::zeroed(),
            }),
            GFP_KERNEL,
        )?;
        // SAFETY: What is registered as having several instances is called with a CPU and a node:
        // `cpuhp_setup_state_multi()` makes the same cast.
        let callback = unsafe {
            transmute::<
                unsafe extern "C" fn(c_uint, *mut bindings::hlist_node) -> c_int,
                unsafe extern "C" fn(c_uint) -> c_int,
            >(prepare::<T>)
        };
        // SAFETY: The name is static, and the callback stays until the state is dropped.
        let state = unsafe {
            bindings::__cpuhp_setup_state(
                bindings::cpuhp_state_CPUHP_BP_PREPARE_DYN,
                c_str!("schedhist:prepare").as_char_ptr(),
                false,
                Some(callback),
                None,
                true,
            )
        };
        to_result(state)?;
        // INVARIANT: Just allocated.
        let state = State(state as bindings::cpuhp_state);
        // SAFETY: The node is part of an `Instance<T>` that stays where it is, and is removed
        // before that is dropped.
        to_result(unsafe {
            bindings::__cpuhp_state_add_instance(state.0, instance.node.get(), false)
        })?;
        // INVARIANT: Just linked.
        Ok(Self { instance, state })
    }
}

impl<T: Hotplug> Drop for Registration<T> {
    fn drop(&mut self) {
        context::might_sleep();
        // SAFETY: Linked, by the type's invariant. No callback runs after this.
        unsafe {
            bindings::__cpuhp_state_remove_instance(self.state.0, self.instance.node.get(), false);
        }
    }
}

/// The callback.
///
/// # Safety
///
/// Must be called by CPU hotplug with the node of an `Instance<T>`.
unsafe extern "C" fn prepare<T: Hotplug>(cpu: c_uint, node: *mut bindings::hlist_node) -> c_int {
    let node = Opaque::cast_from(node);
    // SAFETY: By the safety requirement. The instance is there as long as its node is linked.
    let instance = unsafe { &*container_of!(node, Instance<T>, node) };
    context::might_sleep();
    context::assert_offline(cpu);
    instance.listener.prepare(cpu);
    0
}
