// SPDX-License-Identifier: GPL-2.0

//! Each option of each verb has an effect, or is refused, or a note says that it has none. What
//! could not be measured does not look like zero, whatever the form of the output.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    process::{Command, Output},
};

use schedhist_core::engine::metric::{Metric, MetricSet};

use super::{folder, schedhist, sim};

/// What is to be seen of the last words of a case, which are the option.
enum Wanted {
    /// Something else than without them.
    Differs,
    /// This text, on standard output.
    Says(&'static str),
    /// This text, on standard error.
    Notes(&'static str),
    /// Status 2, and this text.
    Refused(&'static str),
    /// Its effect needs time or a module: there is a test in this file.
    In(&'static str),
}

use Wanted::{Differs, In, Notes, Refused, Says};

const BOTH: &str = "cannot be used with";
const EMPTY: &str = "a value is required";
const NO_DIR: &str = "reads no files of the module";

/// The verb, further words, and the option. Each option of each verb must be there.
const CASES: &[(&str, &str, &str, Wanted)] = &[
    ("", "--dir machine", "-n", Differs),
    ("", "--dir machine", "-u", Differs),
    ("", "--dir machine", "-m", Differs),
    ("", "--dir machine", "-q 50", Differs),
    (
        "",
        "--dir machine -u",
        "-q 50,60,70",
        Says("2 percentiles fit"),
    ),
    ("", "--dir machine", "-j", Differs),
    ("", "--dir machine", "-x ,", Differs),
    ("", "--dir machine -j", "-u", Refused(BOTH)),
    ("", "", "--dir ''", Refused(EMPTY)),
    ("", "", "--dir off", Says("note: oncpu, runq, runq_wakeup")),
    (
        "",
        "-x , --dir off",
        "-q 50",
        Notes("offcpu are off: schedhist ctl metrics default"),
    ),
    (
        "top",
        "--once -d 0.001 --dir machine",
        "--metric oncpu",
        Differs,
    ),
    (
        "top",
        "--once -d 0.001 --dir off",
        "--metric runq",
        Says("[measuring is off"),
    ),
    (
        "top",
        "--dir machine",
        "--interval 0",
        Refused("from 1ms to 365d"),
    ),
    (
        "top",
        "--dir machine -d 0.001",
        "--once",
        In("tests/golden.md"),
    ),
    (
        "top",
        "--dir machine -d 0.001",
        "--ascii",
        In("tests/top.rs"),
    ),
    ("top", "--once", "--dir nowhere", Differs),
    ("hist", "--dir machine", "--nanoseconds", Differs),
    ("hist", "--dir machine", "--microseconds", Differs),
    ("hist", "--dir machine", "--milliseconds", Differs),
    ("hist", "--dir machine -j", "--milliseconds", Refused(BOTH)),
    ("hist", "--dir machine", "--quantiles 50", Differs),
    ("hist", "--dir machine", "--json", Differs),
    ("hist", "--dir machine", "--separator ,", Differs),
    ("hist", "--dir machine", "--separator ''", Refused(EMPTY)),
    ("hist", "--dir machine", "--each-cpu", Differs),
    ("hist", "--dir machine", "--cpu 1", Differs),
    ("hist", "--dir machine", "--cpu ''", Refused(EMPTY)),
    ("hist", "--dir machine", "--sub-buckets 4", Differs),
    ("hist", "--dir machine -j", "--sub-buckets 4", Refused(BOTH)),
    ("hist", "--dir machine -x ,", "-b 1", Refused(BOTH)),
    ("hist", "", "--dir off", Says("metric is off")),
    ("hist", "-j", "--dir off", Says("\"on\":false")),
    ("hist", "-x ,", "--dir off", Notes("runq is off")),
    (
        "hist",
        "wakeup -x ,",
        "--dir off",
        Notes("wakeup is off: schedhist ctl metrics all"),
    ),
    (
        "runqlat",
        "0.01 1 --dir machine",
        "--milliseconds",
        In("tests/golden.md"),
    ),
    ("runqlat", "0.01 1 --dir machine", "--timestamp", Differs),
    (
        "runqlat",
        "0.01 1 --dir machine",
        "--pids",
        Notes("grouped by 'cgroup' already"),
    ),
    (
        "runqlat",
        "0.01 1 --dir machine",
        "--tids",
        Notes("grouped by 'cgroup' already"),
    ),
    (
        "runqlat",
        "0.01 1 --dir machine",
        "--pidnss",
        Notes("grouped by 'cgroup' already"),
    ),
    (
        "runqlat",
        "0.01 1 --dir machine",
        "--pid 7",
        Notes("grouped by 'cgroup' already"),
    ),
    (
        "runqlat",
        "0.01 1 --dir machine",
        "--pid ''",
        Refused(EMPTY),
    ),
    (
        "runqlat",
        "0.01 1 --dir machine",
        "--cgroup ''",
        Refused(EMPTY),
    ),
    (
        "runqlat",
        "0.01 1 --dir machine",
        "--cgroup ..",
        Notes("is no cgroup"),
    ),
    (
        "runqlat",
        "0.01 1 --dir machine -p 7",
        "--cgroup /a",
        Refused(BOTH),
    ),
    (
        "runqlat",
        "0.01 1",
        "--dir off",
        Notes("runq is off: schedhist ctl metrics default"),
    ),
    (
        "cpudist",
        "0.01 1 --dir machine",
        "--milliseconds",
        In("tests/golden.md"),
    ),
    ("cpudist", "0.01 1 --dir machine", "--timestamp", Differs),
    ("cpudist", "0.01 1 --dir machine", "--offcpu", Differs),
    (
        "cpudist",
        "0.01 1 --dir machine",
        "--include-idle",
        In("tests/guest/test_tool.sh"),
    ),
    (
        "cpudist",
        "0.01 1 --dir machine -P",
        "--include-idle",
        Refused("no histogram of idle"),
    ),
    (
        "cpudist",
        "0.01 1 --dir machine",
        "--extension",
        In("tests/guest/test_tool.sh"),
    ),
    (
        "cpudist",
        "0.01 1 --dir machine",
        "--pids",
        Notes("grouped by 'cgroup' already"),
    ),
    (
        "cpudist",
        "0.01 1 --dir machine",
        "--tids",
        Notes("grouped by 'cgroup' already"),
    ),
    (
        "cpudist",
        "0.01 1 --dir machine",
        "--pid 7",
        Notes("grouped by 'cgroup' already"),
    ),
    (
        "cpudist",
        "0.01 1 --dir machine",
        "--cgroup ''",
        Refused(EMPTY),
    ),
    (
        "cpudist",
        "-O 0.01 1",
        "--dir off",
        Notes("runq_preempt, offcpu are off"),
    ),
    ("runqslower", "5 --dir settings", "--tid 7", Differs),
    (
        "runqslower",
        "5 --dir settings",
        "--tid x",
        Refused("a number, 1 or more"),
    ),
    ("runqslower", "5 --dir settings", "--pid 4194304", Differs),
    ("runqslower", "5 --dir settings", "--pid ''", Refused(EMPTY)),
    ("runqslower", "5 --dir settings", "--previous", Differs),
    ("runqslower", "5", "--dir nowhere", Differs),
    ("groups", "--dir machine", "--nanoseconds", Differs),
    ("groups", "--dir machine", "--microseconds", Differs),
    ("groups", "--dir machine", "--milliseconds", Differs),
    ("groups", "--dir machine", "--quantiles 50", Says(" p50 ")),
    (
        "groups",
        "--dir machine",
        "--quantiles 10,20,30,40,50,60",
        Says("percentiles fit"),
    ),
    ("groups", "--dir machine -x ,", "--quantiles 50", Differs),
    ("groups", "--dir machine -j", "--quantiles 50", Differs),
    (
        "groups",
        "--dir machine",
        "--json",
        Says("\"notes\":[\"measuring is off"),
    ),
    (
        "groups",
        "--dir machine",
        "--separator ,",
        Notes("measuring is off"),
    ),
    ("groups", "--dir machine", "--rows 1", Says("1 more")),
    ("groups", "--dir machine", "--wide", Differs),
    (
        "groups",
        "",
        "--dir machine",
        Says("note: measuring is off"),
    ),
    ("run", "--dir machine", "--nanoseconds -- true", Differs),
    ("run", "--dir machine", "--microseconds -- true", Differs),
    ("run", "--dir machine", "--milliseconds -- true", Differs),
    (
        "run",
        "--dir machine -x ,",
        "--milliseconds -- true",
        Refused(BOTH),
    ),
    (
        "run",
        "--dir machine",
        "--quantiles 1,2,3,4,5,6 -- true",
        Notes("5 percentiles fit"),
    ),
    (
        "run",
        "--dir machine",
        "--json -- true",
        Notes("\"notes\":[\"measuring is off"),
    ),
    (
        "run",
        "--dir machine",
        "--separator , -- true",
        Notes("schedhist: measuring is off"),
    ),
    (
        "run",
        "--dir machine",
        "--repeat 2 -- true",
        Notes("(2 of 2)"),
    ),
    (
        "run",
        "--dir machine",
        "--output new.data -- true",
        In("tests/run.rs"),
    ),
    (
        "run",
        "--dir machine",
        "--append -- true",
        Refused("required arguments"),
    ),
    (
        "run",
        "--dir machine",
        "--log-fd 77 -- true",
        Refused("Bad file descriptor"),
    ),
    (
        "run",
        "--dir machine",
        "--interval 100 -- sleep 0.3",
        Notes("from "),
    ),
    (
        "run",
        "--dir machine",
        "--delay 60000 -- true",
        Notes("before it was to be measured"),
    ),
    (
        "run",
        "--dir machine",
        "--timeout 100 -- sleep 9",
        In("tests/run.rs"),
    ),
    (
        "run",
        "--dir machine",
        "--cpu 0 -- true",
        Notes("only CPU 0"),
    ),
    (
        "run",
        "--dir machine -j",
        "--cpu 0 -- true",
        Notes("\"of the machine, only CPU 0\""),
    ),
    (
        "run",
        "--dir machine -x ,",
        "--cpu 0 -- true",
        Notes("of the machine, only CPU 0"),
    ),
    (
        "run",
        "--dir machine -j",
        "--no-aggr -- true",
        Notes("\"scope\":\"cpu1\""),
    ),
    (
        "run",
        "--dir machine",
        "--table -- true",
        Notes("waits for a CPU (runq) of the"),
    ),
    ("run", "--dir machine -j", "--table -- true", Refused(BOTH)),
    (
        "run",
        "-j",
        "--dir off -- true",
        Notes("oncpu, runq, offcpu are off"),
    ),
    (
        "run",
        "",
        "--dir off -- true",
        Notes("oncpu, runq, offcpu are off"),
    ),
    (
        "run",
        "-x ,",
        "--dir off -- true",
        Notes("oncpu, runq, offcpu are off"),
    ),
    (
        "record",
        "--dir machine -d 0.05",
        "--output ''",
        Refused(EMPTY),
    ),
    (
        "record",
        "--dir machine -d 0.05",
        "--interval 1",
        Refused("from 10ms to"),
    ),
    (
        "record",
        "--dir machine",
        "--duration x",
        Refused("a number, of s or with ns, us, ms"),
    ),
    (
        "record",
        "--dir machine -d 0.05",
        "--ring x",
        Refused("a number, of s or with ns, us, ms"),
    ),
    (
        "record",
        "-d 0.05 -o new.data",
        "--dir off",
        Notes("measuring is off"),
    ),
    (
        "record",
        "-d 0.05 -o new.data",
        "--dir off",
        Notes("offcpu are off"),
    ),
    (
        "report",
        "",
        "--input few.data",
        Says("note: measuring is off"),
    ),
    ("report", "-i few.data", "--nanoseconds", Differs),
    ("report", "-i few.data", "--microseconds", Differs),
    ("report", "-i few.data", "--milliseconds", Differs),
    ("report", "-i few.data", "--quantiles 50", Differs),
    (
        "report",
        "-i few.data runq",
        "--json",
        Says("schedhist.counters.v1"),
    ),
    (
        "report",
        "-i few.data",
        "--separator ,",
        Notes("measuring is off"),
    ),
    ("report", "-i few.data", "--time 0,1", Differs),
    (
        "report",
        "-i few.data",
        "--time 0,2",
        Notes("2 runs are not shown"),
    ),
    (
        "report",
        "-i runs.data",
        "--time 0,1",
        Refused("runs, which have no intervals"),
    ),
    ("report", "-i few.data", "--each", Differs),
    (
        "report",
        "-i runs.data",
        "--each",
        Refused("runs, which have no intervals"),
    ),
    ("report", "-i runs.data", "runq", Says("machine, runq:")),
    ("report", "-i runs.data -j", "oncpu", Differs),
    (
        "report",
        "-i runs.data",
        "runk",
        Refused("no metric 'runk'"),
    ),
    ("report", "-i few.data", "--html new.html", Differs),
    ("report", "-i few.data --html new.html", "-u", Refused(BOTH)),
    (
        "report",
        "-i few.data --html new.html",
        "-q 50",
        Refused(BOTH),
    ),
    (
        "report",
        "-i few.data",
        "--against a.data",
        Refused("required arguments"),
    ),
    (
        "report",
        "-i few.data",
        "--stacks x",
        Refused("required arguments"),
    ),
    ("report", "-i few.data", "--hgrm runq", Differs),
    ("report", "-i few.data --hgrm runq", "-e", Refused(BOTH)),
    ("report", "-i few.data --hgrm runq", "-j", Refused(BOTH)),
    ("report", "-i few.data", "--hlog runq", Differs),
    ("report", "-i few.data --hlog runq", "-n", Refused(BOTH)),
    ("report", "-i few.data --hlog runq", "oncpu", Refused(BOTH)),
    ("report", "-i few.data", "--dir machine", Refused(NO_DIR)),
    ("diff", "a.data b.data", "--nanoseconds", Differs),
    ("diff", "a.data b.data", "--microseconds", Differs),
    ("diff", "a.data b.data", "--milliseconds", Differs),
    ("diff", "a.data b.data", "--quantiles 50", Differs),
    (
        "diff",
        "a.data few.data",
        "--json",
        Says("\"notes\":[\"no test: it needs"),
    ),
    (
        "diff",
        "a.data b.data -q 99.99",
        "--json",
        Says("\"too few samples\""),
    ),
    (
        "diff",
        "a.data few.data",
        "--separator ,",
        Notes("no test: it needs"),
    ),
    (
        "diff",
        "a.data b.data",
        "--fail-above runq:p50:+20%",
        Notes("it is"),
    ),
    ("diff", "a.data b.data", "--dir machine", Refused(NO_DIR)),
    (
        "export",
        "-i few.data",
        "--perfetto new.trace",
        Notes("bytes"),
    ),
    (
        "export",
        "--dir machine",
        "--input few.data",
        Refused("required arguments"),
    ),
    (
        "export",
        "--dir machine --once",
        "--input few.data",
        Refused(BOTH),
    ),
    (
        "export",
        "--dir machine --once",
        "--listen 127.0.0.1:1",
        Refused(BOTH),
    ),
    (
        "export",
        "--dir machine --once",
        "--textfile new.prom",
        Differs,
    ),
    (
        "export",
        "--dir machine",
        "--interval 1",
        Refused("required arguments"),
    ),
    (
        "export",
        "--dir machine --once --textfile new.prom",
        "--interval 1",
        Refused(BOTH),
    ),
    (
        "export",
        "-i few.data --perfetto new.trace",
        "--interval 1",
        Refused(BOTH),
    ),
    (
        "export",
        "--dir machine --perfetto new.trace",
        "--once",
        Refused(BOTH),
    ),
    (
        "export",
        "--dir machine",
        "--format protobuf",
        Refused("required arguments"),
    ),
    (
        "export",
        "--dir machine --once --textfile new.prom",
        "--format openmetrics",
        Refused(BOTH),
    ),
    ("export", "--dir machine --once", "--per-cpu none", Differs),
    ("export", "--dir machine --once", "--series 30", Differs),
    (
        "export",
        "--dir machine --once --format protobuf",
        "--schema 1",
        Differs,
    ),
    (
        "export",
        "--dir machine --once",
        "--schema 1",
        Refused("only --format protobuf"),
    ),
    (
        "export",
        "--dir machine --once --textfile new.prom",
        "--schema 1",
        Refused(BOTH),
    ),
    (
        "export",
        "-i few.data --perfetto new.trace",
        "--dir machine",
        Refused(NO_DIR),
    ),
    ("watch", "--dir settings", "--threshold 5", Says("## CPU")),
    (
        "watch",
        "--dir settings -T 5",
        "--duration x",
        Refused("a number, of s or with ns, us, ms"),
    ),
    (
        "watch",
        "--dir settings -T 5",
        "--quiet",
        Says("1 above 5 us"),
    ),
    ("watch", "--dir settings -T 5 -q", "--json", Refused(BOTH)),
    ("watch", "--dir settings -T 5 -q", "--stacks", Refused(BOTH)),
    (
        "watch",
        "--dir settings -T 5",
        "--on-threshold dance",
        Refused("'dance' for '--on-threshold <ACTION>'"),
    ),
    ("watch", "--dir settings -T 5", "--json", Differs),
    ("watch", "-T 5", "--dir nowhere", Differs),
    ("ctl", "", "--dir settings", Says("enable 1")),
    ("doctor", "", "--dir machine", Says("measuring is off")),
    ("completions", "bash", "--dir machine", Refused(NO_DIR)),
];

/// Runs words that are separated by blanks; `''` is an empty one.
fn run(folder: &Path, verb: &str, words: &str) -> Output {
    let words = [verb]
        .into_iter()
        .filter(|verb| !verb.is_empty())
        .chain(words.split_whitespace());
    let words: Vec<_> = words
        .map(|word| if word == "''" { "" } else { word })
        .collect();
    schedhist(folder, &words)
}

/// Returns what was said, in one line.
fn said(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn options_have_effects() {
    let folder = folder("options");
    // No metric is on but one, and measuring is not.
    let mut machine = sim::Machine::new(2, 5, 1);
    machine.metrics = MetricSet::from_bits(1 << Metric::Idle as u32);
    fs::create_dir(folder.join("off")).unwrap();
    fs::write(folder.join("off/raw"), machine.raw()).unwrap();
    machine.metrics = MetricSet::ALL;
    fs::create_dir(folder.join("busy")).unwrap();
    machine.run(500);
    fs::write(folder.join("busy/raw"), machine.raw()).unwrap();
    machine.run(500);
    fs::write(folder.join("later"), machine.raw()).unwrap();
    let script = [
        "run",
        "--dir",
        "busy",
        "-o",
        "runs.data",
        "--",
        "cp",
        "later",
        "busy/raw",
    ];
    assert!(schedhist(&folder, &script).status.success());
    let mut wrong = Vec::new();
    for (verb, words, option, wanted) in CASES {
        let output = run(&folder, verb, &format!("{words} {option}"));
        let (out, err) = (said(&output.stdout), said(&output.stderr));
        let about = format!("{verb} {words} {option}: {out}\n{err}");
        let is_as_wanted = match wanted {
            Differs => {
                let plain = run(&folder, verb, words);
                (plain.stdout, plain.stderr) != (output.stdout, output.stderr)
            }
            Says(part) => format!(" {out} ").contains(part),
            Notes(part) => err.contains(part),
            Refused(part) => {
                output.status.code() == Some(2) && err.contains(part) && out.is_empty()
            }
            In(file) => {
                let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
                // Tests of a guest are not copied beside the crates.
                file.starts_with("tests/guest/") || tests.join(file).exists()
            }
        };
        if !is_as_wanted {
            wrong.push(about);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    fs::remove_dir_all(&folder).unwrap();
}

/// There is a case of each option of each verb.
#[test]
fn options_are_all_tried() {
    let fish = schedhist(Path::new("."), &["completions", "fish"]).stdout;
    let fish = String::from_utf8(fish).unwrap();
    let mut known = 0;
    for line in fish.lines() {
        let verb = line
            .split_once("using_subcommand ")
            .and_then(|(_, rest)| rest.split(['"', ';']).next());
        let long = line
            .split_once(" -l ")
            .and_then(|(_, rest)| rest.split(' ').next());
        let short = line
            .split_once(" -s ")
            .and_then(|(_, rest)| rest.split(' ').next());
        let (Some(verb), Some(long)) = (verb.map(str::trim), long) else {
            continue;
        };
        if matches!(long, "help" | "version") || matches!(verb, "man" | "help") {
            continue;
        }
        let spellings: BTreeSet<_> = [Some(format!("--{long}")), short.map(|s| format!("-{s}"))]
            .into_iter()
            .flatten()
            .collect();
        let is_tried = CASES.iter().any(|(of, words, option, _)| {
            let mut words = words.split(' ').chain(option.split(' '));
            *of == verb && words.any(|word| spellings.contains(word))
        });
        assert!(is_tried, "{verb} --{long}");
        known += 1;
    }
    assert!(known > 80, "{known}");
}

/// Returns the spellings of each option of a verb, by its help, and whether it takes a value.
pub(super) fn options_of(verb: &str) -> Vec<(Vec<String>, bool)> {
    let words = if verb.is_empty() {
        &["--help"][..]
    } else {
        &["help", verb]
    };
    let help = schedhist(Path::new("."), words).stdout;
    let help = String::from_utf8(help).unwrap();
    let options = help
        .lines()
        .map(str::trim_start)
        .filter(|line| line.starts_with('-'));
    let options = options.map(|line| {
        let words = line.split([' ', ',']).filter(|word| !word.is_empty());
        let spellings = words
            .take_while(|word| word.starts_with('-'))
            .map(str::to_owned);
        (
            spellings.collect(),
            line.split("  ").next().unwrap().contains('<'),
        )
    });
    options.collect()
}

/// The completions of each shell have each verb and each of its options; those of Bash are run.
#[test]
fn completions() {
    let folder = Path::new(".");
    let text = |words: &[&str]| String::from_utf8(schedhist(folder, words).stdout).unwrap();
    let help = text(&["--help"]);
    let verbs = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let verbs = verbs.take_while(|line| !line.is_empty());
    let verbs: Vec<_> = verbs
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(verbs.len() > 12, "{verbs:?}");
    let others = ["zsh", "fish", "elvish"].map(|shell| text(&["completions", shell]));
    let mut asked = String::from(
        "ask() { COMP_WORDS=(\"$@\" -) COMP_CWORD=$# COMPREPLY=(); _schedhist schedhist - \"${!#}\"
            echo \"${COMPREPLY[*]}\"; }\n",
    );
    verbs
        .iter()
        .for_each(|verb| asked += &format!("ask schedhist {verb}\n"));
    let bash = text(&["completions", "bash"])
        + &asked
        + "COMP_WORDS=(schedhist '') COMP_CWORD=1
        COMPREPLY=(); _schedhist schedhist '' schedhist; echo \"${COMPREPLY[*]}\"\n";
    let bash = Command::new("bash").args(["-c", &bash]).output().unwrap();
    let bash = String::from_utf8(bash.stdout).unwrap();
    let bash: Vec<_> = bash.lines().collect();
    assert_eq!(bash.len(), verbs.len() + 1, "{bash:?}");
    let mut known = 0;
    for (verb, offered) in verbs.iter().zip(&bash) {
        let offered: BTreeSet<_> = offered.split(' ').collect();
        for option in options_of(verb).iter().flat_map(|(spellings, _)| spellings) {
            assert!(
                offered.contains(option.as_str()),
                "bash: {verb} {option}: {offered:?}"
            );
            let Some(long) = option.strip_prefix("--") else {
                continue;
            };
            for other in &others {
                assert!(
                    other.contains(&format!("-{long}")) || other.contains(&format!("-l {long}")),
                    "{option}"
                );
            }
            known += 1;
        }
        assert!(bash[verbs.len()].split(' ').any(|it| it == *verb), "{verb}");
        assert!(others.iter().all(|other| other.contains(verb)), "{verb}");
    }
    assert!(known > 80, "{known}");
}
