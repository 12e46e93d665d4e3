// SPDX-License-Identifier: GPL-2.0

//! Generates trace events for a kernel module in Rust from one declaration.
//!
//! The declaration is the argument of the macro `trace_events!` in a Rust file, which explains how
//! it is written. From it this program writes any of
//!
//! - the C header with its `TRACE_EVENT`s,
//! - the C glue that defines the tracepoints,
//! - the Rust functions that emit the events.
//!
//! If anything is wrong with the declaration, it says what and where, and writes nothing.

mod c_glue;
mod c_header;
mod check;
mod layout;
mod lexer;
mod model;
mod names;
mod output;
mod parser;
mod print_form;
mod rust;
mod source;
mod syntax;
mod types;

use std::path::PathBuf;
use std::process::ExitCode;

use model::System;
use source::{Diagnostic, Source};

/// How the program is called.
const USAGE: &str =
    "usage: tracegen --declaration FILE.rs [--header OUT.h] [--glue OUT.c] [--rust OUT.rs]";

/// Makes the text of an output file.
type Printer = fn(&System) -> String;

/// What the command line asks for.
struct Arguments {
    /// The file with the declaration.
    declaration: String,
    /// The files to write.
    outputs: Vec<(Printer, PathBuf)>,
}

fn main() -> ExitCode {
    match arguments(std::env::args().skip(1)).and_then(|arguments| run(&arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprint!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// Reads the command line.
fn arguments(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let usage = || format!("{USAGE}\n");
    let mut declaration = None;
    let mut outputs: Vec<(Printer, PathBuf)> = Vec::new();
    while let Some(option) = words.next() {
        let value = words.next().ok_or_else(usage)?;
        match option.as_str() {
            "--declaration" => declaration = Some(value),
            "--header" => outputs.push((c_header::print, value.into())),
            "--glue" => outputs.push((c_glue::print, value.into())),
            "--rust" => outputs.push((rust::print, value.into())),
            _ => return Err(usage()),
        }
    }
    Ok(Arguments {
        declaration: declaration.ok_or_else(usage)?,
        outputs,
    })
}

/// Reads the declaration and writes the outputs.
fn run(arguments: &Arguments) -> Result<(), String> {
    let path = arguments.declaration.clone();
    let text =
        std::fs::read_to_string(&path).map_err(|error| format!("{path}: error: {error}\n"))?;
    let source = Source { path, text };
    let system = parser::parse(&source)
        .map_err(|diagnostic| vec![diagnostic])
        .and_then(|declaration| check::check(&declaration))
        .map_err(|diagnostics| report(&source, &diagnostics))?;
    for (printer, path) in &arguments.outputs {
        output::write_if_changed(path, &printer(&system))
            .map_err(|error| format!("{}: error: {error}\n", path.display()))?;
    }
    Ok(())
}

/// Prints all that is wrong with the declaration.
fn report(source: &Source, diagnostics: &[Diagnostic]) -> String {
    let rendered: Vec<_> = diagnostics.iter().map(|it| source.render(it)).collect();
    rendered.join("\n")
}
