// SPDX-License-Identifier: GPL-2.0

//! Has a data race, for ThreadSanitizer to find.

use std::thread;

static mut SHARED: [u64; 2] = [0; 2];

fn main() {
    let write = || {
        for n in 0..1000 {
            // SAFETY: None: the two threads race on purpose.
            unsafe { (&raw mut SHARED[0]).write_volatile(n) };
        }
    };
    let other = thread::spawn(write);
    write();
    other.join().expect("it does not panic");
}
