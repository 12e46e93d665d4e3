// SPDX-License-Identifier: GPL-2.0

//! `completions` and the hidden `man`: made from the command line's own description.

use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::{
    cli::Cli,
    error::{At, Result},
    files,
    output::print,
};

pub fn completions(shell: Shell) -> Result {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "schedhist", &mut text);
    print(&text)
}

/// Writes `schedhist.1` and a page for each verb into a folder.
pub fn man(folder: &Path) -> Result {
    let mut program = Cli::command();
    program.build();
    page(folder, "schedhist", program.clone())?;
    for verb in program.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        if verb.get_name() != "help" {
            page(
                folder,
                &format!("schedhist-{}", verb.get_name()),
                verb.clone(),
            )?;
        }
    }
    Ok(())
}

/// The date in the manual pages: that of the version.
const DATE: &str = "2026-11-24";

fn page(folder: &Path, name: &str, command: clap::Command) -> Result {
    let path = folder.join(format!("{name}.1"));
    let mut text = Vec::new();
    let version = concat!("schedhist ", env!("CARGO_PKG_VERSION"));
    let page = clap_mangen::Man::new(command.display_name(name))
        .title(name.to_uppercase())
        .date(DATE)
        .source(version)
        .manual("General Commands Manual");
    page.render(&mut text).at(&path)?;
    files::write(&path, tidy(&String::from_utf8_lossy(&text)).as_bytes())
}

/// Breaks the long lines of a synopsis, and removes spaces at the ends of lines, for mandoc's lint.
fn tidy(page: &str) -> String {
    let lines = page.lines().flat_map(|line| {
        let line = line
            .trim_end()
            .replace("] [", "]\n[")
            .replace("] <", "]\n<");
        line.lines().map(str::to_owned).collect::<Vec<_>>()
    });
    lines.map(|line| line + "\n").collect()
}
