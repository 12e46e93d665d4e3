// SPDX-License-Identifier: GPL-2.0

//! `export`: for Prometheus and programs that read its formats.

use std::{path::Path, time::Instant};

use schedhist_core::exposition::negotiate::Form;

use crate::{
    cli::Export,
    error::{Error, Result},
    exporter::{http, write, Exporter, TEXTFILE},
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

/// Writes a file again and again, or once.
fn textfile(args: &Export, exporter: &mut Exporter, path: &Path) -> Result {
    let waiter = Waiter::new()?;
    let mut next = Instant::now();
    let mut is_first = true;
    loop {
        let (body, failed) = exporter.try_scrape(TEXTFILE);
        let written = write(path, &body);
        if args.once {
            return written.and(failed.map_or(Ok(()), Err));
        }
        // That will not change.
        if is_first && written.is_err() {
            return written;
        }
        exporter.tell(written.err().or(failed).as_ref());
        is_first = false;
        next = (next + args.interval).max(Instant::now());
        if waiter.is_over_before(Some(next)) {
            return Ok(());
        }
    }
}
