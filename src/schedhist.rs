// SPDX-License-Identifier: GPL-2.0

//! schedhist: per-CPU histograms of what the scheduler does to tasks.
//!
//! Three rooms: [`engine`] computes and knows no kernel; `boundary` holds what Rust for Linux
//! lacks, and all `unsafe`; the rest is the module: its probes (`recorder`), switching them on and
//! off (`monitor`), its files (`files`), its trace events (`events`, and `witness`, which emits them),
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
mod outliers;
mod recorder;
mod witness;

use boundary::{
    bindings,
    debugfs::Tree,
    params, //
};
use engine::{
    bucket::{
        Precision,
        Scheme, //
    },
    metric::MetricSet,
};
use files::MonitorFile;
use monitor::Monitor;

module! {
    type: SchedHist,
    name: "schedhist",
    authors: ["The schedhist developers"],
    description: "Per-CPU histograms of what the scheduler does to tasks",
    license: "GPL",
    params: {
        precision: u32 {
            default: 5,
            description: "Histogram precision in bits, 1 to 7: buckets are at most 2^-precision of their value wide (default 5, 3.13 %)",
        },
    },
}

// `module!` takes a literal only.
const _: () = assert!(Precision::DEFAULT == 5);

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
    _files: Tree<MonitorFile>,
    _monitor: Arc<Monitor>,
}

impl kernel::Module for SchedHist {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let bits: u32 = params::copied(module_parameters::precision.value());
        let Some(precision) = Precision::new(bits) else {
            pr_err!(
                "precision={bits}: must be {} to {}\n",
                Precision::MIN,
                Precision::MAX
            );
            return Err(EINVAL);
        };
        let Ok(metrics) = MetricSet::parse(params::metrics()) else {
            pr_err!("metrics: expected names as in hist/, all, default or none\n");
            return Err(EINVAL);
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
