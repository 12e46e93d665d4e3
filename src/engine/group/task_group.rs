// SPDX-License-Identifier: GPL-2.0

//! Groups: the group of a task, as its state stores it.

/// The number of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Group(u32);

impl Group {
    /// The group of all tasks that no other group takes.
    pub const OTHER: Self = Self(0);

    /// The maximum number of groups, [`Group::OTHER`] included.
    pub const MAX: usize = 1 << TaskGroup::GROUP_BITS;

    /// Creates a group from its number; returns `None` unless `number` is below [`Group::MAX`].
    pub const fn new(number: u32) -> Option<Self> {
        if (number as usize) < Self::MAX {
            Some(Self(number))
        } else {
            None
        }
    }

    /// Returns the number.
    #[inline(always)]
    pub const fn number(self) -> u32 {
        self.0
    }

    /// Returns where it is among the groups but [`Group::OTHER`].
    pub(super) fn place(self) -> Option<usize> {
        (self.0 as usize).checked_sub(1)
    }
}

/// The group of a task, and whether the task is a kernel thread.
///
/// # Invariants
///
/// The number is below `1 << TaskGroup::BITS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskGroup(u32);

impl TaskGroup {
    /// The number of bits of a group's number.
    const GROUP_BITS: u32 = 20;
    const KERNEL: u32 = 1 << Self::GROUP_BITS;
    const IS_IDLE: u32 = 1 << (Self::GROUP_BITS + 1);

    pub(in crate::engine) const BITS: u32 = Self::GROUP_BITS + 2;

    /// The group of a task of which nothing is known.
    pub const UNKNOWN: Self = Self(0);

    /// Stands for the idle task, which is in no group.
    pub const IDLE: Self = Self(Self::IS_IDLE);

    /// Returns the value for a task in `group`.
    pub const fn new(group: Group, is_kernel_thread: bool) -> Self {
        let kernel = if is_kernel_thread { Self::KERNEL } else { 0 };
        // INVARIANT: Both are below `1 << BITS`.
        Self(group.0 | kernel)
    }

    /// Creates a group from `bits`, which [`TaskGroup::bits`] returned.
    #[inline(always)]
    pub(in crate::engine) const fn from_bits(bits: u64) -> Self {
        // INVARIANT: By the caller's promise.
        Self(bits as u32)
    }

    /// Returns the group as a number, for [`TaskGroup::from_bits`].
    #[inline(always)]
    pub(in crate::engine) const fn bits(self) -> u64 {
        self.0 as u64
    }

    /// Returns the group; [`Group::OTHER`] for the idle task.
    #[inline(always)]
    pub const fn group(self) -> Group {
        Group(self.0 & (Self::KERNEL - 1))
    }

    /// Returns the group unless this is a kernel thread or the idle task.
    #[inline(always)]
    pub fn user_group(self) -> Option<Group> {
        (self.0 < Self::KERNEL).then_some(Group(self.0))
    }

    /// Returns whether this stands for the idle task.
    #[inline(always)]
    pub const fn is_idle(self) -> bool {
        self.0 & Self::IS_IDLE != 0
    }

    /// Returns whether the task is a kernel thread.
    #[inline(always)]
    pub const fn is_kernel_thread(self) -> bool {
        self.0 & Self::KERNEL != 0
    }
}
