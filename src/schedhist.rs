// SPDX-License-Identifier: GPL-2.0

//! schedhist: per-CPU histograms of what the scheduler does to tasks.
//!
//! Three rooms: [`engine`] computes and knows no kernel; `boundary` holds what Rust for Linux
//! lacks, and all `unsafe`; the rest is the module: its probes (`recorder`), switching them on and
//! off (`monitor`), its files (`files`), its trace events (`events`, and `observer`, which emits them),
//! and what is too long (`outliers`).

use kernel::{
    prelude::*,
    sync::Arc, //
};

mod boundary;
#[forbid(unsafe_code)]
pub mod engine;
mod events;
mod files;
mod monitor;
mod observer;
mod outliers;
mod reading;
mod recorder;
mod records;

use boundary::{
    abstractions::debugfs::Tree,
    bindings,
    log,
    params, //
};
use engine::{
    histogram::bucket::{
        Precision,
        Scheme, //
    },
    metric::MetricSet, //
};
use monitor::Monitor;

module! {
    type: SchedHist,
    name: "schedhist",
    authors: ["The schedhist developers"],
    description: "Per-CPU histograms of what the scheduler does to tasks",
    license: "GPL",
}

/// The module's version, as `modinfo` shows it.
const VERSION: &str = env!("SCHEDHIST_VERSION");

/// The loaded module.
///
/// The order of the fields is the order in which unloading takes them down:
///
/// 1. The files: nobody reads or switches anything any more.
/// 2. The monitor. Its probes come off, and `tracepoint_synchronize_unregister()` waits until no
///    CPU is in one of them; then their memory goes.
///
/// The kernel takes the trace events down with the module. An event that is in use, enabled or with
/// a trigger, keeps the module from being unloaded.
struct SchedHist {
    _files: Tree,
    _monitor: Arc<Monitor>,
}

impl kernel::Module for SchedHist {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let bits = params::precision();
        let Some(precision) = Precision::new(bits) else {
            let (least, most) = (Precision::MIN, Precision::MAX);
            pr_warn!("precision: \"{bits}\": expected {least} to {most}\n");
            return Err(EINVAL);
        };
        let text = params::metrics();
        let Ok(metrics) = MetricSet::parse(text) else {
            let expected = files::METRICS_EXPECTED;
            return Err(log::refused(
                "metrics",
                text,
                format_args!("expected {expected}"),
            ));
        };
        let monitor = Monitor::new(Scheme::new(precision), metrics)
            .inspect_err(|e| pr_err!("cannot set up the histograms: {e:?}\n"))?;
        let files = files::create(&monitor)
            .inspect_err(|e| pr_err!("cannot create the files in debugfs: {e:?}\n"))?;
        monitor
            .set_enabled(true)
            .inspect_err(|e| pr_err!("cannot probe the scheduler: {e:?}\n"))?;
        // Nothing can fail from here on.
        files.publish();
        pr_info!("version {VERSION}, measuring\n");
        Ok(Self {
            _files: files,
            _monitor: monitor,
        })
    }
}
