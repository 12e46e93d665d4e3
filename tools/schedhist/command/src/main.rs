// SPDX-License-Identifier: GPL-2.0

//! The command `schedhist`: shows what the module of the same name records.

mod cli;
mod failure;
mod files;
mod options;
mod source;
mod sys;
mod tty;
mod verbs;

use std::process::ExitCode;

use crate::{
    failure::{
        note,
        Failure, //
    },
    source::Source, //
};

fn main() -> ExitCode {
    let args = match cli::command().try_get_matches() {
        Ok(args) => args,
        Err(error) => {
            // Help goes to standard output and is no failure. Its reader may have gone.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    match verbs::run(&args, &Source::new(args.get_one("dir"))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Quiet(status)) => ExitCode::from(status),
        Err(Failure::Error(text)) => {
            note(text);
            ExitCode::FAILURE
        }
        Err(Failure::Usage(text)) => {
            note(format!("{text}; see schedhist --help"));
            ExitCode::from(2)
        }
    }
}
