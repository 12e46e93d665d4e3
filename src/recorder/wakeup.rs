// SPDX-License-Identifier: GPL-2.0

//! The probes of wakeups.

use core::marker::PhantomData;

use super::{
    view::WakeupView,
    Recorder, //
};
use crate::{
    boundary::abstractions::{
        SchedWakeupNew,
        SchedWaking,
        Waking, //
    },
    engine::{
        chain::Context,
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

impl<F: WakeupFilter> SchedWaking<Chained<F>> for Recorder {
    #[inline(always)]
    fn sched_waking(&self, waking: Waking<'_>) {
        if let Some(chains) = &self.chains {
            let state = self.tasks.pages(&waking).get(waking.task.pid());
            state.woken_by(waking.task, chains.waker(&waking));
        }
        SchedWaking::<F>::sched_waking(self, waking);
    }
}

impl SchedWakeupNew for Recorder {
    fn sched_wakeup_new(&self, waking: Waking<'_>) {
        let Some(chains) = &self.chains else {
            return;
        };
        let waker = chains.waker(&waking);
        let waker = match waker.context() {
            Context::Task => waker.within(Context::Fork),
            _ => waker,
        };
        let state = self.tasks.pages(&waking).get(waking.task.pid());
        state.woken_by(waking.task, waker);
    }
}
