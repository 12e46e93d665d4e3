// SPDX-License-Identifier: GPL-2.0

//! `report` and `diff` of many recordings at once.

use std::{fs, path::Path, process::Output};

use schedhist_core::{
    distribution::{Distribution, Quantile},
    engine, raw,
    recording::file::TimedSnapshot,
    window::Window,
};

mod support;

use support::{record, recorder, said, sim::Machine, used, Folder};

/// The memory that `report` may take, in KiB.
const MEMORY: u64 = 100_000;

/// Records two snapshots. Returns what happened between them.
fn two_snapshots(path: &Path, cpus: usize, precision: u32, seed: u64) -> Window {
    let mut machine = Machine::new(cpus, precision, seed);
    let mut recorder = recorder(path, "module 0.1.0\n");
    let snapshots = [100, 500].map(|switches| {
        machine.run(switches);
        record(
            &mut recorder,
            &machine.raw(),
            1_000_000_000 * switches / 100,
        )
    });
    Window::between(&snapshots[0], &snapshots[1]).unwrap()
}

/// Runs the command with a limit of its memory.
fn limited(folder: &Folder, words: &str) -> Output {
    let script = format!("ulimit -v {MEMORY}; exec \"$0\" {words}");
    folder.shell(&script).output().unwrap()
}

/// A thousand recordings of 64 CPUs are added up exactly, with little memory.
#[test]
fn a_thousand() {
    const DISTINCT: u64 = 20;
    const ALL: u64 = 1_000;
    let folder = Folder::new("thousand");
    fs::create_dir(folder.join("all")).unwrap();
    let mut total: Option<Distribution> = None;
    for seed in 0..DISTINCT {
        let first = folder.join(format!("all/{seed:02}-000"));
        let window = two_snapshots(&first, 64, 5, seed);
        let runq = window.distribution(window.names.metric("runq").unwrap(), &|_| true);
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
    let (before, _) = used();
    let output = limited(&folder, "report -i all -x , -q 50,99,99.99");
    let took = used().0 - before;
    assert!(output.status.success(), "{output:?}");
    println!("1000 recordings: {took} ms of CPU time");
    let text = String::from_utf8(output.stdout).unwrap();
    let total = total.unwrap();
    let mut rows = text.lines();
    let head: Vec<_> = rows.next().unwrap().split(',').collect();
    let row = rows.find(|row| row.split(',').any(|word| word == "runq"));
    let row: Vec<_> = row.unwrap().split(',').collect();
    let value = |name: &str| {
        let place = head.iter().position(|head| *head == name);
        row[place.unwrap_or_else(|| panic!("no {name} in {head:?}"))]
    };
    assert_eq!(value("count"), total.count().to_string());
    for share in ["50", "99", "99.99"] {
        let upper = total.quantile_upper(Quantile::parse(share).unwrap());
        let value = value(&format!("p{share}_ns"));
        assert_eq!(value, upper.unwrap().to_string());
    }
    let text = String::from_utf8(limited(&folder, "report -i all").stdout).unwrap();
    assert!(
        text.contains("64 CPUs, 32000000 switches") && text.contains("laws ok"),
        "{text}"
    );
    assert!(text.contains("1000 recordings are added up"), "{text}");
}

/// However it is named, a recording is added once.
#[test]
fn named_twice() {
    let folder = Folder::new("twice");
    fs::create_dir(folder.join("all")).unwrap();
    for name in ["all/a", "all/b"] {
        two_snapshots(&folder.join(name), 2, 5, 1);
    }
    let said = |words: &str| folder.text(&format!("report {words}"));
    assert_eq!(said("-i all/a -i ./all/a"), said("-i all/a"));
    assert_eq!(said("-i all -i all/../all/b -i all"), said("-i all"));
}

/// A law that does not hold in one recording does not make others fail by what is in flight in all.
#[test]
fn laws_of_each() {
    let folder = Folder::new("laws");
    fs::create_dir(folder.join("all")).unwrap();
    for (file, name, off) in (0..9).map(|i| match i {
        8 => (i, "wake_unseen", 1_000),
        _ => (i, "migrations", 3),
    }) {
        let mut machine = Machine::new(2, 5, file);
        machine.enabled = true;
        let mut recorder = recorder(&folder.join(format!("all/{file}")), "");
        let first = record(&mut recorder, &machine.raw(), 1);
        machine.run(100);
        let mut snapshot = raw::decode(&machine.raw()).unwrap();
        let counter = first.names.counter(name).unwrap();
        snapshot.cpus[0].counters[counter] += off;
        let taken = TimedSnapshot {
            unix_ns: 2,
            read_ns: 0,
            snapshot,
        };
        recorder.snapshot(&taken, &machine.raw()).unwrap();
    }
    let text = folder.text("report -i all");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        text.contains("laws FAIL") && text.contains(" 1 of "),
        "{text}"
    );
    assert_eq!(text.matches("does not hold").count(), 1, "{text}");
    assert!(
        text.contains("all/8: cpu 0: offcpu = wakeup + wake_unseen does not hold"),
        "{text}"
    );
    let json = folder.text("report -i all -j");
    assert_eq!(json.matches("\"off_by\":-1000").count(), 1, "{json}");
    assert_eq!(json.matches("\"off_by\"").count(), 1, "{json}");
}

/// What cannot be added up is refused; a folder is a run each for `diff`.
#[test]
fn mixed() {
    let folder = Folder::new("mixed");
    for name in ["all", "more", "empty"] {
        fs::create_dir(folder.join(name)).unwrap();
    }
    for seed in 0..6 {
        two_snapshots(&folder.join(format!("all/{seed}")), 2, 5, seed);
        two_snapshots(&folder.join(format!("more/{seed}")), 2, 5, 100 + seed);
    }
    let output = limited(&folder, "diff all more runq");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("6 runs of A and 6 of B"), "{text}");
    let output = limited(&folder, "report -i all/1 -i more -j");
    assert!(output.status.success());
    assert!(String::from_utf8(output.stdout)
        .unwrap()
        .contains("\"notes\":[\"7 recordings"));
    two_snapshots(&folder.join("coarse"), 2, 3, 1);
    let output = limited(&folder, "report -i all -i coarse");
    assert_eq!(output.status.code(), Some(1));
    let said = said(&output);
    assert!(
        said.contains("coarse") && said.contains("precision"),
        "{said}"
    );
    for words in [
        "report -i all --html x",
        "report -i all --hlog runq",
        "report -i all -e",
    ] {
        assert_eq!(limited(&folder, words).status.code(), Some(2), "{words}");
    }
    assert_eq!(limited(&folder, "report -i empty").status.code(), Some(1));
    // A recording that cannot be read is not left out, even if its head is damaged, too.
    let mut bytes = fs::read(folder.join("all/3")).unwrap();
    (bytes[2], bytes[8]) = (0, 2);
    fs::write(folder.join("all/3"), bytes).unwrap();
    for (words, status) in [("report -i all", 1), ("diff all more runq", 2)] {
        let output = limited(&folder, words);
        assert_eq!(output.status.code(), Some(status), "{words}");
        assert!(support::said(&output).contains("all/3: "), "{output:?}");
    }
}
