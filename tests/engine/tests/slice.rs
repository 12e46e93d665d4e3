// SPDX-License-Identifier: GPL-2.0

//! How a stay ended, from the arguments of the `sched_switch` tracepoint.

use proptest::prelude::*;
use schedhist_engine::engine::switch::switch_out::{
    PrevState,
    SwitchOut::{
        self,
        *, //
    },
};

/// The states of `include/linux/sched.h` in which tasks leave a CPU.
#[test]
fn states() {
    for (state, end) in [
        (0x0000, Preempted),       // TASK_RUNNING: it yielded
        (0x0001, Interruptible),   // TASK_INTERRUPTIBLE
        (0x0002, Uninterruptible), // TASK_UNINTERRUPTIBLE
        (0x0102, Uninterruptible), // TASK_KILLABLE
        (0x0402, Uninterruptible), // TASK_IDLE
        (0x1000, Uninterruptible), // TASK_RTLOCK_WAIT
        (0x2001, Interruptible),   // TASK_FREEZABLE, interruptible
        (0x0104, Stopped),         // TASK_STOPPED
        (0x0008, Stopped),         // TASK_TRACED
        (0x0040, Stopped),         // TASK_PARKED
        (0x0080, Dead),            // TASK_DEAD
    ] {
        assert_eq!(SwitchOut::new(false, state), end, "{state:#x}");
        // Preempted before it went to sleep: it has not blocked.
        assert_eq!(SwitchOut::new(true, state), Preempted, "{state:#x}");
    }
}

/// A throttled task is runnable, and nothing else.
#[test]
fn throttled() {
    let state = PrevState::THROTTLED;
    assert!(state.is_runnable() && state.is_throttled() && !state.is_interruptible());
    assert_eq!(state.switch_out(), Throttled);
    for state in [0, 1, 2, u32::MAX] {
        assert!(!PrevState::new(false, state).is_throttled(), "{state:#x}");
    }
}

proptest! {
    #[test]
    fn is_runnable_if_and_only_if_preempted(preempt: bool, state: u32) {
        let runnable = SwitchOut::is_runnable(preempt, state);
        prop_assert_eq!(runnable, SwitchOut::new(preempt, state) == Preempted);
        prop_assert_eq!(runnable, preempt || state == 0);
    }

    /// The result that is computed later is the same.
    #[test]
    fn a_leaving_state_means_how_the_stay_ended(preempt: bool, state: u32) {
        let (leaving, end) = (PrevState::new(preempt, state), SwitchOut::new(preempt, state));
        prop_assert_eq!(leaving.switch_out(), end);
        prop_assert_eq!(leaving.is_runnable(), end == Preempted);
        // Dead tasks do not come back, so the engine never asks this about them.
        if end != Dead {
            prop_assert_eq!(leaving.is_interruptible(), end == Interruptible);
        }
    }
}
