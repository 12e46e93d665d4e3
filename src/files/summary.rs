// SPDX-License-Identifier: GPL-2.0

//! `summary`.

use kernel::prelude::*;

use super::View;
use crate::{
    boundary::abstractions::Text,
    engine::{
        format::{
            text,
            Scope, //
        },
        ShownMetric, //
    },
    monitor::Monitor,
    reading::{
        Reading,
        Since, //
    },
};

/// A table for people.
pub(super) struct Summary(pub(super) Scope);

impl View for Summary {
    fn size_hint(&self, _monitor: &Monitor, _last_len: usize) -> usize {
        1024 + ShownMetric::ALL.len() * 160
    }

    fn show(&self, reading: &Reading, out: &mut Text<'_>) -> Result {
        let scope = self.0;
        text::summary_head(out, scope, reading.setup.enabled, |counter| {
            reading.counter(Since::Reset, scope, counter)
        })?;
        reading.for_each_shown(Since::Reset, scope, |shown, snapshot| {
            Ok(text::summary_row(out, shown, snapshot)?)
        })
    }
}
