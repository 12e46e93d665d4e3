// SPDX-License-Identifier: GPL-2.0

//! Reads beyond its allocation, for AddressSanitizer to find.

use std::hint::black_box;

fn main() {
    let numbers = black_box(vec![1_u64; 4]);
    // SAFETY: None: this reads out of bounds on purpose.
    let beyond = unsafe { numbers.as_ptr().add(black_box(4)).read() };
    println!("{beyond}");
}
