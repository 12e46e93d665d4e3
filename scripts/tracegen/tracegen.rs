// SPDX-License-Identifier: GPL-2.0

//! Generates trace events for a kernel module in Rust from one declaration.
//!
//! The declaration is the argument of the macro `trace_events!` in a Rust file; the comment at the
//! head of that file describes the syntax. The enums of its fields are tables of the macro `named!`
//! in other Rust files. This program writes the C header with the `TRACE_EVENT`s, the C file that
//! defines the tracepoints, and the Rust functions that emit the events.
//!
//! rustc and the C compiler check the output; this program rejects only mistakes that neither of
//! them would notice.

mod header;
mod lexer;
mod model;
mod parser;
mod rust;
mod tracepoints;

use std::{env, fs, process::ExitCode};

const USAGE: &str = "usage: tracegen --header|--glue|--rust OUTPUT DECLARATION.rs [ENUMS.rs...]";

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<(), String> {
    let [kind, output, declaration, sources @ ..] = arguments else {
        return Err(USAGE.into());
    };
    let print = match kind.as_str() {
        "--header" => header::print,
        "--glue" => tracepoints::print,
        "--rust" => rust::print,
        _ => return Err(USAGE.into()),
    };
    let mut enums = Vec::new();
    for source in sources {
        enums.extend(parser::enums(source, &read(source)?)?);
    }
    let system = parser::system(declaration, &read(declaration)?, enums)?;
    fs::write(output, print(&system)).map_err(|error| format!("{output}: error: {error}"))
}

fn read(path: &str) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{path}: error: {error}"))
}
