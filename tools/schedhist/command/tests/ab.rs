// SPDX-License-Identifier: GPL-2.0

//! `ab` runs two commands in turns, after a run of each to warm up, and compares them as `diff`.

use std::{fs, process::Output};

use schedhist_core::engine;

mod support;

use support::{said, sim, Folder};

/// What a run does: the counters go on to those that were made for it.
const STEP: &str = "n=$(($(cat n) + 1)); echo $n > n; echo $1 >> order; echo noise
cp raw.$n new && mv new m/raw";

/// Returns a folder like that of the module, and those for the runs to come. Those of B are made
/// with longer waits, unless nothing is to differ.
fn folder(name: &str, repeat: usize, spread: u32) -> Folder {
    let folder = Folder::new(&format!("ab-{name}"));
    fs::create_dir_all(folder.join("m")).unwrap();
    folder.put("n", "0");
    folder.put("step", STEP);
    let mut machine = sim::Machine::new(2, 5, 1);
    machine.run(100);
    folder.put("m/raw", machine.raw());
    for (n, side) in turns(repeat).chars().enumerate() {
        machine.spread = if side == 'B' { spread } else { 11 };
        machine.run(2_000);
        folder.put(&format!("raw.{}", n + 1), machine.raw());
    }
    folder
}

/// Returns whose turn it is: first those that warm up.
fn turns(repeat: usize) -> String {
    let rounds = ["AB", "BA"].into_iter().cycle();
    rounds.take(1 + repeat).collect()
}

fn ab(folder: &Folder, words: &str) -> Output {
    folder.run(&format!("ab --dir m {words}"))
}

/// Returns what was printed, and whose turn it was, which is forgotten.
fn printed(folder: &Folder, output: &Output) -> (String, String) {
    let order = folder.read("order").replace('\n', "");
    fs::remove_file(folder.join("order")).unwrap();
    folder.put("n", "0");
    (String::from_utf8(output.stdout.clone()).unwrap(), order)
}

const BOTH: &str = "-- sh step A -- sh step B";

#[test]
fn what_differs() {
    let folder = folder("differs", 6, 14);
    let words = format!("-q 50 --prepare 'echo>>p' --fail-above runq:p50:+20% {BOTH}");
    let words: Vec<_> = words
        .split(' ')
        .map(|word| word.trim_matches('\''))
        .collect();
    let mut command = folder.command("ab --dir m");
    let output = command.args(words).output().unwrap();
    let (text, order) = printed(&folder, &output);
    assert_eq!(order, "ABBAABBAABBAAB");
    assert_eq!(order, turns(6));
    assert_eq!(folder.read("p").len(), 14, "it is prepared before each run");
    let lines: Vec<_> = text.lines().collect();
    let head = "schedhist: 6 runs of A and 6 of B, medians of the machine";
    assert_eq!(lines[..3], ["A: sh step A", "B: sh step B", head], "{text}");
    let row = lines.iter().find(|line| line.starts_with("runq "));
    assert!(row.unwrap().ends_with("0.002  different"), "{text}");
    assert_eq!(output.status.code(), Some(1));
    let said = said(&output);
    assert!(said.contains("only the machine is measured"), "{said}");
    assert!(said.contains("runq:p50:+20%: it is +"), "{said}");
    assert!(!text.contains("all runs of one side came before"), "{text}");
    assert!(!(text + &said).contains("noise"));
    let output = ab(&folder, &format!("-w 2 -r 1 {BOTH}"));
    assert_eq!(printed(&folder, &output).1, "ABBAAB");
}

#[test]
fn what_does_not() {
    let folder = folder("same", 6, 11);
    let words = format!("-j -q 50 --fail-above runq:p50:+0% oncpu {BOTH}");
    let output = ab(&folder, &words);
    let (text, _) = printed(&folder, &output);
    assert_eq!(output.status.code(), Some(0), "{text}{}", said(&output));
    let lines: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let metrics: Vec<_> = lines.iter().map(|line| &line["metric"]).collect();
    assert_eq!(metrics, ["oncpu", "runq"], "{text}");
    assert_eq!(lines[1]["verdict"], "cannot tell", "{text}");
    assert_eq!(lines[0]["schema"], "schedhist.diff.v1");
    assert_eq!([&lines[0]["a"], &lines[0]["b"]], ["sh step A", "sh step B"]);
    // Too few runs for a test.
    let output = ab(&folder, &format!("-r 3 --fail-above runq:p50:+0% {BOTH}"));
    let (text, order) = printed(&folder, &output);
    assert_eq!(order, "ABBAABBA");
    assert!(text.contains("no test: it needs 4 runs of each"), "{text}");
    assert_eq!(output.status.code(), Some(2), "{text}");
}

#[test]
fn refusals() {
    let folder = folder("refusals", 1, 11);
    for (words, status, why) in [
        ("-- true", 2, "two commands, each after --"),
        ("-- true --", 2, "two commands, each after --"),
        ("-- a -- b -- c", 2, "two commands, each after --"),
        ("true", 2, "required arguments"),
        ("nothing -- true -- true", 2, "there is no metric 'nothing'"),
        ("-- true -- /no/such/command", 127, "command not found"),
        ("-- true -- /etc/passwd", 126, "Permission denied"),
        ("-- true -- false", 2, "B: false: it ended with status 1"),
        (
            "-p false -- true -- true",
            2,
            "--prepare: it ended with status 1",
        ),
        (
            "--prepare exit\u{a0}3 -- true -- true",
            2,
            "ended with status 3",
        ),
        ("-- rm m/raw -- true", 2, "the module could not be read"),
    ] {
        let mut command = folder.command("ab --dir m");
        let words = words.split(' ').map(|word| word.replace('\u{a0}', " "));
        let output = command.args(words.clone()).output().unwrap();
        let said = said(&output);
        let words: Vec<_> = words.collect();
        assert_eq!(output.status.code(), Some(status), "{words:?}: {said}");
        assert!(said.contains(why), "{words:?}: {said}");
        assert!(output.stdout.is_empty(), "{words:?}");
    }
    let output = folder.run("ab --dir none -- true -- true");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    // A signal that ends a run ends all of them.
    folder.put("m/raw", fs::read(folder.join("raw.1")).unwrap());
    for (trap, status) in [(":", 143), ("trap \"exit 0\" TERM", 2)] {
        let script = format!(
            "\"$0\" ab --dir m -- sh -c '{trap}; echo >> begun; kill -TERM $PPID; \
             while :; do sleep .1; done' -- true"
        );
        let output = folder.shell(&script).output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{}", said(&output));
        assert_eq!(folder.read("begun"), "\n");
        fs::remove_file(folder.join("begun")).unwrap();
    }
}
