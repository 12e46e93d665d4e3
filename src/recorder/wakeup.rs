// SPDX-License-Identifier: GPL-2.0

//! The probes of wakeups.

use core::marker::PhantomData;

use super::{
    view::WakeupView,
    CpuRecorder,
    Recorder, //
};
use crate::{
    boundary::abstractions::{
        interruption,
        Interruption,
        PerCpu,
        SchedWakeupNew,
        SchedWaking,
        Waking, //
    },
    chains::CpuChain,
    engine::{
        chain::{
            Context,
            Interrupted,
            Link, //
        },
        switch::{
            record_wakeup,
            WakeupFilter, //
        },
    },
};

impl<F: WakeupFilter> SchedWaking<F> for Recorder {
    #[inline(always)]
    fn sched_waking(&self, waking: Waking<'_>) {
        let tasks = &self.tasks;
        record_wakeup::<F, _>(WakeupView { waking, tasks });
    }
}

/// Notes wakeups as `F` says, and who caused each.
pub(crate) struct Chained<F>(PhantomData<F>);

impl<F: WakeupFilter> SchedWaking<Chained<F>> for PerCpu<CpuRecorder> {
    #[inline(always)]
    fn sched_waking(&self, waking: Waking<'_>) {
        let recorder = self.this(&waking);
        // The others are not inlined: so these wakeups save no registers.
        match interruption() {
            Interruption::None if !waking.task.is_kernel_thread() => {
                recorder.waking::<F>(waking, |chain| chain.ring.now());
            }
            Interruption::Hard => recorder.waking_in_hard_interrupt::<F>(waking),
            _ => recorder.waking_for_softirqs::<F>(waking),
        }
    }
}

impl CpuRecorder {
    /// Records who wakes a task, or created it.
    #[inline(always)]
    fn woken_by(&self, waking: &Waking<'_>, waker: impl FnOnce(&CpuChain) -> Link) {
        if let Some(chain) = &self.chain {
            let state = self.tasks.pages(waking).get(waking.task.pid());
            state.woken_by(waking.task, waker(chain));
        }
    }

    #[inline(always)]
    fn waking<F: WakeupFilter>(&self, waking: Waking<'_>, waker: impl FnOnce(&CpuChain) -> Link) {
        self.woken_by(&waking, waker);
        let tasks = &self.tasks;
        record_wakeup::<F, _>(WakeupView { waking, tasks });
    }

    #[inline(never)]
    fn waking_in_hard_interrupt<F: WakeupFilter>(&self, waking: Waking<'_>) {
        self.waking::<F>(waking, |chain| chain.ring.waker(Interrupted::Hard));
    }

    /// Where softirqs matter: within one, or as a thread may run them.
    #[inline(never)]
    fn waking_for_softirqs<F: WakeupFilter>(&self, waking: Waking<'_>) {
        let task = waking.task;
        self.waking::<F>(waking, |chain| chain.waker(task));
    }
}

impl SchedWakeupNew for PerCpu<CpuRecorder> {
    fn sched_wakeup_new(&self, waking: Waking<'_>) {
        self.this(&waking).woken_by(&waking, |chain| {
            let waker = chain.waker(waking.task);
            match waker.context() {
                Context::Task => waker.within(Context::Fork),
                _ => waker,
            }
        });
    }
}
