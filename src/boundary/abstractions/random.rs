// SPDX-License-Identifier: GPL-2.0

//! Random numbers.
//!
//! C header: [`include/linux/random.h`](srctree/include/linux/random.h)

use super::bindings;

/// Returns a number that nobody can predict. Any context.
pub(crate) fn number() -> u64 {
    let mut number = 0_u64;
    // SAFETY: Callable in any context, and the number has so many bytes.
    unsafe { bindings::get_random_bytes((&raw mut number).cast(), size_of_val(&number)) };
    number
}
