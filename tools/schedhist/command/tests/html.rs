// SPDX-License-Identifier: GPL-2.0

//! `report --html`: the page holds what was recorded, loads nothing, and stays small.

#![allow(missing_docs)]

use std::{
    fs,
    path::{
        Path,
        PathBuf, //
    },
    process::{
        Command,
        Output, //
    },
};

use schedhist_core::{
    engine,
    page,
    raw,
    recording::file::{
        Recorder,
        Taken, //
    },
    timeline::row, //
};

#[path = "../../core/tests/sim/mod.rs"]
mod sim;

/// The number of snapshots of an hour at one a second.
const HOUR: u64 = 3_600;

/// A wait that no task of the simulated machine has.
const STALL: u64 = 7_000_000_000;

const GROUPS: &str = "# schedhist groups version 1
group_by cgroup
refused 0
group id 0 oncpu_sum_ns 0 runq_count 0 runq_sum_ns 0 name other
group id 1 oncpu_sum_ns 5000 runq_count 5 runq_sum_ns 4000 runq_p99_ns 900 runq_max_ns 1000 \
ended_by_own_ns 1000 ended_by_other_ns 3000 ended_by_kernel_ns 0 ended_by_idle_ns 0 name /<script>alert(1)</script>
  neighbour id 2 of 1 ended 4 ended_ns 3000 name /\"&'
";

fn schedhist(folder: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_schedhist"))
        .args(words)
        .current_dir(folder)
        .output()
        .unwrap()
}

fn folder(name: &str) -> PathBuf {
    let folder =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("html-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Records `count` snapshots, one a second, with a stall before number `stall` and a gap in the
/// middle.
fn record(path: &Path, seed: u64, count: u64, stall: u64) {
    let mut machine = sim::Machine::new(4, 5, seed);
    let mut recorder = Recorder::new(fs::File::create(path).unwrap()).unwrap();
    recorder.info("kernel 7.3.4\nmodule 0.1.0\n").unwrap();
    for i in 0..count {
        if i == count / 2 {
            recorder.mark("gap: <b>nobody</b> was there").unwrap();
        }
        machine.run(20);
        let bytes = machine.raw();
        let mut snapshot = raw::decode(&bytes).unwrap();
        let time = snapshot.time;
        if i >= stall {
            let index = snapshot.scheme.index(STALL) as u32;
            let wakeup = snapshot.names.series("runq_wakeup").unwrap().parts[0];
            let histogram = { snapshot.cpus[2].histograms.iter_mut() }
                .find(|histogram| histogram.metric == wakeup)
                .unwrap();
            histogram.buckets.push((index, 1));
            histogram.sum += u128::from(STALL);
        }
        let taken = Taken {
            unix_ns: 1_800_000_000_000_000_000 + i * 1_000_000_000,
            read_ns: 1_000,
            snapshot,
        };
        recorder.snapshot(&taken, &bytes).unwrap();
        if i == 0 || i == count - 1 {
            let groups =
                GROUPS.replace("oncpu_sum_ns 5000", &format!("oncpu_sum_ns {}", 5_000 + i));
            recorder.groups(&groups).unwrap();
        }
        if i == stall {
            let text = format!(
                "outlier id 1 metric runq_wakeup cause wakeup cpu 2 duration_ns {STALL} start_ns 1 \
                 end_ns {time} missing_ns 0 culprits 1 pid 7 prio 120 comm </title>\n  \
                 culprit id 1 ran_ns {STALL} slices 1 pid 9 prio 49 comm hog\n"
            );
            recorder.outliers(&text).unwrap();
        }
    }
}

/// Returns the part of a text between two others.
fn between<'a>(text: &'a str, begin: &str, end: &str) -> &'a str {
    let rest = text
        .split_once(begin)
        .unwrap_or_else(|| panic!("no {begin}"))
        .1;
    rest.split_once(end).unwrap_or_else(|| panic!("no {end}")).0
}

/// The page is valid on its own: its policy allows its own style and script, and nothing else.
fn check_page(page: &str) {
    assert!(page.len() < 1_000_000, "{} bytes", page.len());
    let policy = between(page, "Content-Security-Policy\" content=\"", "\"><meta");
    let hash = |text: &str| format!("'sha256-{}'", page::sha256_base64(text.as_bytes()));
    let style = hash(between(page, "<style>", "</style>"));
    let script = hash(between(page, "<script>", "</script>"));
    assert_eq!(
        policy,
        format!(
            "default-src 'none'; img-src data:; style-src {style}; script-src {script}; \
             base-uri 'none'; form-action 'none'"
        )
    );
    assert!(!page.contains("http:") && !page.contains("https:") && !page.contains("//www"));
    assert!(!page.contains(" style=") && !page.contains(" onclick="));
    for link in page.split("href=\"").skip(1) {
        let link = link.split('"').next().unwrap();
        if let Some(anchor) = link.strip_prefix('#') {
            assert!(page.contains(&format!("id=\"{anchor}\"")), "no {anchor}");
        } else {
            assert!(link.starts_with("data:image/png;base64,"), "{link}");
        }
    }
    // Names that are markup are text.
    for markup in ["<b>nobody", "<script>alert", "</title>:7"] {
        assert!(!page.contains(markup), "{markup}");
    }
    // Each element ends, in order.
    let elements = page.replace(between(page, "<script>", "</script>"), "");
    let mut open = Vec::new();
    for tag in elements.split('<').skip(1) {
        let Some((tag, _)) = tag.split_once('>') else {
            continue;
        };
        let name = tag
            .split([' ', '/', '\n'])
            .find(|word| !word.is_empty())
            .unwrap_or_default();
        if tag.starts_with('!') || !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
            continue;
        }
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "</{name}>");
        } else if !tag.ends_with('/') && name != "meta" {
            open.push(name);
        }
    }
    assert_eq!(open, Vec::<&str>::new());
}

#[test]
fn sha256() {
    assert_eq!(
        page::sha256_base64(b"abc"),
        "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0="
    );
    assert_eq!(
        page::sha256_base64(b""),
        "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
    );
    assert_eq!(
        page::sha256_base64(&[b'a'; 119]),
        "MeulHDE6XAgiat8Y1KNZz9/Y0ugWsT9K+VL36mWE3Ps="
    );
}

/// An hour at one snapshot a second: the stall is in one cell, in the column of its time, and leads
/// to the outlier.
#[test]
fn an_hour() {
    let folder = folder("hour");
    record(&folder.join("a.data"), 1, HOUR, 2_345);
    let output = schedhist(&folder, &["report", "-i", "a.data", "--html", "a.html"]);
    assert!(output.status.success(), "{output:?}");
    let page = fs::read_to_string(folder.join("a.html")).unwrap();
    check_page(&page);
    let data = between(&page, "id=\"data\">", "</script>");
    let times = between(data, "\"times\":[[", "]],");
    let times: Vec<u64> = times
        .split("],[")
        .map(|pair| pair.split(',').next().unwrap().parse().unwrap())
        .collect();
    assert!(
        times.len() > 100 && times.len() <= 240,
        "{} columns",
        times.len()
    );
    // The first metric is runq.
    let cells: Vec<_> = between(data, "\"cells\":[[", "]],").split("],[").collect();
    assert_eq!(cells.len(), times.len());
    let stall = |cell: &&str| {
        let numbers: Vec<u64> = cell.split(',').filter_map(|n| n.parse().ok()).collect();
        numbers
            .chunks(2)
            .any(|pair| pair[0] == row(STALL) as u64 && pair[1] == 1)
    };
    let found: Vec<_> = (0..cells.len()).filter(|at| stall(&cells[*at])).collect();
    assert_eq!(found.len(), 1);
    // The first interval ends at snapshot 1; the simulated clock has another pace than the wall.
    let share = found[0] as f64 / cells.len() as f64;
    assert!((share - 2_345.0 / HOUR as f64).abs() < 0.02, "{share}");
    assert!(page.contains("<a href=\"#o0-0\">") && page.contains("<tr id=\"o0-0\">"));
    assert!(page.contains("hog:9 7.00s (100.0 %)"), "the culprit");
    assert!(page.contains("/&lt;script&gt;alert(1)&lt;/script&gt;"));
    assert!(page.contains("class=\"gap\""));
    fs::remove_dir_all(&folder).unwrap();
}

/// Two recordings have one scale of rows and colours, and their differences are shown.
#[test]
fn beside_each_other() {
    let folder = folder("two");
    record(&folder.join("a.data"), 1, HOUR / 4, 99);
    record(&folder.join("b.data"), 2, HOUR / 8, HOUR);
    let words = [
        "report",
        "-i",
        "a.data",
        "--html",
        "x.html",
        "--against",
        "b.data",
    ];
    let output = schedhist(&folder, &words);
    assert!(output.status.success(), "{output:?}");
    let page = fs::read_to_string(folder.join("x.html")).unwrap();
    check_page(&page);
    assert!(page.contains("A: a.data") && page.contains("B: b.data"));
    assert!(page.contains("From A to B") && page.contains("Difference of the shares"));
    let data = between(&page, "id=\"data\">", "</script>");
    let scale = |name: &str| {
        let recording = data.split_once(&format!("\"name\":\"{name}\"")).unwrap().1;
        between(recording, "\"low\":", ",\"cells\"").to_owned()
    };
    assert_eq!(scale("a.data"), scale("b.data"));
    // Nothing can be shown of a file without two snapshots.
    record(&folder.join("c.data"), 1, 1, 0);
    let output = schedhist(&folder, &["report", "-i", "c.data", "--html", "c.html"]);
    assert_eq!(output.status.code(), Some(1));
    fs::remove_dir_all(&folder).unwrap();
}
