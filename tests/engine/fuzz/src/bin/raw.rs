// SPDX-License-Identifier: GPL-2.0

//! Two readers of binary snapshots, in Rust and in C by the header, agree on all that is given them:
//! on whether it is a snapshot, and on what it says.

#![no_main]

use std::{
    collections::BTreeSet,
    ffi::{
        c_char,
        c_int, //
        CStr,
    },
    ptr, //
};

use schedhist_engine::engine::histogram::bucket::{
    Precision,
    Scheme,
    VALUE_BITS, //
};

#[path = "../../../tests/decoder/mod.rs"]
mod decoder;

schedhist_fuzz::fuzz!(test);

extern "C" {
    /// `main()` of `raw.c` with `data` as its input: 0, and what it printed in memory of `malloc()`.
    fn schedhist_raw_reader(data: *const u8, len: usize, text: *mut *mut c_char) -> c_int;
    fn free(memory: *mut c_char);
}

/// What the reader in C makes of `data`.
fn read_by_c(data: &[u8]) -> Option<String> {
    let mut text = ptr::null_mut();
    // SAFETY: The function reads the `data.len()` bytes of `data`, and writes `text`.
    let result = unsafe { schedhist_raw_reader(data.as_ptr(), data.len(), &mut text) };
    // SAFETY: It has set `text` to a string that is NUL-terminated.
    let printed = unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned();
    // SAFETY: The string is from `malloc()`, and is not used any more.
    unsafe { free(text) };
    (result == 0).then_some(printed)
}

extern "C" {
    /// Libfuzzer's own changes, of `data` with room for `max` bytes; returns the new length.
    fn LLVMFuzzerMutate(data: *mut u8, len: usize, max: usize) -> usize;
}

/// Called by libFuzzer to change an input: every other time as it would itself, and else by a number
/// of 32 bits that is put in the place of another: one that is there already, or next to it. Lengths,
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
        // SAFETY: By the caller.
        return unsafe { LLVMFuzzerMutate(data, len, max) };
    }
    // SAFETY: By the caller.
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
    // The scheme, the lengths and the counts of the header are worth more than all else.
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

/// Lines come in the order of the records there, and are sorted here.
fn lines(text: &str) -> BTreeSet<&str> {
    text.lines().collect()
}

fn test(data: &[u8]) {
    // A file of memory cannot be empty.
    if data.is_empty() {
        return;
    }
    let (by_rust, by_c) = (decoder::decode(data), read_by_c(data));
    assert_eq!(by_rust.is_some(), by_c.is_some());
    let (Some(decoded), Some(printed)) = (by_rust, by_c) else {
        return;
    };
    // The engine knows its own schemes only.
    let precision = Precision::new(decoded.precision).filter(|_| decoded.value_bits == VALUE_BITS);
    let Some(scheme) = precision.map(Scheme::new).filter(|_| !decoded.is_odd) else {
        return;
    };
    let listing = decoder::listing(scheme, &decoded);
    assert_eq!(lines(&printed), lines(&listing));
}
