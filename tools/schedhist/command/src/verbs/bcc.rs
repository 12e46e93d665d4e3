// SPDX-License-Identifier: GPL-2.0

//! `runqlat` and `cpudist`: the letters and the tables of BCC's tools of these names.

use std::{collections::BTreeMap, fs, path::PathBuf};

use schedhist_core::{
    distribution::Distribution,
    engine::group::records::GroupMetric,
    groups::{group_metric, GroupWindow},
    log2::Log2,
    raw::{Group, Groups},
};

use crate::{
    cli::{Bcc, Cpudist, Runqlat},
    error::{Error, Result},
    options::check_metrics,
    output::{note, print},
    render,
    setting::{
        grouping::{Grouping, MORE_GROUPS, NO_HISTOGRAM},
        names, owner,
    },
    source::{each_interval, Interval, Reading, Source},
    sys::{self, Waiter},
};

/// The table to print.
struct Table {
    what: String,
    /// The metrics that are added up.
    metrics: Vec<String>,
    /// The unit in nanoseconds, and its name.
    unit: (u64, &'static str),
    /// Whether to print the average, the total and the count.
    extension: bool,
    /// Whether a process is shown with its name, as `cpudist` does.
    with_comm: bool,
}

impl Table {
    fn new(args: &Bcc, what: &str, metrics: &[&str]) -> Self {
        Self {
            what: what.to_owned(),
            metrics: metrics.iter().map(|&name| name.to_owned()).collect(),
            unit: match args.milliseconds {
                true => (1_000_000, "msecs"),
                false => (1_000, "usecs"),
            },
            extension: false,
            with_comm: false,
        }
    }

    /// Returns the samples of the machine.
    fn samples(&self, interval: &Interval) -> Distribution {
        let mut all = Distribution::new(interval.window.scheme);
        let names = &interval.window.names;
        for metric in self.metrics.iter().filter_map(|name| names.metric(name)) {
            all.merge(&interval.window.distribution(metric, &|_| true));
        }
        all
    }

    fn write(&self, out: &mut String, samples: Distribution) -> Distribution {
        // Writing to a String does not fail.
        let _ = Log2::new(&samples, self.unit.0).write(out, self.unit.1);
        samples
    }

    fn write_extension(&self, out: &mut String, all: &Distribution) {
        if self.extension && all.count() != 0 {
            let (unit, label) = self.unit;
            let (total, count) = (all.sum / u128::from(unit), all.count());
            let mean = total / u128::from(count);
            *out += &format!("\navg = {mean} {label}, total: {total} {label}, count: {count}\n\n");
        }
    }
}

/// What has a table of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Split {
    Process,
    Thread,
    PidNamespace,
}

/// Whose samples are shown.
enum Whose {
    /// Those of the machine.
    All,
    /// Those of a cgroup and all that are below it, by its path below [`CGROUPS`].
    Cgroup(PathBuf),
    /// Those of one process.
    Process(u32),
    /// Those of each, in tables of their own.
    Each(Split, Option<u32>),
}

impl Whose {
    fn new(args: &Bcc, pidnss: bool) -> Result<Self> {
        let split = match () {
            () if args.tids => Some(Split::Thread),
            () if args.pids => Some(Split::Process),
            () if pidnss => Some(Split::PidNamespace),
            () => None,
        };
        let pid = args.pid.as_deref().map(names::pid).transpose()?;
        Ok(match (split, pid, &args.cgroup) {
            (Some(split), pid, _) => Self::Each(split, pid),
            (None, Some(pid), _) => Self::Process(pid),
            (None, None, Some(path)) => Self::Cgroup(names::cgroup(path, "-c")?),
            (None, None, None) => Self::All,
        })
    }

    /// Returns the rule by which tasks must be grouped.
    fn rule(&self) -> Option<String> {
        match self {
            Self::All => None,
            Self::Cgroup(_) => Some("cgroup".to_owned()),
            Self::Process(pid) => Some(format!("process {pid}")),
            Self::Each(split, pid) => {
                let rule = if *split == Split::Thread {
                    "thread"
                } else {
                    "process"
                };
                Some(pid.map_or_else(|| rule.to_owned(), |pid| format!("{rule} {pid}")))
            }
        }
    }

    /// Returns an error if there is no such cgroup or process, or if the module has other names for
    /// it than this process.
    ///
    /// Where every process has a group, the module is not told which one is meant, and so does not
    /// check it.
    fn check(&self) -> Result {
        match self {
            Self::Cgroup(_) if !owner::has_initial_cgroups() => {
                let why = "the module shows the paths of the initial cgroup namespace, and this \
                     process is in another one: run schedhist on the host";
                Err(Error::at("-c", why))
            }
            Self::Each(Split::PidNamespace, _) => owner::need_initial_pids("--pidnss"),
            Self::Cgroup(path) => names::check_cgroup(path, "-c"),
            _ => Ok(()),
        }?;
        match self {
            Self::Process(pid) | Self::Each(_, Some(pid)) => names::process(*pid).map(drop),
            _ => Ok(()),
        }
    }

    /// Returns whether another rule does, too.
    fn fits(&self, rule: &str, source: &Source) -> bool {
        match self {
            Self::All => true,
            Self::Cgroup(path) => names::tells_apart(rule, &names::shown(path)),
            // The module's rules have the PIDs of the initial namespace. Those of copies are the
            // user's too.
            Self::Process(_) | Self::Each(_, Some(_))
                if source.is_live() && !owner::has_initial_pids() =>
            {
                false
            }
            // The group of a process is the same, whether there are others or not.
            Self::Process(pid) | Self::Each(Split::Process | Split::PidNamespace, Some(pid)) => {
                names::has_process(rule, *pid)
            }
            Self::Each(..) => self.rule().as_deref() == Some(rule),
        }
    }

    /// Takes the PID of the initial namespace, which groups have, in place of the one that this
    /// process sees: the rule, which has just been written, shows it.
    fn translate(&mut self, source: &Source) -> Result {
        let (Self::Process(pid) | Self::Each(_, Some(pid))) = self else {
            return Ok(());
        };
        if owner::has_initial_pids() {
            return Ok(());
        }
        let rule = source.text("group_by")?;
        let mut words = rule.split_whitespace().skip(1).map(str::parse);
        match (words.next(), words.next()) {
            (Some(Ok(shown)), None) => *pid = shown,
            _ => {
                let why = "group_by was written meanwhile: run it again";
                return Err(Error::at(format!("-p {pid}"), why));
            }
        }
        Ok(())
    }
}

pub fn runqlat(args: &Runqlat, source: &Source) -> Result {
    let whose = Whose::new(&args.bcc, args.pidnss)?;
    let table = Table::new(&args.bcc, "run queue latency", &["runq"]);
    tables(&args.bcc, whose, source, &table)
}

/// Prints on-CPU or off-CPU time.
pub fn cpudist(args: &Cpudist, source: &Source) -> Result {
    let (what, metrics) = match args.offcpu {
        // cpudist -O counts every absence, also of preempted tasks.
        true => ("off-CPU time", &["offcpu", "runq_preempt"][..]),
        false => ("on-CPU time", &["oncpu"][..]),
    };
    let mut table = Table::new(&args.bcc, what, metrics);
    table
        .metrics
        .extend(args.include_idle.then(|| "idle".to_owned()));
    table.extension = args.extension;
    table.with_comm = true;
    tables(&args.bcc, Whose::new(&args.bcc, false)?, source, &table)
}

fn tables(args: &Bcc, mut whose: Whose, source: &Source, table: &Table) -> Result {
    if source.is_live() {
        whose.check()?;
    }
    let names = source.read()?.timed.snapshot.names;
    check_metrics(&names, &table.metrics)?;
    // From here on the signals are blocked that would leave the rule.
    let _waiter = Waiter::new()?;
    let rule = whose.rule();
    let metrics = rule
        .as_ref()
        .map(|_| group_metrics(&table.metrics))
        .transpose()?;
    let grouping = rule
        .as_ref()
        .map(|rule| Grouping::new(source, rule, &|r| whose.fits(r, source)));
    let _grouping = grouping.transpose()?;
    if source.is_live() && rule.is_some() {
        whose.translate(source)?;
        if matches!(whose, Whose::Each(..)) {
            owner::note_pids();
        }
    }
    let mut namespaces = Namespaces::default();
    namespaces.look(&whose);
    // After the rule: to write it begins measuring anew.
    let first = source.read()?;
    let mut groups = None;
    if let Some(metrics) = metrics {
        let last = first.groups()?;
        let last = last.ok_or_else(|| Error::new("someone has written group_by meanwhile"))?;
        groups = Some(OfGroups {
            whose,
            namespaces,
            metrics,
            last,
        });
    }
    print(&format!("Tracing {}... Hit Ctrl-C to end.\n", table.what))?;
    each_interval(
        source,
        first,
        args.interval,
        args.count,
        &mut |interval, reading| {
            let mut out = String::from("\n");
            if args.timestamp {
                let time = sys::time_of_day(interval.unix_ns);
                out += &format!("{time:<8}\n");
            }
            let all = match &mut groups {
                Some(groups) => groups.write(&mut out, table, source, reading)?,
                None => table.write(&mut out, table.samples(&interval)),
            };
            table.write_extension(&mut out, &all);
            let is_wanted = |name: &str| table.metrics.iter().any(|metric| metric == name);
            let off = render::off(&interval.window, &is_wanted);
            interval.notes.iter().chain(&off).for_each(note);
            print(&out)
        },
    )
}

/// The tables of groups.
struct OfGroups {
    whose: Whose,
    namespaces: Namespaces,
    metrics: Vec<GroupMetric>,
    last: Groups,
}

impl OfGroups {
    /// Writes what the groups did since the last time. Returns the samples of all tables.
    fn write(
        &mut self,
        out: &mut String,
        table: &Table,
        source: &Source,
        reading: &Reading,
    ) -> Result<Distribution> {
        self.namespaces.look(&self.whose);
        let now = groups_now(source, reading, &self.last)?;
        let what = (&self.whose, &self.namespaces, table.with_comm);
        let sections = sections(&self.last, &now, &self.metrics, what);
        note_refused(now.refused, &self.whose, sections.is_empty());
        self.last = now;
        let mut all = Distribution::new(self.last.scheme);
        for (head, samples) in sections {
            *out += &head;
            all.merge(&table.write(out, samples));
        }
        Ok(all)
    }
}

/// Returns the metrics of groups; fails if groups do not have one of them.
fn group_metrics(names: &[String]) -> Result<Vec<GroupMetric>> {
    let metric = |name: &String| {
        group_metric(name).ok_or_else(|| {
            Error::usage(format!(
                "groups have no histogram of {name}, so -p, -P, -L, -c and --pidnss cannot show it"
            ))
        })
    };
    names.iter().map(metric).collect()
}

/// Returns the groups of a reading; fails if the rule is another one than before.
fn groups_now(source: &Source, reading: &Reading, last: &Groups) -> Result<Groups> {
    let now = reading.groups()?;
    let rule = now.as_ref().map_or("none", |now| &now.rule);
    if rule != last.rule {
        let why = format!(
            "it was '{}', and someone has written '{rule}' meanwhile",
            last.rule
        );
        return Err(Error::at(source.path("group_by"), why));
    }
    Ok(now.unwrap_or_else(|| last.clone()))
}

/// Returns the place of a group's table among others, and what stands above it; `None` if the group
/// is in no table.
fn section(
    group: &Group,
    whose: &Whose,
    namespaces: &Namespaces,
    with_comm: bool,
) -> Option<(u64, String)> {
    if group.id == 0 {
        return None;
    }
    if let Whose::Cgroup(path) = whose {
        let shown = names::shown(path);
        let is_wanted = shown == "/" || names::is_within(&group.name, &shown);
        return is_wanted.then(|| (0, String::new()));
    }
    let (pid, comm) = group.name.split_once(':').unwrap_or((&group.name, ""));
    let pid = pid.parse::<u64>().ok()?;
    let is_in = |wanted: &u32| pid == u64::from(*wanted);
    match whose {
        Whose::All | Whose::Cgroup(_) => None,
        Whose::Process(wanted) => is_in(wanted).then(|| (0, String::new())),
        Whose::Each(Split::PidNamespace, wanted) => wanted.as_ref().is_none_or(is_in).then(|| {
            let inode = namespaces.of(pid);
            (inode, format!("\npidns = {inode}\n"))
        }),
        Whose::Each(split, wanted) => {
            // All groups of the rule `thread PID` are of that process.
            let is_wanted = *split == Split::Thread || wanted.as_ref().is_none_or(is_in);
            let kind = if *split == Split::Thread {
                "tid"
            } else {
                "pid"
            };
            let space = if with_comm { " " } else { "" };
            let comm = if with_comm { comm } else { "" };
            is_wanted.then(|| (pid, format!("\n{kind} = {pid}{space}{comm}\n")))
        }
    }
}

/// Returns what stands above each table, and its samples. Notes which samples are in no table.
fn sections(
    last: &Groups,
    now: &Groups,
    metrics: &[GroupMetric],
    (whose, namespaces, with_comm): (&Whose, &Namespaces, bool),
) -> Vec<(String, Distribution)> {
    let between = GroupWindow::new(Some(last), now);
    let section = |group: &Group| section(group, whose, namespaces, with_comm);
    let mut sums: BTreeMap<(u64, String), Distribution> = BTreeMap::new();
    let mut late: u64 = 0;
    for group in now.groups.iter().filter(|group| !now.is_gone(group.id)) {
        let Some(section) = section(group) else {
            continue;
        };
        late = late.saturating_add(between.not_in_histogram(group, metrics));
        let samples = between.samples(group, metrics);
        if samples.count() != 0 {
            let sum = sums.entry(section);
            sum.and_modify(|sum| sum.merge(&samples)).or_insert(samples);
        }
    }
    let lost = between.lost().into_iter();
    let gone = lost.filter(|group| section(group).is_some()).count();
    if gone != 0 {
        let are = if gone == 1 { " is" } else { "s are" };
        note(format!(
            "{gone} group{are} gone: what was counted there since the last table is in none"
        ));
    }
    if late != 0 {
        note(format!("{late} samples {NO_HISTOGRAM}"));
    }
    let other = now.groups.iter().find(|group| group.id == 0);
    let other = other.map_or(0, |other| between.samples(other, metrics).count());
    if matches!(whose, Whose::Each(_, None)) && other != 0 {
        note(format!(
            "{other} samples are of tasks for which there was no group"
        ));
    }
    let sums = sums.into_iter();
    sums.map(|((_, head), samples)| (head, samples)).collect()
}

/// Notes that groups may be missing. Where all processes or threads are shown,
/// [`sections`] notes how many samples those have.
fn note_refused(refused: u64, whose: &Whose, is_empty: bool) {
    let may_be_missing = match whose {
        Whose::All | Whose::Each(_, None) => false,
        // These are one group.
        Whose::Process(_) | Whose::Each(Split::Process | Split::PidNamespace, _) => is_empty,
        Whose::Cgroup(_) | Whose::Each(Split::Thread, _) => true,
    };
    if refused != 0 && may_be_missing {
        note(format!(
            "{refused} times since tasks were grouped, a task found no room for a group, and may be \
             missing: {MORE_GROUPS}"
        ));
    }
}

/// The PID namespaces of processes, by PID. That of a process that has ended is remembered.
#[derive(Debug, Default)]
struct Namespaces(BTreeMap<u64, u64>);

impl Namespaces {
    /// Notes those of all processes that there are, if they are wanted.
    fn look(&mut self, whose: &Whose) {
        if !matches!(whose, Whose::Each(Split::PidNamespace, _)) {
            return;
        }
        for pid in owner::all_pids().into_iter().flatten() {
            // The text is `pid:[4026531836]`.
            let link = fs::read_link(format!("/proc/{pid}/ns/pid"));
            let inode = link.ok().and_then(|link| {
                let text = link.to_str()?.strip_prefix("pid:[")?;
                text.strip_suffix(']')?.parse().ok()
            });
            self.0.extend(inode.map(|inode| (u64::from(pid), inode)));
        }
    }

    /// Returns the inode of that of a process, or 0 if the process ended before it was seen.
    fn of(&self, pid: u64) -> u64 {
        self.0.get(&pid).copied().unwrap_or_default()
    }
}
