// SPDX-License-Identifier: GPL-2.0

//! `export --perfetto`: a recording, or trace events in text, as a trace for Perfetto.

use std::{fs, io::Read, path::Path};

use schedhist_core::recording::file::{is_recording, MAGIC};
use schedhist_perfetto::{counters::Counters, events};

use crate::{
    cli::When,
    error::{At, Error, Result},
    files,
    output::note,
    recordings::{
        part,
        reader::{self, Losses},
    },
};

pub fn perfetto(input: &Path, when: &When, out: &Path) -> Result<u8> {
    reader::check_other(input, out)?;
    let mut file = fs::File::open(input).at(input)?;
    let mut begin = Vec::new();
    let magic = MAGIC.len() as u64;
    file.by_ref()
        .take(magic)
        .read_to_end(&mut begin)
        .at(input)?;
    let (bytes, lost) = if is_recording(&begin) {
        part::check_file("perfetto", input)?;
        recording(input, when)?
    } else {
        if let Some(option) = when.option() {
            let why = format!("--{option}: {} is no recording", input.display());
            return Err(Error::usage(why));
        }
        file.read_to_end(&mut begin).at(input)?;
        let (bytes, read) = events::trace(&begin);
        if read.events == 0 {
            return Err(Error::at(
                input,
                "it is no recording, and has none of schedhist's trace events in text",
            ));
        }
        if read.late != 0 {
            note(format!(
                "{} slices are more than 10 ms from where they belong: was the trace's clock \
                 another one than perf, local or global?",
                read.late
            ));
        }
        note(format!("{} events", read.events));
        (bytes, Losses::default())
    };
    files::write(out, &bytes)?;
    note(format!("{}: {} bytes", out.display(), bytes.len()));
    Ok(lost.status())
}

fn recording(input: &Path, when: &When) -> Result<(Vec<u8>, Losses)> {
    let mut counters = Counters::default();
    let contents = reader::read(input, when, |pair| {
        counters.push(&pair.window()?);
        Ok(())
    })?;
    for recorded in &contents.outliers {
        counters.outlier(&recorded.outlier);
    }
    Ok((counters.finish(), contents.lost))
}
