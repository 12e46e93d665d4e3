// SPDX-License-Identifier: GPL-2.0

//! Outliers: reads them as they come, for `runqslower` and `watch`, adds them up, and shows them.

pub mod dependence;
pub mod shown;
pub mod stacks;
pub mod summary;

use std::{
    fs::File,
    io::{ErrorKind, Read},
    os::fd::AsFd,
    time::Instant,
};

use schedhist_core::text::{Outlier, OutlierParser};

use crate::{
    error::{Error, Result},
    output::note,
    setting::Setting,
    source::Source,
    sys::{self, Waiter, Woken},
};

/// Makes the module report samples of `metric` above `ns` nanoseconds for as long as the result
/// exists. If it reports those already, because its threshold is lower, writes nothing.
pub fn threshold<'a>(source: &'a Source, metric: &str, ns: u64) -> Result<Setting<'a>> {
    Setting::new(source, &format!("threshold_ns/{metric}"), &|now| {
        let is_enough = now.parse::<u64>().is_ok_and(|now| now <= ns);
        Ok((!is_enough).then(|| ns.max(1).to_string()))
    })
}

pub struct Stream {
    pipe: File,
    parser: OutlierParser,
    waiter: Waiter,
    /// The number of the last one that was read; at first, of the last one before.
    last: u64,
    /// How many had been suppressed when the stream was opened.
    suppressed: Option<u64>,
}

/// Returns the number of outliers that the module has suppressed since the last reset.
fn suppressed(source: &Source) -> Option<u64> {
    let status = source.text("status").ok()?;
    let mut counts = status
        .lines()
        .filter_map(|line| line.strip_prefix("outliers_suppressed "));
    counts.next()?.trim().parse().ok()
}

/// Returns the number of the outlier that a line of the files `outliers` and `chains` is about.
pub fn number(line: &str) -> Option<u64> {
    let mut words = line.split_whitespace();
    matches!(words.next(), Some("outlier" | "culprit" | "chain" | "hop")).then_some(())?;
    words.nth(1)?.parse().ok()
}

/// Returns the number of the last outlier in the text of the file `outliers`.
pub fn newest(text: &str) -> Option<u64> {
    text.lines().filter_map(number).max()
}

/// What came out of the stream.
pub enum Next {
    /// Outliers, and how many were missed since the last ones.
    Some(Vec<Outlier>, u64),
    Timeout,
    /// A signal asks to end.
    Over,
}

impl Stream {
    /// Opens the stream: outliers from now on. A threshold must be set before the first
    /// [`Stream::next`].
    pub fn open(source: &Source) -> Result<Self> {
        let path = source.path("outlier_pipe");
        let pipe = sys::open_pipe(&path);
        Ok(Self {
            pipe: pipe.map_err(|error| source.explain(&path, error))?,
            parser: OutlierParser::default(),
            waiter: Waiter::new()?,
            last: newest(&source.text("outliers").unwrap_or_default()).unwrap_or_default(),
            suppressed: suppressed(source),
        })
    }

    /// Notes how many outliers were not reported since the stream was opened, as there were too
    /// many: they have no number, so none is missed.
    pub fn note_suppressed(&self, source: &Source) {
        let now = suppressed(source).zip(self.suppressed);
        match now.map_or(0, |(now, before)| now.saturating_sub(before)) {
            0 => {}
            number => note(format!(
                "{number} outliers, of any metric, were not reported: outlier_rate"
            )),
        }
    }

    pub fn next(&mut self, deadline: Option<Instant>) -> Result<Next> {
        loop {
            match self.waiter.wait(deadline, Some(self.pipe.as_fd())) {
                Woken::Timeout => return Ok(Next::Timeout),
                Woken::Signal(_) => return Ok(Next::Over),
                Woken::Child => continue,
                Woken::Ready => {}
            }
            let mut buffer = vec![0; 1 << 16];
            let read = match self.pipe.read(&mut buffer) {
                Ok(0) => return Ok(Next::Over),
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.raw_os_error() == Some(libc::ENODATA) => {
                    return Err(Error::new(
                        "no outlier can come: measuring or the metric was switched off, the \
                         threshold was removed, or outlier_limit is used up: schedhist ctl",
                    ));
                }
                Err(error) => return Err(Error::at("outlier_pipe", error)),
            };
            let text = String::from_utf8_lossy(&buffer[..read]).into_owned();
            let found = self.parser.feed(&text);
            if found.is_empty() {
                continue;
            }
            let mut missed = 0_u64;
            for outlier in &found {
                let next = self.last.saturating_add(1);
                missed = missed.saturating_add(outlier.id.saturating_sub(next));
                self.last = outlier.id;
            }
            return Ok(Next::Some(found, missed));
        }
    }
}
