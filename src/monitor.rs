// SPDX-License-Identifier: GPL-2.0

//! Control of measuring: switching it on and off, choosing the metrics, and resetting the records.

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
        smp,
        zeroed_slice,
        PerCpu, //
    },
    chains::AllChains,
    delivery::Delivery,
    engine::{
        format::Slices,
        group::{
            Command,
            Pattern,
            Rule, //
        },
        histogram::{
            Baseline,
            Scheme, //
        },
        idle::WaitSums,
        MetricSet, //
    },
    groups::{
        Groups,
        Limits,
        Tracking, //
    },
    long_waits::CpuIdles,
    outliers::Outliers,
    probes::Probes,
    reading::{
        Baselines,
        Reading,
        Setup, //
    },
    records::{
        CpuRecords,
        Records, //
    },
};

struct State {
    setup: Setup,
    /// Present while measuring is on, unless no metric is on.
    probes: Option<Probes>,
    /// Processes that rules follow, even while measuring is off.
    tracking: Tracking,
}

impl State {
    fn reading(&self, outliers: &Arc<Outliers>) -> Reading {
        Reading {
            setup: self.setup.clone(),
            recorder: self.probes.as_ref().map(|probes| probes.recorder.clone()),
            outliers: outliers.clone(),
        }
    }

    /// Unregisters the probes and, if measuring is on, registers those that the metrics need.
    ///
    /// Switches measuring off on an error.
    fn restart(&mut self, delivery: &Arc<Delivery>) -> Result {
        self.probes = None;
        let mut result = Ok(());
        if self.setup.enabled && !self.setup.metrics.is_empty() {
            match Probes::new(&self.setup, delivery.clone()) {
                Ok(probes) => self.probes = Some(probes),
                Err(error) => {
                    self.setup.enabled = false;
                    result = Err(error);
                }
            }
        }
        delivery.outliers().set_measured(match self.probes {
            Some(_) => self.setup.metrics,
            None => MetricSet::NONE,
        });
        result
    }
}

/// The records and the controls.
///
/// While measuring is off or no metric is on, no probe is registered: a context switch costs
/// nothing extra.
#[pin_data]
pub(crate) struct Monitor {
    #[pin]
    state: Mutex<State>,
    delivery: Arc<Delivery>,
}

impl Monitor {
    /// Creates a monitor that is off, for `metrics`. Sleeps; fails with `ENOMEM`.
    pub(crate) fn new(scheme: Scheme, metrics: MetricSet) -> Result<Arc<Self>> {
        let setup = Setup {
            enabled: false,
            metrics,
            records: Arc::new(Records::new(scheme, metrics)?, GFP_KERNEL)?,
            groups: None,
            group_limits: Limits::default(),
            long_wait: 0,
            idles: None,
            chain: 0,
            chains: None,
            baselines: None,
            resets: 0,
        };
        let state = State {
            setup,
            probes: None,
            tracking: Tracking::default(),
        };
        let outliers = Arc::pin_init(Outliers::new(), GFP_KERNEL)?;
        let delivery = Arc::new(Delivery::new(outliers)?, GFP_KERNEL)?;
        Arc::pin_init(
            pin_init!(Self {
                delivery,
                state <- new_mutex!(state, "schedhist::Monitor::state"),
            }),
            GFP_KERNEL,
        )
    }

    pub(crate) fn outliers(&self) -> &Arc<Outliers> {
        self.delivery.outliers()
    }

    pub(crate) fn delivery(&self) -> &Arc<Delivery> {
        &self.delivery
    }

    /// Returns the current reading. Sleeps.
    pub(crate) fn read(&self) -> Reading {
        self.state.lock().reading(self.outliers())
    }

    /// Calls `again` with a new reading if there was a reset since `reading` was taken. A text that
    /// was produced meanwhile may mix counts from before the reset with counts from after it. There
    /// is no other reset while `again` runs. Sleeps.
    pub(crate) fn if_reset_since(
        &self,
        reading: &Reading,
        again: impl FnOnce(&Reading) -> Result,
    ) -> Result {
        let state = self.state.lock();
        if state.setup.resets == reading.setup.resets {
            return Ok(());
        }
        again(&state.reading(self.outliers()))
    }

    /// Switches measuring on or off; no effect if it is in that state already. Sleeps.
    ///
    /// Once measuring is off, no probe runs any more, and the records do not change. Switching on
    /// fails with `ENOENT` if the kernel lacks a tracepoint, with `ENOSPC` if it has no CPU hotplug
    /// state left, and with `ENOMEM`.
    pub(crate) fn set_enabled(&self, enabled: bool) -> Result {
        let mut state = self.state.lock();
        if enabled == state.setup.enabled {
            return Ok(());
        }
        state.setup.enabled = enabled;
        state.restart(&self.delivery)
    }

    /// Sets which metrics are on; no effect if these are on already. Sleeps.
    ///
    /// If measuring is on, it restarts, so that no earlier time stamp becomes part of a sample.
    ///
    /// Fails with `ENOMEM`, and changes nothing, if the records cannot be allocated. Other failures
    /// are those of [`Monitor::set_enabled`]: they leave the new metrics set and measuring off.
    pub(crate) fn set_metrics(&self, metrics: MetricSet) -> Result {
        let mut state = self.state.lock();
        if metrics == state.setup.metrics {
            return Ok(());
        }
        let mut larger = None;
        if !state.setup.records.has_room_for(metrics) {
            let records = Records::new(state.setup.records.scheme(), metrics)?;
            larger = Some(Arc::new(records, GFP_KERNEL)?);
        }
        state.probes = None;
        if let Some(records) = larger {
            records.take_over(&state.setup.records);
            state.setup.records = records;
        }
        state.setup.metrics = metrics;
        state.restart(&self.delivery)
    }

    /// Sets how tasks are grouped, and begins to record new groups. No effect if `rule` is `list`
    /// and tasks are grouped by a list already, which may have rules of several users. Sleeps.
    ///
    /// If measuring is on, it restarts, so that no earlier time stamp becomes part of a sample.
    ///
    /// Fails as [`Groups::new`] does, and with `ENOENT` if the kernel lacks a tracepoint, and then
    /// changes nothing. Other failures are those of [`Monitor::set_enabled`]: they leave the new
    /// groups set and measuring off.
    pub(crate) fn set_groups(&self, rule: Rule<'_>) -> Result {
        let mut state = self.state.lock();
        let groups = state.setup.groups.as_ref();
        if rule == Rule::List && groups.is_some_and(|groups| groups.is_list()) {
            return Ok(());
        }
        let groups = Groups::new(rule, state.setup.group_limits, state.setup.records.scheme())?;
        let mut tracking = Tracking::default();
        if let (Rule::Cgroup { under, .. }, Some(groups)) = (rule, &groups) {
            let (follows_forks, names_cgroups) = groups.tracks();
            tracking.begin(groups, follows_forks, names_cgroups)?;
            groups.find_under_again(under);
        }
        state.probes = None;
        state.tracking = tracking;
        state.setup.groups = groups;
        state.restart(&self.delivery)
    }

    /// Changes the list of rules. Measuring goes on, and other groups keep their counts. Sleeps.
    ///
    /// Fails with `EINVAL` if tasks are not grouped by a list, as [`Groups::find`],
    /// [`Groups::add_rule`] and [`Groups::remove_rule`] do, and with `ENOENT` if the kernel lacks a
    /// tracepoint; then changes nothing.
    pub(crate) fn change_rules(&self, command: Command<'_>) -> Result {
        let mut state = self.state.lock();
        let State {
            setup,
            tracking,
            probes,
        } = &mut *state;
        let groups = setup.groups.as_ref().filter(|groups| groups.is_list());
        let groups = groups.ok_or(EINVAL)?;
        let recorder = probes.as_ref().map(|probes| &probes.recorder);
        let result = match command {
            Command::Remove(name) => groups.remove_rule(name),
            Command::Add(definition) => {
                let (mut follows_forks, mut names_cgroups) = (false, false);
                match definition.pattern {
                    Pattern::Children(_) => follows_forks = true,
                    Pattern::Cgroup(_) => names_cgroups = true,
                    _ => {}
                }
                let tasks = recorder.map(|recorder| recorder.tasks());
                // Register the probes first, so that they miss nothing.
                tracking
                    .begin(groups, follows_forks, names_cgroups)
                    .and_then(|()| Groups::find(&definition))
                    .and_then(|resolved| groups.add_rule(&definition, resolved, tasks))
            }
        };
        tracking.end(groups);
        result?;
        if let Some(recorder) = recorder {
            recorder.decide_all();
        }
        Ok(())
    }

    /// Changes the limits of groups. They apply to the groups that [`Monitor::set_groups`] begins
    /// from now on. Sleeps.
    pub(crate) fn change_group_limits(&self, change: impl FnOnce(&mut Limits)) {
        change(&mut self.state.lock().setup.group_limits);
    }

    /// Sets from how many nanoseconds on a wait is long, so that other CPUs are looked at; 0 for
    /// none. No effect if this is set already. Sleeps.
    ///
    /// If measuring is on, it restarts, so that no earlier time stamp becomes part of a sample.
    ///
    /// Fails with `ENOMEM`, and changes nothing, if there is no memory for what CPUs did. Other
    /// failures are those of [`Monitor::set_enabled`]: they leave the new limit set and measuring
    /// off.
    pub(crate) fn set_long_wait(&self, nanoseconds: u64) -> Result {
        let mut state = self.state.lock();
        if nanoseconds == state.setup.long_wait {
            return Ok(());
        }
        if state.setup.idles.is_none() {
            state.setup.idles = Some(CpuIdles::new()?);
        }
        state.setup.long_wait = nanoseconds;
        state.restart(&self.delivery)
    }

    /// Sets how many slices are kept of each CPU for chains. Forgets the chains that are kept,
    /// unless this is set already. Sleeps.
    ///
    /// If measuring is on, it restarts, so that no earlier time stamp becomes part of a sample.
    ///
    /// Fails with `ENOMEM`, and changes nothing, if there is no memory for the slices. Other
    /// failures are those of [`Monitor::set_enabled`]: they leave the new number set and measuring
    /// off.
    pub(crate) fn set_chain(&self, slices: Slices) -> Result {
        let slices = slices.get();
        let mut state = self.state.lock();
        if slices == state.setup.chain {
            return Ok(());
        }
        let chains = match slices {
            0 => None,
            _ => Some(AllChains::new(slices)?),
        };
        state.probes = None;
        self.outliers().set_chains(None);
        state.setup.chain = slices;
        state.setup.chains = chains;
        state.restart(&self.delivery)
    }

    /// Makes the current records the baseline: in `status`, `summary`, `long_waits` and the
    /// histograms in text the counts start from 0, with new minima and maxima.
    ///
    /// Measuring goes on meanwhile. The baseline of each CPU is taken at one moment. Sleeps; fails
    /// with `ENOMEM`, and then changes nothing.
    pub(crate) fn reset(&self) -> Result {
        let mut state = self.state.lock();
        let records = state.setup.records.clone();
        // Allocate everything first: nothing can fail once the first baseline is taken.
        let cpus = PerCpu::new(|number| {
            let cpu = records.get(number).ok_or(EINVAL)?;
            let cells = CpuRecords::cells(records.scheme(), cpu.capacity());
            let counts = zeroed_slice::<u64>(number, cells)?;
            let mut baseline = Baseline::new(records.scheme(), counts).ok_or(EINVAL)?;
            let earlier = state.setup.baselines.as_ref();
            if let Some((earlier, _)) = earlier.and_then(|all| all.cpus.get(number)) {
                baseline.follow(earlier);
            }
            Ok((baseline, WaitSums::default()))
        })?;
        let mut baselines = UniqueArc::new(
            Baselines {
                cpus,
                reported: 0,
                suppressed: 0,
            },
            GFP_KERNEL,
        )?;
        state.setup.resets += 1;
        baselines.reported = self.outliers().last();
        baselines.suppressed = self.outliers().suppressed();
        let all = baselines.cpus.numbered_mut().zip(records.cpus());
        for ((number, (baseline, waits)), cpu) in all {
            // This runs with interrupts off, on the CPU itself, or on this one if that CPU is
            // offline: no switch is being recorded there.
            smp::run_on(number, || {
                baseline.take(cpu);
                if let Some(idles) = &state.setup.idles {
                    *waits = idles.sums(number);
                }
            });
        }
        state.setup.baselines = Some(baselines.into());
        Ok(())
    }
}
