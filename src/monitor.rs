// SPDX-License-Identifier: GPL-2.0

//! Measuring: what is recorded, switched on and off, and reset.

use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex,
        UniqueArc, //
    },
};

use crate::{
    boundary::abstractions::{
        hotplug,
        sched_switch::SchedSwitchProbe,
        sched_waking::SchedWakingProbe,
        smp,
        task_newtask::TaskNewtaskProbe,
        tracepoint::{
            Probe,
            Registration, //
        },
    },
    engine::{
        histogram::{
            bucket::Scheme,
            snapshot::Baseline, //
        },
        metric::MetricSet,
        switch::settings::{
            Dynamic,
            Fixed, //
        },
    },
    outliers::Outliers,
    reading::{
        Baselines,
        Reading, //
    },
    recorder::Recorder,
    records::{
        CpuRecords,
        Records, //
    },
};

/// The probes of a recorder, in the order in which they come off. Each is gone for good, and no CPU
/// runs it any more, before the next one comes off; the recorder outlives them all, and so nobody asks
/// for its work any more when it goes.
struct Probes {
    _switches: Registration<Recorder>,
    _hotplug: hotplug::Registration<Recorder>,
    _wakings: Option<Registration<Recorder>>,
    _new_tasks: Option<Registration<Recorder>>,
    recorder: Arc<Recorder>,
}

impl Probes {
    /// Begins a recorder that records `metrics`. Sleeps.
    ///
    /// Registers no probe that no metric needs.
    fn new(records: Arc<Records>, metrics: MetricSet, outliers: Arc<Outliers>) -> Result<Self> {
        records.begin(metrics);
        let register_switches = switches_of(records.scheme(), metrics);
        let recorder = Arc::new(Recorder::new(&records, metrics, outliers)?, GFP_KERNEL)?;
        let mut new_tasks = None;
        if metrics.needs_tasks() {
            new_tasks = Some(TaskNewtaskProbe::register(recorder.clone())?);
            // Every task was there before, and is found now, or is told of by the probe of new tasks.
            recorder.make_room();
        }
        let mut wakings = None;
        if metrics.needs_wakeups() {
            wakings = Some(SchedWakingProbe::register(recorder.clone())?);
        }
        let hotplug = hotplug::Registration::new(recorder.clone())?;
        Ok(Self {
            _switches: register_switches(recorder.clone())?,
            _hotplug: hotplug,
            _wakings: wakings,
            _new_tasks: new_tasks,
            recorder,
        })
    }
}

/// What registers the probe of switches that is compiled for these settings.
fn switches_of(
    scheme: Scheme,
    metrics: MetricSet,
) -> fn(Arc<Recorder>) -> Result<Registration<Recorder>> {
    if metrics != MetricSet::DEFAULT {
        return SchedSwitchProbe::<_, Dynamic>::register;
    }
    match scheme.precision().bits() {
        1 => SchedSwitchProbe::<_, Fixed<1>>::register,
        2 => SchedSwitchProbe::<_, Fixed<2>>::register,
        3 => SchedSwitchProbe::<_, Fixed<3>>::register,
        4 => SchedSwitchProbe::<_, Fixed<4>>::register,
        5 => SchedSwitchProbe::<_, Fixed<5>>::register,
        6 => SchedSwitchProbe::<_, Fixed<6>>::register,
        7 => SchedSwitchProbe::<_, Fixed<7>>::register,
        _ => SchedSwitchProbe::<_, Dynamic>::register,
    }
}

/// What the controls change.
struct State {
    enabled: bool,
    metrics: MetricSet,
    /// There while `enabled`, unless no metric is on.
    probes: Option<Probes>,
    records: Arc<Records>,
    baselines: Option<Arc<Baselines>>,
    /// How many resets there were.
    resets: u64,
}

impl State {
    fn reading(&self, outliers: &Arc<Outliers>) -> Reading {
        Reading {
            enabled: self.enabled,
            metrics: self.metrics,
            task_memory: self
                .probes
                .as_ref()
                .map_or(0, |probes| probes.recorder.memory()),
            records: self.records.clone(),
            baselines: self.baselines.clone(),
            outliers: outliers.clone(),
            resets: self.resets,
        }
    }

    /// Takes the probes off and, if measuring is on, puts those on that the metrics need.
    ///
    /// On an error measuring is off.
    fn restart(&mut self, outliers: &Arc<Outliers>) -> Result {
        self.probes = None;
        let mut result = Ok(());
        if self.enabled && !self.metrics.is_empty() {
            match Probes::new(self.records.clone(), self.metrics, outliers.clone()) {
                Ok(probes) => self.probes = Some(probes),
                Err(error) => {
                    self.enabled = false;
                    result = Err(error);
                }
            }
        }
        outliers.set_measured(match self.probes {
            Some(_) => self.metrics,
            None => MetricSet::NONE,
        });
        result
    }
}

/// The records and the controls.
///
/// While measuring is off, and while no metric is on, no probe is registered, and a context switch
/// costs what it costs without us.
#[pin_data]
pub(crate) struct Monitor {
    #[pin]
    state: Mutex<State>,
    outliers: Arc<Outliers>,
}

impl Monitor {
    /// Creates a monitor that is off, for `metrics`. Sleeps; fails with `ENOMEM`.
    pub(crate) fn new(scheme: Scheme, metrics: MetricSet) -> Result<Arc<Self>> {
        let state = State {
            enabled: false,
            metrics,
            probes: None,
            records: Arc::new(Records::new(scheme, metrics)?, GFP_KERNEL)?,
            baselines: None,
            resets: 0,
        };
        let outliers = Arc::pin_init(Outliers::new(), GFP_KERNEL)?;
        Arc::pin_init(
            pin_init!(Self {
                outliers,
                state <- new_mutex!(state, "schedhist::Monitor::state"),
            }),
            GFP_KERNEL,
        )
    }

    /// Returns the outliers, which are watched for while measuring is on.
    pub(crate) fn outliers(&self) -> &Arc<Outliers> {
        &self.outliers
    }

    /// Looks at it all. Sleeps.
    pub(crate) fn read(&self) -> Reading {
        self.state.lock().reading(&self.outliers)
    }

    /// Calls `again` where there was a reset since `reading` was taken: what a reader has seen of it is
    /// cut in two. No other reset comes while that runs. Sleeps.
    pub(crate) fn if_reset_since(
        &self,
        reading: &Reading,
        again: impl FnOnce(&Reading) -> Result,
    ) -> Result {
        let state = self.state.lock();
        if state.resets == reading.resets {
            return Ok(());
        }
        again(&state.reading(&self.outliers))
    }

    /// Switches measuring on or off; no effect where it is so already. Sleeps.
    ///
    /// When it returns after switching off, no probe runs any more, and the records stand still.
    /// Switching on fails with `ENOENT` when the kernel lacks a tracepoint, with `ENOSPC` when it has no
    /// state of CPU hotplug left, and with `ENOMEM`.
    pub(crate) fn set_enabled(&self, enabled: bool) -> Result {
        let mut state = self.state.lock();
        if enabled == state.enabled {
            return Ok(());
        }
        state.enabled = enabled;
        state.restart(&self.outliers)
    }

    /// Chooses which metrics are on; no effect where it is those already. Sleeps.
    ///
    /// Where measuring is on it begins anew, so that no stamp from before becomes a sample. Fails as
    /// [`Monitor::set_enabled`] does: where there is no room for the records, before anything has
    /// changed; else measuring is off, and the metrics are chosen.
    pub(crate) fn set_metrics(&self, metrics: MetricSet) -> Result {
        let mut state = self.state.lock();
        if metrics == state.metrics {
            return Ok(());
        }
        let mut larger = None;
        if !state.records.has_room_for(metrics) {
            let records = Records::new(state.records.scheme(), metrics)?;
            larger = Some(Arc::new(records, GFP_KERNEL)?);
        }
        state.probes = None;
        if let Some(records) = larger {
            records.take_over(&state.records);
            state.records = records;
        }
        state.metrics = metrics;
        state.restart(&self.outliers)
    }

    /// Makes what is recorded by now the baseline: the text files start from 0, with minima and maxima of
    /// the time from now on. Measuring goes on meanwhile, and each CPU's part of the baseline is of one
    /// moment. Sleeps; fails with `ENOMEM`, and then changes nothing.
    pub(crate) fn reset(&self) -> Result {
        let mut state = self.state.lock();
        let records = state.records.clone();
        // Nothing can fail once the first CPU has begun anew.
        let mut baselines = UniqueArc::new(
            Baselines {
                cpus: KVVec::new(),
                reported: 0,
                suppressed: 0,
            },
            GFP_KERNEL,
        )?;
        for cpu in records.cpus() {
            let cells = CpuRecords::cells(records.scheme(), cpu.capacity());
            let counts = KVVec::from_elem(0, cells, GFP_KERNEL)?;
            let baseline = Baseline::new(records.scheme(), counts).ok_or(EINVAL)?;
            baselines.cpus.push(baseline, GFP_KERNEL)?;
        }
        if let Some(earlier) = &state.baselines {
            for (baseline, earlier) in baselines.cpus.iter_mut().zip(earlier.cpus.iter()) {
                baseline.follow(earlier);
            }
        }
        state.resets += 1;
        baselines.reported = self.outliers.last();
        baselines.suppressed = self.outliers.suppressed();
        for (baseline, cpu) in baselines.cpus.iter_mut().zip(records.cpus()) {
            // The CPU itself takes it, with interrupts off: so it is not in the midst of a switch.
            smp::run_on(cpu.number(), || baseline.take(cpu));
        }
        state.baselines = Some(baselines.into());
        Ok(())
    }
}
