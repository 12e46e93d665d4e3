// SPDX-License-Identifier: GPL-2.0

//! schedhist: per-CPU histograms of what the scheduler does to tasks.
//!
//! The source has three parts. [`engine`] computes the records, and is independent of the kernel.
//! `boundary` contains the abstractions that Rust for Linux lacks, and all `unsafe` code. The rest
//! is the module itself: its probes (`recorder`, `groups`, `delivery`; `probes` registers them) and
//! their control (`monitor`), its files (`files`, which show a `reading`), its trace events
//! (`events`, emitted by `delivery`), the groups of tasks (`groups`), samples above a threshold
//! (`outliers`), what other CPUs did during a long wait (`long_waits`), who could have woken a task
//! earlier (`chains`), how far CPUs are from each other (`topology`), and requests to reschedule
//! CPUs (`resched`).

use kernel::{
    prelude::*,
    sync::Arc, //
};

mod boundary;
mod chains;
mod delivery;
#[forbid(unsafe_code)]
pub mod engine;
mod events;
mod files;
mod groups;
mod in_progress;
mod long_waits;
mod monitor;
mod observer;
mod outliers;
mod probes;
mod reading;
mod recorder;
mod records;
mod resched;
mod topology;

use boundary::{
    abstractions::debugfs::Tree,
    bindings,
    log,
    params,
    trace_listeners::Listeners, //
};
use delivery::ExitProbe;
use engine::{
    format::Slices,
    group::{
        list::{
            Command,
            Definition, //
        },
        rule::Rule, //
    },
    histogram::bucket::{
        Precision,
        Scheme, //
    },
    metric::MetricSet, //
};
use monitor::Monitor;
use resched::OFFERED;

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
/// The order of the fields is the order in which unloading drops them:
///
/// 1. The files. After this no file operation runs any more.
/// 2. The monitor. It unregisters its probes, `tracepoint_synchronize_unregister()` waits until no
///    CPU runs one of them, and then their memory is freed.
/// 3. The listeners of the trace events. There are none any more; if the probe that emitted their
///    events is still registered, it is unregistered in the same way.
///
/// The kernel removes the trace events with the module. An event that is in use, enabled or with a
/// trigger, keeps the module from being unloaded.
struct SchedHist {
    _files: Tree,
    _monitor: Arc<Monitor>,
    _listeners: Listeners,
}

impl kernel::Module for SchedHist {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let bits = params::precision();
        let Some(precision) = Precision::new(bits) else {
            let (least, most) = (Precision::MIN, Precision::MAX);
            pr_warn!("precision: \"{bits}\": expected {least} to {most}\n");
            return Err(EINVAL);
        };
        let refused = |name: &str, text: &[u8], expected: &str| {
            log::refused(name, text, format_args!("expected {expected}"))
        };
        let text = params::metrics();
        let metrics = MetricSet::parse(text, OFFERED)
            .ok_or_else(|| refused("metrics", text, files::METRICS_EXPECTED))?;
        let slices = params::chain();
        let slices = Slices::new(slices).ok_or_else(|| {
            pr_warn!("chain: \"{slices}\": expected {}\n", Slices::EXPECTED);
            EINVAL
        })?;
        let text = params::group_by();
        let rule = Rule::parse(text).ok_or_else(|| refused("group_by", text, Rule::EXPECTED))?;
        let rules = params::group_rules();
        for (text, definition) in Definition::all(rules) {
            definition.ok_or_else(|| refused("group_rules", text, Definition::EXPECTED))?;
        }
        topology::begin();
        let monitor = Monitor::new(Scheme::new(precision), metrics)
            .inspect_err(|e| pr_err!("cannot set up the histograms: {e:?}\n"))?;
        monitor
            .set_chain(slices)
            .inspect_err(|e| pr_err!("cannot keep slices: {e:?}\n"))?;
        monitor.set_groups(rule).inspect_err(|e| {
            files::group_error(rule, *e);
            pr_err!("cannot group tasks: {e:?}\n");
        })?;
        for definition in Definition::all(rules).filter_map(|(_, definition)| definition) {
            let command = Command::Add(definition);
            monitor.change_rules(command).inspect_err(|e| {
                files::rule_error(command, *e);
                pr_err!("cannot add a rule for groups: {e:?}\n");
            })?;
        }
        let files = files::create(&monitor)
            .inspect_err(|e| pr_err!("cannot create the files in debugfs: {e:?}\n"))?;
        monitor
            .set_enabled(true)
            .inspect_err(|e| pr_err!("cannot probe the scheduler: {e:?}\n"))?;
        let exit_probe = Arc::pin_init(ExitProbe::new(monitor.delivery().clone()), GFP_KERNEL)?;
        let listeners = Listeners::new(exit_probe)?;
        // Nothing can fail from here on.
        files.publish();
        pr_info!("version {VERSION}, measuring\n");
        Ok(Self {
            _files: files,
            _monitor: monitor,
            _listeners: listeners,
        })
    }
}
