// SPDX-License-Identifier: GPL-2.0

//! Two readers of binary snapshots, the command's decoder and a program in C that is made from the
//! header alone, agree on the contents of each snapshot. The decoder refuses more.

#![no_main]

use std::{
    collections::BTreeSet,
    ffi::{c_char, c_int, CStr},
    ptr,
};

use schedhist_engine::engine;

#[path = "../../../../../tools/schedhist/core/src/raw/mod.rs"]
#[allow(dead_code, unused_imports, reason = "the command needs more of it")]
mod decoder;
#[path = "../../../tests/listing/mod.rs"]
mod listing;

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

/// Returns whether the lines of the C reader have what schedhist never writes, and the decoder may
/// drop: something twice, numbers that have no meaning, or a part of a histogram or a group without
/// the rest.
fn is_odd(text: &str) -> bool {
    let (mut seen, mut lines) = (BTreeSet::new(), text.lines());
    lines.any(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |place: usize| words[place].parse::<u64>().unwrap_or_default();
        let key = match words[0] {
            "metric" | "counter" | "sum" | "slice" | "group" => 1,
            "group_slices" | "group_waiting" | "group_unseen" => 1,
            "cpu" | "histogram" | "worst" => 2,
            "buckets" | "group_buckets" => 3,
            _ => words.len() - 1,
        };
        let is_twice = !seen.insert(words[..=key].join(" "));
        let of = |kind: &str, words: &[&str]| seen.contains(&format!("{kind} {}", words.join(" ")));
        is_twice
            || match words[0] {
                "sum" => number(1).count_ones() == 1,
                "slice" => number(2) > 2,
                "task" => number(2) > 1,
                "group" => number(3) > 1,
                "worst" | "buckets" => !of("histogram", &words[1..3]),
                "group_slices" | "group_waiting" | "group_unseen" => {
                    number(2) == 0 || !of("group", &words[1..2])
                }
                _ => false,
            }
    })
}

fn test(data: &[u8]) {
    // The C reader's input, a file in memory, cannot be empty.
    if data.is_empty() {
        return;
    }
    let (snapshot, groups) = (decoder::decode(data), decoder::groups(data));
    let (_, _) = (decoder::online(data), decoder::only_groups(data));
    let (snapshot, groups, printed) = match (snapshot, groups, read_by_c(data)) {
        (Ok(snapshot), Ok(groups), Some(printed)) => (snapshot, groups, printed),
        (Ok(_), Ok(_), None) => {
            assert!(
                decoder::online(data).is_none(),
                "the C reader alone refuses it"
            );
            return;
        }
        (Err(why), ..) | (_, Err(why), _) => {
            let is_cut = why.0.starts_with("cut off") || why.0.starts_with("bytes after");
            assert!(!is_cut || read_by_c(data).is_none(), "{why}");
            return;
        }
    };
    if is_odd(&printed) {
        return;
    }
    let mut lines = listing::of_snapshot(&snapshot);
    lines.extend(groups.iter().flat_map(listing::of_groups));
    assert_eq!(listing::printed(&printed), lines);
}
