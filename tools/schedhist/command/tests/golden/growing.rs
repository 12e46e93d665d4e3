// SPDX-License-Identifier: GPL-2.0

//! Folders whose `raw` has another snapshot each time that it is read, so that intervals are not
//! empty.

use std::{
    fs::{self, File},
    io::Write,
    path::Path,
    process::Output,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use nix::{sys::stat::Mode, unistd::mkfifo};

use super::support::sim::{Groups, Machine};

/// The folders, the rule of each, and its groups: name, new samples of each metric, and their
/// length.
type Folder = (
    &'static str,
    &'static str,
    &'static [(&'static str, u64, u64)],
);
const FOLDERS: [Folder; 2] = [
    (
        "growing",
        "cgroup",
        &[
            ("/web.service", 7, 4_000),
            ("/web.service/worker", 2, 9_000),
            ("/web.services", 5, 30_000),
        ],
    ),
    (
        "processes",
        "process",
        &[("812:postgres", 9, 3_000), ("813:a:b", 3, 5_000)],
    ),
];

fn groups(rule: &str, groups: &[(&str, u64, u64)], step: u64) -> Groups {
    let mut text = format!("group_by {rule}\nlimit 255\n");
    for (id, (name, samples, ns)) in (1..).zip(groups) {
        text += &format!("group id {id}");
        for (metric, times) in [("oncpu", 1), ("runq", 2), ("offcpu", 8)] {
            let count = samples * step;
            text += &format!(
                " {metric}_count {count} {metric}_sum_ns {}",
                count * ns * times
            );
        }
        text += &format!(" name {name}\n");
    }
    Groups::new(&text, "")
}

/// Runs a command; if its words name one of the folders, feeds it meanwhile.
pub fn read_by(tests: &Path, words: &[&str], run: impl FnOnce() -> Output) -> Output {
    let Some((folder, rule, of)) = FOLDERS.iter().find(|(name, ..)| words.contains(name)) else {
        return run();
    };
    let folder = tests.join(folder);
    let _ = fs::create_dir(&folder);
    // Each reader gets a FIFO of its own: it would read two snapshots from the same one as one.
    let renew = || {
        let fifo = folder.join("new");
        mkfifo(&fifo, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
        fs::rename(fifo, folder.join("raw")).unwrap();
    };
    renew();
    let is_over = AtomicBool::new(false);
    let feed = || {
        let mut machine = Machine::new(2, 5, 1);
        machine.spread = 5;
        for step in 1.. {
            machine.run(100);
            machine.groups = Some(groups(rule, of, step));
            // Waits for a reader.
            let fifo = File::options().write(true).open(folder.join("raw"));
            if is_over.load(Ordering::SeqCst) {
                return;
            }
            renew();
            let _ = fifo.unwrap().write_all(&machine.raw());
        }
    };
    thread::scope(|scope| {
        scope.spawn(feed);
        let output = run();
        is_over.store(true, Ordering::SeqCst);
        let _ = File::open(folder.join("raw"));
        output
    })
}
