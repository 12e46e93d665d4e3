// SPDX-License-Identifier: GPL-2.0

//! A slice of a task, as a number, and the context in which a wakeup happened there.

use crate::engine::named::named;

named! {
    /// The context in which a task was woken, or the way in which a hop led to the one before it.
    #[repr(u8)]
    pub enum Context {
        /// The waker's own doing: a system call, or a fault.
        Task => "task";
        /// A softirq that the waker had raised in the same slice.
        Softirq => "softirq";
        /// The waker created the task.
        Fork => "fork";
        /// A hard interrupt, or an NMI.
        Interrupt => "interrupt";
        /// A softirq that a hard interrupt had raised.
        InterruptSoftirq => "interrupt_softirq";
        /// A softirq of which it is not known who raised it, or that several had raised.
        UnknownSoftirq => "unknown_softirq";
        /// The idle task.
        Idle => "idle";
        /// Not known.
        Unknown => "unknown";
        /// The function of a timer that expired, in a hard interrupt or in a softirq.
        Timer => "timer";
    }
}

impl Context {
    /// Returns whether a task woke the other one in this context.
    pub const fn is_of_task(self) -> bool {
        matches!(self, Self::Task | Self::Softirq | Self::Fork)
    }
}

/// What a CPU is doing when it wakes a task: `preempt_count` says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupted {
    /// Nothing interrupted the task.
    No,
    /// It runs a softirq.
    Softirq,
    /// It is in a hard interrupt or in an NMI.
    Hard,
}

/// Whose doing a softirq is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SoftirqOf {
    /// The task that raised it, if that was one.
    Raiser,
    /// The timers' that have expired.
    Timers,
    /// The kernel thread's for softirqs that runs it.
    Thread,
}

/// The number of a slice, and a context.
///
/// A CPU counts its slices from 1 on; 0 stands for none that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link(u64);

impl Link {
    /// The bits of the number of a slice: enough for two years of a million switches a second.
    const NUMBER_BITS: u32 = 46;
    const CPU_BITS: u32 = 13;
    const CONTEXT_BITS: u32 = 4;
    const CONTEXT_AT: u32 = Self::NUMBER_BITS + Self::CPU_BITS;
    const NUMBERS: u64 = (1 << Self::NUMBER_BITS) - 1;
    const CONTEXTS: u64 = (1 << Self::CONTEXT_BITS) - 1;
    /// Tells a link from the group of a task, which is a smaller number.
    const MARK: u64 = 1 << 63;

    /// Nothing is known.
    pub const UNKNOWN: Self = Self::new(0, 0).within(Context::Unknown);

    /// Returns the slice `number` of `cpu`.
    #[inline(always)]
    pub const fn new(cpu: u32, number: u64) -> Self {
        let cpu = (cpu as u64 & ((1 << Self::CPU_BITS) - 1)) << Self::NUMBER_BITS;
        Self(Self::MARK | cpu | (number & Self::NUMBERS))
    }

    /// Returns the link as a number that is not 0, for [`Link::from_bits`].
    #[inline(always)]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Returns the link of `bits`, if they are one.
    #[inline(always)]
    pub const fn from_bits(bits: u64) -> Option<Self> {
        match Self::is_link(bits) {
            true => Some(Self(bits)),
            false => None,
        }
    }

    /// Returns the link of `bits`, which must be one or be stored only where
    /// [`Link::from_bits`] looks at them: this does not.
    #[inline(always)]
    pub const fn of_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Returns the slice after this one on its CPU, which makes fewer than 2^46 of them.
    #[inline(always)]
    pub(super) const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }

    /// Returns whether these are the bits of a link.
    #[inline(always)]
    pub const fn is_link(bits: u64) -> bool {
        bits & Self::MARK != 0
    }

    /// Returns the number of the slice on its CPU; 0 if it is not known.
    #[inline(always)]
    pub const fn number(self) -> u64 {
        self.0 & Self::NUMBERS
    }

    /// Returns the CPU of the slice.
    #[inline(always)]
    pub const fn cpu(self) -> u32 {
        (self.0 >> Self::NUMBER_BITS) as u32 & ((1 << Self::CPU_BITS) - 1)
    }

    /// Returns the context.
    pub fn context(self) -> Context {
        const { assert!(Context::COUNT as u64 <= Self::CONTEXTS + 1) };
        let context = (self.0 >> Self::CONTEXT_AT) & Self::CONTEXTS;
        let context = Context::ALL.get(context as usize);
        match self.number() {
            0 if context.is_some_and(|context| context.is_of_task()) => Context::Unknown,
            _ => context.copied().unwrap_or(Context::Unknown),
        }
    }

    /// Returns the same slice with a context.
    #[inline(always)]
    pub const fn within(self, context: Context) -> Self {
        let bits = self.0 & !(Self::CONTEXTS << Self::CONTEXT_AT);
        Self(bits | ((context as u64) << Self::CONTEXT_AT))
    }
}
