// SPDX-License-Identifier: GPL-2.0

//! How the formats write names and durations.

use core::fmt::{
    self,
    Display,
    Write, //
};

/// Writes any bytes on one line, with `\xNN` for the backslash, for `quote` and for a byte that is
/// not printable.
fn escape(out: &mut impl Write, bytes: &[u8], quote: Option<u8>) -> fmt::Result {
    for byte in bytes {
        match byte {
            b' '..=b'~' if *byte != b'\\' && Some(*byte) != quote => {
                out.write_char(char::from(*byte))?;
            }
            _ => write!(out, "\\x{byte:02x}")?,
        }
    }
    Ok(())
}

/// Any bytes on one line, with `\xNN` for the backslash and for a byte that is not printable.
pub struct Escaped<'a>(pub &'a [u8]);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        escape(f, self.0, None)
    }
}

/// Returns the bytes before the first NUL; all if there is none.
pub fn up_to_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// The name of a task, up to its NUL.
pub(in crate::engine) struct Comm<'a>(pub(in crate::engine) &'a [u8]);

impl Display for Comm<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        escape(f, up_to_nul(self.0), None)
    }
}

/// Input written to a file, in quotation marks, for the log. A long text is cut, and dots then
/// follow the closing quotation mark.
#[derive(Clone, Copy, Debug)]
pub struct Quoted<'a>(pub &'a [u8]);

impl Quoted<'_> {
    /// The maximum number of bytes shown.
    pub const MAX: usize = 64;
}

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cut = self.0.get(..Self::MAX);
        f.write_char('"')?;
        escape(f, cut.unwrap_or(self.0), Some(b'"'))?;
        f.write_char('"')?;
        if cut.is_some() && self.0.len() > Self::MAX {
            f.write_str("...")?;
        }
        Ok(())
    }
}

/// A duration for people to read: three significant digits and a unit; `-` for none.
pub struct Nanoseconds(pub Option<u64>);

impl Nanoseconds {
    /// Writes the duration as a right-aligned column.
    pub fn write_column(&self, out: &mut impl Write) -> fmt::Result {
        const UNITS: [(u64, &str); 4] = [
            (1_000_000_000, "s"),
            (1_000_000, "ms"),
            (1_000, "us"),
            (1, "ns"),
        ];

        let Some(nanoseconds) = self.0 else {
            return write!(out, "{:>10}", "-");
        };
        // Round to the step that leaves three digits; seconds keep all their digits.
        let mut step: u64 = 1;
        let mut digits = nanoseconds;
        while digits >= 1_000 && step < 1_000_000_000 {
            step *= 10;
            digits = nanoseconds / step + u64::from(nanoseconds % step >= step / 2);
        }
        let rounded = digits.saturating_mul(step);
        let (unit, name) = UNITS
            .into_iter()
            .find(|(unit, _)| rounded >= *unit)
            .unwrap_or((1, "ns"));
        let decimals = match unit / step {
            100 => 2,
            10 => 1,
            _ => 0,
        };
        let (whole, fraction) = (rounded / unit, rounded % unit / step);
        let width = 10 - name.len();
        if decimals == 0 {
            write!(out, "{whole:>width$}{name}")
        } else {
            let width = width - decimals - 1;
            write!(out, "{whole:>width$}.{fraction:0decimals$}{name}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::String;

    #[test]
    fn durations_for_people() {
        for (nanoseconds, expected) in [
            (None, "-"),
            (Some(0), "0ns"),
            (Some(999), "999ns"),
            (Some(1_000), "1.00us"),
            (Some(1_234), "1.23us"),
            (Some(9_996), "10.0us"),
            (Some(99_949), "99.9us"),
            (Some(999_499), "999us"),
            (Some(999_500), "1.00ms"),
            (Some(123_456_789), "123ms"),
            (Some(999_999_999), "1.00s"),
            (Some(61_000_000_000), "61.0s"),
            (Some(4_321_000_000_000), "4321s"),
            (Some(u64::MAX), "18446744073s"),
        ] {
            let mut text = String::new();
            Nanoseconds(nanoseconds)
                .write_column(&mut text)
                .expect("a String takes all");
            assert_eq!(text.trim_start(), expected);
            assert!(text.len() >= 10);
        }
    }
}
