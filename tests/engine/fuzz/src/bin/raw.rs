// SPDX-License-Identifier: GPL-2.0

//! Two readers of binary snapshots, in Rust and in C by the header, agree on every input: on
//! whether it is a snapshot, and on its contents.

#![no_main]

use std::{
    collections::BTreeSet,
    ffi::{c_char, c_int, CStr},
    ptr,
};

use schedhist_engine::engine::histogram::bucket::{Precision, Scheme, VALUE_BITS};

#[path = "../../../tests/decoder/mod.rs"]
mod decoder;

schedhist_fuzz::fuzz!(test);

extern "C" {
    /// `main()` of `raw.c` with `data` as its input: returns 0 if it succeeds. Sets `text` to its
    /// output, in memory from `malloc()`.
    fn schedhist_raw_reader(data: *const u8, len: usize, text: *mut *mut c_char) -> c_int;
    fn free(memory: *mut c_char);
}

/// Returns what the C reader prints for `data`, or `None` if it refuses it.
fn read_by_c(data: &[u8]) -> Option<String> {
    let mut text = ptr::null_mut();
    // SAFETY: The function reads the `data.len()` bytes of `data`, and sets `text`.
    let result = unsafe { schedhist_raw_reader(data.as_ptr(), data.len(), &mut text) };
    // SAFETY: The function has set `text` to a NUL-terminated string.
    let printed = unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned();
    // SAFETY: The string is from `malloc()`, and is not used any more.
    unsafe { free(text) };
    (result == 0).then_some(printed)
}

extern "C" {
    /// LibFuzzer's own mutation of `data`, which has room for `max` bytes; returns the new length.
    fn LLVMFuzzerMutate(data: *mut u8, len: usize, max: usize) -> usize;
}

/// Called by libFuzzer to mutate an input. Every other time it mutates as libFuzzer does; otherwise
/// it replaces a number of 32 bits by another that is in the input, or by one next to it. Lengths,
/// counts and indices are such numbers.
///
/// # Safety
///
/// `data` must be valid for reads and writes of `max` bytes, of which the first `len` are set.
#[no_mangle]
pub unsafe extern "C" fn LLVMFuzzerCustomMutator(
    data: *mut u8,
    len: usize,
    max: usize,
    seed: u32,
) -> usize {
    if seed % 2 == 0 || len < 8 {
        // SAFETY: The caller guarantees that `data` is valid for `max` bytes, of which `len` are
        // set.
        return unsafe { LLVMFuzzerMutate(data, len, max) };
    }
    // SAFETY: The caller guarantees that the first `len` bytes of `data` are valid and set.
    let data = unsafe { core::slice::from_raw_parts_mut(data, len) };
    let mut numbers: Vec<&mut [u8]> = data.chunks_exact_mut(4).collect();
    let mut random = u64::from(seed);
    let mut below = |end: usize| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % end
    };
    let (from, to) = (below(numbers.len()), below(numbers.len()));
    // Prefers the scheme, the lengths and the counts of the header: they decide how the rest is
    // read.
    let from = if below(2) == 0 {
        from.min(below(14))
    } else {
        from
    };
    let number = u32::from_le_bytes((*numbers[from]).try_into().expect("four bytes"));
    let near = [number, number.wrapping_add(1), number.wrapping_sub(1), 0, 8][below(5)];
    numbers[to].copy_from_slice(&near.to_le_bytes());
    len
}

/// Sorts lines: the C reader prints them in the order of the records.
fn lines(text: &str) -> BTreeSet<&str> {
    text.lines().collect()
}

fn test(data: &[u8]) {
    // The C reader's input, a file in memory, cannot be empty.
    if data.is_empty() {
        return;
    }
    let (by_rust, by_c) = (decoder::decode(data), read_by_c(data));
    assert_eq!(by_rust.is_some(), by_c.is_some());
    let (Some(decoded), Some(printed)) = (by_rust, by_c) else {
        return;
    };
    // The engine supports only its own schemes.
    let precision = Precision::new(decoded.precision).filter(|_| decoded.value_bits == VALUE_BITS);
    let Some(scheme) = precision.map(Scheme::new).filter(|_| !decoded.is_odd) else {
        return;
    };
    let listing = decoder::listing(scheme, &decoded);
    assert_eq!(lines(&printed), lines(&listing));
}
