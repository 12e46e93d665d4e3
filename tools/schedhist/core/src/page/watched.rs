// SPDX-License-Identifier: GPL-2.0

//! The stacks of outliers, as `watch -j --stacks` prints them.

use std::collections::BTreeMap;

/// Stacks, innermost frame first, by number and duration of the outlier: numbers begin anew with
/// each load of the module.
pub type Watched = BTreeMap<(u64, u64), Vec<String>>;

/// Parses JSON Lines. Ignores what has no stack.
pub fn parse(text: &str) -> Watched {
    let lines = text.lines().filter(|line| line.starts_with('{'));
    lines.filter_map(outlier).collect()
}

fn outlier(line: &str) -> Option<((u64, u64), Vec<String>)> {
    // A quotation mark in a string is escaped, so that a key is found nowhere else.
    let number = |key: &str| -> Option<u64> {
        let (_, rest) = line.split_once(&format!("\"{key}\":"))?;
        rest.split([',', '}']).next()?.parse().ok()
    };
    let (_, mut rest) = line.split_once("\"stack\":[")?;
    let mut stack = Vec::new();
    while let Some(string) = rest.strip_prefix('"') {
        let (frame, after) = unquoted(string)?;
        stack.push(frame);
        rest = after.strip_prefix(',').unwrap_or(after);
    }
    Some(((number("id")?, number("duration_ns")?), stack))
}

/// Returns a string up to its closing quotation mark, and what follows.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let mut string = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((string, &text[at + 1..])),
            '\\' => match chars.next()?.1 {
                'u' => {
                    let digits = text.get(at + 2..at + 6)?;
                    string.push(char::from_u32(u32::from_str_radix(digits, 16).ok()?)?);
                    chars.nth(3);
                }
                c => string.push(c),
            },
            c => string.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::parse;
    use crate::json::{quoted, Object};

    #[test]
    fn stacks_of_outliers() {
        let frames = ["__schedule+0x1", "a \"b\\\u{1}", "c"].map(quoted);
        let line = |id: u64| {
            Object::new("schedhist.outlier.v1")
                .raw("id", id)
                .raw("duration_ns", id * 10)
                .string("comm", "\"stack\":[\"x\"]")
        };
        let text = [
            line(1).array("stack", frames).end(),
            line(2).raw("stack", "null").end(),
            line(3).array("stack", []).end(),
            line(4).end(),
            "{\"stack\":[\"cut off".to_owned(),
        ]
        .join("\n");
        let stacks = parse(&text);
        assert_eq!(stacks[&(1, 10)], ["__schedule+0x1", "a \"b\\\u{1}", "c"]);
        assert_eq!(stacks.len(), 2, "{stacks:?}");
        assert!(stacks[&(3, 30)].is_empty());
    }
}
