// SPDX-License-Identifier: GPL-2.0

//! `run --chain`: the critical path of the command.

use std::{
    fmt::Write,
    fs,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use schedhist_core::{
    chains::did,
    path::{Occupant, Path, Slices, Times},
    units::{shares, Unit},
};

use crate::{
    error::{At, Error, Result},
    options::Form,
    output::{note, share_line, wrap_after},
    setting::Setting,
    source::Source,
    table::Cell,
    verbs::watch,
};

/// For each CPU: they take 256 KiB, and reach back 40 ms at 100,000 switches a second.
const SLICES: &str = "4096";

/// The bounds of the time from one read to the next.
const PERIODS: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(100)];

/// How often slices are read until they have the end of the command.
const LAST_READS: u32 = 20;

/// The tasks and the culprits that are shown.
const SHOWN: usize = 10;

/// Makes the module keep slices, unless it does, for as long as the result exists.
pub fn keep_slices(source: &Source) -> Result<Setting<'_>> {
    let metrics = source.text("metrics")?;
    if !metrics.split_whitespace().any(watch::has_chains) {
        let why = "no metric of waits or sleeps is on: schedhist ctl metrics default";
        return Err(Error::at("--chain", why));
    }
    watch::keep_slices(source, SLICES)
}

/// Reads all slices of tasks, from when it is created until it ends.
pub struct PathReader {
    file: PathBuf,
    slices: Slices,
    period: Duration,
    /// When to call [`PathReader::read`], unless that has failed.
    due: Result<Instant>,
}

impl PathReader {
    pub fn begin(source: &Source) -> Self {
        Self {
            file: source.path("slices"),
            slices: Slices::default(),
            period: PERIODS[0],
            due: Ok(Instant::now() + PERIODS[0]),
        }
    }

    /// Returns when the next read is due, if one is.
    pub fn due(&self) -> Option<Instant> {
        self.due.as_ref().ok().copied()
    }

    /// Reads what has been kept since the last read.
    pub fn read(&mut self) {
        let data = fs::read(&self.file).at(&self.file);
        let new = data.and_then(|data| self.slices.add(&data).at(&self.file));
        self.due = new.map(|new| {
            self.period = match new {
                new if new > 0.3 => self.period / 2,
                new if new < 0.1 => self.period * 2,
                _ => self.period,
            };
            self.period = self.period.clamp(PERIODS[0], PERIODS[1]);
            Instant::now() + self.period
        });
    }

    /// Returns the critical path of the command, which has ended, as text or as JSON.
    pub fn end(mut self, title: &str, pid: u32, form: &Form) -> Result<String> {
        // The command may be on its CPU for a moment after its parent knows of its end.
        for _ in 0..LAST_READS {
            if self.due.is_ok() {
                self.read();
            }
            if self.due.is_err() || !self.slices.is_running(pid as i32) {
                break;
            }
            thread::sleep(PERIODS[0]);
        }
        self.due?;
        let slices = self.slices;
        if slices.missed() != 0 {
            note(format!(
                "{} slices were not seen: overwritten before they were read (a greater 'chain' \
                 keeps more: schedhist ctl chain 16384), or forgotten at a write to a setting",
                slices.missed()
            ));
        }
        let path = Path::of(&slices, pid as i32).ok_or_else(|| {
            Error::new("--chain: the first or the last slice of the command was not seen")
        })?;
        Ok(match form {
            Form::Json => json(&path, title, slices.missed()),
            _ => text(&path, title),
        })
    }
}

/// Returns a line with an object; `missed` is how many slices were not seen.
fn json(path: &Path, title: &str, missed: u64) -> String {
    let task = |(name, times): (&String, &Times)| {
        let name = [("name".into(), Cell::from(name))];
        Cell::object(name.into_iter().chain(Cell::times(times.parts())))
    };
    let behind = |(occupant, ns): (&Occupant, &u64)| {
        Cell::object([
            ("name", Cell::from(occupant.name())),
            ("sum_ns", Cell::Time(*ns)),
        ])
    };
    Cell::object([
        ("schema", Cell::from("schedhist.path.v1")),
        ("command", Cell::from(title)),
        ("wall_ns", Cell::Time(path.wall)),
        ("unseen_ns", Cell::Time(path.unseen)),
        ("missed_slices", missed.into()),
        ("wakeups", path.wakeups.into()),
        ("tasks", path.tasks.iter().map(task).collect()),
        ("behind", path.behind.iter().map(behind).collect()),
    ])
    .line()
}

fn text(path: &Path, title: &str) -> String {
    let time = |ns| Unit::Fitting.text(Some(ns));
    let mut out = String::new();
    // Writing to a String does not fail.
    let _ = writeln!(
        out,
        "## critical path of {title}: {} from fork to exit, {} wakeups",
        time(path.wall),
        path.wakeups
    );
    let mut tasks: Vec<_> = path.tasks.iter().collect();
    tasks.sort_by_cached_key(|(_, times)| std::cmp::Reverse(times.sum()));
    let mut rows: Vec<_> = tasks.iter().map(|(_, times)| times.sum()).collect();
    rows.push(path.unseen);
    let shares = shares(&rows);
    for ((name, times), share) in tasks.iter().zip(&shares).take(SHOWN) {
        let parts = did(&times.parts(), &time);
        line(&mut out, *share, times.sum(), name, &parts);
    }
    let others: u64 = tasks.iter().skip(SHOWN).map(|(_, times)| times.sum()).sum();
    if others != 0 {
        let share = shares[SHOWN..tasks.len()].iter().sum();
        line(&mut out, share, others, "others", "");
    }
    if path.unseen != 0 {
        line(&mut out, shares[tasks.len()], path.unseen, "not seen", "");
    }
    let mut behind: Vec<_> = path.behind.iter().filter(|(_, ns)| **ns != 0).collect();
    behind.sort_by_cached_key(|(_, ns)| std::cmp::Reverse(**ns));
    let behind: Vec<_> = behind
        .iter()
        .take(SHOWN)
        .map(|(occupant, ns)| format!("{} {}", occupant.name(), time(**ns)))
        .collect();
    if !behind.is_empty() {
        let behind = format!("who had the CPU meanwhile: {}", behind.join(", "));
        paragraph(&mut out, &behind);
    }
    let mut sum = Times::default();
    for times in path.tasks.values() {
        sum.add(times);
    }
    let mut parts: Vec<_> = sum.parts().to_vec();
    parts.push(("not seen", path.unseen));
    debug_assert_eq!(parts.iter().map(|(_, ns)| ns).sum::<u64>(), path.wall);
    let parts = parts.into_iter().filter(|(_, ns)| *ns != 0);
    let parts: Vec<_> = parts.map(|(what, ns)| format!("{what} {ns}")).collect();
    paragraph(
        &mut out,
        &format!("{} = {} ns", parts.join(" + "), path.wall),
    );
    out
}

fn paragraph(out: &mut String, text: &str) {
    wrap_after(out, "  ", 4, text);
}

fn line(out: &mut String, share: u32, ns: u64, name: &str, parts: &str) {
    let text = match parts {
        "" => name.to_owned(),
        parts => format!("{name}: {parts}"),
    };
    share_line(out, share, ns, &text);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checked against the schema, too, by `tests/harness/schema.py`.
    const OBJECT: &str = r#"
{"schema":"schedhist.path.v1","command":"make","wall_ns":100,"unseen_ns":10,"missed_slices":3,"wakeups":2,"tasks":[{"name":"sleep","ran_ns":1,"waited_ns":2,"preempted_ns":3,"throttled_ns":4,"blocked_ns":75,"unknown_ns":5}],"behind":[{"name":"hog","sum_ns":2},{"name":"(idle)","sum_ns":1}]}
"#;

    #[test]
    fn object() {
        let times = Times {
            ran: 1,
            waited: 2,
            preempted: 3,
            throttled: 4,
            blocked: 75,
            unknown: 5,
        };
        let path = Path {
            wall: 100,
            unseen: 10,
            tasks: [("sleep".to_owned(), times)].into(),
            behind: [(Occupant::Task("hog".to_owned()), 2), (Occupant::Idle, 1)].into(),
            wakeups: 2,
        };
        assert_eq!(json(&path, "make", 3), &OBJECT[1..]);
        // Other ways to print it have the same parts.
        assert!(text(&path, "make").contains("= 100 ns\n"));
    }
}
