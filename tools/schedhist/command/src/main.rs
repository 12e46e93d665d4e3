// SPDX-License-Identifier: GPL-2.0

//! The command `schedhist`: shows what the module of the same name records.

mod cli;
mod failure;
mod files;
mod http;
mod ongoing;
mod options;
mod outliers;
mod recordings;
mod render;
mod setting;
mod source;
mod sys;
mod table;
mod tty;
mod verbs;

use std::process::ExitCode;

use crate::{
    failure::{print, Failure},
    source::Source,
};

fn main() -> ExitCode {
    let ended = match cli::command().try_get_matches() {
        Ok(args) => verbs::run(&args, &Source::new(args.get_one("dir"))),
        Err(error) if error.use_stderr() => {
            let _ = error.print();
            Err(Failure::Quiet(2))
        }
        Err(help) => print(&help.render().to_string()),
    };
    ExitCode::from(ended.map_or_else(Failure::tell, |()| 0))
}
