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

use super::{
    folder, schedhist,
    support::{sim, Folder},
    verbs,
};

/// The verb, further words, the option, and what is to be seen of it, which is:
///
/// - `differs`: something else than without it;
/// - `says TEXT`: this text, on standard output;
/// - `notes TEXT`: this text, on standard error;
/// - `refused TEXT`: status 2, and this text;
/// - `in FILE TEXT`: its effect needs time or a module, and a test in this file has this text.
///
/// A bar ends a text that ends with a blank. There may be several options, with ` / ` between. Each
/// option of each verb must be there.
const CASES: &str = r#"
| --dir machine | -n / -u / -m | differs
| --dir machine | -q 50 | differs
| --dir machine -u | -q 50,60,70 | says 2 percentiles fit
| --dir machine | -j | differs
| --dir machine | -x , | differs
| --dir machine -j | -u | refused cannot be used with
|  | --dir '' | refused a value is required
|  | --dir off | says note: oncpu, runq, runq_wakeup
| -x , --dir off | -q 50 | notes offcpu are off: schedhist ctl metrics default
top | --once -d 0.001 --dir machine | --metric oncpu | differs
top | --once -d 0.001 --dir off | --metric runq | says [measuring is off
top | --dir machine | --interval 0 | refused from 1ms to 365d
top | --dir machine -d 0.001 | --once | in tests/golden.md top --once
top | --dir machine -d 0.001 | --ascii | in tests/golden.md --ascii
top | --once | --dir nowhere | differs
top | --once -d 0.001 --dir machine | --limits limits | says Limits 1 unknown
top | -i few.data | --limits limits | says BROKEN runq.p50 < 1ns:
top | -i few.data | --last 0.5 | differs
top | --dir machine | --time 0,1 | refused required arguments
top | -i few.data | --time 0,1 | differs
top | -i few.data | --time , | refused two times A,B
top | --dir machine | --input nowhere | refused this reads no files of the module
hist | --dir machine | --nanoseconds / --microseconds / --milliseconds | differs
hist | --dir machine -j | --milliseconds | refused cannot be used with
hist | --dir machine | --quantiles 50 | differs
hist | --dir machine | --json | differs
hist | --dir machine | --separator , | differs
hist | --dir machine | --separator '' | refused a value is required
hist | --dir machine | --each-cpu | differs
hist | --dir machine | --cpu 1 | differs
hist | --dir machine | --cpu '' | refused a value is required
hist | --dir machine | --sub-buckets 4 | differs
hist | --dir machine -j | --sub-buckets 4 | refused cannot be used with
hist | --dir machine -x , | -b 1 | refused cannot be used with
hist |  | --dir off | says metric is off
hist | -j | --dir off | says "on":false
hist | -j | --dir off | says "tasks_waiting":null
hist | -x , | --dir off | notes runq is off
hist | wakeup -x , | --dir off | notes wakeup is off: schedhist ctl metrics all
runqlat | 0.01 1 --dir machine | --milliseconds | in tests/golden.md runqlat -m
runqlat | 0.01 1 --dir machine | --timestamp | differs
runqlat | 0.01 1 --dir machine | --pids / --tids / --pidnss / --pid 7 | notes grouped by 'cgroup' already
runqlat | 0.01 1 --dir machine | --pid '' | refused a value is required
runqlat | 0.01 1 --dir machine | --cgroup '' | refused a value is required
runqlat | 0.01 1 --dir machine | --cgroup .. | notes is no cgroup
runqlat | 0.01 1 --dir machine -p 7 | --cgroup /a | refused cannot be used with
runqlat | 0.01 1 | --dir off | notes runq is off: schedhist ctl metrics default
cpudist | 0.01 1 --dir machine | --milliseconds | in tests/golden.md cpudist -m
cpudist | 0.01 1 --dir machine | --timestamp | differs
cpudist | 0.01 1 --dir machine | --offcpu | differs
cpudist | 0.01 1 --dir machine | --include-idle | in tests/golden.md cpudist -I
cpudist | 0.01 1 --dir machine -P | --include-idle | refused no histogram of idle
cpudist | 0.01 1 --dir machine | --extension | in tests/golden.md cpudist -m -e
cpudist | 0.01 1 --dir machine | --pids / --tids / --pid 7 | notes grouped by 'cgroup' already
cpudist | 0.01 1 --dir machine | --cgroup '' | refused a value is required
cpudist | -O 0.01 1 | --dir off | notes runq_preempt, offcpu are off
runqslower | 5 --dir settings | --tid 7 | differs
runqslower | 5 --dir settings | --tid x | refused a number, 1 or more
runqslower | 5 --dir settings | --pid 4194304 | differs
runqslower | 5 --dir settings | --pid '' | refused a value is required
runqslower | 5 --dir settings | --previous | differs
runqslower | 5 | --dir nowhere | differs
groups | --dir machine | --nanoseconds / --microseconds / --milliseconds | differs
groups | --dir machine | --quantiles 50 | says  p50 |
groups | --dir machine | --quantiles 10,20,30,40,50,60 | says percentiles fit
groups | --dir machine -x , | --quantiles 50 | differs
groups | --dir machine -j | --quantiles 50 | differs
groups | --dir machine | --json | says "notes":["measuring is off
groups | --dir machine | --separator , | notes measuring is off
groups | --dir machine | --rows 1 | says 1 more
groups | --dir machine | --wide | differs
groups |  | --dir machine | says note: measuring is off
groups | --dir machine | --offenders | differs
flamegraph | stacks.txt | --folded | differs
flamegraph | stacks.txt | --title <x> | says &lt;x&gt;</text>
flamegraph | stacks.txt | --dir machine | refused reads no files of the module
flamegraph | stacks.txt --folded | --title x | refused cannot be used with
run | --dir machine | --nanoseconds -- true | differs
run | --dir machine | --microseconds -- true | differs
run | --dir machine | --milliseconds -- true | differs
run | --dir machine -x , | --milliseconds -- true | refused cannot be used with
run | --dir machine | --quantiles 1,2,3,4,5,6 -- true | notes 5 percentiles fit
run | --dir machine | --json -- true | notes "notes":["measuring is off
run | --dir machine | --separator , -- true | notes schedhist: measuring is off
run | --dir machine | --repeat 2 -- true | notes (2 of 2)
run | --dir machine | --output new.data -- true | in tests/run.rs -o file
run | --dir machine | --append -- true | refused required arguments
run | --dir machine | --log-fd 77 -- true | refused Bad file descriptor
run | --dir machine | --interval 100 -- sleep 0.3 | notes from |
run | --dir machine | --delay 60000 -- true | notes before it was to be measured
run | --dir machine | --timeout 100 -- sleep 9 | in tests/run.rs --timeout
run | --dir machine | --cpu 0 -- true | notes only CPU 0
run | --dir machine -j | --cpu 0 -- true | notes "of the machine, only CPU 0"
run | --dir machine -x , | --cpu 0 -- true | notes of the machine, only CPU 0
run | --dir machine -j | --no-aggr -- true | notes "scope":"cpu1"
run | --dir machine | --chain -- true | notes --chain: no metric of waits or sleeps is on
run | --dir machine -x , | --chain -- true | refused cannot be used with
run | --dir machine | --pid 1 | notes copies of the module's files
run | --dir machine | --pid 4194305 | notes no such process
run | --dir machine | --pid '' | refused a value is required
run | --dir machine | --pid 1 -- true | refused cannot be used with
run | --dir machine -r 2 | --pid 1 | refused cannot be used with
run | --dir machine --timeout 5 | --pid 1 | refused cannot be used with
run | --dir machine -p 1 | --cgroup / | refused cannot be used with
run | --dir machine | --cgroup '' | refused a value is required
run | --dir machine | --cgroup .. | notes is no cgroup
run | --dir machine | --unit no/such | notes no name of a unit
run | --dir machine | --unit '' | refused a value is required
run | --dir machine | --duration 5 -- true | refused required arguments
run | --dir machine | --table -- true | notes waits for a CPU (runq) of the
run | --dir machine -j | --table -- true | refused cannot be used with
run | -j | --dir off -- true | notes oncpu, runq, offcpu are off
run |  | --dir off -- true | notes oncpu, runq, offcpu are off
run | -x , | --dir off -- true | notes oncpu, runq, offcpu are off
record | --dir machine -d 0.05 | --output '' | refused a value is required
record | --dir machine -d 0.05 | --interval 1 | refused from 10ms to
record | --dir machine | --duration x | refused a number, of s or with ns, us, ms
record | --dir machine -d 0.05 | --ring x | refused a number, of s or with ns, us, ms
record | -d 0.05 -o new.data | --dir off | notes measuring is off
record | -d 0.05 -o new.data | --dir off | notes offcpu are off
report |  | --input few.data | says note: measuring is off
report | -i few.data | --nanoseconds / --microseconds / --milliseconds | differs
report | -i few.data | --quantiles 50 | differs
report | -i few.data runq | --json | says schedhist.counters.v1
report | -i few.data | --separator , | notes measuring is off
report | -i few.data | --time 0,1 | differs
report | -i few.data | --time 0,2 | notes 2 runs are not shown
report | -i runs.data | --time 0,1 | refused runs, which have no intervals
report | -i runs.data | --last 1 | refused runs, which have no intervals
report | -i few.data | --last 0.5 | differs
report | -i few.data | --last 1 | notes 2 runs are not shown with --last
report | -i few.data | --each | differs
report | -i runs.data | --each | refused runs, which have no intervals
report | -i runs.data | runq | says machine, runq:
report | -i runs.data -j | oncpu | differs
report | -i runs.data | runk | refused no metric 'runk'
report | -i runs.data | few.data | refused schedhist report -i few.data
report | -i few.data | --html new.html | differs
report | -i few.data --html new.html | -u | refused cannot be used with
report | -i few.data --html new.html | -q 50 | refused cannot be used with
report | -i few.data | --against a.data | refused required arguments
report | -i few.data | --stacks x | refused required arguments
report | -i few.data | --limits limits | refused required arguments
report | -i few.data --html new.html | --limits limits | in tests/html.rs --limits
report | -i few.data | --hgrm runq | differs
report | -i few.data --hgrm runq | -e | refused cannot be used with
report | -i few.data --hgrm runq | -j | refused cannot be used with
report | -i few.data | --hlog runq | differs
report | -i few.data --hlog runq | -n | refused cannot be used with
report | -i few.data --hlog runq | oncpu | refused cannot be used with
report | -i few.data | --dir machine | refused reads no files of the module
diff | a.data b.data | --nanoseconds / --microseconds / --milliseconds | differs
diff | a.data b.data | --quantiles 50 | differs
diff | a.data few.data | --json | says "notes":["no test: it needs
diff | a.data b.data -q 99.99 | --json | says "too few samples"
diff | a.data few.data | --separator , | notes no test: it needs
diff | a.data b.data | --fail-above runq:p50:+20% | notes it is
diff | few.data few.data | --time 900,901 | refused no interval is within
diff | a.data b.data | --last 1 | notes 6 runs are not compared with --last
diff | runs.data a.data | --last 1 | refused runs, which have no intervals
diff | a.data b.data | --dir machine | refused reads no files of the module
ab | --dir machine | --nanoseconds -r 1 -- true -- true | differs
ab | --dir machine | --microseconds -r 1 -- true -- true | differs
ab | --dir machine | --milliseconds -r 1 -- true -- true | differs
ab | --dir machine | --quantiles 50 -r 1 -- true -- true | differs
ab | --dir machine | --json -r 1 -- true -- true | says schedhist.diff.v1
ab | --dir machine | --separator , -r 1 -- true -- true | says scope,metric,quantile
ab | --dir machine | --repeat 2 -- true -- true | says 2 runs of A and 2 of B
ab | --dir machine | --prepare false -- true -- true | notes --prepare: it ended with status 1
ab | --dir machine | --warmup 2 -- false -- true | notes false: it ended with status 1
ab | --dir machine | --fail-above runq:p50:+1% -r 1 -- true -- true | notes too few samples
ab | -r 1 | --dir off -- true -- true | says note: A: oncpu, runq, offcpu are off
export | -i few.data | --perfetto new.trace | notes bytes
export | --dir machine | --input few.data | refused required arguments
export | --dir machine --once | --input few.data | refused cannot be used with
export | --dir machine | --last 1 | refused required arguments
export | -i few.data --perfetto new.trace | --last 0.5 | in tests/recording.rs --last 5
export | -i few.data --perfetto new.trace | --time 900,901 | notes no interval is within
export | --dir machine --once | --listen 127.0.0.1:1 | refused cannot be used with
export | --dir machine --once | --textfile new.prom | differs
export | --dir machine | --interval 1 | refused required arguments
export | --dir machine --once --textfile new.prom | --interval 1 | refused cannot be used with
export | -i few.data --perfetto new.trace | --interval 1 | refused cannot be used with
export | --dir machine --perfetto new.trace | --once | refused cannot be used with
export | --dir machine | --format protobuf | refused required arguments
export | --dir machine --once --textfile new.prom | --format openmetrics | refused cannot be used with
export | --dir machine --once | --per-cpu none | differs
export | --dir machine --once | --series 30 | differs
export | --dir machine --once --format protobuf | --schema 1 | differs
export | --dir machine --once | --schema 1 | refused only --format protobuf
export | --dir machine --once --textfile new.prom | --schema 1 | refused cannot be used with
export | -i few.data --perfetto new.trace | --dir machine | refused reads no files of the module
check | limits | --dir machine | says BROKEN runq.p50 < 1ns:
check | limits | --dir off | says note: runq is off: schedhist ctl metrics default
check | limits | --input few.data | says BROKEN runq.p50 < 1ns:
check | limits -i few.data | --dir machine | refused reads no files of the module
check | limits -i few.data | --last 0.5 | differs
check | limits -i few.data | --time 900,901 | refused no interval is within
check | limits | --prometheus | in tests/check.rs --prometheus
watch | --dir settings | --threshold 5 | says ## CPU
watch | --dir settings -T 5 | --duration x | refused a number, of s or with ns, us, ms
watch | --dir settings -T 5 | --quiet | says 1 above 5 us
watch | --dir settings -T 5 -q | --json | refused cannot be used with
watch | --dir settings -T 5 -q | --stacks | refused cannot be used with
watch | --dir settings -T 5 -q | --chain | refused cannot be used with
watch | --dir settings -T 5 | --chain | notes settings/chain
watch | oncpu --dir settings -T 5 | --chain | refused oncpu: only waits and sleeps have a chain
watch | resched_lazy --dir settings -T 5 | --chain | refused resched_lazy: only waits and sleeps have a chain
watch | --dir settings -T 5 | --on-threshold dance | refused 'dance' for '--on-threshold <ACTION>'
watch | --dir settings -T 5 | --on-threshold shell,command= | refused 'shell,command='
watch | --dir settings -T 5 | --json | differs
watch | --dir settings -T 5 -d 0.3 | --summary | says ## 1 outlier of runq above 5.00us:
watch | -T 5 | --dir nowhere | differs
ctl |  | --dir settings | says enable 1
doctor |  | --dir machine | says measuring is off
completions | bash | --dir machine | refused reads no files of the module
"#;

/// Returns the parts of each case: the verb, further words, the option, and what is to be seen.
fn cases() -> impl Iterator<Item = [&'static str; 4]> {
    let lines = CASES.lines().skip(1);
    lines.flat_map(|line| {
        let mut parts = line.split('|').map(str::trim_start);
        let mut part = || parts.next().unwrap_or_else(|| panic!("not a case: {line}"));
        let (verb, words, options, expected) = (part().trim_end(), part(), part(), part());
        let options = options.trim_end().split(" / ");
        options.map(move |option| [verb, words, option, expected])
    })
}

/// Runs words that are separated by blanks; `''` is an empty one.
fn run(folder: &Folder, verb: &str, words: &str) -> Output {
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
    folder.text("run --dir busy -o runs.data -- cp later busy/raw");
    let mut wrong = Vec::new();
    for [verb, words, option, expected] in cases() {
        let output = run(&folder, verb, &format!("{words} {option}"));
        let (out, err) = (said(&output.stdout), said(&output.stderr));
        let about = format!("{verb} {words} {option}: {out}\n{err}");
        let (kind, part) = expected.split_once(' ').unwrap_or((expected, ""));
        let is_as_expected = match kind {
            "differs" => {
                let plain = run(&folder, verb, words);
                (plain.stdout, plain.stderr) != (output.stdout, output.stderr)
            }
            "says" => format!(" {out} ").contains(part),
            "notes" => err.contains(part),
            "refused" => output.status.code() == Some(2) && err.contains(part) && out.is_empty(),
            "in" => {
                let (file, text) = part.split_once(' ').unwrap();
                let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
                fs::read_to_string(file).unwrap().contains(text)
            }
            _ => panic!("not expected: {expected}"),
        };
        if !is_as_expected {
            wrong.push(about);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
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
        let is_tried = cases().any(|[of, words, option, _]| {
            let mut words = words.split(' ').chain(option.split(' '));
            of == verb && words.any(|word| spellings.contains(word))
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
    let verbs = verbs();
    let others = ["zsh", "fish"].map(|shell| text(&["completions", shell]));
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
