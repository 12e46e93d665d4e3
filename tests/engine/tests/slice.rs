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
        (0x0102, Uninterruptible), // TASK_KILLABLE
        (0x2102, Uninterruptible), // TASK_FREEZABLE, killable, as vfork() waits
        (0x1000, Uninterruptible), // TASK_RTLOCK_WAIT
        (0x0402, IdleWait),        // TASK_IDLE
        (0x2402, IdleWait),        // TASK_FREEZABLE, idle
        (0x2001, Interruptible),   // TASK_FREEZABLE, interruptible
        (0x0104, Stopped),         // TASK_STOPPED
        (0x0008, Traced),          // TASK_TRACED
        (0x0040, Parked),          // TASK_PARKED
        (0x8000, Frozen),          // TASK_FROZEN
        (0x0080, Dead),            // TASK_DEAD
        (0x1_0000, Other),         // TASK_STATE_MAX: the first that no kernel has
    ] {
        assert_eq!(PrevState::new(false, state).cause(), end, "{state:#x}");
        // Preempted before it went to sleep: it has not blocked.
        assert_eq!(PrevState::new(true, state).cause(), Preempted, "{state:#x}");
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

/// `__task_state_index()` of `include/linux/sched.h`, as the letter that the kernel shows, for a
/// task that does not exit.
fn shown(state: u32) -> char {
    if state & (0x1000 | 0x8000) != 0 {
        return 'D';
    }
    if state & 0x402 == 0x402 {
        return 'I';
    }
    let reported = state & (0x1 | 0x2 | 0x4 | 0x8 | 0x40);
    b"RSDTtXZP"[(u32::BITS - reported.leading_zeros()) as usize].into()
}

/// All states of tasks that block, with all flags that may come with them, are told apart as the
/// kernel does. Frozen tasks are told from other ones that it shows as D.
#[test]
fn as_the_kernel_shows_it() {
    let flags = [0x100, 0x2000, 0x4000]; // TASK_WAKEKILL, TASK_FREEZABLE and its _UNSAFE
    for base in [0x1, 0x2, 0x402, 0x4, 0x8, 0x40, 0x1000, 0x8000] {
        for chosen in 0..1 << flags.len() {
            let has = |(bit, flag)| if chosen & (1 << bit) != 0 { flag } else { 0 };
            let state = base | (0..).zip(flags).map(has).sum::<u32>();
            let expected = match shown(state) {
                'S' => Interruptible,
                'D' if base == 0x8000 => Frozen,
                'D' => Uninterruptible,
                'I' => IdleWait,
                'T' => Stopped,
                't' => Traced,
                'P' => Parked,
                other => panic!("{state:#x} is shown as {other}"),
            };
            assert_eq!(PrevState::new(false, state).cause(), expected, "{state:#x}");
        }
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
