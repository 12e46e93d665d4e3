// SPDX-License-Identifier: GPL-2.0

//! Takes a printed form, such as `"pid={pid}"`, to pieces.

use crate::model::Piece;
use crate::source::{Diagnostic, Span, Spanned};

/// Takes `form` to pieces, in which the fields are indices into `fields`.
///
/// What is wrong with it is added to `diagnostics`.
pub(crate) fn parse(
    form: &Spanned<String>,
    fields: &[&str],
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<Piece> {
    let text = form.value.as_str();
    // The text starts after the opening quote.
    let span = |start: usize, end: usize| Span {
        start: form.span.start + 1 + start,
        end: form.span.start + 1 + end,
    };
    let mut pieces = Vec::new();
    let mut literal = String::new();
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        if rest.starts_with("{{") || rest.starts_with("}}") {
            literal.push(c);
            at += 2;
        } else if c == '}' {
            let message = "this `}` closes nothing";
            diagnostics
                .push(Diagnostic::new(span(at, at + 1), message).with_help("write `}}` for a `}`"));
            at += 1;
        } else if c == '{' {
            let Some(len) = rest.find('}') else {
                let message = "this `{` is never closed";
                diagnostics.push(
                    Diagnostic::new(span(at, at + 1), message).with_help("write `{{` for a `{`"),
                );
                break;
            };
            let name = &rest[1..len];
            match fields.iter().position(|field| *field == name) {
                Some(index) => {
                    if !literal.is_empty() {
                        pieces.push(Piece::Text(std::mem::take(&mut literal)));
                    }
                    pieces.push(Piece::Field(index));
                }
                None => {
                    let message = format!("there is no field `{name}` to print");
                    diagnostics.push(Diagnostic::new(span(at + 1, at + len), message));
                }
            }
            at += len + 1;
        } else {
            literal.push(c);
            at += c.len_utf8();
        }
    }
    if !literal.is_empty() {
        pieces.push(Piece::Text(literal));
    }
    pieces
}
