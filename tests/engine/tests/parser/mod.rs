// SPDX-License-Identifier: GPL-2.0

//! A published parser of OpenMetrics text: that of Prometheus' client for Python.

use std::{
    env,
    io::Write,
    process::{Command, Stdio},
};

/// A Python that has the parser.
pub(crate) struct Parser(String);

impl Parser {
    /// Returns `PYTHON`, or else `python3`, if it has the parser.
    pub(crate) fn find() -> Option<Self> {
        let python = env::var("PYTHON").unwrap_or_else(|_| "python3".into());
        let has_parser = Command::new(&python)
            .args(["-c", "import prometheus_client.openmetrics.parser"])
            .stderr(Stdio::null())
            .status();
        if !has_parser.is_ok_and(|status| status.success()) {
            eprintln!("skipped: {python} has no prometheus_client");
            return None;
        }
        Some(Self(python))
    }

    /// Asserts that the parser accepts `text`, and that what it reads is consistent.
    pub(crate) fn assert_accepts(&self, text: &str) {
        let mut check = Command::new(&self.0)
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/openmetrics_check.py"))
            .stdin(Stdio::piped())
            .spawn()
            .expect("python runs");
        let mut stdin = check.stdin.take().expect("a pipe");
        stdin.write_all(text.as_bytes()).expect("it reads all");
        drop(stdin);
        assert!(check.wait().expect("it ends").success(), "{text}");
    }
}
