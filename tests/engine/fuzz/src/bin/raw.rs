// SPDX-License-Identifier: GPL-2.0

//! Two readers of binary snapshots, the command's decoder and a C program generated from the header
//! alone, agree on the contents of each snapshot. The decoder refuses whatever the program refuses.
//! Of what the program accepts, it refuses exactly what is not [valid](is_valid).

#![no_main]

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::{c_char, c_int, CStr},
    ptr,
};

use schedhist_engine::engine::{
    self,
    group::{records::GroupMetric, task_group::Group},
    histogram::bucket::{Precision, VALUE_BITS},
};

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

/// Returns a word of a line as a number; `u64::MAX` if it is none.
fn number(words: &[&str], place: usize) -> u64 {
    let word = words.get(place);
    word.and_then(|word| word.parse().ok()).unwrap_or(u64::MAX)
}

/// Returns text that was printed in hexadecimal digits.
fn text(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().chunks(2).map(|pair| {
        let pair = std::str::from_utf8(pair).expect("two digits");
        u8::from_str_radix(pair, 16).expect("two digits")
    });
    pairs.collect()
}

fn is_name(digits: &str) -> bool {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let name = text(digits);
    (1..32).contains(&name.len()) && name.iter().all(is_part)
}

/// Checks lines by those before them.
#[derive(Default)]
struct Checker {
    cpus: BTreeSet<u64>,
    groups: BTreeSet<u64>,
    is_grouped: bool,
    /// The last bucket of each histogram.
    last: BTreeMap<(bool, u64, u64), u64>,
}

impl Checker {
    /// Returns whether a histogram's buckets ascend up to that of this line, if it has one.
    fn ascends(&mut self, words: &[&str]) -> bool {
        if words.len() == 3 {
            return true;
        }
        let key = (words[0] == "buckets", number(words, 1), number(words, 2));
        let before = self.last.insert(key, number(words, 3));
        before.is_none_or(|before| before < number(words, 3))
    }

    /// Returns whether the decoder takes a line after those before it.
    fn is_valid(&mut self, words: &[&str]) -> bool {
        let first = number(words, 1);
        let metric = number(words, 2);
        let is_metric = |number: u64| number < u32::BITS.into();
        match words[0] {
            "header" => {
                let precision = Precision::new(number(words, 3) as u32);
                precision.is_some() && number(words, 4) == VALUE_BITS.into()
            }
            "metric" => is_metric(first) && is_name(words[2]),
            "counter" | "sum" => is_name(words[2]),
            "cpu" => words.len() > 2 || self.cpus.insert(first),
            "slice" => self.cpus.contains(&first),
            "histogram" | "worst" => self.cpus.contains(&first) && is_metric(metric),
            "buckets" => self.cpus.contains(&first) && is_metric(metric) && self.ascends(words),
            "task" => Group::new(number(words, 4) as u32).is_some(),
            "grouping" => {
                let is_first = !std::mem::replace(&mut self.is_grouped, true);
                is_first && Precision::new(number(words, 5) as u32).is_some()
            }
            "group" => self.is_grouped && self.groups.insert(first),
            "group_buckets" => {
                let is_metric = metric < GroupMetric::COUNT as u64;
                self.groups.contains(&first) && is_metric && self.ascends(words)
            }
            "neighbour" | "group_migrations" | "group_long_waits" => self.groups.contains(&first),
            kind => self.is_grouped || !kind.starts_with("group"),
        }
    }
}

/// Returns whether the decoder takes a snapshot that the C reader takes, by the lines of that.
fn is_valid(printed: &str) -> bool {
    let mut checker = Checker::default();
    let mut lines = printed.lines();
    lines.all(|line| checker.is_valid(&line.split(' ').collect::<Vec<_>>()))
}

/// Returns whether the lines of the C reader have what schedhist never writes, and the decoder may
/// drop: something twice, numbers that have no meaning, text that cannot be shown, or a part of a
/// histogram or a group without the rest.
fn is_odd(printed: &str) -> bool {
    let (mut seen, mut lines) = (BTreeSet::new(), printed.lines());
    lines.any(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |place| number(&words, place);
        let key = match words[0] {
            "metric" | "counter" | "sum" | "slice" | "group" => 1,
            "group_slices" | "group_waiting" | "group_unseen" => 1,
            "grouping_more" => 0,
            "cpu" | "histogram" | "worst" => 2,
            "buckets" | "group_buckets" => 3,
            _ => words.len() - 1,
        };
        // A list of buckets goes on.
        let is_twice = words.len() > key && !seen.insert(words[..=key].join(" "));
        let of = |kind: &str, words: &[&str]| seen.contains(&format!("{kind} {}", words.join(" ")));
        is_twice
            || match words[0] {
                "sum" => number(1).count_ones() == 1,
                "slice" => number(2) > 2,
                "task" => number(2) > 1,
                "grouping" => match String::from_utf8(text(words[7])) {
                    Ok(rule) => rule.contains(char::is_control),
                    Err(_) => true,
                },
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
    let decoded = decoder::decode(data).and_then(|snapshot| Ok((snapshot, decoder::groups(data)?)));
    let kept = decoder::only_groups(data);
    let Some(printed) = read_by_c(data) else {
        assert!(decoded.is_err(), "the C reader alone refuses it");
        return;
    };
    let (snapshot, groups) = match (decoded, is_valid(&printed)) {
        (Ok(decoded), true) => decoded,
        (Err(_), false) => return,
        (Ok(_), false) => panic!("the decoder takes what is not valid"),
        (Err(why), true) => panic!("the decoder refuses what is valid: {why}"),
    };
    let kept = kept.map(|kept| decoder::groups(&kept).expect("its groups are"));
    assert_eq!(kept.is_some(), groups.is_some(), "what is kept of groups");
    if is_odd(&printed) {
        return;
    }
    let mut lines = listing::of_snapshot(&snapshot);
    lines.extend(groups.iter().flat_map(listing::of_groups));
    assert_eq!(listing::printed(&printed), lines);
}
