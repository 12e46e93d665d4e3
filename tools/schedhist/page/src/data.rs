// SPDX-License-Identifier: GPL-2.0

//! The figures of all heat maps, for the script.

use std::fmt::Write;

use schedhist_core::{
    distribution::{Distribution, Quantile},
    timeline::Timeline,
};
use serde::Serialize;

use crate::{
    chart::{self, Scale},
    Recording,
};

/// The figures of a recording for the script.
#[derive(Serialize)]
struct Figures<'a> {
    name: &'a str,
    /// The begin and the length of each column, in milliseconds.
    times: Vec<[u64; 2]>,
    /// When each column began by the local clock, in milliseconds since 1970.
    clocks: Vec<u64>,
    metrics: Vec<MetricFigures>,
}

/// The figures of a metric, column by column.
#[derive(Serialize)]
struct MetricFigures {
    low: usize,
    rows: usize,
    /// The rows that have samples, each followed by their number.
    cells: Vec<Vec<u64>>,
    /// p50, p99, the maximum, and 1 if that is only an upper bound.
    quantiles: Vec<[u64; 4]>,
}

impl MetricFigures {
    fn new(timeline: &Timeline, name: &str, scale: Scale) -> Self {
        let place = timeline.position(name);
        let columns = timeline.columns.iter();
        let samples = columns.filter_map(|column| column.metrics.get(place?));
        let cells = |one: &Distribution| {
            let rows = (0_u64..).zip(chart::cells(one));
            let filled = rows.filter(|(_, count)| *count != 0);
            filled.flat_map(|(row, count)| [row, count]).collect()
        };
        let quantiles = |one: &Distribution| {
            let share = |text| Quantile::parse(text).and_then(|share| one.quantile_upper(share));
            let is_bound = Some(u64::from(!one.max.is_exact()));
            [share("50"), share("99"), one.max.value(), is_bound].map(Option::unwrap_or_default)
        };
        Self {
            low: scale.low,
            rows: scale.high - scale.low + 1,
            cells: samples.clone().map(cells).collect(),
            quantiles: samples.map(quantiles).collect(),
        }
    }
}

pub fn write(out: &mut String, all: &[Recording], shown: &[(String, Scale)]) {
    let figures = all.iter().map(|recording| {
        let timeline = &recording.timeline;
        let times = timeline.columns.iter();
        let shown = shown.iter();
        Figures {
            name: &recording.name,
            times: times
                .clone()
                .map(|column| [column.begin, column.span].map(|ns| ns / 1_000_000))
                .collect(),
            clocks: times.map(|column| column.clock / 1_000_000).collect(),
            metrics: shown
                .map(|(name, scale)| MetricFigures::new(timeline, name, *scale))
                .collect(),
        }
    });
    // Text and numbers: this does not fail.
    let json = serde_json::to_string(&figures.collect::<Vec<_>>()).unwrap_or_default();
    // Nothing in it may end the element.
    let json = json.replace('<', "\\u003c");
    let _ = write!(
        out,
        "<script type=\"application/json\" id=\"data\">{json}</script>"
    );
}
