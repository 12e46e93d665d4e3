// SPDX-License-Identifier: GPL-2.0

//! Checks of the input of the controls: accepted if a slower reader accepts it, with the same
//! meaning; the text that is then shown means the same again.

use schedhist_engine::engine::{
    format::{
        input::{number, Actions, OrNone},
        Quoted,
    },
    metric::MetricSet,
};

/// Every name that `metrics` accepts, and its bits.
pub(crate) const METRICS: [(&str, u32); 15] = [
    ("oncpu", 0x01),
    ("runq", 0x06),
    ("runq_wakeup", 0x02),
    ("runq_preempt", 0x04),
    ("blocked_interruptible", 0x08),
    ("blocked_uninterruptible", 0x10),
    ("offcpu", 0x20),
    ("idle", 0x40),
    ("wakeup", 0x80),
    ("throttled", 0x100),
    ("resched", 0x200),
    ("resched_lazy", 0x400),
    ("default", 0x7f),
    ("all", 0x7ff),
    ("none", 0),
];

/// Every name that `on_outlier` accepts, and its bits.
pub(crate) const ACTIONS: [(&str, u32); 3] = [("none", 0), ("tracing_off", 1), ("snapshot", 2)];

/// Collects the bits of `names` byte by byte. Returns `None` for an unknown word, for no word at
/// all, and for a name without bits that does not stand alone.
fn bits_of(text: &[u8], names: &[(&str, u32)]) -> Option<u32> {
    let mut bits = None;
    let (mut words, mut empty) = (0, 0);
    let mut word = Vec::new();
    for byte in text.iter().chain(b"\n") {
        if !matches!(byte, b' ' | b'\t' | b'\n' | b'\x0c' | b'\r' | b',') {
            word.push(*byte);
        } else if !word.is_empty() {
            let (_, more) = names.iter().find(|(name, _)| name.as_bytes() == word)?;
            bits = Some(bits.unwrap_or(0) | more);
            words += 1;
            empty += u32::from(*more == 0);
            word.clear();
        }
    }
    bits.filter(|_| empty == 0 || words == 1)
}

/// Reads a number digit by digit.
fn digits(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit < 10)?;
        number.checked_mul(10)?.checked_add(digit.into())
    })
}

/// Checks everything that can be read from `text`.
pub(crate) fn check(text: &[u8]) {
    let metrics = MetricSet::parse(text, MetricSet::ALL);
    assert_eq!(metrics.map(MetricSet::bits), bits_of(text, &METRICS));
    let without = MetricSet::parse(text, MetricSet::WITHOUT_RESCHED);
    let fewer = METRICS.map(|(name, bits)| (name, bits & 0x1ff));
    let fewer: Vec<_> = fewer
        .into_iter()
        .filter(|(name, _)| !name.starts_with("resched"))
        .collect();
    assert_eq!(without.map(MetricSet::bits), bits_of(text, &fewer));
    if let Some(metrics) = metrics {
        let shown = metrics.to_string();
        assert_eq!(
            MetricSet::parse(shown.as_bytes(), MetricSet::ALL),
            Some(metrics)
        );
        assert_eq!(MetricSet::from_bits(metrics.bits()), metrics);
    }

    let actions = Actions::parse(text, true);
    assert_eq!(actions.map(Actions::bits), bits_of(text, &ACTIONS));
    let without = Actions::parse(text, false);
    assert_eq!(without.map(Actions::bits), bits_of(text, &ACTIONS[..2]));
    if let Some(actions) = actions {
        let shown = actions.to_string();
        assert_eq!(Actions::parse(shown.as_bytes(), true), Some(actions));
        assert_eq!(Actions::from_bits(actions.bits()), actions);
        assert_eq!(actions.stops_tracing(), actions.bits() & 1 != 0);
        assert_eq!(actions.takes_snapshot(), actions.bits() & 2 != 0);
    }

    let found = number(text);
    assert_eq!(found, digits(text));
    if let Some(found) = found {
        assert_eq!(number(found.to_string().as_bytes()), Some(found));
    }

    for most in [1, 1_000_000_000, u64::MAX] {
        let wanted = match text {
            b"none" => Some(0),
            _ => found.filter(|found| *found != 0 && *found <= most),
        };
        let found = OrNone::parse(text, most);
        assert_eq!(found, wanted.map(OrNone));
        if let Some(found) = found {
            assert_eq!(
                OrNone::parse(found.to_string().as_bytes(), most),
                Some(found)
            );
        }
    }

    let quoted = Quoted(text).to_string();
    assert!(quoted.bytes().all(|byte| matches!(byte, b' '..=b'~')));
    assert!(quoted.starts_with('"') && quoted.len() <= 4 * Quoted::MAX + 5);
    assert_eq!(quoted.ends_with("\"..."), text.len() > Quoted::MAX);
    assert_eq!(quoted.matches('"').count(), 2);
}
