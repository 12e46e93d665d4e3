// SPDX-License-Identifier: GPL-2.0

//! Abstractions that Rust for Linux lacks.
//!
//! Nothing here depends on the rest of this module: each file could go upstream, but for the prefix
//! `schedhist` of functions in C, of lockdep classes and of hotplug states.

pub(crate) mod bindings;
pub(crate) mod cgroup;
pub(crate) mod cgroup_events;
pub(crate) mod clock;
pub(crate) mod context;
pub(crate) mod debugfs;
pub(crate) mod hotplug;
pub(crate) mod hrtimer;
pub(crate) mod irq_lock;
pub(crate) mod irq_work;
#[cfg(HAVE_SCHED_SET_NEED_RESCHED_TP)]
pub(crate) mod need_resched;
pub(crate) mod per_cpu;
pub(crate) mod random;
pub(crate) mod rcu;
pub(crate) mod sched_exit;
pub(crate) mod sched_switch;
pub(crate) mod sched_waking;
pub(crate) mod smp;
pub(crate) mod softirq;
pub(crate) mod task;
pub(crate) mod task_events;
pub(crate) mod topology;
pub(crate) mod tracepoint;
pub(crate) mod wait;
pub(crate) mod work;
pub(crate) mod zeroed;

pub(crate) use cgroup::{Cgroup, Subtree};
pub(crate) use cgroup_events::{
    CgroupAttachTask, CgroupAttachTaskProbe, CgroupMkdir, CgroupMkdirProbe,
};
pub(crate) use clock::local_clock;
pub(crate) use debugfs::{Folder, Line, Readable, Stream, Text, Tree, Writable};
pub(crate) use hotplug::Hotplug;
pub(crate) use hrtimer::{
    HardTimer, HrtimerExpire, HrtimerExpireEntryProbe, HrtimerExpireExitProbe,
};
pub(crate) use irq_lock::{new_irq_lock, IrqLock};
pub(crate) use irq_work::{new_irq_work, IrqWork};
#[cfg(HAVE_SCHED_SET_NEED_RESCHED_TP)]
pub(crate) use need_resched::{
    is_resched_pending, NeedResched, SchedSetNeedResched, SchedSetNeedReschedProbe,
};
pub(crate) use per_cpu::{is_online, CpuRef, PerCpu, ThisCpu};
pub(crate) use rcu::{synchronize_rcu, RcuArc, RcuReader};
pub(crate) use sched_exit::{
    ask_for_exit, call_after_switches, wait_for_exits, SchedExit, ScheduleExit, SwitchCallback,
    EXIT_IS_CERTAIN,
};
#[cfg(HAVE_SCHED_EXIT_TP)]
pub(crate) use sched_exit::{SchedStay, SchedStayProbe};
pub(crate) use sched_switch::{SchedSwitch, SchedSwitchProbe, Switch, WithinSwitch};
pub(crate) use sched_waking::{
    SchedWakeupNew, SchedWakeupNewProbe, SchedWaking, SchedWakingProbe, Waking,
};
pub(crate) use smp::{run_if_online, with_irqs_off};
pub(crate) use softirq::{
    interruption, is_softirq_thread, Interruption, Softirq, SoftirqEntryProbe, SoftirqRaiseProbe,
    Softirqs,
};
pub(crate) use task::{
    for_each_queued_task, for_each_task, for_each_thread_of, task_key, with_current, ProcessId,
    Task, COMM_LEN,
};
pub(crate) use task_events::{
    SchedProcessExec, SchedProcessExecProbe, SchedProcessExit, SchedProcessExitProbe, TaskNewtask,
    TaskNewtaskProbe, TaskRename, TaskRenameProbe,
};
pub(crate) use topology::{are_of_one_core, next_allowed, node_of, share_llc, topology_of};
pub(crate) use tracepoint::{Probe, Registration};
pub(crate) use wait::DeferredWaitQueue;
pub(crate) use work::{new_work, Job, Work};
pub(crate) use zeroed::{allocate, zeroed, zeroed_slice};
