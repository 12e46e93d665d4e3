// SPDX-License-Identifier: GPL-2.0

//! Buckets: against a naive reference, against another implementation, and against fixed numbers.

mod common;

use common::{any_scheme, any_value, schemes};
use proptest::prelude::*;
use schedhist_engine::engine::histogram::bucket::{Bounds, Precision, Scheme, OVERFLOW};

/// Returns the bounds of all buckets, by adding up widths from 0.
fn naive(scheme: Scheme) -> Vec<Bounds> {
    let mut all = Vec::new();
    let mut lower: u64 = 0;
    while lower < OVERFLOW {
        // The greatest power of two up to 2^-p of the lower bound; 1 for small values.
        let most = (lower >> scheme.precision().bits()).max(1);
        let width = (most / 2 + 1).next_power_of_two();
        all.push(Bounds {
            lower,
            upper: lower + width - 1,
        });
        lower += width;
    }
    all.push(Bounds {
        lower,
        upper: u64::MAX,
    });
    all
}

#[test]
fn all_bounds_are_those_of_the_naive_reference() {
    for scheme in schemes() {
        let reference = naive(scheme);
        assert_eq!(scheme.buckets(), reference.len());
        for (index, bounds) in reference.into_iter().enumerate() {
            assert_eq!(scheme.bounds(index), bounds, "{scheme:?} {index}");
            for value in [bounds.lower, bounds.upper] {
                assert_eq!(scheme.index(value), index, "{scheme:?}");
            }
            assert_eq!(bounds.is_overflow(), index + 1 == scheme.buckets());
        }
    }
}

#[test]
fn pinned() {
    // Precision, number of buckets, and the bucket of 1000: its index and bounds.
    for (bits, buckets, index, lower, upper) in [
        (1, 81, 19, 768, 1023),
        (2, 157, 35, 896, 1023),
        (3, 305, 63, 960, 1023),
        (4, 593, 111, 992, 1023),
        (5, 1153, 190, 992, 1007),
        (6, 2241, 317, 1000, 1007),
        (7, 4353, 506, 1000, 1003),
    ] {
        let scheme = Scheme::new(Precision::new(bits).expect("a good precision"));
        let bounds = |index| (scheme.bounds(index).lower, scheme.bounds(index).upper);
        assert_eq!(scheme.precision().bits(), bits);
        assert_eq!(scheme.buckets(), buckets);
        assert_eq!(scheme.index(1000), index, "{bits}");
        assert_eq!(bounds(index), (lower, upper), "{bits}");
    }
}

#[test]
fn precisions_out_of_range_are_refused() {
    for bits in [0, 8, 32, u32::MAX] {
        assert_eq!(Precision::new(bits), None);
    }
    assert!(Precision::new(Precision::DEFAULT).is_some());
}

/// Returns all pairs of a scheme and one that is not finer.
fn pairs() -> impl Iterator<Item = (Scheme, Scheme)> {
    let is_coarser =
        |fine: Scheme| move |other: &Scheme| other.precision().bits() <= fine.precision().bits();
    schemes().flat_map(move |fine| {
        let coarser = schemes().filter(is_coarser(fine));
        coarser.map(move |coarse| (fine, coarse))
    })
}

#[test]
fn an_index_in_a_coarser_scheme_is_right_at_all_boundaries() {
    for (fine, coarse) in pairs() {
        for bounds in naive(fine) {
            let edges = [bounds.lower, bounds.upper].into_iter();
            let near = edges.flat_map(|edge| edge.saturating_sub(2)..=edge.saturating_add(2));
            for value in near {
                let (index, expected) = (
                    fine.index_in(coarse, fine.index(value)),
                    coarse.index(value),
                );
                assert_eq!(index, expected, "{fine:?} {coarse:?} {value}");
            }
        }
    }
}

proptest! {
    #[test]
    fn a_value_lies_in_its_bucket(scheme in any_scheme(), value in any_value()) {
        let index = scheme.index(value);
        prop_assert!(index < scheme.buckets());
        let bounds = scheme.bounds(index);
        prop_assert!(bounds.lower <= value && value <= bounds.upper);
    }

    /// The crate that the scheme is from, where the two overlap.
    #[test]
    fn another_implementation_agrees(scheme in any_scheme(), value in 0..OVERFLOW) {
        let bits = u8::try_from(scheme.precision().bits()).expect("a small number");
        let mut peer = histogram::Histogram::new(bits, 40).expect("a good precision");
        peer.increment(value).expect("a value in range");
        let bucket = peer.into_iter().find(|bucket| bucket.count() == 1).expect("just added");
        let bounds = scheme.bounds(scheme.index(value));
        // The crate's very last bucket also takes 2^40 itself.
        prop_assert_eq!(bucket.start(), bounds.lower);
        prop_assert_eq!(bucket.end().min(OVERFLOW - 1), bounds.upper);
    }
}
