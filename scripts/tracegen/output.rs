// SPDX-License-Identifier: GPL-2.0

//! Writes generated files.

use std::path::Path;
use std::{fs, io, process};

/// Writes `text` to `path`, at once and only if that changes the file.
pub(crate) fn write_if_changed(path: &Path, text: &str) -> io::Result<()> {
    if fs::read(path).is_ok_and(|old| old == text.as_bytes()) {
        return Ok(());
    }
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}.tmp", process::id()));
    let written = fs::write(&temporary, text).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // It may not be there; the first error is the one to report.
        let _ = fs::remove_file(&temporary);
    }
    written
}
