// SPDX-License-Identifier: GPL-2.0

//! Writes JSON.

use std::fmt::{Display, Write};

/// A JSON object that is written field by field.
#[derive(Debug, Default)]
pub struct Object {
    text: String,
}

impl Object {
    /// Begins an object with its schema: the name that tells a reader which fields to expect.
    pub fn new(schema: &str) -> Self {
        Self::default().string("schema", schema)
    }

    fn key(&mut self, key: &str) {
        self.text.push(if self.text.is_empty() { '{' } else { ',' });
        self.text.push_str(&quoted(key));
        self.text.push(':');
    }

    /// Adds a value that is JSON already: a number, `true`, an array.
    pub fn raw(mut self, key: &str, value: impl Display) -> Self {
        self.key(key);
        // Writing to a String does not fail.
        let _ = write!(self.text, "{value}");
        self
    }

    /// Adds a string.
    pub fn string(self, key: &str, value: &str) -> Self {
        self.raw(key, quoted(value))
    }

    /// Adds a number, or `null`.
    pub fn optional(self, key: &str, value: Option<impl Display>) -> Self {
        match value {
            Some(value) => self.raw(key, value),
            None => self.raw(key, "null"),
        }
    }

    /// Adds an array of values that are JSON already.
    pub fn array(self, key: &str, values: impl IntoIterator<Item = String>) -> Self {
        let values: Vec<_> = values.into_iter().collect();
        self.raw(key, format_args!("[{}]", values.join(",")))
    }

    /// Ends the object.
    pub fn end(mut self) -> String {
        if self.text.is_empty() {
            self.text.push('{');
        }
        self.text.push('}');
        self.text
    }
}

/// Returns a string in quotation marks, with escapes.
pub fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            c if u32::from(c) < 0x20 => {
                // Writing to a String does not fail.
                let _ = write!(quoted, "\\u{:04x}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
