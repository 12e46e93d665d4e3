// SPDX-License-Identifier: GPL-2.0

//! Chooses a form by what a client accepts.

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

/// Returns the form that a client prefers by its header `Accept`. Of several that it likes as much,
/// the first one wins. A client that accepts none of ours gets the older text.
pub fn choose(accept: &str) -> Form {
    let mut best: Option<(f64, Form)> = None;
    for range in accept.split(',') {
        let mut parts = range.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default().to_ascii_lowercase();
        let parameters: Vec<_> = parts.filter_map(|part| part.split_once('=')).collect();
        let value = |name: &str| {
            let found = parameters.iter().find(|(key, _)| key.trim() == name);
            found.map(|(_, value)| value.trim().trim_matches('"'))
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
        let quality = value("q").map_or(1.0, |q| q.parse().unwrap_or(0.0));
        if quality > best.map_or(0.0, |(quality, _)| quality) {
            best = Some((quality, form));
        }
    }
    best.map_or(Form::Text(Dialect::Prometheus), |(_, form)| form)
}
