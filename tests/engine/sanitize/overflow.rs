// SPDX-License-Identifier: GPL-2.0

//! Reads behind the end of its memory, for AddressSanitizer to find.

use std::hint::black_box;

fn main() {
    let numbers = black_box(vec![1_u64; 4]);
    // SAFETY: There is none: that is what it is for.
    let beyond = unsafe { numbers.as_ptr().add(black_box(4)).read() };
    println!("{beyond}");
}
