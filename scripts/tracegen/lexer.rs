// SPDX-License-Identifier: GPL-2.0

//! Finds the arguments of a macro in a Rust file, and splits them into tokens.

/// The kind of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A line of a doc comment, without the `///` and the blank after it.
    Doc,
    /// A name, a keyword or a number.
    Word,
    /// A string, without its quotes.
    Str,
    /// Any other character.
    Punct,
}

/// A token and its line.
#[derive(Clone, Debug)]
pub(crate) struct Token<'a> {
    pub(crate) kind: Kind,
    pub(crate) text: &'a str,
    pub(crate) line: usize,
}

/// Returns the tokens of each `name! { … }`, the closing brace included.
///
/// The lines `name! {` and `}` must begin in the first column, as rustfmt formats them.
pub(crate) fn calls<'a>(source: &'a str, name: &str) -> Vec<Vec<Token<'a>>> {
    let opening = format!("{name}! {{");
    let mut calls = Vec::new();
    let mut lines = source.lines().enumerate();
    while lines.any(|(_, line)| line == opening) {
        let mut tokens = Vec::new();
        for (index, line) in lines.by_ref() {
            split(line, index + 1, &mut tokens);
            if line == "}" {
                break;
            }
        }
        calls.push(tokens);
    }
    calls
}

/// Splits a line into tokens. No token spans several lines.
fn split<'a>(line: &'a str, number: usize, tokens: &mut Vec<Token<'a>>) {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut rest = line.trim();
    while let Some(first) = rest.chars().next() {
        let (kind, text, len) = if let Some(doc) = rest.strip_prefix("///") {
            (Kind::Doc, doc.strip_prefix(' ').unwrap_or(doc), rest.len())
        } else if rest.starts_with("//") {
            return;
        } else if let Some((string, _)) = rest.strip_prefix('"').and_then(|it| it.split_once('"')) {
            (Kind::Str, string, string.len() + 2)
        } else if is_word(first) {
            let len = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            (Kind::Word, &rest[..len], len)
        } else {
            (Kind::Punct, &rest[..first.len_utf8()], first.len_utf8())
        };
        tokens.push(Token {
            kind,
            text,
            line: number,
        });
        rest = rest[len..].trim_start();
    }
}
