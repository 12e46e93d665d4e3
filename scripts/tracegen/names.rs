// SPDX-License-Identifier: GPL-2.0

//! What can be a name, and how names change between Rust and C.

/// Keywords of C and Rust that could be written as a lower-case name, and the kernel's macros that
/// would replace one.
#[rustfmt::skip]
const KEYWORDS: &[&str] = &[
    "abstract", "as", "asm", "async", "auto", "await", "become", "bool", "box", "break", "case",
    "char", "const", "continue", "crate", "current", "default", "do", "double", "dyn", "else",
    "enum", "extern", "false", "final", "float", "fn", "for", "gen", "goto", "if", "impl", "in",
    "inline", "int", "let", "linux", "long", "loop", "macro", "match", "mod", "move", "mut",
    "override", "priv", "pub", "ref", "register", "restrict", "return", "self", "short", "signed",
    "sizeof", "static", "struct", "super", "switch", "trait", "true", "try", "type", "typedef",
    "typeof", "union", "unix", "unsafe", "unsigned", "unsized", "use", "virtual", "void",
    "volatile", "where", "while", "yield",
];

/// Names with a meaning of their own in hist triggers.
const HIST_NAMES: &[&str] = &["hitcount", "stacktrace", "ustacktrace"];

/// Variables of the functions that the kernel's macros make of an event, which an argument of the
/// same name would hide or clash with.
const TRACE_VARIABLES: &[&str] = &[
    "entry",
    "event_call",
    "fbuffer",
    "head",
    "it_func",
    "it_func_ptr",
    "rctx",
    "trace_file",
];

/// Whether `name` can name a system, an event or a field: `like_this`, in C and in Rust.
pub(crate) fn is_c_name(name: &str) -> bool {
    let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(word)
        && !name.contains("__")
        && !KEYWORDS.contains(&name)
}

/// Whether a field cannot have this name, because tracing itself uses it.
pub(crate) fn is_taken_field(name: &str) -> bool {
    name.starts_with("common_") || HIST_NAMES.contains(&name) || TRACE_VARIABLES.contains(&name)
}

/// Whether `name` can name an enum or one of its values: `LikeThis`.
pub(crate) fn is_type_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_uppercase())
        && name.chars().all(|c| c.is_ascii_alphanumeric())
        && name != "Self"
}

/// `LikeThis` as `like_this`.
pub(crate) fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake
}

/// `like_this` as `LIKE_THIS`.
pub(crate) fn upper_case(name: &str) -> String {
    name.to_ascii_uppercase()
}
