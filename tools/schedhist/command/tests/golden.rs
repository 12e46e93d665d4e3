// SPDX-License-Identifier: GPL-2.0

//! Runs the commands of `golden.md` and compares their output. `UPDATE=1 cargo test` writes the
//! actual output into the file: review the difference.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs::{self, File},
    os::unix::ffi::OsStrExt,
    path::Path,
    process::{Command, Output, Stdio},
    thread,
    time::{Duration, UNIX_EPOCH},
};

use nix::{
    sys::signal::{self, Signal},
    unistd::Pid,
};
use schedhist_core::{engine, raw, window::Window};

#[path = "golden/growing.rs"]
mod growing;
#[path = "golden/options.rs"]
mod options;
#[path = "golden/output.rs"]
mod output;
mod support;

use support::{recorder, said, sim, Folder, PROGRAM};

const GROUPS: &str = "# schedhist groups version 1
group_by cgroup
limit 255
refused 0
memory_bytes 100000
group id 0 oncpu_sum_ns 5000000 runq_count 2 runq_sum_ns 9000 not_in_histogram 2 ended_by_own_ns 9000 name other
group id 1 oncpu_sum_ns 1720000000 runq_count 578 runq_sum_ns 701000000 ended_by_own_ns 154000000 \
ended_by_other_ns 196000000 ended_by_kernel_ns 259000000 ended_by_idle_ns 77000000 name /web.service
  neighbour id 2 of 1 ended 100 ended_ns 190000000 name /a/very/long/path/of/a/cgroup/that/does/not/fit/batch.service
";

/// A group that has only begun, and one of which a stay was not seen.
const GROUPS_IN_PROGRESS: &str = "# schedhist groups version 1
group_by cgroup
limit 255
refused 0
group id 1 oncpu_sum_ns 18000000 runq_count 578 runq_sum_ns 701000000 oncpu_in_progress 2 \
oncpu_in_progress_ns 14000000000 name /web.service
group id 2 oncpu_sum_ns 0 runq_count 0 runq_sum_ns 0 oncpu_in_progress 0 oncpu_in_progress_ns 0 \
name /starved
in_progress id 1 runq_in_progress 0 runq_in_progress_ns 0 oncpu_unseen 1 oncpu_unseen_ns 3000000000
in_progress id 2 runq_in_progress 3 runq_in_progress_ns 36000000000 oncpu_unseen 0 oncpu_unseen_ns 0
";

/// What perf script has printed.
const STACKS: &str = "my;nap 12/34 [001] 12.345678: 2000 schedhist:offcpu:
\tffffffff81000001 __schedule+0x12 ([kernel.kallsyms])
\tffffffff81000002 do_nanosleep+0x1a ([kernel.kallsyms])
\t    7f0000000001 main+0x7 (/usr/bin/nap)
";

/// The other files that the verbs read.
const SETTINGS: [(&str, &str); 11] = [
    ("enable", "1\n"),
    ("metrics", "oncpu runq\n"),
    ("group_by", "none\n"),
    ("group_limit", "255\n"),
    ("group_memory_limit", "16777216\n"),
    ("on_outlier", "none\n"),
    ("outlier_rate", "100\n"),
    ("outlier_limit", "none\n"),
    ("threshold_ns/runq", "5000\n"),
    ("outliers", OUTLIERS),
    ("outlier_pipe", OUTLIERS),
];

const OUTLIERS: &str = "# schedhist outliers version 1
outlier id 2 metric runq_wakeup cause wakeup cpu 1 duration_ns 250256095 start_ns 1 end_ns 250256096 \
missing_ns 6000 culprits 2 pid 25 prio 120 comm ksoftirqd/1
  culprit id 2 ran_ns 33390 slices 1 pid 0 prio 120 comm swapper/1
  culprit id 2 ran_ns 250216705 slices 1 pid 246 prio 49 comm fifteen letters
outlier id 5 metric oncpu cause preempted cpu 0 duration_ns 9000000 start_ns 1 end_ns 9000001 \
missing_ns 0 culprits 1 pid 4194303 prio 120 comm worker
  culprit id 5 ran_ns 9000000 slices 1 pid 4194303 prio 120 comm worker
";

/// Returns a line without what depends on the time and on the machine that the test runs on; `None`
/// if nothing else is in it.
fn fixed(words: &[&str], line: &str) -> Option<String> {
    match (words[0], line) {
        ("runqslower" | "runqlat" | "cpudist", line) if line.chars().nth(2) == Some(':') => {
            Some(format!("HH:MM:SS{}", &line[8..]))
        }
        ("record", line) => {
            let words = line.split(' ').map(|word| match word.parse::<u64>() {
                Ok(_) => "N",
                Err(_) => word,
            });
            Some(words.collect::<Vec<_>>().join(" "))
        }
        // The checks of the files are of those here; of the other ones, the names are the same
        // everywhere.
        ("doctor", line) => {
            let of_files = ["debugfs", "snapshot", "laws", "groups"];
            let name = line.get(6..16).unwrap_or_default().trim();
            match line.starts_with(' ') {
                false if of_files.contains(&name) => Some(line.to_owned()),
                false => Some(format!("...   {name}")),
                true => line.contains("ctl enable").then(|| line.to_owned()),
            }
        }
        _ => Some(line.to_owned()),
    }
}

fn schedhist(folder: &Path, words: &[&str]) -> Output {
    schedhist_with(folder, words, &[])
}

/// Splits `$ NAME=VALUE... schedhist WORDS` into the settings and the words; `None` if it is
/// something else.
fn command(line: &str) -> Option<(Vec<(&str, &str)>, &str)> {
    let (settings, words) = line.strip_prefix("$ ")?.split_once("schedhist")?;
    let settings = settings.split_whitespace().map(|word| word.split_once('='));
    Some((settings.collect::<Option<_>>()?, words))
}

fn schedhist_with(folder: &Path, words: &[&str], settings: &[(&str, &str)]) -> Output {
    Command::new(PROGRAM)
        .args(words)
        .current_dir(folder)
        .env_clear()
        .env("LC_ALL", "C")
        .env("TZ", "UTC")
        .envs(settings.iter().copied())
        .output()
        .expect("it starts")
}

/// Writes a recording of six snapshots with a gap, and of `runs` runs of a command whose samples
/// are `2^scale` as long; without runs, of outliers.
fn recording(path: &Path, seed: u64, runs: u64, scale: u32) {
    let mut machine = sim::Machine::new(2, 5, seed);
    let mut recorder = recorder(path, "kernel 7.3.4\nmodule 0.1.0\n");
    let mut last: Option<raw::Snapshot> = None;
    for i in 0..6 {
        if i == 3 {
            recorder.mark("gap: the module was loaded anew").unwrap();
            machine = sim::Machine::new(2, 5, seed + 1);
            recorder.restart();
        }
        machine.run(200);
        let unix_ns = 1_000_000_000 * (i + 1);
        last = Some(support::record(&mut recorder, &machine.raw(), unix_ns));
    }
    if runs == 0 {
        recorder.outliers(OUTLIERS).unwrap();
    }
    let last = last.unwrap();
    for run in 0..runs {
        let mut other = sim::Machine::new(2, 5, 2 * (seed * 100 + run));
        other.run(3_000);
        let window = Window::since_load(&raw::decode(&other.raw()).unwrap());
        let metric = window.names.metric("runq").unwrap();
        let runq = window.distribution(metric, &|_| true);
        let mut text = format!(
            "begun_unix_ns {}\nwall_ns 1000000\nstatus 0\ncpus 2\nprecision 5\nmodule 0.1.0\n\
             metrics_on {}\nwords true\n# command\nscope command\nmetric runq\nprecision 5\nsum {}\n",
            // A and B take turns.
            run * 10 + seed % 2,
            last.metrics_on,
            runq.sum << scale,
        );
        for (bounds, count) in runq.buckets() {
            let bounds = last.scheme.bounds(last.scheme.index(bounds.lower << scale));
            text += &format!("bucket {bounds} {count}\n");
        }
        recorder.run(&merged(&text)).unwrap();
    }
}

/// Keeps the first of several lines of the same bucket.
fn merged(text: &str) -> String {
    let mut seen = std::collections::BTreeSet::new();
    let is_new = |line: &&str| {
        let words: Vec<_> = line.split(' ').collect();
        words[0] != "bucket" || seen.insert(words[1].to_owned())
    };
    let lines: Vec<_> = text.lines().filter(is_new).collect();
    lines.join("\n") + "\n"
}

/// Writes the files of a machine, made in 2027, none of whose metrics has a threshold.
fn files_of(machine: &sim::Machine, folder: &Path) {
    let raw = folder.join("raw");
    fs::create_dir_all(folder.join("threshold_ns")).unwrap();
    fs::write(&raw, machine.raw()).unwrap();
    let made = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    fs::File::open(raw).unwrap().set_modified(made).unwrap();
    for metric in &raw::decode(&machine.raw()).unwrap().names.metrics {
        fs::write(folder.join("threshold_ns").join(&metric.name), "none\n").unwrap();
    }
}

fn folder(name: &str) -> Folder {
    let folder = Folder::new(&format!("golden-{name}"));
    let mut machine = sim::Machine::new(4, 5, 1);
    machine.run(2_000);
    machine.groups = Some(sim::Groups::new(GROUPS, sim::GROUP_RUNQ));
    let settings = folder.join("settings");
    files_of(&machine, &settings);
    fs::create_dir(folder.join("machine")).unwrap();
    // With its time.
    let copied = Command::new("cp")
        .args(["-p", "settings/raw", "machine"])
        .current_dir(&*folder)
        .status();
    assert!(copied.unwrap().success());
    fs::write(folder.join("machine/metrics"), "idle oncpu\n").unwrap();
    for (name, text) in SETTINGS {
        fs::write(settings.join(name), text).unwrap();
    }
    let hog = folder.join("hog");
    machine.groups = Some(sim::Groups::new(GROUPS_IN_PROGRESS, sim::GROUP_RUNQ));
    machine.tells_progress = true;
    machine.run_until_busy();
    machine.now += 2_000_000_000;
    machine.starved_since = Some(machine.now);
    machine.now += 12_000_000_000;
    files_of(&machine, &hog);
    fs::write(hog.join("outliers"), OUTLIERS).unwrap();
    fs::write(hog.join("outlier_pipe"), "").unwrap();
    fs::create_dir(folder.join("broken")).unwrap();
    fs::write(folder.join("broken/raw"), &machine.raw()[..5_000]).unwrap();
    fs::write(folder.join("stacks.txt"), STACKS).unwrap();
    fs::write(folder.join("limits"), "runq.p50 < 1ns\n").unwrap();
    recording(&folder.join("a.data"), 1, 6, 0);
    recording(&folder.join("b.data"), 2, 6, 1);
    recording(&folder.join("c.data"), 3, 6, 0);
    recording(&folder.join("few.data"), 4, 2, 0);
    recording(&folder.join("outliers.data"), 5, 0, 0);
    let mut damaged = fs::read(folder.join("few.data")).unwrap();
    damaged[2_000] ^= 1;
    fs::write(folder.join("damaged.data"), damaged).unwrap();
    folder
}

#[test]
fn golden() {
    let folder = folder("golden");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden.md");
    let wanted = fs::read_to_string(&path).unwrap();
    let (mut found, mut skip) = (String::new(), false);
    for line in wanted.lines() {
        if let Some((settings, command)) = command(line) {
            skip = true;
            found += &format!("{line}\n");
            let words: Vec<_> = command.split_whitespace().collect();
            let run = || schedhist_with(&folder, &words, &settings);
            let output = growing::read_by(&folder, &words, run);
            let columns = settings.iter().find(|(name, _)| *name == "COLUMNS");
            let columns = columns.map_or(80, |(_, value)| value.parse().unwrap());
            let (out, err) = [output.stdout, output.stderr]
                .map(|b| String::from_utf8(b).unwrap())
                .into();
            let is_data = ["-j", "-x", "--wide", "--hlog"]
                .iter()
                .any(|it| words.contains(it));
            for line in out.lines().chain(err.lines()) {
                assert!(
                    is_data || line.chars().count() <= columns,
                    "too wide: {line}"
                );
                if let Some(line) = fixed(&words, line) {
                    found += &format!("{}\n", line.trim_end());
                }
            }
            match output.status.code() {
                Some(0) => {}
                _ if words[0] == "doctor" => {}
                status => found += &format!("[status {}]\n", status.expect("no signal")),
            }
        } else if line == "```" {
            skip = false;
            found += "```\n";
        } else if !skip {
            found += &format!("{line}\n");
        }
    }
    if env::var_os("UPDATE").is_some() {
        return fs::write(&path, found).unwrap();
    }
    for (number, (found, wanted)) in found.lines().zip(wanted.lines()).enumerate() {
        assert_eq!(found, wanted, "line {}", number + 1);
    }
    assert_eq!(found.lines().count(), wanted.lines().count());
}

/// The help of each verb fits on the screen.
#[test]
fn help_fits() {
    let verbs = verbs();
    assert!(verbs.len() > 12, "{verbs:?}");
    for verb in verbs {
        let help = schedhist(Path::new("."), &["help", &verb]).stdout;
        for line in String::from_utf8(help).unwrap().lines() {
            assert!(line.chars().count() <= 80, "{verb}: {line}");
        }
    }
}

/// Returns the verbs that the help lists.
fn verbs() -> Vec<String> {
    let help = schedhist(Path::new("."), &["--help"]).stdout;
    let help = String::from_utf8(help).unwrap();
    let verbs = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let verbs = verbs.take_while(|line| !line.is_empty());
    let names = verbs.filter_map(|line| line.split_whitespace().next());
    names.map(str::to_owned).collect()
}

/// Verbs with what they need, and the folder that each reads, if it does.
const VERBS: [(&str, &str); 15] = [
    ("", "machine"),
    ("top --once", "machine"),
    ("hist", "machine"),
    ("runqlat", "machine"),
    ("cpudist", "machine"),
    ("runqslower 5", "settings"),
    ("groups", "machine"),
    ("run -- true", "machine"),
    ("record", "machine"),
    ("watch -T 5", "settings"),
    ("export --once", "machine"),
    ("ctl", "settings"),
    ("doctor", "machine"),
    ("report", ""),
    ("diff a.data b.data", ""),
];

/// Values of options, and other words, that are right for some of them.
const VALUES: &str =
    "99 1e9 4 0 0-1 0-9 /web.service 5 0.01 2 0,1 1,0 , continue signal,num=-9 a.data runq broken \
    \u{fffd} '' 18446744073709551616 1 m";
const OTHERS: &str =
    "runq oncpu 0.01 0.01\u{a0}0 0.02\u{a0}0 runq\u{a0}0.01\u{a0}0 0.01\u{a0}2 3 enable\u{a0}1 \
    b.data frobnicate -i --once";

/// Arguments at random end with a message and a status, and never with a panic. A verb that would
/// go on is ended by SIGTERM once it has begun.
#[test]
fn any_arguments() {
    let folder = folder("any_arguments");
    let mut random = sim::Random(5);
    let mut of = |n: usize| random.next() as usize % n;
    let split = |words: &'static str| words.split_ascii_whitespace().collect::<Vec<_>>();
    let (values, others) = (split(VALUES), split(OTHERS));
    let options = VERBS.map(|(verb, _)| options::options_of(verb.split(' ').next().unwrap()));
    let mut begun = std::collections::BTreeMap::new();
    for round in 0..600 {
        let (verb, dir) = VERBS[round % VERBS.len()];
        let other = ["machine", "settings", "hog", "broken", "none"][of(5)];
        let mut words = match dir {
            "" => Vec::new(),
            dir => vec!["--dir", if of(4) != 0 { dir } else { other }],
        };
        let (verb, tail) = verb.split_once(" -- ").unwrap_or((verb, ""));
        words.extend(verb.split_ascii_whitespace());
        let known = &options[round % VERBS.len()];
        for _ in 0..of(4) {
            if of(3) == 0 {
                words.extend(others[of(others.len())].split('\u{a0}'));
                continue;
            }
            let (spellings, has_value) = &known[of(known.len())];
            words.push(&spellings[of(spellings.len())]);
            words.extend(has_value.then(|| values[of(values.len())]));
        }
        words.extend((!tail.is_empty()).then_some(["--", tail]).iter().flatten());
        let words: Vec<_> = words.iter().map(|it| it.trim_matches('\'')).collect();
        let output = ended(&folder, &words);
        let most = if matches!(verb, "doctor" | "run" | "record") {
            255
        } else {
            3
        };
        check(&output, most, &format!("{words:?}"));
        let has_said = fs::metadata(folder.join("said")).unwrap().len() != 0;
        *begun.entry(verb).or_insert(0) += u32::from(output.status.success() || has_said);
    }
    begun.retain(|_, count| *count < 5);
    assert!(begun.is_empty(), "{begun:?}");
}

/// A signal ends a command that hangs, and then `watch`, which waits for it.
#[test]
fn hanging_action() {
    let folder = folder("hanging");
    let action = "shell,command=exec sleep 1000";
    let words = ["watch", "-T", "5", "--dir", "settings", "--on-threshold"];
    let said = said(&ended(&folder, &[&words[..], &[action]].concat()));
    assert!(
        said.contains("the shell command ended with signal: 15"),
        "{said}"
    );
}

/// Runs a command that may go on: ends it a moment after it has blocked the signals for which it
/// then waits.
fn ended(folder: &Path, words: &[&str]) -> Output {
    let mut child = Command::new(PROGRAM)
        .args(words)
        .current_dir(folder)
        .env_clear()
        .stdin(Stdio::null())
        .stdout(File::create(folder.join("said")).unwrap())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let status = format!("/proc/{}/status", child.id());
    let is_waiting = || {
        let status = fs::read_to_string(&status).unwrap_or_default();
        let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
        blocked.is_some_and(|set| set.trim().parse() != Ok(0))
    };
    let mut waited = 0;
    while child.try_wait().unwrap().is_none() {
        waited += u32::from(is_waiting());
        if waited == 20 {
            signal::kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
        }
        assert!(waited < 20_000, "{words:?} does not end");
        thread::sleep(Duration::from_millis(2));
    }
    child.wait_with_output().unwrap()
}

/// Checks that a command has ended with a status, of up to `most`, and a message.
fn check(output: &Output, most: i32, about: &str) {
    let status = output.status.code().unwrap_or(101);
    let said = said(output);
    assert!(
        status <= most && status != 101 && !said.contains("panicked"),
        "{about}: {status}: {said}"
    );
}

/// Changes the contents of some chunks of a recording, and makes their checksums right again.
fn mutated(recording: &[u8], random: &mut sim::Random) -> Vec<u8> {
    let mut out = recording[..16].to_vec();
    for (chunk, kind) in sim::chunks(recording) {
        let contents = &recording[chunk.start + 12..chunk.end];
        match random.next() % 3 {
            0 => out.extend(sim::chunk(kind.into(), contents)),
            _ => out.extend(sim::chunk(kind.into(), &sim::mutate(random, contents))),
        }
    }
    out
}

/// Recordings with wrong contents and right checksums end with a message, and never with a panic.
#[test]
fn any_recording() {
    let folder = Folder::new("fuzz");
    recording(&folder.join("a.data"), 1, 6, 0);
    let good = fs::read(folder.join("a.data")).unwrap();
    let mut random = sim::Random(31);
    let mut accepted = 0;
    for round in 0..150 {
        let mut bytes = mutated(&good, &mut random);
        // With wrong checksums, too.
        for _ in 0..round % 3 {
            let at = random.next() as usize % bytes.len();
            match random.next() % 3 {
                0 => bytes[at] ^= 1 << (random.next() % 8),
                1 => drop(bytes.drain(at..bytes.len().min(at + 100))),
                _ => bytes.truncate(at.max(16)),
            }
        }
        fs::write(folder.join("b.data"), bytes).unwrap();
        for words in [
            &["report", "-i", "b.data"][..],
            &["report", "-i", "b.data", "-e", "-j", "runq"],
            &["report", "-i", "b.data", "--hgrm", "runq"],
            &["report", "-i", "b.data", "--hlog", "oncpu"],
            &["diff", "a.data", "b.data"],
        ] {
            let output = schedhist(&folder, words);
            check(&output, 2, &format!("{round}: {words:?}"));
            accepted += u32::from(!output.stdout.is_empty());
        }
    }
    assert!(accepted > 50, "{accepted}");
}

/// The names of files and folders need not be UTF-8.
#[test]
fn any_file_name() {
    let folder = folder("any_file_name");
    let odd = |name: &[u8]| OsStr::from_bytes(&[name, b"\xff"].concat()).to_owned();
    for name in ["machine", "a.data", "b.data"] {
        fs::rename(folder.join(name), folder.join(odd(name.as_bytes()))).unwrap();
    }
    fs::create_dir(folder.join(odd(b"man"))).unwrap();
    // Words that end with @ are such names.
    for words in [
        "--dir machine@ hist",
        "report -i a.data@",
        "report -i a.data@ --html html@",
        "report -i a.data@ --html html@ --against b.data@",
        "diff a.data@ b.data@",
        "export --perfetto trace@ -i a.data@",
        "--dir machine@ export --once --textfile prom@",
        "man man@",
    ] {
        let word = |word: &str| match word.strip_suffix('@') {
            Some(name) => odd(name.as_bytes()),
            None => OsString::from(word),
        };
        let mut command = folder.command("");
        let output = command.args(words.split(' ').map(word)).output().unwrap();
        assert!(output.status.success(), "{words}: {output:?}");
    }
    for name in [b"html", &b"prom"[..], b"trace"] {
        let about = fs::metadata(folder.join(odd(name))).unwrap();
        assert_ne!(about.len(), 0, "{name:?}");
    }
    assert!(fs::read_dir(folder.join(odd(b"man"))).unwrap().count() > 10);
}

/// Rules are printed as `ctl` takes them: the module writes a backslash as `\x5c`.
#[test]
fn rules_as_they_are_written() {
    let folder = folder("rules");
    let rules = "# schedhist group rules version 1\n\
        rule swap cgroup /system.slice/dev-disk\\x5cx2dby.swap\nrule b comm \\x5c*\\x1b\n";
    fs::write(folder.join("settings/group_rules"), rules).unwrap();
    let text = folder.text("ctl --dir settings");
    for rule in [
        "swap cgroup /system.slice/dev-disk\\x2dby.swap",
        "b comm \\*\\x1b",
    ] {
        let line = format!("\ngroup_rules add {rule}\n");
        assert!(text.contains(&line), "{text}");
    }
}

/// A manual page names the files and variables of its own verb.
#[test]
fn manual_pages() {
    let folder = Folder::new("golden-man");
    folder.text("man .");
    for (page, name, is_there) in [
        ("schedhist-report", "schedhist.data", true),
        ("schedhist-top", "schedhist.data", false),
        ("schedhist-check", "TZ", true),
        ("schedhist-diff", "TZ", true),
        ("schedhist-export", "TZ", true),
        ("schedhist-top", "COLUMNS, LINES", true),
        ("schedhist", "COLUMNS, LINES", false),
    ] {
        let text = folder.read(&format!("{page}.1"));
        let found = text.contains(&format!(".TP\n{name}\n"));
        assert_eq!(found, is_there, "{page}: {name}");
    }
}
