// SPDX-License-Identifier: GPL-2.0

//! The entry point of a fuzzer.

/// Makes the function that libFuzzer calls from `$test`, which panics if it finds an error: a panic
/// cannot unwind into libFuzzer, and so it ends the fuzzer.
#[macro_export]
macro_rules! fuzz {
    ($test:path) => {
        /// Called by libFuzzer with each input.
        ///
        /// # Safety
        ///
        /// `data` must be valid for reads of `len` bytes.
        #[no_mangle]
        pub unsafe extern "C" fn LLVMFuzzerTestOneInput(data: *const u8, len: usize) -> i32 {
            let data = if len == 0 {
                &[]
            } else {
                // SAFETY: The caller guarantees that `data` is valid for reads of `len` bytes.
                unsafe { core::slice::from_raw_parts(data, len) }
            };
            $test(data);
            0
        }
    };
}
