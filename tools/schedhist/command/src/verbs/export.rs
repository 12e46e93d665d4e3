// SPDX-License-Identifier: GPL-2.0

//! `export`: for Prometheus and programs that read its formats.

use std::{path::Path, time::Instant};

use schedhist_core::exposition::negotiate::Form;

use crate::{
    cli::Export,
    error::{Error, Result},
    exporter::{http, Exporter},
    output::{note, print},
    recordings::perfetto,
    source::Source,
    sys::Waiter,
};

/// Exports until SIGINT, or once.
pub fn export(args: &Export, source: &Source) -> Result<u8> {
    if let Some(out) = &args.perfetto {
        return perfetto::perfetto(&args.input, out);
    }
    let mut exporter = Exporter::new(args, source)?;
    let ended = match &args.textfile {
        Some(path) => textfile(args, &mut exporter, path),
        None if args.once && args.schema.is_some() && args.format != Form::Protobuf => {
            let why = "--schema: only --format protobuf has native histograms";
            Err(Error::usage(why))
        }
        None if args.once => print(&exporter.scrape(args.format)?),
        None => http::serve(&mut exporter, &args.listen.0),
    };
    ended.map(|()| 0)
}

/// Writes a file again and again. While the module is not loaded, the file stays as it was.
fn textfile(args: &Export, exporter: &mut Exporter, path: &Path) -> Result {
    if args.once {
        return exporter.write(path);
    }
    let waiter = Waiter::new()?;
    // If it is the file that cannot be written, that will not change.
    if let (Err(error), Ok(_)) = (exporter.write(path), exporter.source.read()) {
        return Err(error);
    }
    let mut next = Instant::now();
    let mut has_failed = false;
    loop {
        let written = exporter.write(path);
        if let Some(error) = written.as_ref().err().filter(|_| !has_failed) {
            note(format!("{error}; waiting"));
        }
        has_failed = written.is_err();
        next = (next + args.interval).max(Instant::now());
        if waiter.is_over_before(Some(next)) {
            return Ok(());
        }
    }
}
