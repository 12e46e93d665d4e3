// SPDX-License-Identifier: GPL-2.0

//! `report` and `diff` of many recordings at once.

#![allow(missing_docs)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::Instant,
};

use schedhist_core::{
    distribution::{Distribution, Quantile},
    engine, raw,
    recording::file::{Recorder, TimedSnapshot},
    window::Window,
};

#[path = "../../core/tests/sim/mod.rs"]
mod sim;

/// The memory that `report` may take, in KiB.
const MEMORY: u64 = 100_000;

fn folder(name: &str) -> PathBuf {
    let folder =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("many-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("all")).unwrap();
    folder
}

/// Records two snapshots. Returns what happened between them.
fn record(path: &Path, cpus: usize, precision: u32, seed: u64) -> Window {
    let mut machine = sim::Machine::new(cpus, precision, seed);
    let mut recorder = Recorder::new(fs::File::create(path).unwrap()).unwrap();
    recorder.info("module 0.1.0\n").unwrap();
    let mut snapshots = Vec::new();
    for i in 0..2 {
        machine.run(100 + 400 * i);
        let bytes = machine.raw();
        let taken = TimedSnapshot {
            unix_ns: 1_000_000_000 * (i + 1),
            read_ns: 0,
            snapshot: raw::decode(&bytes).unwrap(),
        };
        recorder.snapshot(&taken, &bytes).unwrap();
        snapshots.push(taken.snapshot);
    }
    Window::between(&snapshots[0], &snapshots[1]).unwrap()
}

/// Runs the command with a limit of its memory.
fn schedhist(folder: &Path, words: &str) -> Output {
    let program = env!("CARGO_BIN_EXE_schedhist");
    Command::new("sh")
        .args(["-c", &format!("ulimit -v {MEMORY}; exec {program} {words}")])
        .current_dir(folder)
        .output()
        .unwrap()
}

/// A thousand recordings of 64 CPUs are added up exactly, in seconds and with little memory.
#[test]
fn a_thousand() {
    const DISTINCT: u64 = 20;
    const ALL: u64 = 1_000;
    let folder = folder("thousand");
    let mut total: Option<Distribution> = None;
    for seed in 0..DISTINCT {
        let first = folder.join(format!("all/{seed:02}-000"));
        let window = record(&first, 64, 5, seed);
        let runq = window.distribution(window.names.metric("runq").unwrap(), |_| true);
        for copy in 1..ALL / DISTINCT {
            fs::hard_link(&first, folder.join(format!("all/{seed:02}-{copy:03}"))).unwrap();
        }
        for _ in 0..ALL / DISTINCT {
            match &mut total {
                Some(total) => total.merge(&runq),
                None => total = Some(runq.clone()),
            }
        }
    }
    fs::write(folder.join("all/README"), "no recording").unwrap();
    let start = Instant::now();
    let output = schedhist(&folder, "report -i all -x , -q 50,99,99.99");
    let took = start.elapsed();
    assert!(output.status.success(), "{output:?}");
    // Loose: other tests run at the same time, and this build is not optimized for speed.
    assert!(took.as_secs() < 60, "{took:?}");
    println!("1000 recordings: {took:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let total = total.unwrap();
    let mut rows = text.lines();
    let head: Vec<_> = rows.next().unwrap().split(',').collect();
    let row = rows
        .find(|row| row.split(',').any(|word| word == "runq"))
        .unwrap();
    let row: Vec<_> = row.split(',').collect();
    let value = |name: &str| {
        let place = head.iter().position(|head| *head == name);
        row[place.unwrap_or_else(|| panic!("no {name} in {head:?}"))]
    };
    assert_eq!(value("count"), total.count().to_string());
    for share in ["50", "99", "99.99"] {
        let upper = total
            .quantile_upper(Quantile::parse(share).unwrap())
            .unwrap();
        let name = head
            .iter()
            .find(|name| name.starts_with(&format!("p{share}")))
            .unwrap();
        assert_eq!(value(name), upper.to_string());
    }
    let text = String::from_utf8(schedhist(&folder, "report -i all").stdout).unwrap();
    assert!(
        text.contains("64 CPUs, 32000000 switches") && text.contains("laws ok"),
        "{text}"
    );
    assert!(text.contains("1000 recordings are added up"), "{text}");
    fs::remove_dir_all(&folder).unwrap();
}

/// What cannot be added up is refused; a folder is a run each for `diff`.
#[test]
fn mixed() {
    let folder = folder("mixed");
    for seed in 0..6 {
        record(&folder.join(format!("all/{seed}")), 2, 5, seed);
        fs::create_dir_all(folder.join("more")).unwrap();
        record(&folder.join(format!("more/{seed}")), 2, 5, 100 + seed);
    }
    let output = schedhist(&folder, "diff all more runq");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("6 runs of A and 6 of B"), "{text}");
    let output = schedhist(&folder, "report -i all/1 -i more -j");
    assert!(output.status.success());
    assert!(String::from_utf8(output.stdout)
        .unwrap()
        .contains("\"notes\":[\"7 recordings"));
    record(&folder.join("coarse"), 2, 3, 1);
    let output = schedhist(&folder, "report -i all -i coarse");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("coarse") && said.contains("precision"),
        "{said}"
    );
    for words in [
        "report -i all --html x",
        "report -i all --time 0,1",
        "report -i all -e",
    ] {
        assert_eq!(schedhist(&folder, words).status.code(), Some(2), "{words}");
    }
    fs::create_dir(folder.join("empty")).unwrap();
    assert_eq!(schedhist(&folder, "report -i empty").status.code(), Some(1));
    fs::remove_dir_all(&folder).unwrap();
}
