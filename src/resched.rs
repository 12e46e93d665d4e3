// SPDX-License-Identifier: GPL-2.0

//! The probes of requests to reschedule a CPU, where the kernel shows these.

use kernel::{
    prelude::*,
    sync::Arc, //
};

#[cfg(HAVE_SCHED_SET_NEED_RESCHED_TP)]
use crate::{
    boundary::abstractions::{
        is_resched_pending,
        local_clock,
        with_irqs_off,
        NeedResched,
        Probe,
        Registration,
        SchedSetNeedResched,
        SchedSetNeedReschedProbe,
        SchedStay,
        SchedStayProbe,
        ScheduleExit, //
    },
    engine::{
        switch::Requested,
        Metric, //
    },
};
use crate::{
    engine::MetricSet,
    recorder::Recorder, //
};

/// The metrics that this kernel allows.
pub(crate) const OFFERED: MetricSet = match cfg!(HAVE_SCHED_SET_NEED_RESCHED_TP) {
    true => MetricSet::ALL,
    false => MetricSet::WITHOUT_RESCHED,
};

/// The probes of requests, to be registered after that of switches.
#[cfg(HAVE_SCHED_SET_NEED_RESCHED_TP)]
pub(crate) struct ReschedProbes {
    _requests: Registration<Recorder>,
    _stays: Registration<Recorder>,
}

#[cfg(HAVE_SCHED_SET_NEED_RESCHED_TP)]
impl ReschedProbes {
    pub(crate) fn new(recorder: &Arc<Recorder>) -> Result<Self> {
        Ok(Self {
            _stays: SchedStayProbe::register(recorder.clone())?,
            _requests: SchedSetNeedReschedProbe::register(recorder.clone())?,
        })
    }
}

#[cfg(HAVE_SCHED_SET_NEED_RESCHED_TP)]
impl SchedSetNeedResched for Recorder {
    fn sched_set_need_resched(&self, request: &NeedResched<'_>) {
        let Some(cpu) = self.records(request.cpu) else {
            return;
        };
        let metric = match request.is_lazy {
            true => Metric::ReschedLazy,
            false => Metric::Resched,
        };
        let task = match request.task.is_idle() {
            true => Requested::Idle,
            false if request.is_running() => Requested::Running,
            false => Requested::Coming,
        };
        let here = self.records_here(request);
        here.request(cpu, metric, task, local_clock());
    }
}

#[cfg(HAVE_SCHED_SET_NEED_RESCHED_TP)]
impl SchedStay for Recorder {
    fn sched_stay(&self, exit: &ScheduleExit) {
        let cpu = self.records_here(exit);
        if cpu.has_requests() {
            with_irqs_off(|| {
                cpu.withdraw_requests(|metric| is_resched_pending(metric == Metric::ReschedLazy));
            });
        }
    }
}

/// There are none.
#[cfg(not(HAVE_SCHED_SET_NEED_RESCHED_TP))]
pub(crate) enum ReschedProbes {}

#[cfg(not(HAVE_SCHED_SET_NEED_RESCHED_TP))]
impl ReschedProbes {
    pub(crate) fn new(_recorder: &Arc<Recorder>) -> Result<Self> {
        Err(ENOENT)
    }
}
