// SPDX-License-Identifier: GPL-2.0

//! Base-2 log-linear buckets: the H2 scheme.
//!
//! Every power of two is cut into `2^p` buckets of equal width, where `p` is the precision, so that
//! a bucket is at most `2^-p` of its lower bound wide. Each value below `2^(p+1)` has its own
//! bucket. All bounds are powers of two or sums of them, so nothing is rounded. Finding the bucket
//! of a value takes one count of leading zeros, three shifts, and three other operations on bits.
//!
//! | precision | width, at most | buckets | bytes |
//! | --- | --- | --- | --- |
//! | 1 | 50 % | 81 | 648 |
//! | 2 | 25 % | 157 | 1256 |
//! | 3 | 12.5 % | 305 | 2440 |
//! | 4 | 6.25 % | 593 | 4744 |
//! | 5 | 3.13 % | 1153 | 9224 |
//! | 6 | 1.57 % | 2241 | 17928 |
//! | 7 | 0.79 % | 4353 | 34824 |
//!
//! The scheme is the one of <https://github.com/iopsystems/histogram>, with a last, open bucket.

/// Values below `2^VALUE_BITS` go to bounded buckets; in nanoseconds, that is 18 minutes and 19
/// seconds.
pub const VALUE_BITS: u32 = 40;

/// The lowest value of the last, open bucket.
pub const OVERFLOW: u64 = 1 << VALUE_BITS;

/// The precision of a histogram, in bits.
///
/// # Invariants
///
/// The number lies within `MIN..=MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Precision(u32);

impl Precision {
    /// The coarsest: two buckets to a power of two.
    pub const MIN: u32 = 1;
    /// The finest: 128 buckets to a power of two.
    pub const MAX: u32 = 7;
    /// The default: 32 buckets to a power of two, at most 3.13 % wide.
    pub const DEFAULT: u32 = 5;

    /// Creates a precision of `bits`; returns `None` unless `bits` lies within `MIN..=MAX`.
    pub const fn new(bits: u32) -> Option<Self> {
        if bits >= Self::MIN && bits <= Self::MAX {
            // INVARIANT: Just checked.
            Some(Self(bits))
        } else {
            None
        }
    }

    /// Returns the number of bits.
    pub const fn bits(self) -> u32 {
        self.0
    }
}

/// The inclusive bounds of a bucket, in the unit of its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The least value that falls into the bucket.
    pub lower: u64,
    /// The greatest; `u64::MAX` for the last bucket, which is open.
    pub upper: u64,
}

impl Bounds {
    /// Returns whether this is the last bucket, which holds all values too large for the others.
    pub const fn is_overflow(self) -> bool {
        self.lower == OVERFLOW
    }
}

/// Maps values to buckets and back, for one precision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheme {
    precision: Precision,
}

impl Scheme {
    /// The scheme of [`Precision::DEFAULT`].
    pub const DEFAULT: Self = match Precision::new(Precision::DEFAULT) {
        Some(precision) => Self { precision },
        None => panic!("the default is a precision"),
    };

    /// Creates the scheme of `precision`.
    pub const fn new(precision: Precision) -> Self {
        Self { precision }
    }

    /// Returns the precision.
    pub const fn precision(self) -> Precision {
        self.precision
    }

    /// Returns the number of buckets, including the last, open one.
    #[inline(always)]
    pub const fn buckets(self) -> usize {
        self.last().wrapping_add(1)
    }

    /// Returns the index of the last bucket. Nothing wraps here, by the invariant of `Precision`.
    #[inline(always)]
    const fn last(self) -> usize {
        let p = self.precision.bits();
        (VALUE_BITS.wrapping_sub(p).wrapping_add(1) as usize).wrapping_shl(p)
    }

    /// Returns the index of the bucket of `value`, always below [`Scheme::buckets`].
    #[inline(always)]
    pub const fn index(self, value: u64) -> usize {
        match self.finite_index(value) {
            Some(index) => index,
            None => self.last(),
        }
    }

    /// Returns the index of the bucket of `value`, or `None` if that is the last bucket.
    #[inline(always)]
    pub(in crate::engine) const fn finite_index(self, value: u64) -> Option<usize> {
        let index = self.index_or_beyond(value);
        if index < self.last() {
            Some(index)
        } else {
            None
        }
    }

    /// Returns the index of the bucket of `value`. For a value of the last bucket, the result may
    /// be any number that is not below [`Scheme::last`].
    ///
    /// The arithmetic wraps, so that a probe has no path to a panic. It is written so that the
    /// compiler emits few instructions.
    #[inline(always)]
    const fn index_or_beyond(self, value: u64) -> usize {
        let p = self.precision.bits();
        // The number of halvings that leave the value p + 1 bits; 0 if it has no more.
        let shift = (value.wrapping_shr(p) | 1).leading_zeros() ^ (u64::BITS - 1);
        let octave = (shift as usize).wrapping_shl(p);
        octave.wrapping_add(value.wrapping_shr(shift) as usize)
    }

    /// Returns the index in the scheme `coarse`, which must not be finer, of the bucket in which
    /// the bucket `index` of this scheme lies.
    #[inline(always)]
    pub const fn index_in(self, coarse: Self, index: usize) -> usize {
        let (p, coarse_p) = (self.precision.bits(), coarse.precision.bits());
        // These buckets are one wide: the index is the value.
        if index < 1_usize.wrapping_shl(p) {
            return coarse.index(index as u64);
        }
        let bits = p.wrapping_sub(coarse_p);
        let octaves = (bits as usize).wrapping_shl(coarse_p);
        index.wrapping_shr(bits).wrapping_add(octaves)
    }

    /// Returns the bounds of the bucket `index`, which must be below [`Scheme::buckets`].
    pub const fn bounds(self, index: usize) -> Bounds {
        if index + 1 >= self.buckets() {
            return Bounds {
                lower: OVERFLOW,
                upper: u64::MAX,
            };
        }
        let p = self.precision.bits();
        let shift = (index >> p).saturating_sub(1);
        let lower = ((index - (shift << p)) as u64) << shift;
        Bounds {
            lower,
            upper: lower + ((1 << shift) - 1),
        }
    }
}
