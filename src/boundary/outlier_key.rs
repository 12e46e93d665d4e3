// SPDX-License-Identifier: GPL-2.0

//! The static key that tells the probe to take the way that looks at each sample.
//!
//! It is the key of the trace events, which is on while anybody listens to one of them: outliers are
//! one listener more. So both together cost a switch one patched branch.
//!
//! C header: [`include/linux/jump_label.h`](srctree/include/linux/jump_label.h)

use crate::boundary::{
    abstractions::context,
    bindings, //
};

/// Makes outliers a listener, or ends that. Sleeps. To be called by one at a time.
pub(crate) fn switch(on: bool) {
    context::might_sleep();
    // SAFETY: Process context.
    unsafe { bindings::schedhist_set_watching(on) };
}
