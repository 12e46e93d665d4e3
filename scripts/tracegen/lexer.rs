// SPDX-License-Identifier: GPL-2.0

//! Splits Rust source text into tokens, as far as a declaration needs it.

use crate::source::{Diagnostic, Span};

/// What a token is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// A line of a doc comment, without the `///` and the blank after it.
    Doc(String),
    /// An identifier or a keyword.
    Ident(String),
    /// A number, as written.
    Number(String),
    /// A string literal, as written between its quotes.
    Str(String),
    /// Any other character.
    Punct(char),
    /// The end of the file.
    End,
}

impl TokenKind {
    /// Names the token for a complaint.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Doc(_) => "a doc comment".into(),
            Self::Ident(text) | Self::Number(text) => format!("`{text}`"),
            Self::Str(text) => format!("\"{text}\""),
            Self::Punct(c) => format!("`{c}`"),
            Self::End => "the end of the file".into(),
        }
    }
}

/// A token, and where it is.
#[derive(Clone, Debug)]
pub(crate) struct Token {
    /// What it is.
    pub(crate) kind: TokenKind,
    /// Where it is.
    pub(crate) span: Span,
}

/// Splits `text` into tokens; the last one is [`TokenKind::End`].
pub(crate) fn lex(text: &str) -> Result<Vec<Token>, Diagnostic> {
    let mut lexer = Lexer { text, at: 0 };
    let mut tokens = Vec::new();
    loop {
        let token = lexer.next_token()?;
        let last = token.kind == TokenKind::End;
        tokens.push(token);
        if last {
            return Ok(tokens);
        }
    }
}

/// A text and how far it has been read.
struct Lexer<'a> {
    /// All of the text.
    text: &'a str,
    /// How many bytes have been read.
    at: usize,
}

impl<'a> Lexer<'a> {
    /// What has not been read yet.
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Reads on while `wanted` holds, and returns what was read.
    fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let len = rest.find(|c| !wanted(c)).unwrap_or(rest.len());
        self.at += len;
        &rest[..len]
    }

    /// Reads one token.
    fn next_token(&mut self) -> Result<Token, Diagnostic> {
        loop {
            self.take_while(char::is_whitespace);
            let start = self.at;
            let rest = self.rest();
            let kind = if rest.starts_with("///") && !rest.starts_with("////") {
                let line = self.take_while(|c| c != '\n').trim_end();
                let line = &line["///".len()..];
                TokenKind::Doc(line.strip_prefix(' ').unwrap_or(line).into())
            } else if rest.starts_with("//") {
                self.take_while(|c| c != '\n');
                continue;
            } else if rest.starts_with("/*") {
                self.skip_block_comment()?;
                continue;
            } else if let Some(c) = rest.chars().next() {
                match c {
                    '"' => TokenKind::Str(self.string()?.into()),
                    '\'' => {
                        self.skip_char_or_lifetime();
                        continue;
                    }
                    _ if c.is_alphabetic() || c == '_' => {
                        TokenKind::Ident(self.take_while(is_word).into())
                    }
                    _ if c.is_ascii_digit() => TokenKind::Number(self.take_while(is_word).into()),
                    _ => {
                        self.at += c.len_utf8();
                        TokenKind::Punct(c)
                    }
                }
            } else {
                TokenKind::End
            };
            let span = Span {
                start,
                end: self.at,
            };
            return Ok(Token { kind, span });
        }
    }

    /// Reads a string literal and returns what is between its quotes.
    fn string(&mut self) -> Result<&'a str, Diagnostic> {
        let start = self.at + 1;
        let mut chars = self.text[start..].char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.at = start + at + 1;
                    return Ok(&self.text[start..start + at]);
                }
                // Whatever follows a backslash, it does not end the string.
                '\\' => drop(chars.next()),
                _ => {}
            }
        }
        let opening = Span {
            start: self.at,
            end: start,
        };
        Err(Diagnostic::new(opening, "this string is never closed"))
    }

    /// Skips a block comment, with the comments in it.
    fn skip_block_comment(&mut self) -> Result<(), Diagnostic> {
        let start = self.at;
        let mut depth = 0;
        while let Some(c) = self.rest().chars().next() {
            if self.rest().starts_with("/*") {
                depth += 1;
                self.at += 2;
            } else if self.rest().starts_with("*/") {
                depth -= 1;
                self.at += 2;
                if depth == 0 {
                    return Ok(());
                }
            } else {
                self.at += c.len_utf8();
            }
        }
        let opening = Span {
            start,
            end: start + 2,
        };
        Err(Diagnostic::new(opening, "this comment is never closed"))
    }

    /// Skips a character literal or the quote of a lifetime: no declaration has either.
    fn skip_char_or_lifetime(&mut self) {
        self.at += 1;
        let mut chars = self.rest().char_indices();
        let escaped = self.rest().starts_with('\\');
        if let Some((at, '\'')) = chars.nth(if escaped { 2 } else { 1 }) {
            self.at += at + 1;
        }
    }
}

/// Whether `c` continues an identifier or a number.
fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}
