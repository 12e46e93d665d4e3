// SPDX-License-Identifier: GPL-2.0

//! The entry point of a fuzzer, and the numbers that it makes from its input.

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

/// An input, consumed from the front; zeros follow after its end.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a>(pub &'a [u8]);

impl Input<'_> {
    /// Takes the next bytes.
    pub fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        let (head, rest) = self.0.split_at(N.min(self.0.len()));
        bytes[..head.len()].copy_from_slice(head);
        self.0 = rest;
        bytes
    }

    /// Takes the next number.
    pub fn number(&mut self) -> u64 {
        u64::from_le_bytes(self.bytes())
    }

    /// Takes the next number, below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        let [byte] = self.bytes();
        usize::from(byte) % end
    }
}
