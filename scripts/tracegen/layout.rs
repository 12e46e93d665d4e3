// SPDX-License-Identifier: GPL-2.0

//! Breaks lists over lines, as the kernel's C style and as rustfmt do.

/// The width of a line of C.
const C_WIDTH: usize = 80;

/// The width of a line of Rust.
const RUST_WIDTH: usize = 100;

/// How wide the arguments of a Rust call can be before each gets a line, as rustfmt has it.
const RUST_CALL_WIDTH: usize = 60;

/// `opening` + `items` + `closing` in C, filled up to the width, aligned to the open parenthesis.
pub(crate) fn c_list(opening: &str, items: &[String], closing: &str) -> String {
    let indent = c_width(opening);
    let mut out = opening.to_string();
    let mut column = indent;
    for (index, item) in items.iter().enumerate() {
        let last = index + 1 == items.len();
        let end = if last { closing } else { "," };
        if index > 0 {
            if column + 1 + item.len() + end.len() > C_WIDTH {
                out.push('\n');
                out += &c_indent(indent);
                column = indent;
            } else {
                out.push(' ');
                column += 1;
            }
        }
        out += item;
        out += end;
        column += item.len() + end.len();
    }
    out
}

/// The column after `text`, with tabs of eight.
fn c_width(text: &str) -> usize {
    text.chars().fold(0, |column, c| match c {
        '\t' => column / 8 * 8 + 8,
        _ => column + 1,
    })
}

/// What fills a line up to `column`: tabs, then blanks.
fn c_indent(column: usize) -> String {
    "\t".repeat(column / 8) + &" ".repeat(column % 8)
}

/// `text` continued with a `\` at column 72, for a line of a macro in C.
pub(crate) fn c_continued(text: &str) -> String {
    let tabs = (C_WIDTH - 8).saturating_sub(c_width(text)).div_ceil(8);
    format!("{text}{}\\\n", "\t".repeat(tabs.max(1)))
}

/// `opening` + `items` + `closing` in Rust: all on one line, or each on its own.
pub(crate) fn rust_list(opening: &str, items: &[String], closing: &str) -> String {
    rust_list_within(opening, items, closing, RUST_WIDTH)
}

/// Like [`rust_list`], for the arguments of a call.
pub(crate) fn rust_call(opening: &str, items: &[String], closing: &str) -> String {
    rust_list_within(opening, items, closing, RUST_CALL_WIDTH)
}

/// Like [`rust_list`], with at most `width` columns of items on one line.
fn rust_list_within(opening: &str, items: &[String], closing: &str, width: usize) -> String {
    let joined = items.join(", ");
    if joined.len() <= width
        && opening.len() + joined.len() + closing.trim_end().len() <= RUST_WIDTH
    {
        return format!("{opening}{joined}{closing}");
    }
    let indent = " ".repeat(rust_indent(opening));
    let mut out = format!("{opening}\n");
    for item in items {
        out += &format!("{indent}    {item},\n");
    }
    out + &indent + closing
}

/// `opening` `value`; in Rust, where `opening` ends in `=`: the value gets a line if it needs one.
pub(crate) fn rust_binding(opening: &str, value: &str) -> String {
    let last = opening.rfind('\n').map_or(opening, |at| &opening[at + 1..]);
    let separator = if last.len() + 1 + value.len() < RUST_WIDTH {
        " ".into()
    } else {
        format!("\n{}", " ".repeat(rust_indent(last) + 4))
    };
    format!("{opening}{separator}{value};\n")
}

/// The statement `unsafe { function(arguments) };` in Rust, where `function` ends in `(`.
pub(crate) fn rust_unsafe(function: &str, arguments: &[String]) -> String {
    let line = rust_call(&format!("    unsafe {{ {function}"), arguments, ") };\n");
    if line.matches('\n').count() == 1 {
        return line;
    }
    let call = rust_call(&format!("        {function}"), arguments, ")\n");
    format!("    unsafe {{\n{call}    }};\n")
}

/// How many blanks a line begins with.
fn rust_indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// `text` over as many lines of C as it takes: `first` begins the first, `next` the others.
pub(crate) fn c_fill(first: &str, next: &str, text: &str) -> String {
    fill(first, next, text, C_WIDTH)
}

/// Like [`c_fill`], for Rust.
pub(crate) fn rust_fill(first: &str, next: &str, text: &str) -> String {
    fill(first, next, text, RUST_WIDTH)
}

/// A doc comment over as many lines of C as it takes: `first` begins the first, `next` the others.
pub(crate) fn c_fill_docs(first: &str, next: &str, lines: &[String]) -> String {
    fill_docs(first, next, lines, C_WIDTH)
}

/// Like [`c_fill_docs`], for Rust.
pub(crate) fn rust_fill_docs(first: &str, next: &str, lines: &[String]) -> String {
    fill_docs(first, next, lines, RUST_WIDTH)
}

/// A doc comment over as many lines of at most `width` columns as it takes.
///
/// Only prose is filled; the lines of lists, code and tables stay as they are.
fn fill_docs(first: &str, next: &str, lines: &[String], width: usize) -> String {
    let laid_out =
        |line: &String| line.starts_with([' ', '-', '*', '#', '|', '>']) || line.starts_with("```");
    let mut out = String::new();
    let mut begin = first;
    let paragraphs = lines.split(String::is_empty);
    for paragraph in paragraphs.filter(|paragraph| !paragraph.is_empty()) {
        if !out.is_empty() {
            out += next.trim_end();
            out.push('\n');
        }
        if paragraph.iter().any(laid_out) {
            for line in paragraph {
                out += &format!("{begin}{line}\n");
                begin = next;
            }
        } else {
            out += &fill(begin, next, &paragraph.join(" "), width);
        }
        begin = next;
    }
    out
}

/// `text` over as many lines of at most `width` columns as it takes.
fn fill(first: &str, next: &str, text: &str, width: usize) -> String {
    let columns = |text: &str| text.chars().count();
    let mut out = first.to_string();
    let mut column = columns(first);
    for (index, word) in text.split_whitespace().enumerate() {
        if index > 0 && column + 1 + columns(word) > width {
            out += &format!("\n{next}");
            column = columns(next);
        } else if index > 0 {
            out.push(' ');
            column += 1;
        }
        out += word;
        column += columns(word);
    }
    out.push('\n');
    out
}
