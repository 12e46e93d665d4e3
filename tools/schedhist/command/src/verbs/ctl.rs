// SPDX-License-Identifier: GPL-2.0

//! `ctl`: the settings of the module.

use std::{borrow::Cow, ffi::OsStr};

use schedhist_core::units::nanoseconds;

use crate::{
    cli::Ctl,
    error::{Error, Result},
    options,
    output::print,
    setting::grouping::rules,
    source::Source,
};

/// The settings, in the order in which they are printed.
const SETTINGS: [&str; 12] = [
    "enable",
    "metrics",
    "group_by",
    "group_rules",
    "group_limit",
    "group_memory_limit",
    "on_outlier",
    "outlier_rate",
    "outlier_limit",
    "long_wait_ns",
    "chain",
    "reset",
];

/// Returns the settings, for completion.
pub fn settings() -> Vec<&'static str> {
    SETTINGS.to_vec()
}

pub fn ctl(args: &Ctl, source: &Source) -> Result {
    let value = args.value.join(OsStr::new(" "));
    let value = value.as_encoded_bytes();
    let Some(name) = &args.name else {
        let mut out = String::new();
        // Early versions of the module do not have all of them.
        let is_shown = |name: &&&str| **name != "reset" && source.has(name);
        for name in SETTINGS.iter().filter(is_shown) {
            match *name {
                // As they are written, unless a name is not printable.
                "group_rules" => rules(source)?
                    .iter()
                    .map(|rule| rule.replace("\\x5c", "\\"))
                    .for_each(|rule| out += &format!("{name} add {rule}\n")),
                _ => out += &format!("{name} {}\n", source.text(name)?.trim()),
            }
        }
        let names = source.read()?.timed.snapshot.names;
        for metric in &names.metrics {
            let file = format!("threshold_ns/{}", metric.name);
            out += &format!("{file} {}\n", source.text(&file)?.trim());
        }
        return print(&out);
    };
    if let Some(metric) = name.strip_prefix("threshold_ns/") {
        let is_name = metric.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        if metric.is_empty() || !is_name || !source.has(name) {
            let names = source.read()?.timed.snapshot.names;
            options::check_metrics(&names, &[metric.to_owned()])?;
        }
    } else if !SETTINGS.contains(&name.as_str()) {
        return Err(Error::usage(format!(
            "there is no setting '{name}': there are {}, threshold_ns/METRIC",
            SETTINGS.join(", ")
        )));
    }
    match (name.as_str(), args.value.is_empty()) {
        ("reset", true) => Err(Error::usage(
            "reset holds nothing to print: schedhist ctl reset 1",
        )),
        (_, true) => print(&source.text(name)?),
        (_, false) if value.trim_ascii().is_empty() => {
            Err(Error::usage(format!("{name}: the value is empty")))
        }
        (_, false) => source.write(name, &in_nanoseconds(name, value)),
    }
}

/// Returns a value as the module reads it: a time may have a unit.
fn in_nanoseconds<'a>(name: &str, value: &'a [u8]) -> Cow<'a, [u8]> {
    let text = std::str::from_utf8(value).unwrap_or_default().trim();
    let is_time = name.ends_with("_ns") || name.starts_with("threshold_ns/");
    match nanoseconds(text, "").filter(|_| is_time) {
        Some(ns) => Cow::Owned((ns.round() as u64).to_string().into_bytes()),
        None => Cow::Borrowed(value),
    }
}
