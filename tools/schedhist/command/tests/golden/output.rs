// SPDX-License-Identifier: GPL-2.0

//! Each verb with an output that takes nothing: its exit status.

use std::{
    collections::BTreeSet,
    fs::File,
    process::{Command, Output, Stdio},
};

use super::{
    folder, schedhist,
    support::{closed, said, Folder},
    verbs,
};

/// What a verb prints, and where to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Prints {
    /// To standard output.
    Out,
    /// `run`, to standard error.
    Err,
    /// To files only.
    Nothing,
}

use Prints::{Err, Nothing, Out};

/// The words, and what they print. Each verb must be there.
const CASES: &[(&str, Prints)] = &[
    ("--dir machine", Out),
    ("--dir machine -j", Out),
    ("--help", Out),
    ("--version", Out),
    ("top --once -d 0.01 --dir machine", Out),
    ("hist --dir machine", Out),
    ("hist 0.01 2 --dir machine -x ,", Out),
    ("runqlat 0.01 2 --dir machine", Out),
    ("runqlat -c /web.service 0.01 2 --dir machine", Out),
    ("cpudist 0.01 2 --dir machine", Out),
    ("runqslower 5 --dir settings", Out),
    ("groups --dir machine", Out),
    ("groups --dir machine -j", Out),
    ("flamegraph stacks.txt", Out),
    ("ab --dir machine -r 1 -- true -- true", Out),
    ("run --dir machine -- true", Err),
    ("run --dir machine -j -- true", Err),
    ("run --dir machine -r 2 --table -- sh -c 'exit 7'", Err),
    ("run --dir machine -o new.data -- sh -c 'exit 7'", Err),
    (
        "record --dir machine -o new.data -- sh -c 'exit 5'",
        Nothing,
    ),
    ("record --dir machine -o new.data -d 0.05 -I 20", Nothing),
    ("report -i a.data", Out),
    ("report -i few.data runq --time 0,1", Out),
    ("report -i few.data --time 900,901", Err),
    ("report -i few.data runq --last 1", Out),
    ("report -i few.data --hgrm runq --time 0,1", Out),
    ("report -i few.data --hlog runq", Out),
    ("report -i few.data --html new.html", Nothing),
    ("report -i few.data -i few.data", Out),
    ("diff a.data b.data", Out),
    ("diff a.data b.data -j", Out),
    ("diff a.data b.data --fail-above runq:p50:+20%", Out),
    ("diff a.data few.data --fail-above runq:p50:+20%", Out),
    ("diff a.data b.data --fail-above runq:p50:+200%", Out),
    ("check limits --dir machine", Out),
    ("check limits --prometheus", Out),
    ("export --once --dir machine", Out),
    ("export --once --format protobuf --dir machine", Out),
    ("export --perfetto new.pftrace -i few.data", Nothing),
    ("export --textfile new.prom --once --dir machine", Nothing),
    ("watch -T 5 --dir settings", Out),
    ("watch -T 5 -j --on-threshold continue --dir settings", Out),
    ("watch -T 5 -q --on-threshold continue --dir settings", Out),
    ("watch -T 500000 -q -d 0.2 --dir settings", Out),
    ("ctl --dir settings", Out),
    ("ctl enable --dir settings", Out),
    ("ctl enable 1 --dir settings", Nothing),
    ("doctor --dir machine", Out),
    ("doctor --dir nowhere", Out),
    ("completions bash", Out),
    ("man .", Nothing),
    ("help", Out),
    ("help run", Out),
];

fn command(folder: &Folder, words: &str) -> Command {
    let mut command = folder.shell(&format!("exec \"$0\" {words}"));
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("LC_ALL", "C")
        .stdin(Stdio::null());
    command
}

fn full() -> Stdio {
    let full = File::options().write(true).open("/dev/full");
    full.unwrap().into()
}

/// A status that is a verdict, such as that a threshold was exceeded, is the same whatever becomes
/// of the output. Otherwise, a reader that has gone is no error, and a full disk is one: trouble,
/// where 1 is a verdict.
#[test]
fn statuses_without_output() {
    let folder = folder("output");
    let (mut verdicts, mut printing) = (BTreeSet::new(), 0);
    for (words, prints) in CASES {
        let status = |output: &Output| output.status.code().expect("no signal");
        let lost = |to: Stdio| {
            let mut command = command(&folder, words);
            match prints {
                Err => command.stderr(to),
                Out | Nothing => command.stdout(to),
            };
            command.output().unwrap()
        };
        let plain = command(&folder, words).output().unwrap();
        let why = said(&plain);
        assert_eq!(plain.stdout.is_empty(), *prints != Out, "{words}: {why}");
        let wanted = status(&plain);
        let (closed, full) = (lost(closed()), lost(full()));
        assert_eq!(status(&closed), wanted, "{words}: a closed pipe: {why}");
        let has_verdict = ["ab ", "check ", "diff "]
            .iter()
            .any(|verb| words.starts_with(verb));
        let of_full = match (wanted, prints) {
            (0, Out) if has_verdict => 2,
            (0, Out | Err) => 1,
            _ => wanted,
        };
        assert_eq!(status(&full), of_full, "{words}: a full disk");
        if *prints == Out {
            printing += 1;
            let why = said(&full);
            assert!(
                why.contains("cannot write the output: No space"),
                "{words}: {why}"
            );
            // Nothing is said of that.
            assert!(!said(&closed).contains("cannot write"), "{words}");
            let lines = |output: &Output| String::from_utf8_lossy(&output.stderr).lines().count();
            assert!(
                lines(&closed) <= lines(&plain),
                "{words}: {}",
                said(&closed)
            );
        }
        verdicts.insert(wanted);
    }
    assert!(verdicts.len() > 5 && printing > 20, "{verdicts:?}");
    let tried = CASES.iter().map(|(words, _)| words.split(' ').next());
    let missing = |verb: &String| !tried.clone().any(|first| first == Some(verb));
    let missing: Vec<_> = verbs().into_iter().filter(missing).collect();
    assert!(missing.is_empty(), "there is no case of {missing:?}");
}

/// The order of the rules of `--fail-above` does not matter.
#[test]
fn order_of_rules() {
    let folder = folder("rules");
    let rules = [
        ("runq:p50:+20%", 1),
        ("runq:p99.99:+20%", 2),
        ("runq:p50:+200%", 0),
    ];
    let diff = |rules: &[&str]| {
        let mut words = vec!["diff", "a.data", "b.data"];
        words.extend(rules.iter().flat_map(|rule| ["--fail-above", rule]));
        schedhist(&folder, &words)
    };
    for (a, of_a) in rules {
        assert_eq!(diff(&[a]).status.code(), Some(of_a), "{a}");
        for (b, of_b) in rules.into_iter().filter(|(b, _)| *b != a) {
            let wanted = match (of_a, of_b) {
                (1, _) | (_, 1) => 1,
                (2, _) | (_, 2) => 2,
                _ => 0,
            };
            let output = diff(&[a, b]);
            assert_eq!(output.status.code(), Some(wanted), "{a} {b}");
            let said = said(&output);
            for (rule, of) in [(a, of_a), (b, of_b)] {
                assert_eq!(said.contains(rule), of != 0, "{a} {b}: {said}");
            }
        }
    }
}
