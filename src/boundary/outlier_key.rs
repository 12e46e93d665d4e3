// SPDX-License-Identifier: GPL-2.0

//! The static key that makes the probe check each sample for an outlier.
//!
//! The trace events share this key, which is on while at least one of them is enabled. Outliers
//! count as one more listener. So trace events and outliers together cost a switch one patched
//! branch.
//!
//! C header: [`include/linux/jump_label.h`](srctree/include/linux/jump_label.h)

use crate::boundary::{
    abstractions::context,
    bindings, //
};

/// Adds outliers to the listeners of the key, or removes them; no effect if it is so already.
/// Sleeps.
pub(crate) fn switch(on: bool) {
    context::might_sleep();
    // SAFETY: Process context.
    unsafe { bindings::schedhist_observe_outliers(on) };
}
