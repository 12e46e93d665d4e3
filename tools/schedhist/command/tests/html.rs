// SPDX-License-Identifier: GPL-2.0

//! `report --html`: the page holds what was recorded, loads nothing, and stays small.
//! SCHEDHIST_PAGES is a folder for the pages: tests/report/run looks at them with a browser.

use std::{
    env,
    fmt::Write,
    fs::{self, File},
    path::Path,
};

use base64::{engine::general_purpose::STANDARD, Engine};
use schedhist_core::{
    engine,
    engine::idle::WaitSums,
    raw,
    recording::file::{Recorder, TimedSnapshot},
    timeline::row,
};
use schedhist_page as page;
use serde_json::{json, Value};
use sha2::{Digest, Sha256};

mod support;

use support::{recorder, sim, Folder};

/// The number of snapshots of an hour at one a second.
const HOUR: u64 = 3_600;

/// A wait that no task of the simulated machine has: all others are shorter than 10 ms.
const STALL: u64 = 50_000_000;

const GROUPS: &str = "# schedhist groups version 1
group_by cgroup
refused 0
group id 0 oncpu_sum_ns 0 runq_count 0 runq_sum_ns 0 name other
group id 1 oncpu_sum_ns 5000 runq_count 5 runq_sum_ns 4000 runq_p99_ns 900 runq_max_ns 1000 \
ended_by_own_ns 1000 ended_by_other_ns 3000 ended_by_kernel_ns 0 ended_by_idle_ns 0 name /<script>alert(1)</script>
  neighbour id 2 of 1 ended 4 ended_ns 3000 name /\"&'
";

/// Records `count` snapshots with a stall before number `stall` and a gap in the middle. The wall
/// clock steps back an hour after a quarter of them. Returns when they were taken, in seconds since
/// the first one.
fn record(path: &Path, seed: u64, count: u64, stall: u64) -> Vec<f64> {
    let mut times = Vec::new();
    let mut machine = sim::Machine::new(4, 5, seed);
    machine.spread = 6;
    let (mut before, mut moved) = (Vec::new(), None);
    let mut recorder = recorder(path, "host web1\nkernel 7.3.4\nmodule 0.1.0\n");
    for i in 0..count {
        if i == count / 2 {
            recorder.mark("gap: <b>nobody</b> was there").unwrap();
        }
        machine.run(20);
        // Of each second that tasks waited long, idle CPUs could have served a quarter. The first
        // cause began them.
        let s = i * 1_000_000_000;
        let waits = [i, s, 0, s / 4, 0, 0, s / 4 * 3, i, s];
        let mut sums = WaitSums::default();
        sums.0[..waits.len()].copy_from_slice(&waits);
        machine.long_waits = Some((1_000_000, sums));
        let bytes = machine.raw();
        let mut snapshot = raw::decode(&bytes).unwrap();
        let time = snapshot.time;
        let scheme = snapshot.scheme;
        let wakeup = snapshot.names.metric("runq_wakeup").unwrap().parts[0];
        let mut waits = snapshot.cpus[2].histograms.iter_mut();
        if let Some(waits) = waits.find(|histogram| histogram.metric == wakeup) {
            // A wait of this interval becomes the stall, so that the laws hold.
            let grown = std::mem::replace(&mut before, waits.buckets.clone());
            if i == stall {
                let new = waits.buckets.iter().find(|bucket| !grown.contains(bucket));
                moved = Some(new.unwrap().0);
            }
            if let Some(moved) = moved {
                let at = waits.buckets.iter().position(|(index, _)| *index == moved);
                let at = at.unwrap();
                waits.buckets[at].1 -= 1;
                if waits.buckets[at].1 == 0 {
                    waits.buckets.remove(at);
                }
                waits.buckets.push((scheme.index(STALL) as u32, 1));
                let lower = scheme.bounds(moved as usize).lower;
                waits.sum += u128::from(STALL - lower);
            }
        }
        let taken = TimedSnapshot {
            unix_ns: 1_800_000_000_000_000_000 + i * 1_000_000_000
                - if i < count / 4 { 0 } else { 3_600_000_000_000 },
            read_ns: 1_000,
            snapshot,
        };
        recorder.snapshot(&taken, &bytes).unwrap();
        times.push(time);
        // At the beginning and the end of each part: after the gap, the module counts anew.
        if [0, (count / 2).saturating_sub(1), count / 2, count - 1].contains(&i) {
            let ran = 5_000 + i % (count / 2).max(1);
            let groups = GROUPS.replace("oncpu_sum_ns 5000", &format!("oncpu_sum_ns {ran}"));
            machine.groups = Some(sim::Groups::new(&groups, ""));
            recorder.groups(&machine.raw()).unwrap();
            machine.groups = None;
        }
        if i == stall {
            let text = format!(
                "outlier id 1 metric runq_wakeup cause wakeup cpu 2 duration_ns {STALL} start_ns 1 \
                 end_ns {time} missing_ns 0 culprits 1 pid 7 prio 120 comm </title>\n  \
                 culprit id 1 ran_ns {STALL} slices 1 pid 9 prio 49 comm hog\n\
                 chain id 1 metric runq_wakeup cpu 2 duration_ns {STALL} end interrupt \
                 blocked_ns 20000000 missing_ns 5000000 hops 2\n  \
                 hop id 1 via - ran_ns 0 waited_ns 10000000 preempted_ns 0 throttled_ns 0 slices 1 cpu 1 group 0 \
                 pid 7 comm </title>\n  \
                 hop id 1 via task ran_ns 5000000 waited_ns 9000000 preempted_ns 1000000 \
                 throttled_ns 0 slices 2 cpu 1 group 0 pid 8 comm db/3\n"
            );
            recorder.outliers(&text).unwrap();
        }
    }
    let first = times[0];
    times
        .iter()
        .map(|time| (time - first) as f64 / 1e9)
        .collect()
}

/// Keeps a page for a browser.
fn keep(name: &str, page: &str) {
    if let Some(folder) = env::var_os("SCHEDHIST_PAGES") {
        fs::create_dir_all(&folder).unwrap();
        fs::write(Path::new(&folder).join(name), page).unwrap();
    }
}

/// Writes what `perf script` prints of `count` sleeps, of which many are alike.
fn perf_script(path: &Path, count: u64) {
    let mut text = String::new();
    for i in 0..count {
        let task = ["nginx", "web <script>alert(1)</script>", "batch job"][(i % 3) as usize];
        let _ = writeln!(
            text,
            "{task} {} {} schedhist:offcpu: ",
            100 + i % 3,
            1_000 + i * i % 90_001
        );
        let reason = [
            "futex_wait",
            "do_epoll_wait",
            "hrtimer_nanosleep",
            "anon_pipe_read",
        ];
        let _ = writeln!(
            text,
            "\tffffffff81000000 __schedule+0x1 ([kernel.kallsyms])\n\
             \tffffffff81000001 schedule+0x1 ([kernel.kallsyms])\n\
             \tffffffff81000002 {}+0x1f ([kernel.kallsyms])\n\
             \tffffffff81000003 do_syscall_64+0x2 ([kernel.kallsyms])",
            reason[(i % 4) as usize]
        );
        for depth in (0..i % 23).rev() {
            let branch = i % (depth + 2);
            let _ = writeln!(
                text,
                "\t 7f00 f{depth}_{branch}(int)+0x3 (/usr/lib/a (deleted))"
            );
        }
        let _ = writeln!(text, "\t 7f01 main+0x9 (/usr/bin/x)\n");
    }
    fs::write(path, text).unwrap();
}

/// Returns the part of a text between two others.
fn between<'a>(text: &'a str, begin: &str, end: &str) -> &'a str {
    let rest = text
        .split_once(begin)
        .unwrap_or_else(|| panic!("no {begin}"))
        .1;
    rest.split_once(end).unwrap_or_else(|| panic!("no {end}")).0
}

/// Returns the figures for the script.
fn figures(page: &str) -> Value {
    serde_json::from_str(between(page, "id=\"data\">", "</script>")).unwrap()
}

/// The page is valid on its own: its policy allows its own style and script, and nothing else.
fn check_page(page: &str) {
    assert!(page.len() < 1_000_000, "{} bytes", page.len());
    let policy = between(page, "Content-Security-Policy\" content=\"", "\"><meta");
    let hash = |text: &str| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)));
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

/// With `--time`, outliers of other times are left out. The groups are those of the whole
/// recording: what they did before the gap, and after it.
#[test]
fn a_part_of_the_time() {
    let folder = Folder::new("part");
    let times = record(&folder.join("data"), 3, 40, 30);
    // The row of the only group that did anything.
    let whole = "</td><td data-v=\"38\">38ns</td>";
    for (begin, end, is_there) in [(0, 10, false), (25, 35, true), (32, 39, false)] {
        let time = &format!("{},{}", times[begin], times[end]);
        folder.text(&format!("report -i data --html page --time {time}"));
        let page = folder.read("page");
        check_page(&page);
        assert_eq!(page.contains("hog:9"), is_there, "{time}");
        let at = format!(
            "<td data-v=\"{0:.3}\" title=\"{0:.3} s since the first",
            times[30]
        );
        assert_eq!(page.contains(&at), is_there, "{time}: {at}");
        // The mark is in the fifth of ten columns.
        if is_there {
            assert_eq!(figures(&page)[0]["times"].as_array().unwrap().len(), 10);
            let x = between(&page, "class=\"mark\" d=\"M", " ")
                .parse::<f64>()
                .unwrap();
            let area = between(&page, "data-area=\"", "\"");
            let area: Vec<f64> = area.split(' ').map(|n| n.parse().unwrap()).collect();
            assert_eq!(((x - area[0]) * 10.0 / area[2]) as u64, 4);
        }
        assert!(page.contains("recorded of groups"), "{time}");
        assert!(!page.contains(whole), "{time}");
    }
    folder.text("report -i data --html page");
    let page = folder.read("page");
    assert!(page.contains("hog:9") && page.contains(whole));
}

/// Limits are judged as `check` does, of the part that is shown.
#[test]
fn limits() {
    let folder = Folder::new("limits");
    record(&folder.join("data"), 3, 40, 30);
    folder.put(
        "limits",
        "runq.p50 < 1d\noncpu.max < 1ns\nrunq.p50 of \"x\" < 1s\n",
    );
    folder.text("report -i data --html page --limits limits");
    let page = folder.read("page");
    check_page(&page);
    for wanted in [
        "<span class=\"good\">kept</span> runq.p50 &lt; 1d: ",
        "<span class=\"bad\">BROKEN</span> oncpu.max &lt; 1ns: ",
        "<span class=\"dim\">unknown</span> runq.p50 of &quot;x&quot; &lt; 1s: there is no such group",
    ] {
        assert!(page.contains(wanted), "{wanted}");
    }
}

/// Of too many outliers, the longest are shown, whenever they came; and of each metric.
#[test]
fn the_worst_outliers() {
    let folder = Folder::new("worst");
    let mut machine = sim::Machine::new(2, 5, 7);
    let mut recorder = recorder(&folder.join("data"), "");
    let mut id = 0;
    for i in 1..=4 {
        machine.run(20);
        let end = i * 1_000_000_000;
        machine.now = end;
        support::record(&mut recorder, &machine.raw(), end);
        for nth in 0..150 {
            id += 1;
            let (metric, ns) = match (nth % 3, nth) {
                (0, _) => ("offcpu", 900_000_000 + id),
                (_, 148 | 149) => ("runq_preempt", 100_000_000 + id),
                _ => ("runq_wakeup", 20_000_000 + id),
            };
            let text = format!(
                "outlier id {id} metric {metric} cause wakeup cpu 1 duration_ns {ns} start_ns 1 \
                 end_ns {} missing_ns {ns} culprits 0 pid {id} prio 120 comm x\n",
                end + nth
            );
            recorder.outliers(&text).unwrap();
        }
    }
    folder.text("report -i data --html page");
    let page = folder.read("page");
    check_page(&page);
    assert_eq!(page.matches("<tr id=\"o0-").count(), 200);
    // All eight are there, though 600 came.
    let rows = between(&page, "id=\"outliers\"", "id=\"stacks\"");
    assert_eq!(rows.matches("<td class=\"l\">runq_preempt</td>").count(), 8);
    // The longest of the others are the last ones; the longest comes first.
    let ids = rows.split("<td class=\"l\">x:").skip(1);
    let ids: Vec<u64> = ids
        .map(|row| row.split('<').next().unwrap().parse().unwrap())
        .collect();
    assert!(ids.contains(&598), "{ids:?}");
    let lengths = rows.split("<tr id=").skip(1).map(|row| {
        let cells = row.split("data-v=\"").nth(2).unwrap();
        cells.split('"').next().unwrap().parse::<u64>().unwrap()
    });
    assert!(lengths.is_sorted_by(|a, b| a >= b));
    // All are marked and added up, those that are not listed, too.
    let sum = between(rows, "(not named)</td>", "</tr>");
    assert!(sum.starts_with("<td>400</td>"), "{sum}");
    assert!(page.contains("<a href=\"#more0\"><path class=\"mark\""));
    assert!(page.contains("<p>And 104 more of offcpu, of 900ms at most.</p>"));
    assert!(page.contains("<p>And 296 more of runq_wakeup, of 20.0ms at most.</p>"));
}

/// An hour at one snapshot a second: the stall is in one cell, in the column of its time, and leads
/// to the outlier.
#[test]
fn an_hour() {
    let folder = Folder::new("hour");
    record(&folder.join("a.data"), 1, HOUR, 2_345);
    perf_script(&folder.join("offcpu.txt"), 20_000);
    let stack = ["__schedule+0x1/0x2", "<futex>"];
    let watched = json!({"schema": "x", "id": 1, "duration_ns": STALL, "stack": stack});
    folder.put("watched", watched.to_string());
    folder.text("report -i a.data --html a.html --stacks watched --stacks offcpu.txt");
    let page = folder.read("a.html");
    keep("hour.html", &page);
    check_page(&page);
    assert!(!page.contains("does not hold") && !page.contains("class=\"bad\""));
    // The flame graph has the program and its reasons, and leaves out what is narrow.
    for part in [
        "<title>nginx: ",
        "<title>futex_wait: ",
        "offcpu.txt: 915ms in all",
        " or less are left out",
    ] {
        assert!(page.contains(part), "no {part}");
    }
    let data = &figures(&page)[0];
    let columns = data["times"].as_array().unwrap().len();
    assert!(columns > 100 && columns <= 240, "{columns} columns");
    // The first metric is runq.
    let cells = data["metrics"][0]["cells"].as_array().unwrap();
    assert_eq!(cells.len(), columns);
    let stall = [json!(row(STALL)), json!(1)];
    let stall = |cell: &Value| cell.as_array().unwrap().chunks(2).any(|pair| pair == stall);
    let found: Vec<_> = (0..cells.len()).filter(|at| stall(&cells[*at])).collect();
    assert_eq!(found.len(), 1);
    // The first interval ends at snapshot 1; the simulated clock has another pace than the wall.
    let share = found[0] as f64 / cells.len() as f64;
    assert!((share - 2_345.0 / HOUR as f64).abs() < 0.02, "{share}");
    assert!(page.contains("<a href=\"#o0-0\">") && page.contains("<tr id=\"o0-0\">"));
    assert!(page.contains("hog:9 50.0ms (100.0 %)"), "the culprit");
    for part in [
        "&lt;/title&gt;:7 waited 10.0ms &lt; db/3:8 ran 5.00ms, waited 9.00ms, preempted 1.00ms &lt; \
         20.0ms blocked until an interrupt woke it &lt; 5.00ms not known</td>",
        // As time went by.
        "<rect class=\"g3\" x=\"0\" width=\"100\" height=\"100\"><title>not known 5.00ms</title>",
        "<rect class=\"r0\" x=\"700\" width=\"100\" height=\"100\"><title>db/3:8 ran 5.00ms</title>",
        "<rect class=\"hot\" x=\"800\" width=\"200\" height=\"100\"><title>&lt;/title&gt;:7 waited",
        "db/*: 40.0ms, 80.00 %",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert!(page.contains("/&lt;script&gt;alert(1)&lt;/script&gt;"));
    assert!(page.contains("__schedule &lt; &lt;futex&gt;"), "the stack");
    assert!(page.contains("class=\"gap\""));
    // The headline: what, when and where, and what to look at first.
    assert!(page.contains("<h1>web1</h1>"));
    let head = between(&page, "</h1>", "<nav>");
    assert!(
        head.contains(
            "Friday, 2027-01-15, 08:00:00 to 07:59:52 UTC+00:00 (26 s): Linux 7.3.4, 4 CPUs"
        ),
        "{head}"
    );
    let sentence =
        "; the longest 50.0ms at 07:39:04 on CPU 2, of &lt;/title&gt;:7, behind hog:9; idle \
         CPUs could have served 25 % of the time of long waits: 100 % moved.";
    assert!(head.contains(sentence), "{head}");
    // Marks and rows lead to each other, and who is to blame is added up.
    assert!(page.contains("<a id=\"m0-0\" href=\"#o0-0\">") && page.contains("<a href=\"#m0-0\">"));
    let blamed = between(&page, "id=\"outliers\"", "</table>");
    assert!(
        blamed.contains(">hog</td><td>1</td>") && blamed.contains(" 100.0 %</td>"),
        "{blamed}"
    );
}

/// Returns what the page of `data` begins with.
fn headline(folder: &Folder) -> String {
    folder.text("report -i data --html page");
    between(&folder.read("page"), "</h1>", "<nav>").to_owned()
}

/// Records a wait of task 7 that has just ended, behind task 9 of the group 3.
fn wait(recorder: &mut Recorder<File>, id: u64, ns: u64, end: u64) {
    let text = format!(
        "outlier id {id} metric runq_wakeup cause wakeup cpu 1 duration_ns {ns} start_ns {} \
         end_ns {end} missing_ns 0 culprits 1 pid 7 prio 120 comm x\n  \
         culprit id {id} ran_ns {ns} slices 1 pid 9 prio 49 group 3 comm hog\n",
        end - ns
    );
    recorder.outliers(&text).unwrap();
}

/// The culprit is named by its group only if the number means that group: it is used again, and
/// starts anew when the module is loaded anew.
#[test]
fn numbers_of_groups() {
    // Longer than any wait of the simulated machine, and than a load is recorded.
    let (short, long, longest) = (1, 200_000_000, 60_000_000_000);
    // Of each load of the module, the name of group 3 at each snapshot, and the wait before the
    // last one; which name is right.
    for (loads, wanted) in [
        (&[("/a /a /a", long)][..], "behind /a"),
        (&[("/a /b /b", long)], "behind hog:9"),
        (&[("- /a /a", long)], "behind hog:9"),
        (&[("other other", long)], "behind hog:9"),
        // It began before the groups were recorded.
        (&[("/a /a", longest)], "behind hog:9"),
        (&[("/a /a", long), ("/b /b", short)], "behind /a"),
        (&[("/a /a", short), ("/b /b", long)], "behind /b"),
        (&[("/a /a", short), ("/b /a", long)], "behind hog:9"),
    ] {
        let folder = Folder::new("numbers");
        let mut recorder = recorder(&folder.join("data"), "");
        let mut now = 100_000_000_000;
        for (load, (names, ns)) in (1..).zip(loads) {
            let mut machine = sim::Machine::new(2, 5, load);
            machine.now = now;
            if load != 1 {
                recorder.mark("gap: the module was loaded anew").unwrap();
            }
            for name in names.split(' ') {
                machine.run(200);
                now = machine.now;
                let mut text = format!(
                    "# schedhist groups version 1\ngroup_by cgroup\n\
                     group id 1 runq_count 5 runq_sum_ns {now} name /b\n"
                );
                if name != "-" {
                    let _ = writeln!(text, "group id 3 runq_count 5 runq_sum_ns 9 name {name}");
                }
                machine.groups = Some(sim::Groups::new(&text, ""));
                let bytes = machine.raw();
                support::record(&mut recorder, &bytes, now);
                recorder.groups(&bytes).unwrap();
            }
            wait(&mut recorder, load, *ns, now);
        }
        let head = headline(&folder);
        assert!(
            head.contains(&format!(", of x:7, {wanted}.")),
            "{loads:?}: {head}"
        );
    }
}

/// The longest wait is exact if the module tells it; a shorter outlier is not it. If a longer wait
/// came before the first snapshot, only a bound is known.
#[test]
fn the_longest_wait() {
    for is_late in [false, true] {
        let folder = Folder::new("longest");
        let mut machine = sim::Machine::new(1, 5, 7);
        if is_late {
            machine.run(500);
            machine.spread = 5;
        }
        let mut recorder = recorder(&folder.join("data"), "");
        support::record(&mut recorder, &machine.raw(), 1_000_000_000);
        machine.run(20);
        let bytes = machine.raw();
        support::record(&mut recorder, &bytes, 2_000_000_000);
        let json = folder.text("report -i data runq -j");
        let line: Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
        let max = line["max_ns"].as_u64().unwrap();
        assert_eq!(line["max_is_exact"], json!(!is_late), "{json}");
        let text = page::duration(max);
        let bound = if is_late { "at most " } else { "" };
        let head = headline(&folder);
        let wanted = format!(", the longest {bound}{text} within ");
        assert!(head.contains(&wanted), "{wanted}: {head}");
        // Of the same bucket.
        wait(&mut recorder, 1, max - 1, machine.now);
        let head = headline(&folder);
        let wanted = match is_late {
            true => format!(", the longest {} at ", page::duration(max - 1)),
            false => wanted,
        };
        assert!(head.contains(&wanted), "{wanted}: {head}");
        wait(&mut recorder, 2, max, machine.now);
        let head = headline(&folder);
        assert!(
            head.contains(&format!(", the longest {text} at ")),
            "{head}"
        );
    }
}

/// The page says in which time zone its times are, also if the clock is put forward meanwhile.
#[test]
fn time_zones() {
    let folder = Folder::new("zones");
    let mut machine = sim::Machine::new(1, 5, 7);
    let mut recorder = recorder(&folder.join("data"), "");
    for i in 0..60 {
        machine.run(2);
        machine.now = (1 + i) * 60_000_000_000;
        let unix = 1_800_000_000_000_000_000 + i * 60_000_000_000;
        support::record(&mut recorder, &machine.raw(), unix);
    }
    for (zone, times) in [
        ("UTC", "08:00:00 to 08:59:00 UTC+00:00 ("),
        ("IST-5:30", "13:30:00 to 14:29:00 UTC+05:30 ("),
        ("AAA3", "05:00:00 to 05:59:00 UTC-03:00 ("),
        // On the 15th of January, at 9:30.
        (
            "AAA-1BBB,J15/9:30,J300",
            "09:00:00 to 10:59:00 UTC+01:00, then UTC+02:00 (",
        ),
    ] {
        let mut report = folder.command("report -i data --html page");
        assert!(report.env("TZ", zone).status().unwrap().success());
        let page = folder.read("page");
        let head = between(&page, "</h1>", "<nav>");
        assert!(head.contains(times), "{zone}: {head}");
    }
}

/// Labels of the time axis are round times of the clock, however long the recording is.
#[test]
fn round_times() {
    for (seconds, count, labels) in [
        (
            1,
            12,
            "08:00:00 08:00:02 08:00:04 08:00:06 08:00:08 08:00:10",
        ),
        (60, 100, "08:00 08:15 08:30 08:45 09:00 09:15 09:30"),
        (3_600, 30, "08:00 12:00 16:00 20:00 01-16 04:00 08:00 12:00"),
    ] {
        let folder = Folder::new("round");
        let mut machine = sim::Machine::new(1, 5, 7);
        let mut recorder = recorder(&folder.join("data"), "");
        for i in 0..count {
            machine.run(2);
            machine.now = (1 + i) * seconds * 1_000_000_000;
            let unix = 1_800_000_000_000_000_000 + i * seconds * 1_000_000_000;
            support::record(&mut recorder, &machine.raw(), unix);
        }
        folder.text("report -i data --html page");
        let page = folder.read("page");
        let heat = between(&page, "class=\"heat\"", "</svg>");
        let found = heat.split("text-anchor=\"middle\">").skip(1);
        let found: Vec<_> = found.map(|rest| rest.split('<').next().unwrap()).collect();
        assert_eq!(found.join(" "), labels);
    }
}

/// Two recordings have one scale of rows and colours, and their differences are shown.
#[test]
fn beside_each_other() {
    let folder = Folder::new("two");
    record(&folder.join("a.data"), 1, HOUR / 4, 99);
    record(&folder.join("b.data"), 2, HOUR / 8, HOUR);
    folder.put("a.folded", "x;main;read_[k] 3000\nx;main 1000\n");
    perf_script(&folder.join("b.txt"), 100);
    folder.text("report -i a.data --html x.html --against b.data --stacks a.folded --stacks b.txt");
    let page = folder.read("x.html");
    keep("two.html", &page);
    check_page(&page);
    assert!(page.contains("<title>read: 3.00us, 75.00 %</title>"));
    // Two of stacks, and the first one's chains.
    assert_eq!(page.matches("class=\"flame\"").count(), 3);
    assert!(page.contains("A: a.data") && page.contains("B: b.data"));
    assert!(page.contains("From A to B") && page.contains("Difference of the shares"));
    let figures = figures(&page);
    assert_eq!(
        (&figures[0]["name"], &figures[1]["name"]),
        (&json!("a.data"), &json!("b.data"))
    );
    let scale = |at: usize| ["low", "rows"].map(|key| &figures[at]["metrics"][0][key]);
    assert_eq!(scale(0), scale(1));
    // Stacks that are none, more of them than recordings, and stacks of no page.
    folder.put("none", "no stacks");
    for (words, status) in [
        ("--html y.html --stacks none", 1),
        ("--html y.html --stacks missing", 1),
        ("--html y.html --stacks b.txt --stacks b.txt", 2),
        ("--stacks b.txt", 2),
    ] {
        let output = folder.run(&format!("report -i a.data {words}"));
        assert_eq!(output.status.code(), Some(status), "{output:?}");
    }
    // Nothing can be shown of a file without two snapshots.
    record(&folder.join("c.data"), 1, 1, 0);
    let output = folder.run("report -i c.data --html c.html");
    assert_eq!(output.status.code(), Some(1));
}
