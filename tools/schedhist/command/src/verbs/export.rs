// SPDX-License-Identifier: GPL-2.0

//! `export`: for Prometheus and programs that read its formats.

use std::{path::Path, time::Instant};

use schedhist_core::exposition::negotiate::Form;

use crate::{
    cli::Export,
    error::{Error, Result},
    exporter::{http, Exporter},
    output::print,
    recordings::perfetto,
    source::Source,
    sys::Waiter,
};

/// Exports until SIGINT, or once.
pub fn export(args: &Export, source: &Source) -> Result<u8> {
    if let Some(out) = &args.perfetto {
        return perfetto::perfetto(&args.input, &args.when, out);
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
    let mut next = Instant::now();
    let mut is_first = true;
    loop {
        match exporter.write(path) {
            // If it is the file that cannot be written, that will not change.
            Err(error) if is_first && exporter.source.read().is_ok() => return Err(error),
            done => exporter.tell(done.as_ref().err()),
        }
        is_first = false;
        next = (next + args.interval).max(Instant::now());
        if waiter.is_over_before(Some(next)) {
            return Ok(());
        }
    }
}
