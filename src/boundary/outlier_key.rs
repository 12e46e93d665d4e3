// SPDX-License-Identifier: GPL-2.0

//! The static key that tells the probe whether it is to watch for outliers.
//!
//! C header: [`include/linux/jump_label.h`](srctree/include/linux/jump_label.h)

use kernel::jump_label::static_branch_unlikely;

use crate::boundary::{
    abstractions::context,
    bindings, //
};

/// Says whether [`switch`] is on. Costs one patched branch.
#[inline(always)]
pub(crate) fn is_on() -> bool {
    // SAFETY: C defines the variable, and its `key` is a static key.
    unsafe {
        static_branch_unlikely!(
            bindings::schedhist_watching,
            bindings::schedhist_watching_key,
            key
        )
    }
}

/// Switches watching on or off. Sleeps. To be called by one at a time.
pub(crate) fn switch(on: bool) {
    context::might_sleep();
    // SAFETY: Process context.
    unsafe { bindings::schedhist_set_watching(on) };
}
