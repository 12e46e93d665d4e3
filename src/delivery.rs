// SPDX-License-Identifier: GPL-2.0

//! Delivery of samples to the listeners of trace events, and to the outliers.
//!
//! A sample of the task that leaves the CPU is delivered at the switch. Samples of the task that
//! gets the CPU are complete at the switch as well, but then the other task is still current: what
//! ftrace, perf and BPF take from the context, such as the PID, the cgroup or the stack, would be
//! those of the wrong task. So the switch leaves these samples on the CPU, and a probe of
//! `sched_exit_tp` delivers them in the task that they belong to.
//!
//! That probe is registered while there are listeners. While there are none, a threshold may be
//! set: then outliers are checked for at the switch.

use core::sync::atomic::{
    AtomicBool,
    Ordering::{
        Acquire,
        Release, //
    },
};

use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    },
};

use crate::{
    boundary::{
        abstractions::{
            call_after_switches,
            wait_for_exits,
            with_irqs_off,
            PerCpu,
            RcuReader,
            SchedExit,
            ScheduleExit,
            SwitchCallback,
            ThisCpu,
            EXIT_IS_CERTAIN, //
        },
        ListenerHook, //
    },
    engine::{
        idle::{
            Distance,
            LongWait,
            WaitPart, //
        },
        switch::{
            Cause,
            Pending,
            Sample, //
        },
        Identity,
        Metric, //
    },
    events,
    outliers::{
        Outliers,
        Watched, //
    },
};

/// Delivers samples.
pub(crate) struct Delivery {
    pending: PerCpu<KVBox<Pending>>,
    /// Whether a switch leaves its samples for the probe of `sched_exit_tp`, which is registered
    /// then. Of `core`, because a load of the kernel's `Atomic` is a call, which each switch with a
    /// threshold would take.
    is_left_for_exit: AtomicBool,
    outliers: Arc<Outliers>,
}

impl Delivery {
    /// Creates a delivery with no probe. Sleeps; fails with `ENOMEM`.
    pub(crate) fn new(outliers: Arc<Outliers>) -> Result<Self> {
        Ok(Self {
            pending: PerCpu::new(|_| Ok(KVBox::new(Pending::default(), GFP_KERNEL)?))?,
            is_left_for_exit: AtomicBool::new(false),
            outliers,
        })
    }

    pub(crate) fn outliers(&self) -> &Arc<Outliers> {
        &self.outliers
    }

    /// Returns where the samples of the task that gets this CPU are to be left, which is empty, at
    /// a switch. Returns `None` if they are to be delivered at once.
    #[inline(always)]
    pub(crate) fn pending(&self, here: &(impl ThisCpu + RcuReader)) -> Option<&Pending> {
        // The interrupt may be late, even if no more samples are left, but `here` is still in the
        // task of those that were.
        if !EXIT_IS_CERTAIN {
            self.deliver_pending(here);
        }
        // Once the flag is seen, the probe is: it was registered before.
        if !self.is_left_for_exit.load(Acquire) {
            return None;
        }
        let pending = self.pending.this(here);
        if EXIT_IS_CERTAIN {
            pending.clear();
        }
        Some(pending)
    }

    /// Emits the events of a sample, which `long_wait` is about, too, and checks it for an outlier.
    /// `watched` is `None` while no threshold is set. To be called on `cpu` itself, in the task of
    /// the sample if that is possible, and before the next switch.
    #[inline(always)]
    pub(crate) fn deliver(
        &self,
        watched: Option<Watched<'_>>,
        cpu: u32,
        sample: &Sample,
        long_wait: Option<&LongWait>,
        task: impl Fn() -> Identity,
    ) {
        if is_listened_to(sample.metric) {
            emit(cpu, sample, &task());
        }
        if let Some(wait) = long_wait.filter(|_| events::trace_long_wait_enabled()) {
            emit_long_wait(wait, sample.cause, &task());
        }
        if let Some(watched) = watched {
            self.outliers.check(watched, cpu, sample, long_wait, task);
        }
    }
}

impl SchedExit for Delivery {
    fn sched_exit(&self, exit: &ScheduleExit) {
        self.deliver_pending(exit);
    }
}

impl Delivery {
    /// Delivers the samples that a switch on this CPU has left for the task that has it.
    #[inline(always)]
    fn deliver_pending(&self, here: &(impl ThisCpu + RcuReader)) {
        let pending = self.pending.this(here);
        if pending.is_empty() {
            return;
        }
        let cpu = here.cpu();
        let watched = self.outliers.watched(cpu, here);
        let deliver = || {
            pending.take(|sample, task, wait| {
                self.deliver(watched, cpu, sample, wait, || *task);
            });
        };
        match watched {
            None => deliver(),
            // A trace that an outlier stops ends with the events of the outlier: nothing that an
            // interrupt does comes after them. Nor do readers of the log have to wait for one.
            Some(_) => with_irqs_off(deliver),
        }
    }
}

/// Makes the two functions below from the events of all metrics but `idle`, which has an event of
/// its own.
macro_rules! sample_events {
    ($($($metric:ident)|+ => $enabled:ident, $trace:ident;)*) => {
        /// Returns whether somebody listens to the event of the samples of `metric`.
        #[inline(always)]
        pub(crate) fn is_listened_to(metric: Metric) -> bool {
            match metric {
                $($(Metric::$metric)|+ => events::$enabled(),)*
                Metric::Idle => false,
            }
        }

        #[cold]
        #[inline(never)]
        fn emit(cpu: u32, sample: &Sample, task: &Identity) {
            let (pid, comm, prio) = (task.pid, &task.comm, task.prio);
            let (duration, cause, group) = (sample.value, sample.cause, task.group.number());
            match sample.metric {
                $($(Metric::$metric)|+ => {
                    events::$trace(pid, comm, prio, cpu, duration, cause, group)
                })*
                Metric::Idle => {}
            }
        }
    };
}

sample_events! {
    Oncpu => trace_oncpu_enabled, trace_oncpu;
    RunqWakeup | RunqPreempt => trace_runq_enabled, trace_runq;
    BlockedInterruptible | BlockedUninterruptible => trace_blocked_enabled, trace_blocked;
    Offcpu => trace_offcpu_enabled, trace_offcpu;
    Wakeup => trace_wakeup_enabled, trace_wakeup;
    Throttled => trace_throttled_enabled, trace_throttled;
    Resched => trace_resched_enabled, trace_resched;
    ReschedLazy => trace_resched_lazy_enabled, trace_resched_lazy;
}

#[cold]
#[inline(never)]
fn emit_long_wait(wait: &LongWait, cause: Cause, task: &Identity) {
    let (idle_cpu, idle, distance) = match wait.longest {
        Some(longest) => (longest.cpu as i32, longest.idle, longest.distance),
        None => (-1, 0, Distance::None),
    };
    events::trace_long_wait(
        task.pid,
        &task.comm,
        task.prio,
        wait.part(WaitPart::Waited),
        wait.part(WaitPart::OwnIdle),
        wait.idle_elsewhere(),
        wait.part(WaitPart::Unknown),
        idle_cpu,
        idle,
        distance,
        cause,
        task.group.number(),
    );
}

/// The probe of `sched_exit_tp`, while it is registered.
#[pin_data]
pub(crate) struct ExitProbe {
    #[pin]
    probe: Mutex<Option<SwitchCallback<Delivery>>>,
    delivery: Arc<Delivery>,
}

impl ExitProbe {
    /// Creates this without a probe. Sleeps.
    pub(crate) fn new(delivery: Arc<Delivery>) -> impl PinInit<Self> {
        pin_init!(Self {
            probe <- new_mutex!(None, "schedhist::ExitProbe::probe"),
            delivery,
        })
    }
}

impl ListenerHook for ExitProbe {
    /// Registers the probe if there are listeners, and unregisters it if there are none.
    ///
    /// No sample is lost between: a switch leaves samples for the probe only after it has been
    /// registered; and before it is unregistered, all that were left have been delivered.
    fn adapt(&self, is_any: fn() -> bool) -> Result {
        let mut probe = self.probe.lock();
        match (is_any(), probe.is_some()) {
            (true, false) => {
                *probe = Some(call_after_switches(self.delivery.clone())?);
                self.delivery.is_left_for_exit.store(true, Release);
            }
            (false, true) => {
                self.delivery.is_left_for_exit.store(false, Release);
                wait_for_exits();
                *probe = None;
            }
            _ => {}
        }
        Ok(())
    }
}
