// SPDX-License-Identifier: GPL-2.0

//! The text of the declaration, places in it, and complaints about them.

use std::fmt::Write as _;

/// A stretch of the source text, as byte offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// Where it starts.
    pub(crate) start: usize,
    /// Where it ends, exclusive.
    pub(crate) end: usize,
}

/// A value, and where it was written.
#[derive(Clone, Debug)]
pub(crate) struct Spanned<T> {
    /// The value.
    pub(crate) value: T,
    /// Where it was written.
    pub(crate) span: Span,
}

/// One thing that is wrong with the declaration.
#[derive(Debug)]
pub(crate) struct Diagnostic {
    /// Where it is.
    span: Span,
    /// What is wrong.
    message: String,
    /// What to do about it.
    help: Option<String>,
}

impl Diagnostic {
    /// Complains about the text at `span`.
    pub(crate) fn new(span: Span, message: impl Into<String>) -> Self {
        Self {
            span,
            message: message.into(),
            help: None,
        }
    }

    /// Adds what to do about it.
    pub(crate) fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Where in the text it is; complaints are reported in this order.
    pub(crate) fn position(&self) -> usize {
        self.span.start
    }
}

/// The file that holds the declaration.
pub(crate) struct Source {
    /// Its path, as the user gave it.
    pub(crate) path: String,
    /// Its contents.
    pub(crate) text: String,
}

impl Source {
    /// Prints a complaint the way rustc does, with the offending line below it.
    pub(crate) fn render(&self, diagnostic: &Diagnostic) -> String {
        let start = diagnostic.span.start.min(self.text.len());
        let line_start = self.text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = self.text[start..]
            .find('\n')
            .map_or(self.text.len(), |at| start + at);
        let line = &self.text[line_start..line_end];
        let before = &self.text[line_start..start];
        let marked = &self.text[start..diagnostic.span.end.clamp(start, line_end)];

        let number = self.text[..line_start].matches('\n').count() + 1;
        let column = before.chars().count() + 1;
        let margin = " ".repeat(number.to_string().len());
        // Tabs stay tabs, so that the caret is below what it points at.
        let indent: String = before
            .chars()
            .map(|c| if c == '\t' { '\t' } else { ' ' })
            .collect();
        let carets = "^".repeat(marked.chars().count().max(1));

        let mut out = format!(
            "{}:{number}:{column}: error: {}\n{margin} |\n{number} | {line}\n{margin} | {indent}{carets}\n",
            self.path, diagnostic.message
        );
        if let Some(help) = &diagnostic.help {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "{margin} = help: {help}");
        }
        out
    }
}
