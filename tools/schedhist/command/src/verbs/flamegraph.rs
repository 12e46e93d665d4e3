// SPDX-License-Identifier: GPL-2.0

//! `flamegraph`: a picture of the stacks in what `perf script` prints.

use std::{
    fs,
    io::{self, Read},
    path::Path,
};

use schedhist_page::flame::{picture, Stacks};

use crate::{
    cli::Flamegraph,
    error::{At, Result},
    output::print,
};

pub fn flamegraph(args: &Flamegraph) -> Result {
    let path = args.file.as_deref().unwrap_or(Path::new("standard input"));
    let read = || match &args.file {
        Some(file) => fs::read(file),
        None => {
            let mut bytes = Vec::new();
            io::stdin().read_to_end(&mut bytes).map(|_| bytes)
        }
    };
    let stacks = Stacks::parse("", &read().at(path)?).at(path)?;
    print(&match args.folded {
        true => stacks.folded(),
        false => picture(&stacks, args.title.as_deref()),
    })
}
