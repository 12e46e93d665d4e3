// SPDX-License-Identifier: GPL-2.0

//! The elements of the page.

use std::fmt::{Display, Write};

/// Around what may be wider than the screen; with the keyboard, too, it can be scrolled.
pub const SCROLL: &str = "<div class=\"scroll\" tabindex=\"0\">";

/// Returns text with the characters escaped that mean something in HTML.
pub fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c if c.is_control() => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Writes a table with these heads, of which those with a `<` before them are on the left. The
/// script lets readers sort it if `is_sorted`.
pub fn table(out: &mut String, is_sorted: bool, heads: &str, rows: &mut dyn FnMut(&mut String)) {
    let class = if is_sorted { " class=\"sort\"" } else { "" };
    let _ = write!(out, "{SCROLL}<table{class}>");
    if !heads.is_empty() {
        out.push_str("<thead><tr>");
        for head in heads.split('|') {
            let _ = match head.strip_prefix('<') {
                Some(head) => write!(out, "<th class=\"l\">{head}</th>"),
                None => write!(out, "<th>{head}</th>"),
            };
        }
        out.push_str("</tr></thead>");
    }
    out.push_str("<tbody>");
    rows(out);
    out.push_str("</tbody></table></div>");
}

pub fn cell(out: &mut String, value: impl Display) {
    let _ = write!(out, "<td>{value}</td>");
}

/// Writes a cell that is sorted by another value than its text.
pub fn sorted(out: &mut String, value: impl Display, text: &str) {
    let _ = write!(out, "<td data-v=\"{value}\">{text}</td>");
}

/// Writes a cell with text on the left, which is HTML.
pub fn left(out: &mut String, class: &str, text: &str) {
    let _ = write!(out, "<td class=\"l{class}\">{text}</td>");
}

/// Returns a bar of rectangles, in a box of 1000 by 100, and words, both in HTML.
pub fn bar(rects: &str, words: &str) -> String {
    format!(
        "<svg class=\"bar\" viewBox=\"0 0 1000 100\" preserveAspectRatio=\"none\" \
         aria-hidden=\"true\">{rects}</svg> {words}"
    )
}

/// Writes a chart with what it shows.
pub fn figure(out: &mut String, chart: &str, caption: impl Display) {
    let _ = write!(
        out,
        "<figure>{SCROLL}{chart}</div><figcaption>{caption}</figcaption></figure>"
    );
}

/// Writes a sample of a colour.
pub fn key(out: &mut String, class: &str, rect: impl Display) {
    let _ = write!(
        out,
        "<svg class=\"key{class}\" viewBox=\"0 0 1 1\" aria-hidden=\"true\"><rect {rect}/></svg>"
    );
}

/// Writes an explanation, which is HTML.
pub fn dim(out: &mut String, text: &str) {
    let _ = write!(out, "<p class=\"dim\">{text}</p>");
}
