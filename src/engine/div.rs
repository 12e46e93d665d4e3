// SPDX-License-Identifier: GPL-2.0

//! Division of 128-bit numbers, for which the kernel has no `__udivti3()`.

use core::num::NonZeroU64;

/// Returns the quotient and the remainder of `dividend` divided by `divisor`.
///
/// Divides bit by bit if `dividend` exceeds 64 bits, so use this only for output.
pub(super) fn div_rem(dividend: u128, divisor: NonZeroU64) -> (u128, u64) {
    if let Ok(dividend) = u64::try_from(dividend) {
        return (u128::from(dividend / divisor), dividend % divisor);
    }
    let divisor = u128::from(divisor.get());
    let (mut quotient, mut rest): (u128, u128) = (0, 0);
    for bit in (0..u128::BITS).rev() {
        rest = (rest << 1) | ((dividend >> bit) & 1);
        quotient <<= 1;
        if rest >= divisor {
            rest -= divisor;
            quotient |= 1;
        }
    }
    // `rest` is less than `divisor`, so it fits into 64 bits.
    (quotient, rest as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_machine() {
        for dividend in [
            0,
            1,
            1 << 63,
            u128::from(u64::MAX),
            1 << 64,
            (1 << 100) + 12345,
            u128::MAX - 1,
            u128::MAX,
        ] {
            for divisor in [
                1,
                2,
                1_000_000_000,
                1 << 40,
                (1 << 40) + 1,
                1 << 63,
                u64::MAX,
            ] {
                let wide = u128::from(divisor);
                let (quotient, rest) = div_rem(dividend, NonZeroU64::new(divisor).expect("not 0"));
                assert_eq!(
                    (quotient, u128::from(rest)),
                    (dividend / wide, dividend % wide)
                );
            }
        }
    }
}
