// SPDX-License-Identifier: GPL-2.0

//! Makes what `export` serves and writes.

pub mod http;

use std::{
    collections::BTreeSet,
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::Path,
};

use schedhist_core::exposition::{
    families::{self, Input},
    negotiate::Form,
    protobuf,
    text::{self, Dialect},
    Exposition,
};

use crate::{
    cli::Export,
    error::{Error, Result},
    files, options,
    output::note,
    source::{modified, Reading, Source},
};

/// The bytes that groups may take in an answer.
const GROUP_BYTES: usize = 16 << 20;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What tells a load of the module from the next one.
#[derive(Clone, Copy, Debug)]
struct Load {
    time: u64,
    switches: u64,
    created: Option<u64>,
}

pub struct Exporter {
    pub source: Source,
    schema: i32,
    per_cpu: Vec<String>,
    limit: usize,
    last: Option<Load>,
    /// Why the last export failed, if it did.
    failed: Option<String>,
}

impl Exporter {
    pub fn new(args: &Export, source: &Source) -> Result<Self> {
        let per_cpu = args.per_cpu.iter().cloned();
        let mut seen = BTreeSet::new();
        // Twice the same family would make readers refuse all of them.
        let per_cpu = per_cpu.filter(|name| name != "none" && seen.insert(name.clone()));
        let per_cpu = per_cpu.collect::<Vec<_>>();
        if let Ok(reading) = source.read() {
            options::check_metrics(&reading.timed.snapshot.names, &per_cpu)?;
        }
        Ok(Self {
            source: source.clone(),
            schema: args.schema.unwrap_or(3),
            per_cpu,
            limit: args.series as usize,
            last: None,
            failed: None,
        })
    }

    /// Reads the module and returns the metrics in a form.
    pub fn scrape(&mut self, form: Form) -> Result<Vec<u8>> {
        let reading = self.source.read()?;
        let load = self.load(&reading, self.last.as_ref());
        let created = load.created;
        self.last = Some(load);
        let groups = reading.groups()?;
        let exposition = families::build(&Input {
            snapshot: &reading.timed.snapshot,
            groups: groups.as_ref(),
            created,
            version: VERSION,
            read_ns: reading.timed.read_ns,
            per_cpu: &self.per_cpu,
            limit: self.limit,
            group_bytes: GROUP_BYTES,
            native: form == Form::Protobuf,
            with_created: form == Form::Text(Dialect::OpenMetrics),
        });
        Ok(self.encode(&exposition, form))
    }

    /// Returns the metrics in a form. If the module is not there, `schedhist_up` says so.
    pub fn answer(&mut self, form: Form) -> Vec<u8> {
        let (body, failed) = self.try_scrape(form);
        self.tell(failed.as_ref());
        body
    }

    /// Returns the metrics in a form; if the module is not there, those that say so, and why.
    pub fn try_scrape(&mut self, form: Form) -> (Vec<u8>, Option<Error>) {
        match self.scrape(form) {
            Ok(body) => (body, None),
            Err(error) => (self.encode(&families::down(VERSION), form), Some(error)),
        }
    }

    /// Says why an export has failed, unless the one before did for the same reason.
    pub fn tell(&mut self, error: Option<&Error>) {
        let failed = error.map(|error| format!("{error}; waiting"));
        if let Some(why) = failed.as_ref().filter(|_| failed != self.failed) {
            note(why);
        }
        self.failed = failed;
    }

    fn encode(&self, exposition: &Exposition, form: Form) -> Vec<u8> {
        match form {
            Form::Text(dialect) => text::encode(exposition, dialect).into_bytes(),
            Form::Protobuf => protobuf::encode(exposition, self.schema),
        }
    }

    /// Returns the load of the module that a reading belongs to. Its files exist since the load; a
    /// copy of them does not tell, unless it replaces an earlier one whose counts were higher.
    fn load(&self, reading: &Reading, last: Option<&Load>) -> Load {
        let snapshot = &reading.timed.snapshot;
        let about = fs::metadata(self.source.path("raw")).ok();
        let number = snapshot.names.counter("switches");
        let switches = snapshot
            .cpus
            .iter()
            .filter_map(|cpu| cpu.counters.get(number?));
        let mut load = Load {
            time: snapshot.time,
            switches: switches.fold(0, |sum, n| sum.saturating_add(*n)),
            created: None,
        };
        if self.source.is_live() {
            // The module creates the file when it is loaded, and nothing writes to it.
            load.created = about.as_ref().map(modified);
            return load;
        }
        if let Some(last) = last {
            load.created = if load.time < last.time || load.switches < last.switches {
                Some(reading.timed.unix_ns)
            } else {
                last.created
            };
        }
        load
    }
}

/// What the collector of text files reads.
pub const TEXTFILE: Form = Form::Text(Dialect::Prometheus);

/// Writes the file of that collector.
pub fn write(path: &Path, body: &[u8]) -> Result {
    // The collector runs as another user, and the umask does not matter.
    files::write_with(path, body, Some(Permissions::from_mode(0o644)))
}
