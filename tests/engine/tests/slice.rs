// SPDX-License-Identifier: GPL-2.0

//! How a slice ended, from the arguments of the `sched_switch` tracepoint.

use proptest::prelude::*;
use schedhist_engine::engine::switch::{sample::Cause::*, switch_out::PrevState};

/// The states of `include/linux/sched.h` in which tasks leave a CPU.
#[test]
fn states() {
    for (state, end) in [
        (0x0000, Preempted),       // TASK_RUNNING: it yielded
        (0x0001, Interruptible),   // TASK_INTERRUPTIBLE
        (0x0002, Uninterruptible), // TASK_UNINTERRUPTIBLE
        (0x1000, Uninterruptible), // TASK_RTLOCK_WAIT
        (0x0402, IdleWait),        // TASK_IDLE
        (0x0004, Stopped),         // __TASK_STOPPED
        (0x0008, Traced),          // TASK_TRACED
        (0x0040, Parked),          // TASK_PARKED
        (0x8000, Frozen),          // TASK_FROZEN
        (0x0080, Dead),            // TASK_DEAD
        (0x1_0000, Other),         // TASK_STATE_MAX: the first that no kernel has
    ] {
        // TASK_WAKEKILL, TASK_FREEZABLE and __TASK_FREEZABLE_UNSAFE, in a state in which it blocks.
        let blocks = !matches!(end, Preempted | Dead | Other);
        for flags in 0..if blocks { 8 } else { 1 } {
            let state = state | ((flags & 1) << 8) | ((flags & 6) << 12);
            assert_eq!(PrevState::new(false, state).cause(), end, "{state:#x}");
            // Preempted before it went to sleep: it has not blocked.
            assert_eq!(PrevState::new(true, state).cause(), Preempted, "{state:#x}");
        }
    }
}

/// A throttled task is runnable, and nothing else.
#[test]
fn throttled() {
    let state = PrevState::THROTTLED;
    assert!(state.is_runnable() && state.is_throttled() && !state.is_interruptible());
    assert_eq!(state.cause(), Throttled);
    for state in [0, 1, 2, u32::MAX] {
        assert!(!PrevState::new(false, state).is_throttled(), "{state:#x}");
    }
}

proptest! {
    #[test]
    fn only_a_preempted_task_is_runnable(preempt: bool, state: u32) {
        let leaving = PrevState::new(preempt, state);
        let end = leaving.cause();
        prop_assert_eq!(end == Preempted, preempt || state == 0);
        prop_assert_eq!(leaving.is_runnable(), end == Preempted);
        prop_assert_eq!(leaving.is_interruptible(), end == Interruptible);
    }
}
