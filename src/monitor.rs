// SPDX-License-Identifier: GPL-2.0

//! Measuring, switched on and off.

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
        sched_switch,
        tracepoint::Registration, //
    },
    engine::bucket::Scheme,
    recorder::Recorder,
};

/// The records, and the probes while measuring is on.
///
/// While it is off no probe is registered, and a context switch costs what it costs without us.
#[pin_data]
pub(crate) struct Monitor {
    // Before the records: dropping the probes waits until none of them runs any more. (They hold a
    // reference of their own, so that this order is a matter of clarity only.)
    #[pin]
    probes: Mutex<Option<Registration<Recorder>>>,
    recorder: Arc<Recorder>,
}

impl Monitor {
    /// Creates a monitor that is off. Sleeps; fails with `ENOMEM`.
    pub(crate) fn new(scheme: Scheme) -> Result<Arc<Self>> {
        let recorder = Arc::new(Recorder::new(scheme)?, GFP_KERNEL)?;
        Arc::pin_init(
            pin_init!(Self {
                probes <- new_mutex!(None, "schedhist::Monitor::probes"),
                recorder,
            }),
            GFP_KERNEL,
        )
    }

    /// Returns the records.
    pub(crate) fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// Says whether measuring is on. Sleeps.
    pub(crate) fn is_enabled(&self) -> bool {
        self.probes.lock().is_some()
    }

    /// Switches measuring on or off; no effect where it is so already. Sleeps.
    ///
    /// When it returns after switching off, no probe runs any more, and the records stand still.
    /// Switching on fails with `ENOENT` when the kernel has no `sched_switch` tracepoint, and with
    /// `ENOMEM`.
    pub(crate) fn set_enabled(&self, enabled: bool) -> Result {
        let mut probes = self.probes.lock();
        if enabled == probes.is_some() {
            return Ok(());
        }
        *probes = if enabled {
            // What a CPU was running when measuring went off is not what it runs now.
            self.recorder.forget();
            Some(sched_switch::register(self.recorder.clone())?)
        } else {
            None
        };
        Ok(())
    }
}
