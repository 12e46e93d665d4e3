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

use clap::Parser;

use crate::{
    cli::Cli,
    failure::{print, refused, Failure},
};

fn main() -> ExitCode {
    let ended = match Cli::try_parse() {
        Ok(cli) => verbs::run(&cli),
        Err(error) if error.use_stderr() => Err(refused(&error)),
        Err(help) => print(&help.render().to_string()),
    };
    ExitCode::from(ended.map_or_else(Failure::tell, |()| 0))
}
