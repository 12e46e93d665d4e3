// SPDX-License-Identifier: GPL-2.0

//! Chooses a form by what a client accepts.

use std::io::Write;

use flate2::{write::GzEncoder, Compression};

use super::text::Dialect;

/// A form in which families are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Text(Dialect),
    /// Delimited protobuf messages.
    Protobuf,
}

impl Form {
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Text(Dialect::OpenMetrics) => {
                "application/openmetrics-text; version=1.0.0; charset=utf-8"
            }
            Self::Text(Dialect::Prometheus) => "text/plain; version=0.0.4; charset=utf-8",
            Self::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; \
                 encoding=delimited"
            }
        }
    }
}

/// Returns the parts of a header such as `Accept`: name in lower case, parameters, and how much the
/// client likes it.
fn parts(header: &str) -> impl Iterator<Item = (String, Vec<(&str, &str)>, f64)> {
    header.split(',').map(|part| {
        let mut words = part.split(';').map(str::trim);
        let name = words.next().unwrap_or_default().to_ascii_lowercase();
        let pairs = words.filter_map(|word| word.split_once('='));
        let pairs = pairs.map(|(key, value)| (key.trim(), value.trim().trim_matches('"')));
        let parameters: Vec<_> = pairs.collect();
        let q = parameters.iter().find(|(key, _)| *key == "q");
        let quality = q.map_or(1.0, |(_, q)| q.parse().unwrap_or(0.0));
        (name, parameters, quality)
    })
}

/// Returns the form that a client prefers by its header `Accept`. Of several that it likes as much,
/// the first one wins. A client that accepts none of ours gets the older text.
pub fn choose(accept: &str) -> Form {
    let mut best: Option<(f64, Form)> = None;
    for (media, parameters, quality) in parts(accept) {
        let value = |name: &str| {
            let found = parameters.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| *value)
        };
        let form = match media.as_str() {
            "application/vnd.google.protobuf"
                if value("proto") == Some("io.prometheus.client.MetricFamily")
                    && value("encoding") == Some("delimited") =>
            {
                Form::Protobuf
            }
            "application/openmetrics-text"
                if matches!(value("version"), None | Some("0.0.1" | "1.0.0")) =>
            {
                Form::Text(Dialect::OpenMetrics)
            }
            "text/plain" if matches!(value("version"), None | Some("0.0.4")) => {
                Form::Text(Dialect::Prometheus)
            }
            "text/*" | "*/*" => Form::Text(Dialect::Prometheus),
            _ => continue,
        };
        if quality > best.map_or(0.0, |(quality, _)| quality) {
            best = Some((quality, form));
        }
    }
    best.map_or(Form::Text(Dialect::Prometheus), |(_, form)| form)
}

/// Returns whether a client takes gzip by its header `Accept-Encoding`: what it says of gzip counts
/// before what it says of all encodings.
pub fn takes_gzip(accept_encoding: &str) -> bool {
    let of = |wanted: &[&str]| {
        let mut all = parts(accept_encoding);
        all.find(|(name, ..)| wanted.contains(&name.as_str()))
            .map(|(_, _, quality)| quality > 0.0)
    };
    of(&["gzip", "x-gzip"])
        .or_else(|| of(&["*"]))
        .unwrap_or(false)
}

pub fn gzip(body: &[u8]) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::fast());
    // A vector takes everything.
    let _ = out.write_all(body);
    out.finish().unwrap_or_default()
}
