// SPDX-License-Identifier: GPL-2.0

//! The probe of switches.

use core::{
    marker::PhantomData,
    mem::offset_of, //
};

use kernel::{
    prelude::*,
    sync::Arc, //
};

use super::{
    view::SwitchView,
    Recorder, //
};
use crate::{
    boundary::{
        abstractions::{
            CpuRef,
            PerCpu,
            SchedSwitch,
            Switch, //
        },
        GroupMemories,
        GroupMemory,
        TaskStates,
        ThisCpuGroups, //
    },
    chains::CpuChain,
    delivery::Delivery,
    engine::{
        group::{
            CpuGroups,
            Grouped, //
        },
        switch::{
            Dynamic,
            DynamicResched,
            Observer,
            Settings, //
        },
    },
    events,
    long_waits::WaitWatch,
    observer::{
        Part,
        SampleTracer,
        SwitchObserver, //
    },
    records::CpuRecords, //
};

/// The read-only state that the probes of switches, and with chains those of wakeups, need on one
/// CPU.
///
/// All but the last three fields, which few variants of the probe need, is on one cache line.
#[repr(C, align(64))]
pub(crate) struct CpuRecorder {
    records: CpuRef<CpuRecords>,
    pub(super) tasks: TaskStates,
    groups: Option<(CpuRef<GroupMemory>, Arc<GroupMemories>)>,
    delivery: Arc<Delivery>,
    watch: Option<WaitWatch>,
    pub(super) chain: Option<CpuRef<CpuChain>>,
}

// To find that of a CPU, a power of two saves an instruction.
const _: () = {
    assert!(offset_of!(CpuRecorder, delivery) == 64);
    assert!(size_of::<CpuRecorder>() == 128);
};

impl CpuRecorder {
    /// Creates one for each CPU. Sleeps; fails with `ENOMEM`.
    pub(crate) fn all(recorder: &Recorder) -> Result<Arc<PerCpu<Self>>> {
        let table = PerCpu::new(|cpu| {
            let memories = recorder
                .groups
                .as_ref()
                .map(|grouping| grouping.groups.memories());
            let memory = || PerCpu::of(memories?.per_cpu(), cpu);
            Ok(Self {
                // Cannot fail: the CPU is possible.
                records: PerCpu::of(&recorder.records, cpu).ok_or(EINVAL)?,
                groups: memory().zip(memories.cloned()),
                tasks: TaskStates::new(recorder.tasks.table().clone()),
                delivery: recorder.delivery.clone(),
                watch: match &recorder.long_waits {
                    Some((limit, idles)) => Some(WaitWatch::new(*limit, idles, memory(), cpu)?),
                    None => None,
                },
                chain: recorder.chains.as_ref().and_then(|all| all.of(cpu)),
            })
        })?;
        Ok(Arc::new(table, GFP_KERNEL)?)
    }
}

/// A variant of the probe: with these settings, and with or without groups, long waits and chains.
pub(crate) struct Variant<S, const GROUPS: bool, const WAITS: bool, const CHAIN: bool>(
    PhantomData<S>,
);

impl<S, const GROUPS: bool, const WAITS: bool, const CHAIN: bool>
    SchedSwitch<Variant<S, GROUPS, WAITS, CHAIN>> for CpuRecorder
where
    S: Settings + 'static,
{
    #[inline(always)]
    fn is_traced() -> bool {
        // Outliers count as a listener: see `tracing::observe_outliers()`.
        events::any_enabled()
    }

    #[inline(always)]
    fn sched_switch(&self, switch: &Switch<'_>) {
        match (WAITS, &self.watch) {
            (false, _) => self.chain::<S, GROUPS, CHAIN>(switch, ()),
            (true, Some(watch)) => self.chain::<S, GROUPS, CHAIN>(switch, watch),
            // Does not happen, by the choice of the variant.
            (true, None) => {}
        }
    }

    fn sched_switch_traced(&self, switch: &Switch<'_>) {
        match CHAIN || S::RESCHED {
            false => self.record_any::<Dynamic>(switch, ()),
            true => self.record_any::<DynamicResched>(switch, self.chain.as_deref()),
        }
    }
}

/// The variant for chains, or requests to reschedule, with any other settings.
pub(crate) struct SlowVariant;

impl SchedSwitch<SlowVariant> for CpuRecorder {
    fn sched_switch(&self, switch: &Switch<'_>) {
        self.record_any::<DynamicResched>(switch, self.chain.as_deref());
    }
}

impl CpuRecorder {
    /// Returns the groups on this CPU, if tasks are grouped and each group has `cells` cells.
    #[inline(always)]
    fn groups(&self, cells: usize) -> Option<ThisCpuGroups<'_>> {
        let (memory, memories) = self.groups.as_ref()?;
        ThisCpuGroups::new(memory, memories, cells)
    }

    /// Records a switch, for chains, too, if there is a `CHAIN`.
    #[inline(always)]
    fn chain<'a, S: Settings, const GROUPS: bool, const CHAIN: bool>(
        &'a self,
        switch: &'a Switch<'a>,
        watch: impl Part<'a, WaitWatch>,
    ) {
        match (CHAIN, self.chain.as_deref()) {
            (false, _) => {
                let observer = SwitchObserver::new(switch, watch, (), ());
                self.observe::<S, GROUPS>(switch, observer);
            }
            (true, Some(chain)) => {
                let observer = SwitchObserver::new(switch, watch, chain, ());
                self.observe::<S, GROUPS>(switch, observer);
            }
            // Does not happen, by the choice of the variant.
            (true, None) => {}
        }
    }

    /// Records a switch, for groups, too, if there are `GROUPS`.
    #[inline(always)]
    fn observe<S: Settings, const GROUPS: bool>(
        &self,
        switch: &Switch<'_>,
        observer: impl Observer,
    ) {
        if !GROUPS {
            return self.record::<S>(switch, observer);
        }
        // Is there, by the choice of the variant.
        if let Some(groups) = self.groups(S::GROUP_CELLS) {
            self.record::<S>(switch, Grouped::new(observer, groups));
        }
    }

    /// Records a switch and passes on each of its samples. Compiled for any settings, as it is
    /// rarely called, and again with what only chains and requests to reschedule need.
    #[inline(never)]
    fn record_any<'a, S: Settings>(
        &'a self,
        switch: &'a Switch<'a>,
        chain: impl Part<'a, CpuChain>,
    ) {
        let groups = self.groups(S::GROUP_CELLS);
        let occupant = groups.as_ref().map(CpuGroups::occupant);
        let tracer = SampleTracer::new(switch, &self.delivery, occupant);
        let observer = SwitchObserver::new(switch, self.watch.as_ref(), chain, &tracer);
        match groups {
            Some(groups) => self.record::<S>(switch, Grouped::new(observer, groups)),
            None => self.record::<S>(switch, observer),
        }
    }

    #[inline(always)]
    fn record<S: Settings>(&self, switch: &Switch<'_>, observer: impl Observer) {
        let records = &self.records;
        let tasks = self.tasks.pages(switch);
        records.switch::<S>(&SwitchView { switch, tasks }, observer);
    }
}
