// SPDX-License-Identifier: GPL-2.0

//! `doctor`: what keeps schedhist from working, each with its remedy.

use std::{
    fs,
    path::Path, //
};

use schedhist_core::{
    laws,
    text::Pairs, //
};

use crate::{
    failure::{
        print,
        Failure,
        Result, //
    },
    source::Source,
    sys,
};

/// What a check has found.
enum Found {
    /// All is well; with what was seen.
    Good(String),
    /// It works, but the figures need care.
    Warning(String, &'static str),
    /// It does not work; with the remedy.
    Bad(String, &'static str),
}
/// A check.
type Check = fn(&Source) -> Found;

use Found::{
    Bad,
    Good,
    Warning, //
};

fn read(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

/// Runs all checks. The exit status is the number of failures.
pub fn doctor(source: &Source) -> Result {
    let checks: [(&str, Check); 9] = [
        ("kernel", kernel),
        ("lockdown", lockdown),
        ("module", module),
        ("debugfs", debugfs),
        ("snapshot", snapshot),
        ("laws", check_laws),
        ("groups", groups),
        ("clock", clock),
        ("steal", steal),
    ];
    let (mut out, mut failures) = (String::new(), 0);
    for (name, check) in checks {
        match check(source) {
            Good(text) => out += &format!("ok    {name:<9} {text}\n"),
            Warning(text, remedy) => out += &format!("warn  {name:<9} {text}\n      -> {remedy}\n"),
            Bad(text, remedy) => {
                failures += 1;
                out += &format!("FAIL  {name:<9} {text}\n      -> {remedy}\n");
            }
        }
    }
    print(&out)?;
    match failures {
        0 => Ok(()),
        failures => Err(Failure::Quiet(failures)),
    }
}

fn kernel(_: &Source) -> Found {
    let release = read("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release
        .split(['.', '-'])
        .map(|number| number.parse::<u32>().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(7), Some(2 | 3)) => Good(release),
        _ => Bad(
            release,
            "the module supports Debian's kernels 7.2 and 7.3: boot one of these",
        ),
    }
}

fn lockdown(_: &Source) -> Found {
    let text = read("/sys/kernel/security/lockdown").unwrap_or_default();
    if text.contains("[integrity]") || text.contains("[confidentiality]") {
        return Warning(
            text,
            "all can be read, and no setting changed: use module parameters; load a signed module",
        );
    }
    Good("none".to_owned())
}

fn module(_: &Source) -> Found {
    let ours = env!("CARGO_PKG_VERSION");
    match read("/sys/module/schedhist/version") {
        None => Bad("not loaded".to_owned(), "modprobe schedhist"),
        Some(version) if version == ours => Good(format!("version {version}")),
        Some(version) => Warning(
            format!("version {version}, and this command is {ours}"),
            "install both from the same version, then modprobe -r schedhist; modprobe schedhist",
        ),
    }
}

fn debugfs(source: &Source) -> Found {
    if source.is_live() && sys::euid() != 0 {
        return Bad(
            "only root may read it".to_owned(),
            "run this as root, such as by sudo",
        );
    }
    if source.is_live() && !Path::new("/sys/kernel/debug/sched").exists() {
        let remedy = "mount -t debugfs none /sys/kernel/debug";
        return Bad("not mounted".to_owned(), remedy);
    }
    match source.path("raw").exists() {
        true => Good(source.path("").display().to_string()),
        false => Bad(
            format!("no {}", source.path("raw").display()),
            "modprobe schedhist",
        ),
    }
}

fn snapshot(source: &Source) -> Found {
    match source.read() {
        Ok(reading) if reading.taken.snapshot.enabled => Good(format!(
            "{} CPUs, {} bytes, {} us",
            reading.taken.snapshot.cpus.len(),
            reading.bytes.len(),
            reading.taken.read_ns / 1_000
        )),
        Ok(_) => Warning("measuring is off".to_owned(), "schedhist ctl enable 1"),
        Err(Failure::Error(text) | Failure::Usage(text)) => Bad(text, "see above"),
        Err(Failure::Quiet(_)) => Bad("cannot be read".to_owned(), "see above"),
    }
}

fn check_laws(source: &Source) -> Found {
    let Ok(reading) = source.read() else {
        return Bad("not checked".to_owned(), "see snapshot");
    };
    let frame = reading.since_load();
    let checked = laws::check(&frame.window, frame.read_ns);
    match checked.violations.first() {
        None => Good(format!("{} hold", checked.checked)),
        Some(violation) => Warning(
            format!(
                "{} is off by {} on CPU {}",
                violation.law, violation.off_by, violation.cpu
            ),
            "was a metric in it off for a while? If not, please report this, with a copy of raw",
        ),
    }
}

fn groups(source: &Source) -> Found {
    let status = source.text("groups").unwrap_or_default();
    let pairs = Pairs::of_lines(&status);
    match (pairs.get("group_by"), pairs.number::<u64>("refused")) {
        (None, _) => Warning("not known".to_owned(), "see snapshot"),
        (Some("none"), _) => Good("tasks are not grouped".to_owned()),
        (Some(rule), Some(0) | None) => Good(format!("by {rule}")),
        (Some(rule), Some(refused)) => Warning(
            format!("by {rule}; {refused} times there was no room"),
            "schedhist ctl group_limit N, then write group_by anew",
        ),
    }
}

fn clock(_: &Source) -> Found {
    let file = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    match read(file) {
        Some(clock) if ["tsc", "kvm-clock"].contains(&clock.as_str()) => Good(clock),
        Some(clock) => Warning(clock, "without a stable TSC, clocks of CPUs may be apart"),
        None => Warning("not known".to_owned(), "is /sys mounted?"),
    }
}

fn steal(_: &Source) -> Found {
    let stat = read("/proc/stat").unwrap_or_default();
    let numbers: Vec<u64> = stat
        .lines()
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .skip(1)
        .filter_map(|number| number.parse().ok())
        .collect();
    let all: u64 = numbers.iter().take(8).sum();
    let stolen = numbers.get(7).copied().unwrap_or_default();
    if stolen * 100 > all {
        return Warning(
            format!(
                "{} % of the time was stolen by the host",
                stolen * 100 / all.max(1)
            ),
            "a task that seems to run may wait for the host: measure there, too",
        );
    }
    Good("less than 1 % of the time".to_owned())
}
