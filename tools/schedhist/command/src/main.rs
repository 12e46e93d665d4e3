// SPDX-License-Identifier: GPL-2.0

//! The command `schedhist`: shows what the module of the same name records.

mod cli;
mod error;
mod exporter;
mod files;
mod in_progress;
mod options;
mod outliers;
mod output;
mod recordings;
mod render;
mod setting;
mod source;
mod sys;
mod table;
mod tty;
mod verbs;

use std::{env, ffi::OsString, process::ExitCode};

use clap::Parser;

use crate::{
    cli::Cli,
    error::{told, Error},
    output::{note_usage, print},
    verbs::topics,
};

fn main() -> ExitCode {
    // Not a part of the command line's description, which is made at each start.
    let words: Vec<OsString> = env::args_os().skip(1).collect();
    if let Some(text) = topics::asked_for(&words) {
        return ExitCode::from(told(print(&text)));
    }
    ExitCode::from(match Cli::try_parse() {
        Ok(cli) => verbs::run(&cli).unwrap_or_else(|error: Error| error.tell()),
        Err(error) if error.use_stderr() => {
            note_usage(&error);
            2
        }
        Err(help) => told(print(&help.render().to_string())),
    })
}
