// SPDX-License-Identifier: GPL-2.0

//! The probes that are registered while measuring is on, and the choice of their variants.

use kernel::{
    prelude::*,
    sync::Arc,
    types::ScopeGuard, //
};

use crate::{
    boundary::abstractions::{
        hotplug,
        wait_for_exits,
        CgroupAttachTaskProbe,
        HrtimerExpireEntryProbe,
        HrtimerExpireExitProbe,
        PerCpu,
        Probe,
        Registration,
        SchedProcessExecProbe,
        SchedSwitchProbe,
        SchedWakeupNewProbe,
        SchedWakingProbe,
        SoftirqEntryProbe,
        SoftirqRaiseProbe,
        TaskNewtaskProbe,
        TaskRenameProbe, //
    },
    chains::AllChains,
    delivery::Delivery,
    engine::{
        histogram::{
            Precision,
            Scheme, //
        },
        switch::{
            AllWakeups,
            Dynamic,
            DynamicResched,
            Fixed,
            QueuedWakeups,
            Settings, //
        },
        Metric,
        MetricSet, //
    },
    reading::Setup,
    recorder::{
        Chained,
        CpuRecorder,
        Recorder,
        SlowVariant,
        Variant, //
    },
    resched::ReschedProbes,
    topology, //
};

/// The probes that only chains need, and that of wakeups, which notes those for metrics, too.
struct ChainProbes {
    _new: Registration<CpuRecorders>,
    _entries: Registration<AllChains>,
    _raises: Registration<AllChains>,
    _timers: Registration<AllChains>,
    // Later, so that each timer that is seen to begin is seen to end.
    _timer_ends: Registration<AllChains>,
    _wakings: Registration<CpuRecorders>,
}

impl ChainProbes {
    fn new(metrics: MetricSet, cpus: &Arc<CpuRecorders>, chains: &Arc<AllChains>) -> Result<Self> {
        let wakings = match metrics.contains(Metric::Wakeup) {
            true => SchedWakingProbe::<_, Chained<AllWakeups>>::register,
            false => SchedWakingProbe::<_, Chained<QueuedWakeups>>::register,
        };
        Ok(Self {
            _wakings: wakings(cpus.clone())?,
            _timer_ends: HrtimerExpireExitProbe::register(chains.clone())?,
            _timers: HrtimerExpireEntryProbe::register(chains.clone())?,
            _raises: SoftirqRaiseProbe::register(chains.clone())?,
            _entries: SoftirqEntryProbe::register(chains.clone())?,
            _new: SchedWakeupNewProbe::register(cpus.clone())?,
        })
    }
}

type CpuRecorders = PerCpu<CpuRecorder>;
type Register = fn(Arc<Recorder>) -> Result<Registration<Recorder>>;

/// The probes of a recorder.
///
/// The order of the fields is the order in which the probes are unregistered. No CPU runs a probe
/// any more when the next one is unregistered. The sweeps end last, when no probe can queue any.
pub(crate) struct Probes {
    _resched: Option<ReschedProbes>,
    _switches: Registration<CpuRecorders>,
    /// Waits until all samples that the last switches left have been delivered.
    _exits: ScopeGuard<(), fn(())>,
    _hotplug: hotplug::Registration<Recorder>,
    _chains: Option<ChainProbes>,
    _wakings: Option<Registration<Recorder>>,
    _new_tasks: Option<Registration<Recorder>>,
    _moves: Option<Registration<Recorder>>,
    _renames: Option<Registration<Recorder>>,
    _execs: Option<Registration<Recorder>>,
    /// Ends the sweeps. The recorder itself lives on while it is read, but must not decide the
    /// groups of tasks any more when the next one does.
    _sweeps: ScopeGuard<Arc<Recorder>, fn(Arc<Recorder>)>,
    pub(crate) recorder: Arc<Recorder>,
}

impl Probes {
    /// Creates a recorder for `setup`, and registers the probes that it needs. Sleeps.
    pub(crate) fn new(setup: &Setup, delivery: Arc<Delivery>) -> Result<Self> {
        let (records, metrics, groups) = (&setup.records, setup.metrics, setup.groups.clone());
        let idles = setup.idles.clone().filter(|_| setup.long_wait != 0);
        let long_waits = idles.map(|idles| (setup.long_wait, idles));
        records.begin(metrics);
        let scheme = records.scheme();
        let (has_groups, looks_at_waits) = (groups.is_some(), long_waits.is_some());
        // Without the states of tasks nothing is known of how slices began.
        let chains = setup.chains.clone().filter(|_| metrics.needs_tasks());
        let keeps_chains = chains.is_some();
        delivery.outliers().set_chains(chains.clone());
        let (mut follows_cgroups, mut follows_names) = (false, false);
        if let Some(groups) = &groups {
            (follows_cgroups, follows_names) = (groups.follows_cgroups(), groups.follows_names());
        }
        let recorder = Arc::new(
            Recorder::new(records, groups, long_waits, chains.clone(), delivery)?,
            GFP_KERNEL,
        )?;
        recorder.forget();
        let register = |is_needed: bool, register: Register| {
            is_needed.then(|| register(recorder.clone())).transpose()
        };
        // If anything fails from here on, dropped in the same order as the fields.
        let end_sweeps: fn(Arc<Recorder>) = |recorder| recorder.end_sweeps();
        let sweeps = ScopeGuard::new_with_data(recorder.clone(), end_sweeps);
        let execs = register(has_groups, SchedProcessExecProbe::register)?;
        let renames = register(follows_names, TaskRenameProbe::register)?;
        let moves = register(follows_cgroups, CgroupAttachTaskProbe::register)?;
        let needs_tasks = metrics.needs_tasks() || has_groups;
        let new_tasks = register(needs_tasks, TaskNewtaskProbe::register)?;
        if needs_tasks {
            // The probe sees all tasks that are created from here on. Make room for the others.
            recorder.make_room();
        }
        // Those of chains note wakeups, too.
        let needs_wakings = metrics.needs_wakeups() && !keeps_chains;
        let wakings = register(needs_wakings, wakings_variant(metrics))?;
        let cpus = CpuRecorder::all(&recorder)?;
        let chains = chains
            .as_ref()
            .map(|chains| ChainProbes::new(metrics, &cpus, chains))
            .transpose()?;
        let hotplug = hotplug::Registration::new(recorder.clone())?;
        topology::learn_all();
        let with = (has_groups, looks_at_waits, keeps_chains);
        let exits = ScopeGuard::new_with_data((), (|()| wait_for_exits()) as fn(()));
        let switches = register_switches(cpus, scheme, metrics, with)?;
        recorder.start();
        // Last: each request must end with a switch that is seen.
        let resched = metrics
            .needs_resched()
            .then(|| ReschedProbes::new(&recorder))
            .transpose()?;
        Ok(Self {
            _resched: resched,
            _switches: switches,
            _exits: exits,
            _hotplug: hotplug,
            _chains: chains,
            _wakings: wakings,
            _new_tasks: new_tasks,
            _moves: moves,
            _renames: renames,
            _execs: execs,
            _sweeps: sweeps,
            recorder,
        })
    }
}

type RegisterSwitches = fn(Arc<CpuRecorders>) -> Result<Registration<CpuRecorders>>;

/// Returns how a variant of the `sched_switch` probe is registered.
fn variant<S, const GROUPS: bool, const WAITS: bool, const CHAIN: bool>() -> RegisterSwitches
where
    S: Settings + 'static,
{
    SchedSwitchProbe::<_, Variant<S, GROUPS, WAITS, CHAIN>>::register
}

/// Registers the variant of the `sched_switch` probe for these settings.
fn register_switches(
    cpus: Arc<CpuRecorders>,
    scheme: Scheme,
    metrics: MetricSet,
    (has_groups, looks_at_waits, keeps_chains): (bool, bool, bool),
) -> Result<Registration<CpuRecorders>> {
    const DEFAULT: u32 = Precision::DEFAULT;

    let precision = match metrics {
        MetricSet::DEFAULT => scheme.precision().bits(),
        // Only the variants for any settings.
        _ => 0,
    };
    let register = match (precision, has_groups, looks_at_waits) {
        (DEFAULT, false, false) if keeps_chains => variant::<Fixed<DEFAULT>, false, false, true>(),
        (DEFAULT, true, false) if keeps_chains => variant::<Fixed<DEFAULT>, true, false, true>(),
        (DEFAULT, false, true) if keeps_chains => variant::<Fixed<DEFAULT>, false, true, true>(),
        (_, false, false) if metrics.needs_resched() && !keeps_chains => {
            variant::<DynamicResched, false, false, false>()
        }
        _ if keeps_chains || metrics.needs_resched() => {
            SchedSwitchProbe::<_, SlowVariant>::register
        }
        (1, false, false) => variant::<Fixed<1>, false, false, false>(),
        (2, false, false) => variant::<Fixed<2>, false, false, false>(),
        (3, false, false) => variant::<Fixed<3>, false, false, false>(),
        (4, false, false) => variant::<Fixed<4>, false, false, false>(),
        (6, false, false) => variant::<Fixed<6>, false, false, false>(),
        (7, false, false) => variant::<Fixed<7>, false, false, false>(),
        (DEFAULT, false, false) => variant::<Fixed<DEFAULT>, false, false, false>(),
        (DEFAULT, false, true) => variant::<Fixed<DEFAULT>, false, true, false>(),
        (DEFAULT, true, false) => variant::<Fixed<DEFAULT>, true, false, false>(),
        (DEFAULT, true, true) => variant::<Fixed<DEFAULT>, true, true, false>(),
        (_, false, false) => variant::<Dynamic, false, false, false>(),
        (_, false, true) => variant::<Dynamic, false, true, false>(),
        (_, true, false) => variant::<Dynamic, true, false, false>(),
        (_, true, true) => variant::<Dynamic, true, true, false>(),
    };
    register(cpus)
}

/// Returns how the variant of the `sched_waking` probe that `metrics` need is registered.
fn wakings_variant(metrics: MetricSet) -> Register {
    match metrics.contains(Metric::Wakeup) {
        true => SchedWakingProbe::<_, AllWakeups>::register,
        false => SchedWakingProbe::<_, QueuedWakeups>::register,
    }
}
