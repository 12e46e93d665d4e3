// SPDX-License-Identifier: GPL-2.0

//! The probes that rules need while measuring is off, too.

use kernel::{
    prelude::*,
    sync::Arc, //
};

use super::Groups;
use crate::boundary::abstractions::{
    CgroupMkdirProbe,
    Probe,
    Registration,
    SchedProcessExitProbe,
    TaskNewtaskProbe, //
};

/// The probes that rules need while measuring is off, too. None of them is hit by a context switch.
#[derive(Default)]
pub(crate) struct Tracking {
    forks: Option<Registration<Groups>>,
    process_exits: Option<Registration<Groups>>,
    cgroups: Option<Registration<Groups>>,
}

impl Tracking {
    /// Registers the probes that `groups` need for the forks of processes, or for cgroups.
    pub(crate) fn begin(
        &mut self,
        groups: &Arc<Groups>,
        follows_forks: bool,
        names_cgroups: bool,
    ) -> Result {
        if follows_forks && self.forks.is_none() {
            // Exits first: otherwise a process could get a mark, end, and keep it.
            self.process_exits = Some(SchedProcessExitProbe::register(groups.clone())?);
            self.forks = Some(TaskNewtaskProbe::register(groups.clone())?);
        }
        if names_cgroups && self.cgroups.is_none() {
            self.cgroups = Some(CgroupMkdirProbe::register(groups.clone())?);
        }
        Ok(())
    }

    /// Unregisters the probes that `groups` do not need any more.
    pub(crate) fn end(&mut self, groups: &Groups) {
        let (follows_forks, names_cgroups) = groups.tracks();
        if !follows_forks {
            self.forks = None;
            self.process_exits = None;
        }
        if !names_cgroups {
            self.cgroups = None;
        }
    }
}
