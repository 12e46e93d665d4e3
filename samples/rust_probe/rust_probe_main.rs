// SPDX-License-Identifier: GPL-2.0

//! A probe, a counter and a trace event: the module of `docs/tracepoints-in-rust.md`.
//!
//! It counts context switches in `/sys/kernel/debug/rust_probe/switches`, and emits an event
//! `rust_probe:preempted` for each task that loses its CPU although it could go on.

use core::fmt::Write;

use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    },
};

#[allow(
    dead_code,
    unused_imports,
    unused_macros,
    reason = "the module needs some of them"
)]
mod abstractions;
use abstractions::{
    bindings,
    PerCpu,
    Probe,
    Readable,
    Registration,
    SchedSwitch,
    SchedSwitchProbe,
    Switch,
    Text,
    Tree, //
};

module! {
    type: RustProbe,
    name: "rust_probe",
    authors: ["The schedhist developers"],
    description: "A probe, a counter and a trace event in Rust",
    license: "GPL",
}

/// Expands to the functions that tracegen generated from the declaration.
macro_rules! trace_events {
    ($($declaration:tt)*) => {
        include!(concat!(env!("MODULE_GENERATED"), "/events_generated.rs"));
    };
}

trace_events! {
    system rust_probe;

    /// A task loses its CPU although it could go on.
    event preempted {
        /// The task's thread id.
        pid: Pid,
        /// The task's name.
        comm: Comm,
        /// How many context switches the module has seen on this CPU, this one included.
        switches: u64,
    } => "comm={comm} pid={pid} switches={switches}";
}

/// The number of context switches of a CPU since the module was loaded, in a cache line of its own:
/// only that CPU writes it.
#[repr(align(64))]
struct Switches(Atomic<u64>);

impl SchedSwitch<()> for Switches {
    fn sched_switch(&self, switch: &Switch<'_>) {
        let switches = self.0.fetch_add(1, Relaxed) + 1;
        let task = switch.prev;
        // A task that yields or is preempted on its way to user space is runnable, too.
        if (switch.preempt || switch.prev_state == 0) && !task.is_idle() {
            trace_preempted(task.pid(), &task.comm(), switches);
        }
    }
}

/// The file `switches`.
struct SwitchesFile(Arc<PerCpu<Switches>>);

impl Readable for SwitchesFile {
    fn size_hint(&self, _last_len: usize) -> usize {
        32
    }

    fn show(&self, out: &mut Text<'_>) -> Result {
        let switches = self.0.numbered().map(|(_, cpu)| cpu.0.load(Relaxed));
        writeln!(out, "{}", switches.sum::<u64>()).map_err(|_| ENOMEM)
    }
}

/// The loaded module. Unloading drops the fields in this order: first no file is open any more,
/// then no CPU runs the probe any more.
struct RustProbe {
    _files: Tree,
    _probe: Registration<PerCpu<Switches>>,
}

impl kernel::Module for RustProbe {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let switches = PerCpu::new(|_| Ok(Switches(Atomic::new(0))))?;
        let switches = Arc::new(switches, GFP_KERNEL)?;
        let mut files = Tree::new(c"rust_probe")?;
        let root = files.root();
        files.read_only(root, c"switches", SwitchesFile(switches.clone()))?;
        let probe = SchedSwitchProbe::register(switches)?;
        files.publish();
        Ok(Self {
            _files: files,
            _probe: probe,
        })
    }
}
