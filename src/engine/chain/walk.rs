// SPDX-License-Identifier: GPL-2.0

//! The way back from a slice, link by link.

use crate::engine::{
    chain::{
        ChainSlice,
        Context,
        Link,
        Start, //
    },
    group::Group,
    named::named, //
};

/// The most hops of a chain. They are kept with each outlier, so that there is a bound; in a chain
/// that is longer, the last hops matter most.
pub const HOPS: usize = if cfg!(loom) { 2 } else { 30 };

/// The most slices that a walk reads, with interrupts off: two lines of cache each.
pub const STEPS: u32 = 128;

named! {
    /// Where a chain ends.
    #[repr(u8)]
    pub enum End {
        /// Where the interval begins: all of it is in hops.
        Start => "start";
        /// In a hard interrupt, which woke the last task: it was blocked until then.
        Interrupt => "interrupt";
        /// In a softirq that a hard interrupt had raised, likewise.
        InterruptSoftirq => "interrupt_softirq";
        /// In a softirq of which it is not known who raised it, likewise.
        UnknownSoftirq => "unknown_softirq";
        /// In the idle task, likewise.
        Idle => "idle";
        /// At a slice that is not kept any more.
        Overwritten => "overwritten";
        /// At what was not seen.
        Unknown => "unknown";
        /// At [`HOPS`] or at [`STEPS`].
        Limit => "limit";
        /// In the function of a timer, which woke the last task: it was blocked until then.
        Timer => "timer";
    }
}

impl End {
    const fn of(context: Context) -> Option<Self> {
        match context {
            Context::Task | Context::Softirq | Context::Fork => None,
            Context::Interrupt => Some(Self::Interrupt),
            Context::InterruptSoftirq => Some(Self::InterruptSoftirq),
            Context::UnknownSoftirq => Some(Self::UnknownSoftirq),
            Context::Idle => Some(Self::Idle),
            Context::Unknown => Some(Self::Unknown),
            Context::Timer => Some(Self::Timer),
        }
    }

    /// Returns whether the last task of the chain was blocked before that.
    pub const fn is_blocked(self) -> bool {
        matches!(
            self,
            Self::Interrupt
                | Self::InterruptSoftirq
                | Self::UnknownSoftirq
                | Self::Idle
                | Self::Timer
        )
    }
}

/// A task in a chain: what it did from when the next one woke it until it woke the one before;
/// times in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The task.
    pub pid: i32,
    /// The task's name, padded with NULs.
    pub comm: [u8; 16],
    /// The task's group, in the slice in which it woke the one before.
    pub group: Group,
    /// The CPU that it had then.
    pub cpu: u32,
    /// How it woke the one before; [`Context::Unknown`] for the first, which nobody awaits.
    pub via: Context,
    /// The number of its slices.
    pub slices: u32,
    /// The time for which it had a CPU.
    pub ran: u64,
    /// The time for which it waited for one after its wakeup.
    pub waited: u64,
    /// The time for which it waited for one after it had been preempted.
    pub preempted: u64,
    /// The time for which its quota was spent.
    pub throttled: u64,
}

impl Hop {
    /// A hop of no task.
    pub const NONE: Self = Self {
        pid: 0,
        comm: [0; 16],
        group: Group::OTHER,
        cpu: 0,
        via: Context::Unknown,
        slices: 0,
        ran: 0,
        waited: 0,
        preempted: 0,
        throttled: 0,
    };

    const fn new(slice: &ChainSlice, cpu: u32, via: Context) -> Self {
        Self {
            pid: slice.pid,
            comm: slice.comm,
            group: slice.group,
            cpu,
            via,
            ..Self::NONE
        }
    }

    /// Returns the sum of its times.
    pub fn sum(&self) -> u64 {
        [self.ran, self.waited, self.preempted, self.throttled]
            .into_iter()
            .fold(0, u64::wrapping_add)
    }
}

/// What a walk found: `blocked`, `missing` and the sums of all hops add up to the interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walked {
    /// Where the chain ends.
    pub end: End,
    /// The number of hops.
    pub hops: u32,
    /// The time for which the last task was blocked, in nanoseconds, until something else than a
    /// task woke it.
    pub blocked: u64,
    /// The time of which nothing is known, in nanoseconds.
    pub missing: u64,
}

/// Follows the chain back from the slice `link`, through the interval from `start` to `end`. Passes
/// [`HOPS`] hops at most to `keep`, the first of which is the task of that slice.
///
/// `read` reads a slice, or returns why the chain ends there.
pub fn walk(
    mut link: Link,
    start: u64,
    end: u64,
    read: impl Fn(Link) -> Result<ChainSlice, End>,
    mut keep: impl FnMut(usize, &Hop),
) -> Walked {
    let mut until = end.max(start);
    let mut hops: usize = 0;
    let mut current: Option<Hop> = None;
    let mut reached = End::Limit;
    for _ in 0..STEPS {
        let context = link.context();
        if let Some(end) = End::of(context) {
            reached = end;
            break;
        }
        let slice = match read(link) {
            Ok(slice) => slice,
            Err(end) => {
                reached = end;
                break;
            }
        };
        let mut hop = match current {
            Some(hop) => hop,
            None if hops == HOPS => break,
            None if hops == 0 => Hop::new(&slice, link.cpu(), Context::Unknown),
            None => Hop::new(&slice, link.cpu(), context),
        };
        // `clamp()` could panic, for all that the compiler knows.
        let since = slice.since.min(until).max(start);
        let waiting = slice.waiting.min(since).max(start);
        let gap = since.wrapping_sub(waiting);
        hop.slices = hop.slices.wrapping_add(1);
        hop.ran = hop.ran.wrapping_add(until.wrapping_sub(since));
        let part = match slice.start {
            Start::Woken | Start::Forked | Start::Unknown => &mut hop.waited,
            Start::Preempted => &mut hop.preempted,
            Start::Throttled => &mut hop.throttled,
        };
        *part = part.wrapping_add(gap);
        until = waiting;
        keep(hops, &hop);
        let is_over = until <= start;
        if is_over || slice.start.is_wakeup() {
            hops = hops.wrapping_add(1);
            current = None;
        } else {
            current = Some(hop);
        }
        if is_over {
            reached = End::Start;
            break;
        }
        link = match slice.start {
            Start::Unknown => Link::UNKNOWN,
            _ => slice.link,
        };
    }
    // The hop that was being added up.
    if current.is_some() {
        hops = hops.wrapping_add(1);
    }
    let rest = until.wrapping_sub(start);
    let (blocked, missing) = match reached.is_blocked() {
        true => (rest, 0),
        false => (0, rest),
    };
    Walked {
        end: reached,
        hops: hops as u32,
        blocked,
        missing,
    }
}
