// SPDX-License-Identifier: GPL-2.0

//! Recordings that are damaged, or in two files, or whose wall clock steps; full disks.

use std::{
    fs::{self, File},
    io::Write,
    ops::RangeInclusive,
    path::Path,
    process::{Child, Command, Output, Stdio},
    thread,
    time::Duration,
};

use nix::{
    sys::{
        ptrace,
        signal::{kill, Signal},
        stat::Mode,
        wait::{waitpid, WaitPidFlag, WaitStatus},
    },
    unistd::{mkfifo, Pid},
};
use schedhist_core::{
    engine,
    recording::file::{Item, Player, Recorder},
};
use serde_json::{json, Value};

mod support;

use support::{closed, recorder, sim, until, Folder};

const SECOND: u64 = 1_000_000_000;

/// Returns what the command wrote to standard output, and to standard error in one line.
fn said(output: &Output) -> (String, String) {
    let out = String::from_utf8(output.stdout.clone()).unwrap();
    (out, support::said(output))
}

/// Records a snapshot each second; `wall` returns the wall clock's time of each.
fn record(path: &Path, count: u64, wall: impl Fn(u64) -> u64) {
    let mut machine = sim::Machine::new(2, 5, 3);
    let mut recorder = recorder(path, "module 0.1.0\n");
    for i in 1..=count {
        machine.run(5);
        machine.now = i * SECOND;
        support::record(&mut recorder, &machine.raw(), wall(i));
    }
}

/// Returns those of some lines of JSON that are the histogram of an interval, or tell what is lost.
fn histograms(text: &str) -> Vec<Value> {
    let lines = text.lines().filter(|line| line.starts_with('{'));
    let lines = lines.map(|line| serde_json::from_str::<Value>(line).unwrap());
    let schemas = ["schedhist.histogram.v1", "schedhist.lost.v1"];
    let is_one = |line: &Value| schemas.iter().any(|schema| line["schema"] == *schema);
    lines.filter(is_one).collect()
}

/// Returns the numbers of a field in lines of JSON.
fn numbers(lines: &[Value], field: &str) -> Vec<u64> {
    let values = lines.iter().map(|line| line[field].as_u64());
    values.flatten().collect()
}

/// A damaged byte costs a minute at most; what is lost is said, and the status is 1.
#[test]
fn damaged() {
    let folder = Folder::new("damaged");
    let path = folder.join("data");
    record(&path, 250, |i| i * SECOND);
    let good = fs::read(&path).unwrap();
    let spans = |words: &str| {
        let output = folder.run(words);
        let (out, err) = said(&output);
        let spans: u64 = numbers(&histograms(&out), "span_ns").iter().sum();
        (output.status.code().unwrap(), spans / SECOND, out, err)
    };
    // A reader that has gone, as `head` has, hides no damage, and is no error by itself.
    let unread = |words: &str, status: i32| {
        let output = folder.command(words).stdout(closed()).output().unwrap();
        let (_, err) = said(&output);
        assert_eq!(output.status.code(), Some(status), "{words:?}: {err}");
        assert_eq!(err.contains("are lost"), status == 1, "{words:?}: {err}");
        assert!(!err.contains("cannot write"), "{words:?}: {err}");
        // Nothing is told of intervals that nobody reads.
        assert!(err.matches("measuring is off").count() < 9, "{err}");
    };
    let readers = [
        "report -i data",
        "report -i data -e -x ,",
        "report -i data --hlog runq",
        "report -i data --hgrm runq",
        "report -i data --html page",
        "report -i data -i data -j",
        "export --perfetto trace -i data",
    ];
    let words = "report -i data -j runq";
    assert_eq!(spans(words).1, 249);
    readers.iter().for_each(|words| unread(words, 0));
    unread(words, 0);
    let deltas: Vec<_> = sim::chunks(&good)
        .iter()
        .filter(|(_, kind)| *kind == 3)
        .map(|(chunk, _)| chunk.start)
        .collect();
    for (nth, at) in [(0, 12), (6, 5), (30, 2), (100, 8), (150, 20), (200, 0)] {
        let mut data = good.clone();
        data[deltas[nth] + at] ^= 0x41;
        fs::write(&path, &data).unwrap();
        let (status, all, out, err) = spans(words);
        let lost = &histograms(&out).pop().unwrap();
        assert_eq!(
            (&lost["schema"], &lost["file"]),
            (&json!("schedhist.lost.v1"), &json!("data"))
        );
        assert_eq!(status, 1, "{err}");
        // Also those between the snapshots around the damage.
        assert_eq!(all, 249);
        let missing = lost["span_ns"].as_u64().unwrap();
        assert!(missing > SECOND && missing <= 61 * SECOND, "{lost}");
        assert_eq!(lost["at"], deltas[nth]);
        let text = format!(
            "bytes are lost, and {}.0 s between two snapshots",
            missing / SECOND
        );
        assert!(err.contains(&text) && err.contains("data: "), "{err}");
        // The other readers do what they can, and say so.
        unread(words, 1);
        for words in readers {
            unread(words, 1);
            let output = folder.run(words);
            let (_, err) = said(&output);
            assert_eq!(output.status.code(), Some(1), "{words}: {err}");
            assert!(err.contains(&text), "{words:?}: {err}");
        }
        let page = folder.read("page");
        assert!(page.contains(&text));
        // There is nothing before the first interval.
        assert_eq!(page.contains("class=\"gap\""), nth != 0);
        let (log, _) = said(&folder.run("report -i data --hlog runq"));
        let lines = log.matches("HISTFAAAA").count();
        assert_eq!(lines as u64, 249 - missing / SECOND);
    }
    // What `record` leaves when it is killed is no failure.
    fs::write(&path, &good[..good.len() - 3]).unwrap();
    let (status, all, out, err) = spans(words);
    assert_eq!((status, all), (0, 248), "{err}");
    assert!(err.contains("its last part is cut off") && err.contains("all before it was read"));
    assert!(out.contains("\"is_cut\":true"));
}

/// Runs behind damage are there, and more of them can be appended.
#[test]
fn damaged_runs() {
    let folder = Folder::new("runs");
    let mut recorder = Recorder::new(fs::File::create(folder.join("data")).unwrap()).unwrap();
    for i in 0..6 {
        recorder
            .run(&format!("begun_unix_ns {i}\nwords run{i}\n"))
            .unwrap();
    }
    drop(recorder);
    let mut data = fs::read(folder.join("data")).unwrap();
    let at = sim::chunks(&data)[2].0.start;
    data[at + 5] ^= 0x20;
    data.truncate(data.len() - 1);
    let mut bytes = Recorder::append(Vec::new());
    bytes.run("begun_unix_ns 6\nwords run6\n").unwrap();
    data.append(bytes.get_mut());
    fs::write(folder.join("data"), &data).unwrap();
    let output = folder.run("report -i data");
    let (out, err) = said(&output);
    let there: Vec<_> = (0..7)
        .filter(|i| out.contains(&format!("run{i}")))
        .collect();
    assert_eq!(there, [0, 1, 3, 4, 6], "{out}");
    assert_eq!(output.status.code(), Some(1), "{err}");
}

/// Intervals are where the module's clock puts them, whatever the wall clock does meanwhile.
#[test]
fn the_wall_clock_steps() {
    let folder = Folder::new("steps");
    let steps: [fn(u64) -> u64; 3] = [
        |i| 9_000 * SECOND + i * SECOND,
        // An hour back, and an hour forth.
        |i| 9_000 * SECOND + i * SECOND - if i < 6 { 0 } else { 3_600 * SECOND },
        |i| 9_000 * SECOND + i * SECOND + if i < 6 { 0 } else { 3_600 * SECOND },
    ];
    let mut all = Vec::new();
    for wall in steps {
        record(&folder.join("data"), 20, wall);
        let of = |words: &str| folder.text(&format!("report -i data {words}"));
        // The times on the module's clock, and not the wall clock's.
        let part = of("--time 8,12 -e -j runq");
        let log = of("--hlog runq");
        let log: Vec<_> = log
            .lines()
            .filter(|line| line.contains("HISTFAAAA"))
            .map(str::to_owned)
            .collect();
        of("--html page --time 8,12");
        let page = folder.read("page");
        let (_, data) = page.split_once("id=\"data\">").unwrap();
        let (data, _) = data.split_once("</script>").unwrap();
        let data: Value = serde_json::from_str(data).unwrap();
        let times = data[0]["times"].clone();
        all.push((numbers(&histograms(&part), "time_ns"), log, times));
    }
    assert_eq!(all[0].0, [10, 11, 12, 13].map(|i| i * SECOND));
    assert!(
        all[0].1[18].starts_with("18.000,1.000,"),
        "{}",
        all[0].1[18]
    );
    let times = [8_000, 9_000, 10_000, 11_000].map(|ms| [ms, 1_000]);
    assert_eq!(all[0].2, json!(times));
    assert!(all[1] == all[0] && all[2] == all[0]);
}

const GROUPS: &str = "# schedhist groups version 1
group_by comm
refused 0
group id 0 oncpu_sum_ns 0 runq_count 0 runq_sum_ns 0 name other
group id 1 oncpu_sum_ns RAN runq_count 5 runq_sum_ns 4000 ended_by_own_ns 4000 name worker
";

/// Files of the module that change with each copy.
struct Copies {
    folder: Folder,
    machine: sim::Machine,
    number: u64,
}

impl Copies {
    fn new(name: &str) -> Self {
        let copies = Self {
            folder: Folder::new(name),
            machine: sim::Machine::new(2, 5, 1),
            number: 0,
        };
        copies.folder.put("raw", copies.machine.raw());
        copies
    }

    fn next(&mut self) {
        self.number += 1;
        self.machine.run(20);
        self.machine.now += SECOND / 10;
        let ran = self.number.to_string();
        self.machine.groups = Some(sim::Groups::new(&GROUPS.replace("RAN", &ran), ""));
        self.folder.put("raw", self.machine.raw());
    }

    fn record(&self, words: &str) -> Child {
        let words = format!("--dir . record -o data {words}");
        let mut command = self.folder.command(&words);
        command.stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Makes copies, `ms` milliseconds one after the other, until a recording ends.
    fn go_on(&mut self, mut child: Child, ms: u64) {
        while child.try_wait().unwrap().is_none() {
            thread::sleep(Duration::from_millis(ms));
            self.next();
        }
        assert!(child.wait().unwrap().success());
    }

    /// Waits until the machine is recorded as it is.
    fn is_recorded(&self) {
        until("a snapshot", || {
            let file = fs::File::open(self.folder.join("data")).unwrap();
            Player::new(file).is_ok_and(|mut player| {
                let items: Vec<_> = std::iter::from_fn(|| player.next_item()).collect();
                times(&items).contains(&self.machine.now)
            })
        });
    }

    fn items(&self, name: &str) -> Vec<Item> {
        let file = fs::File::open(self.folder.join(name)).unwrap();
        let mut player = Player::new(file).unwrap();
        std::iter::from_fn(|| player.next_item()).collect()
    }
}

fn times(items: &[Item]) -> Vec<u64> {
    let times = items.iter().filter_map(|item| match item {
        Item::Snapshot(taken) => Some(taken.snapshot.time),
        _ => None,
    });
    times.collect()
}

/// Records 40 seconds, in two files.
fn in_two_files(folder: &Folder) {
    let mut machine = sim::Machine::new(2, 5, 3);
    // The first snapshot is of 13:59:40 on 27 November 2026, in UTC.
    let begin = 1_795_787_979;
    for (file, seconds) in [("data.1", 1..=20), ("data", 20..=41)] {
        let mut recorder = recorder(&folder.join(file), "module 0.1.0\n");
        for i in seconds {
            if i != 20 || file == "data.1" {
                machine.run(5);
            }
            machine.now = i * SECOND;
            support::record(&mut recorder, &machine.raw(), (begin + i) * SECOND);
        }
    }
}

/// `--last`, and times of day: both files of a ring are one recording.
#[test]
fn times_as_people_say_them() {
    let folder = Folder::new("times");
    in_two_files(&folder);
    let of = |words: &str| {
        let mut report = folder.command(&format!("report -i data {words}"));
        report.env("TZ", "UTC").output().unwrap()
    };
    for (words, from, to) in [
        ("--last 3", 38, 41),
        // At least so long, over both files, and no longer than there is.
        ("--last 2500ms", 38, 41),
        ("--last 30", 11, 41),
        ("--last 1h", 1, 41),
        ("--time 14:00,14:00:05", 21, 26),
        ("--time 13:59:50,14:00", 11, 21),
        ("--time 2026-11-27T14:00:10,", 31, 41),
        ("--time ,13:59:42", 1, 3),
        ("--time 35,14:05", 36, 41),
        // The last 14:05 before the end is on the day before, but an end comes after its beginning.
        ("--time ,14:05", 1, 41),
    ] {
        let output = of(&format!("{words} -e -j runq"));
        let times = numbers(&histograms(&said(&output).0), "time_ns");
        let wanted: Vec<_> = (from + 1..=to).map(|i| i * SECOND).collect();
        assert_eq!(times, wanted, "{words}: {output:?}");
    }
    for (words, status, why) in [
        (
            "--time 09:00,09:05",
            1,
            "from 2026-11-27T13:59:40 to 2026-11-27T14:00:20",
        ),
        ("--time 2026-11-28T14:00,", 1, "from 2026-11-27T13:59:40 to"),
        // Beyond its end, and between two of its snapshots.
        (
            "--time 14:05,",
            1,
            "schedhist: --time: the snapshots of data are from",
        ),
        (
            "--time 14:00:20,14:00:25",
            1,
            "no interval is within these times",
        ),
        ("--time 500,600", 1, "no interval is within these times"),
        ("--last 5 --time 1,2", 2, "cannot be used with"),
    ] {
        let output = of(words);
        assert_eq!(output.status.code(), Some(status), "{words}: {output:?}");
        assert!(said(&output).1.contains(why), "{words}: {output:?}");
    }
    let output = folder.run("report -i nothing --last 5");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(said(&output).1.contains("nothing: No such file"));
    // Those of the page are within it, too.
    assert!(of("--last 5 --html page").status.success());
    assert!(folder.read("page").contains("5.0 s"));
    for words in ["report --last 5", "export --perfetto trace"] {
        let mut piped = folder.shell(&format!("cat data | $0 {words} -i /dev/stdin"));
        let output = piped.output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(said(&output).1.contains("is no file"), "{output:?}");
    }
}

/// The same options choose for all that read recordings.
#[test]
fn a_part_for_each_verb() {
    let folder = Folder::new("parts");
    in_two_files(&folder);
    folder.put("limits", "runq.p99.999 < 1d");
    let (text, _) = said(&folder.run("report -i data --last 5 -j runq"));
    let count = histograms(&text)[0]["count"].clone();
    let text = folder.run("check limits -i data --last 5");
    assert!(
        said(&text)
            .0
            .ends_with(&format!("too few samples: {count}\n")),
        "{text:?}"
    );
    for (words, status) in [
        ("export --perfetto part -i data --last 5", 0),
        ("export --perfetto whole -i data", 0),
        ("export --perfetto none -i data --time 500,600", 1),
        ("diff data data --last 5", 0),
        ("diff data data --time 500,600", 2),
        ("check limits -i data --time 500,600", 2),
        ("top -i data --time 500,600", 1),
        ("top --last 5", 2),
        ("export --last 5", 2),
        ("check limits --last 5", 2),
    ] {
        let output = folder.run(words);
        assert_eq!(output.status.code(), Some(status), "{words}: {output:?}");
    }
    let size = |name: &str| fs::metadata(folder.join(name)).unwrap().len();
    assert!(size("part") * 4 < size("whole"));
}

/// The groups around a part are those that it has, also if there were some in it, or none follow.
#[test]
fn groups_of_a_part() {
    let folder = Folder::new("groups");
    let mut recorder = recorder(&folder.join("data"), "module 0.1.0\n");
    let mut machine = sim::Machine::new(2, 5, 3);
    let mut times = Vec::new();
    for i in 0..39 {
        machine.run(5);
        machine.now += SECOND;
        support::record(
            &mut recorder,
            &machine.raw(),
            1_800_000_000 * SECOND + i * SECOND,
        );
        times.push(machine.now as f64 / 1e9);
        if i % 10 == 0 {
            let text = format!(
                "# schedhist groups version 1\ngroup_by cgroup\n\
                 group id 1 runq_count {i} runq_sum_ns {i} name /a\n"
            );
            machine.groups = Some(sim::Groups::new(&text, ""));
            recorder.groups(&machine.raw()).unwrap();
            machine.groups = None;
        }
    }
    let at = |i: usize| times[i] - times[0];
    for ((from, to), (first, last)) in [
        ((12, 27), (10, 30)),
        ((22, 27), (20, 30)),
        ((12, 17), (10, 20)),
        ((5, 38), (0, 30)),
        ((33, 38), (30, 30)),
    ] {
        let words = format!("--time {},{}", at(from) - 0.1, at(to) + 0.1);
        let status = folder.run(&format!("report -i data {words} --html page.html"));
        assert!(status.status.success(), "{status:?}");
        let page = fs::read_to_string(folder.join("page.html")).unwrap();
        let (_, rest) = page.split_once("recorded of groups").unwrap();
        let wanted = format!("{:.1} s", at(last) - at(first));
        assert!(
            rest[..200].contains(&wanted),
            "{words}, {wanted}: {}",
            &rest[..200]
        );
        folder.put("limits", "runq.p99 of /a < 1d");
        let (text, _) = said(&folder.run(&format!("check limits -i data {words}")));
        assert!(!text.contains("there is no such group"), "{words}: {text}");
    }
}

/// When the clock is put back, a time comes twice; when it is put forward, some do not come.
#[test]
fn changed_clocks() {
    let folder = Folder::new("clocks");
    let mut machine = sim::Machine::new(2, 5, 3);
    // From 00:30 UTC: each ten minutes, on 25 October 2026, and on 29 March.
    for (file, begin) in [("back", 1_792_888_200), ("forward", 1_774_744_200)] {
        let mut recorder = recorder(&folder.join(file), "module 0.1.0\n");
        for i in 0..12 {
            machine.run(5);
            machine.now += 600 * SECOND;
            support::record(&mut recorder, &machine.raw(), (begin + i * 600) * SECOND);
        }
    }
    for (words, wanted) in [
        // 02:10 was at 00:10 UTC, before the recording, and at 01:10.
        ("back --time 02:10,", Ok(7)),
        ("back --time 2026-10-25T02:10,", Ok(7)),
        ("back --time 02:40,02:50", Ok(1)),
        // The end is the first one after the beginning.
        ("back --time ,02:40", Ok(1)),
        ("forward --time 03:10,", Ok(7)),
        (
            "forward --time 02:10,",
            Err("there is no such time as 2026-03-29 02:10:00"),
        ),
        (
            "forward --time 2026-03-29T02:10,",
            Err("there is no such time"),
        ),
        ("forward --time ,02:10", Err("there is no such time")),
    ] {
        let report = |form| {
            let mut report = folder.command(&format!("report -e {form} runq -i {words}"));
            let report = report.env("TZ", "CET-1CEST,M3.5.0,M10.5.0/3").output();
            report.unwrap()
        };
        let output = report("-j");
        let (out, err) = said(&output);
        match wanted {
            Ok(number) => {
                assert_eq!(histograms(&out).len(), number, "{words}: {output:?}");
                let (text, _) = said(&report("-u"));
                let is_time = |line: &&str| line.len() == 8 && line.matches(':').count() == 2;
                assert_eq!(text.lines().filter(is_time).count(), number, "{text}");
            }
            Err(why) => assert!(err.contains(why), "{words}: {output:?}"),
        }
    }
}

/// Writes a file of a ring, of the snapshots of these seconds.
fn ring_file(path: &Path, info: &str, seconds: RangeInclusive<u64>) -> Recorder<File> {
    let mut recorder = recorder(path, info);
    let mut machine = sim::Machine::new(2, 5, 3);
    for i in 1..=*seconds.end() {
        machine.run(5);
        machine.now = i * SECOND;
        if seconds.contains(&i) {
            support::record(&mut recorder, &machine.raw(), i);
        }
    }
    recorder
}

/// Both files of a ring have the snapshot between them. No interval is missing if the first file
/// ends with a gap, or is cut off, after it, or a head is damaged: then that begins a part.
#[test]
fn a_ring_with_a_gap() {
    let folder = Folder::new("ring-gap");
    let write = |name: &str, info: &str, seconds| ring_file(&folder.join(name), info, seconds);
    let spans = |about: &str, is_right: bool| {
        let output = folder.run("report -i data -e -j oncpu");
        let (out, err) = said(&output);
        assert_eq!(output.status.success(), is_right, "{about}: {err}");
        (numbers(&histograms(&out), "span_ns"), err)
    };
    write("data", "follows_unix_ns 7\n", 3..=6);
    let whole = fs::read(folder.join("data")).unwrap();
    for end in ["whole", "gap", "cut"] {
        let mut recorder = write("data.1", "begun_unix_ns 7\n", 1..=3);
        match end {
            "gap" => recorder.mark("gap: it was asleep").unwrap(),
            "cut" => recorder.get_mut().write_all(&[2, 0, 0]).unwrap(),
            _ => {}
        }
        drop(recorder);
        let before = fs::read(folder.join("data.1")).unwrap();
        // The magic, or the first chunk, which is that of the information.
        for (damaged, at) in [
            ("", 0),
            ("data", 3),
            ("data", 28),
            ("data.1", 3),
            ("data.1", 28),
        ] {
            for (name, bytes) in [("data", &whole), ("data.1", &before)] {
                let mut bytes = bytes.clone();
                bytes[at] ^= u8::from(name == damaged);
                fs::write(folder.join(name), bytes).unwrap();
            }
            let about = format!("{end}, {damaged} {at}");
            assert_eq!(spans(&about, damaged.is_empty()).0, [SECOND; 5], "{about}");
        }
    }
    // What cannot be opened at all is told.
    let mut bytes = fs::read(folder.join("data.1")).unwrap();
    bytes[8] = 2;
    fs::write(folder.join("data.1"), bytes).unwrap();
    let (found, err) = spans("version", false);
    assert_eq!(found, [SECOND; 3]);
    assert!(
        err.contains("data.1: a recording of another version"),
        "{err}"
    );
    // One that says it follows none has nothing to do with that.
    write("data.1", "begun_unix_ns 7\n", 1..=3);
    write("data", "follows_unix_ns 0\n", 3..=6);
    assert_eq!(spans("none", true).0, [SECOND; 3]);
}

/// A ring that turns while it is opened is read once.
#[test]
fn a_ring_that_turns() {
    let folder = Folder::new("ring-turns");
    let path = |name: &str| folder.join(name);
    ring_file(&path("data"), "begun_unix_ns 8\nfollows_unix_ns 7\n", 1..=3);
    ring_file(&path("next"), "begun_unix_ns 9\nfollows_unix_ns 8\n", 3..=6);
    let renew = || {
        mkfifo(&path("new"), Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
        fs::rename(path("new"), path("data.1")).unwrap();
    };
    let opened = || File::options().write(true).open(path("data.1")).unwrap();
    renew();
    let mut report = folder.command("report -i data -e -j oncpu");
    let report = report.stdout(Stdio::piped()).spawn().unwrap();
    // The first look at it tells only which files there are.
    let first = opened();
    renew();
    drop(first);
    let second = opened();
    fs::rename(path("data"), path("data.1")).unwrap();
    fs::rename(path("next"), path("data")).unwrap();
    drop(second);
    let (out, _) = said(&report.wait_with_output().unwrap());
    assert_eq!(numbers(&histograms(&out), "span_ns"), [SECOND; 5]);
}

/// The two files of `--ring` are read as one recording, with all that the groups did.
#[test]
fn two_files() {
    let mut copies = Copies::new("ring");
    copies.next();
    let child = copies.record("-I 50 --ring 1 -d 5");
    copies.go_on(child, 20);
    let (old, new) = (copies.items("data.1"), copies.items("data"));
    let (a, b) = (times(&old), times(&new));
    assert_eq!(a.last(), b.first());
    let whole = b.last().unwrap() - a[0];
    let folder = &copies.folder;
    let report = |words: &str| {
        let out = folder.text(&format!("report {words}"));
        numbers(&histograms(&out), "span_ns").iter().sum::<u64>()
    };
    assert_eq!(report("-i data -j runq"), whole);
    assert_eq!(report("-i data.1 -j runq"), a.last().unwrap() - a[0]);
    // None counts twice, and none is written over.
    assert_eq!(report("-i data -i data.1 -j runq"), whole);
    assert_eq!(report("-i ./data.1 -i data -j runq"), whole);
    folder.put("limits", "runq.max < 1d\n");
    for words in [
        "report -i data --html data.1",
        "report -i data.1 --against data --html ./data.1",
        "report -i data --html limits --limits limits",
        "export --perfetto data.1 -i data",
    ] {
        let (_, err) = said(&folder.run(words));
        assert!(err.contains("this is an input file"), "{words}: {err}");
    }
    // What the group ran, in each file, and in both.
    let ran = |items: &[Item]| {
        let numbers = items.iter().filter_map(|item| match item {
            Item::Groups(all) => u64::try_from(all.groups[1].samples[0].sum).ok(),
            _ => None,
        });
        numbers.collect::<Vec<_>>()
    };
    let (a, b) = (ran(&old), ran(&new));
    assert!(!a.is_empty() && !b.is_empty(), "{a:?} {b:?}");
    report("-i data --html page");
    let page = folder.read("page");
    let cell = format!("worker</td><td data-v=\"{}\"", b.last().unwrap() - a[0]);
    assert!(page.contains(&cell), "{cell}");
    // As early versions wrote it: without a word on the other file.
    let early = |path: &str| {
        let mut data = fs::read(folder.join(path)).unwrap();
        let second = sim::chunks(&data)[1].0.start;
        data.drain(16..second);
        fs::write(folder.join(path), data).unwrap();
    };
    early("data");
    assert_eq!(report("-i data -j runq"), whole);
    // Another recording of this name has nothing to do with it.
    record(&folder.join("data.1"), 5, |i| i);
    assert!(report("-i data -j runq") < whole);
}

/// Each copy replaces the one before, so it is another file: that is no gap.
#[test]
fn replaced_copies() {
    let mut copies = Copies::new("replaced");
    let child = copies.record("-I 10 -d 2");
    copies.go_on(child, 100);
    let text = copies.folder.text("report -i data");
    assert!(text.contains("runq") && !text.contains("anew"), "{text}");
    let info = &copies.items("data")[0];
    assert!(matches!(info, Item::Info(it) if it.contains("\nfollows_unix_ns 0\n")));
}

/// Whatever the file `outliers` does, each outlier is stored once, with its chain.
#[test]
fn each_outlier_once() {
    let mut copies = Copies::new("outliers");
    let text = |ids: &[u64]| {
        let line = |id: &u64| {
            format!(
                "outlier id {id} metric runq_wakeup cause wakeup cpu 1 duration_ns 9 start_ns 1 \
                 end_ns {} missing_ns 0 culprits 1 pid 7 prio 120 comm a b\n  \
                 culprit id {id} ran_ns 9 slices 1 pid 8 prio 120 comm c\n",
                id * 10
            )
        };
        ids.iter().map(line).collect::<String>()
    };
    let chains = |id: u64| {
        format!(
            "chain id {id} metric runq_wakeup cpu 1 duration_ns 9 hops 1\n  hop id {id} via -\n"
        )
    };
    copies
        .folder
        .put("chains", (1..=9).map(chains).collect::<String>());
    copies.folder.put("outliers", text(&[1]));
    let mut child = copies.record("-I 20 -d 3");
    wait_for(&copies.folder, "data");
    copies.is_recorded();
    let contents: [&[u64]; 6] = [&[1, 2], &[2, 4], &[2, 3], &[3, 4], &[2], &[3, 4, 5]];
    for round in 0.. {
        if child.try_wait().unwrap().is_some() {
            break;
        }
        let ids = contents[round % contents.len()];
        copies.folder.put("outliers", text(ids));
        copies.next();
        thread::sleep(Duration::from_millis(50));
    }
    assert!(child.wait().unwrap().success());
    let all = copies.items("data").into_iter();
    let all = all.filter_map(|item| match item {
        Item::Outliers(text) => Some(text),
        _ => None,
    });
    let all: String = all.collect();
    for id in 1..=5 {
        let number = |begin: &str| all.matches(&format!("{begin} id {id} ")).count();
        let expected = [usize::from(id > 1); 4];
        let found = ["outlier", "culprit", "chain", "hop"].map(number);
        assert_eq!(found, expected, "{id}");
    }
}

/// The group of an outlier has its name at once, also if it began after the recording.
#[test]
fn groups_of_outliers() {
    let mut copies = Copies::new("named");
    let outlier = |id: u64, start: u64, end: u64| {
        format!(
            "outlier id {id} metric runq cause preempted cpu 0 duration_ns {} start_ns {start} \
             end_ns {end} missing_ns 0 culprits 0 pid 7 prio 120 group 7 comm x\n",
            end - start
        )
    };
    copies.folder.put("outliers", "");
    copies.next();
    let mut child = copies.record("-I 20");
    wait_for(&copies.folder, "data");
    let (mut begun, mut text) = (Vec::new(), String::new());
    for id in 0..3 {
        copies.machine.run(20);
        let groups = GROUPS.replace("RAN", "9").replace("id 1 ", "id 7 ");
        copies.machine.groups = Some(sim::Groups::new(&groups, ""));
        copies.folder.put("raw", copies.machine.raw());
        let now = copies.machine.now;
        // The second one began before the group was seen, as far as is known.
        let start = if id == 1 { begun[0] - 1 } else { now - 9 };
        begun.push(now);
        copies.is_recorded();
        text += &outlier(id, start, now);
        copies.folder.put("outliers", &text);
        until("the outlier is recorded", || {
            let json = copies.folder.text("report -i data -j runq");
            json.matches("\"group\":7").count() as u64 == id + 1
        });
    }
    let json = copies.folder.text("report -i data -j runq");
    let lines = json.lines().filter(|line| line.contains("\"group\":7"));
    let named = lines.map(|line| line.contains("\"group_name\":\"worker\""));
    assert_eq!(named.collect::<Vec<_>>(), [false, false, true]);
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Counts how often the child, which waits for a line, asks for the disk until it ends.
fn syncs(child: &mut Child) -> u32 {
    let pid = Pid::from_raw(child.id() as i32);
    ptrace::attach(pid).unwrap();
    let wait = || waitpid(pid, Some(WaitPidFlag::__WALL)).unwrap();
    assert_eq!(wait(), WaitStatus::Stopped(pid, Signal::SIGSTOP));
    ptrace::setoptions(pid, ptrace::Options::PTRACE_O_TRACESYSGOOD).unwrap();
    writeln!(child.stdin.take().unwrap()).unwrap();
    let (mut number, mut is_entry, mut pass) = (0, true, None);
    loop {
        ptrace::syscall(pid, pass.take()).unwrap();
        match wait() {
            WaitStatus::PtraceSyscall(_) => {
                let call = ptrace::getregs(pid).unwrap().orig_rax as i64;
                let is_sync = [libc::SYS_fdatasync, libc::SYS_fsync].contains(&call);
                number += u32::from(is_entry && is_sync);
                is_entry = !is_entry;
            }
            WaitStatus::Stopped(_, Signal::SIGTRAP) => {}
            WaitStatus::Stopped(_, signal) => pass = Some(signal),
            ended => {
                assert_eq!(ended, WaitStatus::Exited(pid, 0));
                return number;
            }
        }
    }
}

/// The disk is asked once a second, at the beginning and at the end, whatever the interval is.
#[test]
fn syncs_once_a_second() {
    let mut copies = Copies::new("syncs");
    copies.next();
    #[allow(clippy::zombie_processes, reason = "it is waited for below")]
    for (interval, wanted) in [("10", 2..=6), ("1000", 2..=6)] {
        let words = format!("--dir . record -o data -d 3 -I {interval}");
        let mut shell = copies
            .folder
            .shell(&format!("read line; exec \"$0\" {words}"));
        let shell = shell.stdin(Stdio::piped()).stderr(Stdio::null());
        let mut child = shell.spawn().unwrap();
        let number = syncs(&mut child);
        assert!(wanted.contains(&number), "-I {interval}: {number}");
    }
}

/// Returns the files in a folder whose names begin so.
fn files(folder: &Path, begin: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| name.starts_with(begin)).collect();
    names.sort();
    names
}

/// Waits until there is a recording.
fn wait_for(folder: &Path, name: &str) {
    until("there is a recording", || files(folder, name) == [name]);
}

/// Whoever records to a file has it alone, before a command runs; `run --append` shares it with its
/// like. A command that is not there has a shell's status.
#[test]
fn two_recorders() {
    let folder = Folder::new("two-recorders");
    fs::create_dir(folder.join("machine")).unwrap();
    fs::write(folder.join("machine/raw"), sim::Machine::new(2, 5, 1).raw()).unwrap();
    const RECORD: &str = "--dir machine record -I 10 -o data";
    let mut first = folder
        .command(&format!("{RECORD} --ring 1h"))
        .spawn()
        .unwrap();
    wait_for(&folder, "data");
    for words in [
        "record -I 10 -o data -d 0.1",
        "record -o data -- touch ran",
        "run -o data -- touch ran",
        "run -o data --append -- touch ran",
    ] {
        let output = folder.run(&format!("--dir machine {words}"));
        let (_, err) = said(&output);
        assert_eq!(output.status.code(), Some(1), "{words}: {err}");
        assert!(
            err.contains("another schedhist is writing it"),
            "{words}: {err}"
        );
        assert_eq!(files(&folder, "data"), ["data"], "{words}: nothing is left");
        assert!(!folder.join("ran").exists(), "{words}");
    }
    first.kill().unwrap();
    first.wait().unwrap();
    let output = folder.run(&format!("{RECORD} -d 0.1 -- /no/such/command"));
    assert_eq!(output.status.code(), Some(127), "{output:?}");
    folder.text(&format!("{RECORD} -d 0.1"));
    assert_eq!(files(&folder, "data"), ["data", "data.old"]);
    let script = "run=\"$0 --dir machine run -o runs\"; $run -- $run --append -- $run -- touch ran";
    let output = folder.shell(script).output().unwrap();
    let (_, err) = said(&output);
    assert!(err.contains("another schedhist is writing it"), "{err}");
    assert!(
        !folder.join("ran").exists() && output.status.code() == Some(1),
        "{err}"
    );
    let runs = folder.text("report -i runs -j idle");
    assert_eq!(runs.lines().count(), 2, "{runs}");
}

/// A ring whose file was moved away goes on in a new one, unless another is written there.
#[test]
fn moved_away() {
    let folder = Folder::new("moved-away");
    fs::write(folder.join("raw"), sim::Machine::new(2, 5, 1).raw()).unwrap();
    let record = |words: &str| {
        let mut command = folder.command(&format!("--dir . record -I 10 -o data {words}"));
        command.stderr(Stdio::piped()).spawn().unwrap()
    };
    let ring = record("--ring 1s");
    let recorded = || until("there is a recording", || folder.join("data").exists());
    let signal = |signal| kill(Pid::from_raw(ring.id() as i32), signal).unwrap();
    recorded();
    fs::rename(folder.join("data"), folder.join("away")).unwrap();
    recorded();
    signal(Signal::SIGSTOP);
    fs::rename(folder.join("data"), folder.join("away.too")).unwrap();
    let mut other = record("");
    recorded();
    signal(Signal::SIGCONT);
    let output = ring.wait_with_output().unwrap();
    let (_, err) = said(&output);
    assert!(err.contains("another schedhist is writing it"), "{err}");
    assert_eq!(files(&folder, "data"), ["data"]);
    other.kill().unwrap();
    other.wait().unwrap();
}

/// Only where there is no file, none is kept: here, it cannot be opened to be written.
#[test]
fn not_opened() {
    let folder = Folder::new("not-opened");
    fs::write(folder.join("raw"), sim::Machine::new(2, 5, 1).raw()).unwrap();
    let sleep = folder
        .shell("cp /bin/sleep data && exec ./data 100")
        .spawn();
    let mut sleep = sleep.unwrap();
    let exe = format!("/proc/{}/exe", sleep.id());
    let data = fs::canonicalize(&*folder).unwrap().join("data");
    until("it runs", || {
        fs::read_link(&exe).is_ok_and(|exe| exe == data)
    });
    let output = folder.run("--dir . record -o data -d 0.1");
    sleep.kill().unwrap();
    sleep.wait().unwrap();
    assert!(
        said(&output).1.contains("data: Text file busy"),
        "{output:?}"
    );
    assert_eq!(files(&folder, "data"), ["data"]);
}

/// If a file cannot be written as a whole, the old one stays, and nothing else is left.
#[test]
fn a_full_disk() {
    let folder = Folder::new("full");
    record(&folder.join("data"), 20, |i| i * SECOND);
    let limited = |blocks: u32, words: &str| {
        // The limit is in units of 512 bytes; a write above it fails as on a full disk.
        let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" {words}");
        let output = folder.shell(&script).output().unwrap();
        let (_, err) = said(&output);
        assert_eq!(output.status.code(), Some(1), "{words}: {err}");
        assert!(err.contains("File too large"), "{words}: {err}");
    };
    fs::create_dir(folder.join("machine")).unwrap();
    fs::write(folder.join("machine/raw"), sim::Machine::new(2, 5, 1).raw()).unwrap();
    for (out, words) in [
        ("out.html", "report -i data --html out.html"),
        ("out.trace", "export -i data --perfetto out.trace"),
        (
            "out.prom",
            "--dir machine export --once --textfile out.prom",
        ),
        ("out.data", "--dir machine record -d 0.1 -o out.data"),
    ] {
        for blocks in [0, 1] {
            limited(blocks, words);
            assert_eq!(files(&folder, "out."), [""; 0], "{words}");
        }
        fs::write(folder.join(out), "old").unwrap();
        limited(1, words);
        assert_eq!(files(&folder, "out."), [out], "{words}");
        assert_eq!(fs::read(folder.join(out)).unwrap(), b"old", "{words}");
        fs::remove_file(folder.join(out)).unwrap();
    }
    // What is no regular file is written to, and a link stays one.
    fs::write(folder.join("page"), "").unwrap();
    std::os::unix::fs::symlink("page", folder.join("link")).unwrap();
    folder.text("report -i data --html link");
    assert!(folder.join("link").is_symlink() && folder.read("page").len() > 1_000);
    let page = folder.text("report -i data --html /dev/stdout");
    assert!(page.contains("<!doctype html>"));
}

/// If the next file of a ring cannot be begun, the one that there is stays.
#[test]
fn a_full_disk_and_a_ring() {
    let mut copies = Copies::new("ring-full");
    copies.next();
    let words = "--dir . record -o data -I 60000 --ring 1";
    let mut shell = copies
        .folder
        .shell(&format!("trap '' XFSZ; exec \"$0\" {words}"));
    let child = shell.stderr(Stdio::piped()).spawn().unwrap();
    wait_for(&copies.folder, "data");
    let pid = child.id().to_string();
    let mut prlimit = Command::new("prlimit");
    let limited = prlimit.args(["--pid", &pid, "--fsize=0"]).status();
    assert!(limited.unwrap().success());
    // At the end, a second later, it wants to go on in the next file.
    copies.is_recorded();
    copies.next();
    thread::sleep(Duration::from_secs(1));
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(files(&copies.folder, "data"), ["data"]);
    assert_eq!(times(&copies.items("data")).len(), 1);
}
