// SPDX-License-Identifier: GPL-2.0

//! `record` of a folder with copies of the module's files.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use schedhist_core::engine;

#[path = "../../core/tests/sim/mod.rs"]
mod sim;

/// Each copy replaces the one before, so it is another file: that is no gap.
#[test]
fn replaced_copies() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let folder = folder.join(format!("record-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let mut machine = sim::Machine::new(2, 5, 1);
    let mut copy = || {
        machine.run(100);
        fs::write(folder.join("new"), machine.raw()).unwrap();
        fs::rename(folder.join("new"), folder.join("raw")).unwrap();
    };
    copy();
    let mut child = Command::new(env!("CARGO_BIN_EXE_schedhist"))
        .args(["--dir", ".", "record", "-I", "10", "-d", "2", "-o", "data"])
        .current_dir(&folder)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while child.try_wait().unwrap().is_none() {
        thread::sleep(Duration::from_millis(100));
        copy();
    }
    assert!(child.wait().unwrap().success());
    let report = Command::new(env!("CARGO_BIN_EXE_schedhist"))
        .args(["report", "-i", "data"])
        .current_dir(&folder)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&report.stdout);
    assert!(report.status.success() && text.contains("runq"), "{text}");
    assert!(!text.contains("anew"), "{text}");
    fs::remove_dir_all(&folder).unwrap();
}
