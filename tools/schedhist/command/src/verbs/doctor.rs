// SPDX-License-Identifier: GPL-2.0

//! `doctor`: what keeps schedhist from working, each with its remedy.

use std::{fs, path::Path};

use schedhist_core::{engine::group::records::GroupMetric, units::percent, window};

use crate::{
    error::{verdict, Result},
    files::read,
    output::{print, wrap_after},
    setting::{self, grouping::MORE_GROUPS, leftovers},
    source::Source,
    sys,
};

/// What a check has found: the mark, what was seen, the remedy.
struct Found(&'static str, String, &'static str);

type Check = fn(&Source) -> Found;

/// All is well.
fn good(text: impl Into<String>) -> Found {
    Found("ok", text.into(), "")
}

/// It works, but the figures need care.
fn warning(text: impl Into<String>, remedy: &'static str) -> Found {
    Found("warn", text.into(), remedy)
}

/// It does not work.
fn bad(text: impl Into<String>, remedy: &'static str) -> Found {
    Found("FAIL", text.into(), remedy)
}

/// Checks of the machine.
const MACHINE: [(&str, Check); 4] = [
    ("kernel", kernel),
    ("config", config),
    ("lockdown", lockdown),
    ("module", module),
];
/// Checks that need the files of the module.
const FILES: [(&str, Check); 5] = [
    ("snapshot", snapshot),
    ("laws", check_laws),
    ("waits", waits),
    ("groups", groups),
    ("settings", settings),
];
/// Checks of what makes figures less true.
const FIGURES: [(&str, Check); 3] = [("clock", clock), ("steal", steal), ("probes", probes)];

/// Runs all checks. The exit status is the number of failures.
pub fn doctor(source: &Source) -> Result<u8> {
    let (mut out, mut failures) = (String::new(), 0);
    let mut check = |name: &str, check: Check| {
        let Found(mark, text, remedy) = check(source);
        failures += u8::from(mark == "FAIL");
        wrap_after(&mut out, &format!("{mark:<5} {name:<9} "), 16, &text);
        if !remedy.is_empty() {
            wrap_after(&mut out, "      -> ", 9, remedy);
        }
    };
    let mut check_all = |checks: &[(&str, Check)], are_needed: bool| {
        let needed = checks.iter().filter(|_| are_needed);
        needed.for_each(|(name, one)| check(name, *one));
    };
    // What this machine is like says nothing of a copy's.
    check_all(&MACHINE, source.is_live());
    check_all(&[("machine", elsewhere)], !source.is_live());
    check_all(&[("debugfs", debugfs)], true);
    // Without the module these would only repeat that there is none.
    check_all(&FILES, source.path("raw").exists());
    check_all(&FIGURES, source.is_live());
    Ok(verdict(failures, print(&out)))
}

fn elsewhere(_: &Source) -> Found {
    good("not checked: the files are a copy")
}

/// What the module needs of a kernel.
const NEEDED: [&str; 7] = [
    "MODULES",
    "SMP",
    "TRACEPOINTS",
    "TRACING",
    "DEBUG_FS",
    "SCHED_INFO",
    "CGROUPS",
];

/// Returns the configuration of the kernel that runs, wherever it is found.
fn configuration() -> Option<String> {
    let release = read("/proc/sys/kernel/osrelease")?;
    [
        format!("/boot/config-{release}"),
        format!("/lib/modules/{release}/config"),
        format!("/lib/modules/{release}/build/.config"),
    ]
    .iter()
    .find_map(|path| read(path))
}

fn config(_: &Source) -> Found {
    if Path::new("/sys/module/schedhist").exists() {
        return good("the module is loaded");
    }
    let Some(text) = configuration() else {
        return warning(
            "the kernel's configuration is not installed",
            "scripts/check-kdir in the source says whether the module can be built",
        );
    };
    let is_on = |name: &str| text.lines().any(|line| line == format!("CONFIG_{name}=y"));
    let missing: Vec<_> = NEEDED.iter().filter(|name| !is_on(name)).collect();
    match missing.first() {
        Some(name) => bad(
            format!("CONFIG_{name} is off"),
            "boot one of Debian's kernels 7.3, 7.2 and 6.12, or build yours with it",
        ),
        None => good(NEEDED.join(", ")),
    }
}

/// Looks for others who trace the same events, in all instances of ftrace. Programs of BPF and perf
/// do not show there.
fn probes(_: &Source) -> Found {
    const TRACING: &str = "/sys/kernel/tracing";
    if !Path::new(TRACING).join("events").exists() {
        return warning(
            "not known: tracefs is not mounted, or only root may read it",
            match sys::euid() {
                0 => "mount -t tracefs tracefs /sys/kernel/tracing",
                _ => "run it as root",
            },
        );
    }
    let instances = fs::read_dir(format!("{TRACING}/instances"));
    let instances = instances.into_iter().flatten().flatten();
    let mut folders = vec![Path::new(TRACING).to_owned()];
    folders.extend(instances.map(|entry| entry.path()));
    let mut found = Vec::new();
    for event in ["sched_switch", "sched_waking", "sched_wakeup"] {
        let is_on = |folder: &std::path::PathBuf| {
            let text = fs::read_to_string(folder.join(format!("events/sched/{event}/enable")));
            text.is_ok_and(|text| text.starts_with('1'))
        };
        if folders.iter().any(is_on) {
            found.push(event);
        }
    }
    if found.is_empty() {
        return good("nobody traces sched_switch and wakeups with ftrace");
    }
    warning(
        format!("{} is traced, too", found.join(", ")),
        "its cost is part of what is measured: see /sys/kernel/tracing/set_event",
    )
}

fn kernel(_: &Source) -> Found {
    let release = read("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release
        .split(['.', '-'])
        .map(|number| number.parse::<u32>().ok());
    let is_real_time = read("/proc/sys/kernel/version").is_some_and(|it| it.contains("PREEMPT_RT"));
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(6), Some(12..)) if is_real_time => bad(
            release,
            "the module needs Linux 7.0 or later if it is real-time: boot another of Debian's kernels",
        ),
        (Some(7), Some(2 | 3)) | (Some(6), Some(12)) => good(release),
        (Some(major), Some(minor)) if (major, minor) > (6, 12) => warning(
            release,
            "the module was never tested with it, but with Debian's kernels 7.3, 7.2 and 6.12",
        ),
        _ => bad(
            release,
            "the module needs Linux 6.12 or later: boot one of Debian's kernels 7.3, 7.2 and 6.12",
        ),
    }
}

fn lockdown(_: &Source) -> Found {
    let text = read("/sys/kernel/security/lockdown").unwrap_or_default();
    if text.contains("[integrity]") || text.contains("[confidentiality]") {
        return warning(
            text,
            "results can be read, settings neither read nor changed: use module parameters; load a signed \
             module",
        );
    }
    good("none")
}

fn module(_: &Source) -> Found {
    let ours = env!("CARGO_PKG_VERSION");
    match read("/sys/module/schedhist/version") {
        None if is_debugfs_off() => bad("not loaded", "it needs debugfs: see below"),
        None => bad("not loaded", "modprobe schedhist"),
        Some(version) if version == ours => good(format!("version {version}")),
        Some(version) => warning(
            format!("version {version}, and this command is {ours}"),
            "install both from the same version, then modprobe -r schedhist; modprobe schedhist",
        ),
    }
}

/// Returns whether the kernel knows no debugfs.
fn is_debugfs_off() -> bool {
    let known = read("/proc/filesystems");
    known.is_some_and(|known| !known.lines().any(|line| line.ends_with("\tdebugfs")))
}

fn debugfs(source: &Source) -> Found {
    if source.is_live() && sys::euid() != 0 {
        return bad("only root may read it", "run this as root, such as by sudo");
    }
    if source.is_live() && is_debugfs_off() {
        return bad(
            "the kernel has none: it was booted with debugfs=off, or built so",
            "boot it with debugfs=on: without it, the module cannot be loaded",
        );
    }
    if source.is_live() && !Path::new("/sys/kernel/debug/sched").exists() {
        let remedy = "mount -t debugfs none /sys/kernel/debug";
        return bad("not mounted", remedy);
    }
    match source.path("raw").exists() {
        true => good(source.path("").display().to_string()),
        false => bad(
            format!("no {}", source.path("raw").display()),
            match source.is_live() {
                true => "modprobe schedhist",
                false => "copy the files of /sys/kernel/debug/schedhist there",
            },
        ),
    }
}

fn snapshot(source: &Source) -> Found {
    match source.read() {
        Ok(reading) if reading.timed.snapshot.enabled => good(format!(
            "{} CPUs, {} bytes, {} us",
            reading.timed.snapshot.cpus.len(),
            reading.bytes.len(),
            reading.timed.read_ns / 1_000
        )),
        Ok(_) => warning("measuring is off", "schedhist ctl enable 1"),
        Err(error) => bad(error.to_string(), "is it of this version?"),
    }
}

fn check_laws(source: &Source) -> Found {
    let Ok(reading) = source.read() else {
        return bad("not checked", "see snapshot");
    };
    let interval = reading.since_load();
    let checked = interval.laws();
    match checked.violations.first() {
        None => good(format!("{} hold", checked.checked)),
        Some(violation) => warning(
            format!(
                "{} is off by {} on CPU {}",
                violation.law, violation.off_by, violation.cpu
            ),
            "was a metric in it off for a while? If not, please report this, with a copy of raw",
        ),
    }
}

/// Looks at why tasks waited long. That CPUs were idle meanwhile may be meant.
fn waits(source: &Source) -> Found {
    let reading = source.read().ok();
    let waits = reading.and_then(|reading| reading.timed.snapshot.long_waits);
    good(match waits.and_then(|all| window::why(&all.sums)) {
        Some(why) => why,
        None => "none was long, or long_wait_ns is none".to_owned(),
    })
}

fn groups(source: &Source) -> Found {
    let all = match source.groups() {
        Ok(Some(all)) => all,
        Ok(None) => return good("tasks are not grouped"),
        Err(_) => return warning("not known", "see snapshot"),
    };
    let late: u64 = all
        .groups
        .iter()
        .map(|it| it.not_in_histogram(&GroupMetric::ALL))
        .sum();
    let samples = all
        .groups
        .iter()
        .map(|group| group.samples[GroupMetric::Oncpu as usize].count);
    // A few are usual: a group gets its histograms a moment after its first task has run.
    let is_full = late > 1_000 && late > samples.sum::<u64>() / 20;
    match (all.rule.as_str(), all.refused) {
        (rule, 0) if is_full => warning(
            format!("by {rule}; {late} samples are in no histogram"),
            "schedhist ctl group_memory_limit BYTES, then write group_by anew",
        ),
        (rule, 0) => good(format!("by {rule}")),
        (rule, refused) => warning(
            format!("by {rule}; {refused} times there was no room"),
            MORE_GROUPS,
        ),
    }
}

fn settings(source: &Source) -> Found {
    let left = leftovers::find(source, false);
    if !left.is_empty() {
        return warning(left.join("; "), "schedhist ctl restores what was before");
    }
    if !source.is_live() {
        return good("these are copies");
    }
    let Ok(actions) = source.text("on_outlier") else {
        return warning(
            "on_outlier cannot be read",
            "schedhist ctl on_outlier says why",
        );
    };
    match actions.trim() {
        "" | "none" => good("no killed schedhist has left any"),
        _ if setting::has_users("on_outlier") => good("a schedhist needs on_outlier"),
        actions => warning(
            format!("on_outlier is '{actions}', for no schedhist that is known here"),
            "if nobody needs that: schedhist ctl on_outlier none",
        ),
    }
}

fn clock(_: &Source) -> Found {
    let file = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    match read(file) {
        Some(clock) if ["tsc", "kvm-clock", "arch_sys_counter"].contains(&clock.as_str()) => {
            good(clock)
        }
        Some(clock) => warning(clock, "without a stable TSC, clocks of CPUs may be apart"),
        None => warning("not known", "is /sys mounted?"),
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
    match percent(stolen, all) {
        0 => good("less than 1 % of the time"),
        stolen => warning(
            format!("{stolen} % of the time was stolen by the host"),
            "a task that seems to run may wait for the host: measure there, too",
        ),
    }
}
