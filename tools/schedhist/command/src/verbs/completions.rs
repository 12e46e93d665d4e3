// SPDX-License-Identifier: GPL-2.0

//! `completions` and the hidden `man`: made from the command line's own description.

use std::path::Path;

use clap::{CommandFactory, ValueEnum};
use clap_complete::{generate, shells};

use crate::{
    cli::Cli,
    error::{At, Result},
    files,
    output::print,
};

#[derive(Clone, Copy, ValueEnum)]
pub enum Shell {
    Bash,
    Fish,
    Zsh,
}

pub fn completions(shell: Shell) -> Result {
    let (mut text, command, name) = (Vec::new(), &mut Cli::command(), "schedhist");
    match shell {
        Shell::Bash => generate(shells::Bash, command, name, &mut text),
        Shell::Fish => generate(shells::Fish, command, name, &mut text),
        Shell::Zsh => generate(shells::Zsh, command, name, &mut text),
    }
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
    let text = tidy(&String::from_utf8_lossy(&text));
    let text = with_sections(&text, name.trim_start_matches("schedhist-"));
    files::write(&path, text.as_bytes())
}

/// Returns what the exit status of a verb says.
fn status(verb: &str) -> &'static str {
    match verb {
        "run" => {
            "That of the command: 128 plus the signal if one ended it, 127 if there is no\n\
             such command, 126 if it cannot be executed; the highest of several runs.\n\
             If attached, 0, or 1 if nothing could be measured; 2 for wrong usage."
        }
        "record" => {
            "That of the command, as for run, or 0 without one;\n\
             1 for a failure, and 2 for wrong usage."
        }
        "report" => {
            "0, or 1 for a failure, also if a part of the recording cannot be read, unless\n\
             only its end is cut off; 2 for wrong usage."
        }
        "diff" => {
            "0, or 1 if a quantile is different and above the limit; 2 for wrong usage or a\n\
             failure, if the two cannot be compared, and if a limit cannot be judged."
        }
        "ab" => {
            "That of diff: 2 also if a command fails. 127 or 126 if one cannot be executed.\n\
             If a signal ends ab, that of the command if it is above 128, such as 128 plus\n\
             the signal, or else 2."
        }
        "check" => {
            "0, or 1 if a limit is not kept; 2 for wrong usage or a failure, and if it cannot\n\
             be told whether one is kept."
        }
        "watch" => {
            "3 if the threshold was exceeded, or else 0;\n1 for a failure, and 2 for wrong usage."
        }
        "doctor" => "The number of failures, or 2 for wrong usage.",
        _ => "0, or 1 for a failure, and 2 for wrong usage.",
    }
}

/// Verbs, a file, and what it is for them.
const FILES: [(&str, &str, &str); 9] = [
    (
        "schedhist hist runqlat cpudist runqslower groups run record ab check watch ctl doctor export top",
        "/sys/kernel/debug/schedhist/",
        "The files of the module.",
    ),
    (
        "runqlat cpudist runqslower run ab watch ctl",
        "/run/schedhist*.lock",
        "Settings that verbs have changed, and restore when they end.",
    ),
    (
        "record report export",
        "schedhist.data",
        "The recording, unless another one is named. Only its owner can read it.",
    ),
    (
        "record report diff check export top",
        "FILE.1",
        "What record \\-\\-ring recorded before FILE: both are read as one.",
    ),
    ("record run", "FILE.old", "An older recording of that name."),
    (
        "run ab",
        "/sys/fs/cgroup/.../schedhist\\-run\\-PID\\-N",
        "The cgroup of the command, while it runs.",
    ),
    (
        "watch",
        "/sys/kernel/tracing/instances/schedhist\\-watch\\-PID\\-N",
        "Where \\-\\-stacks reads the stacks, while watch runs.",
    ),
    (
        "schedhist hist groups run report diff ab watch",
        "/usr/share/schedhist/schema.json",
        "The JSON Schema of what \\-j prints; of make install, below /usr/local.",
    ),
    (
        "schedhist",
        "/etc/default/schedhist",
        "Parameters and settings of the module for schedhist.service.",
    ),
];

/// Verbs, variables of the environment, and what they are for them.
const ENVIRONMENT: [(&str, &str, &str); 7] = [
    (
        "run record ab",
        "PATH",
        "Where commands are looked for. They get the environment as it is.",
    ),
    (
        "schedhist runqlat cpudist runqslower report diff check export top",
        "TZ",
        "The zone of the times of day.",
    ),
    (
        "schedhist check top",
        "NO_COLOR",
        "If it is not empty, there are no colours.",
    ),
    (
        "schedhist top",
        "TERM, COLORTERM",
        "How many colours the terminal has.",
    ),
    (
        "schedhist top",
        "LC_ALL, LC_CTYPE, LANG",
        "Whether it knows UTF\\-8.",
    ),
    (
        "top",
        "COLUMNS, LINES",
        "The size of what \\-\\-once prints.",
    ),
    (
        "export",
        "LISTEN_PID, LISTEN_FDS",
        "Sockets passed by systemd, to serve on instead of \\-\\-listen.",
    ),
];

/// Returns a section with what a table has for a verb; nothing if that is nothing.
fn section(heading: &str, table: &[(&str, &str, &str)], verb: &str) -> String {
    let mut out = String::new();
    for (verbs, name, what) in table {
        if verbs.split(' ').any(|it| it == verb) {
            let heading = match out.is_empty() {
                true => format!(".SH {heading}\n"),
                false => String::new(),
            };
            out += &format!("{heading}.TP\n{name}\n{what}\n");
        }
    }
    out
}

/// Makes sections of what follows the options in the help, and adds those that a manual page has.
fn with_sections(page: &str, verb: &str) -> String {
    let (head, rest) = page.split_once(".SH EXTRA\n").unwrap_or((page, ""));
    let (extra, tail) = rest.split_at(rest.find(".SH ").unwrap_or(rest.len()));
    let (notes, examples) = extra.split_once("Examples:\n").unwrap_or((extra, ""));
    let mut out = format!("{head}.SH \"EXIT STATUS\"\n{}\n", status(verb));
    out += &section("ENVIRONMENT", &ENVIRONMENT, verb);
    out += &section("FILES", &FILES, verb);
    if !notes.trim().is_empty() {
        out += &format!(".SH NOTES\n{}\n", notes.trim_end());
    }
    if !examples.is_empty() {
        out += &format!(".SH EXAMPLES\n.nf\n{}\n.fi\n", examples.trim_end());
    }
    out + tail
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
