// SPDX-License-Identifier: GPL-2.0

//! `runqslower`: the letters and the columns of BCC's tool of this name, and all culprits.

use schedhist_core::{culprits::is_wait, text::Outlier};

use crate::{
    cli::Runqslower,
    error::{Error, Result},
    options::us,
    outliers::{threshold, Next, Stream},
    output::{note, print},
    setting::{names, owner},
    source::{unix_ns, Source},
    sys,
};

/// The number of columns up to the latency.
const LAT_END: usize = 8 + 1 + 16 + 1 + 6 + 1 + 14;

/// Prints waits for a CPU above a limit, until SIGINT.
pub fn runqslower(args: &Runqslower, source: &Source) -> Result {
    let &Runqslower {
        min, tid, previous, ..
    } = args;
    let pid = args.pid.as_deref().map(names::pid).transpose()?;
    let min_ns = min.as_nanos() as u64;
    if source.is_live() {
        for (letter, id) in [('t', tid), ('p', pid)] {
            let Some(id) = id else { continue };
            owner::need_initial_pids(&format!("-{letter}"))?;
            // Each thread has a folder there, too.
            if !is_thread_of(id as i32, id) {
                return Err(Error::new(format!("-{letter} {id}: there is no such task")));
            }
        }
        owner::note_pids();
    }
    // First the stream: it misses nothing, and blocks the signals that would leave the threshold.
    let mut stream = Stream::open(source)?;
    let _threshold = threshold(source, "runq", min_ns)?;
    let mut head = format!("Tracing run queue latency higher than {} us\n", us(min));
    head += &format!(
        "{:<8} {:<16} {:<6} {:>14}",
        "TIME", "COMM", "TID", "LAT(us)"
    );
    head += if previous {
        " PREV COMM       PREV TID RAN(us)\n"
    } else {
        "\n"
    };
    print(&head)?;
    let mut ended = 0;
    while let Next::Some(found, missed) = stream.next(None)? {
        let is_long = |outlier: &&Outlier| is_wait(outlier) && outlier.duration_ns > min_ns;
        let is_wanted = |outlier: &&Outlier| {
            tid.is_none_or(|tid| outlier.pid == tid as i32)
                && pid.is_none_or(|pid| is_thread_of(outlier.pid, pid))
        };
        // Whose thread it was cannot be told any more.
        let has_ended =
            |outlier: &&Outlier| pid.is_some() && !exists(&format!("/proc/{}", outlier.pid));
        let waits = found.iter().filter(is_long);
        ended += waits.clone().filter(has_ended).count();
        let time = sys::time_of_day(unix_ns());
        let mut out = String::new();
        for outlier in waits.filter(is_wanted) {
            let us = outlier.duration_ns / 1_000;
            out += &format!("{time:<8} {:<16} {:<6} {us:>14}", outlier.comm, outlier.pid);
            let culprits = outlier.longest_culprits();
            if !previous || culprits.is_empty() {
                out.push('\n');
                continue;
            }
            for (number, culprit) in culprits.iter().enumerate() {
                // Below the first one.
                let indent = if number == 0 { 0 } else { LAT_END };
                let ran = culprit.ran_ns / 1_000;
                let (comm, pid) = (&culprit.comm, culprit.pid);
                out += &format!("{:indent$} {comm:<15} {pid:<8} {ran:>7}\n", "");
            }
        }
        print(&out)?;
        if missed != 0 {
            note(format!("{missed} outliers (of all metrics) were missed"));
        }
    }
    if ended != 0 {
        note(format!(
            "{ended} waits of threads of any process are not shown: the threads had ended"
        ));
    }
    stream.note_suppressed(source);
    Ok(())
}

/// Returns whether a thread that still exists belongs to a process.
fn is_thread_of(tid: i32, pid: u32) -> bool {
    exists(&format!("/proc/{pid}/task/{tid}"))
}

fn exists(path: &str) -> bool {
    std::path::Path::new(path).exists()
}
