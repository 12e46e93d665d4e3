// SPDX-License-Identifier: GPL-2.0

//! The state of tasks, by PID.
//!
//! A tree of three levels, as page tables are: looking a PID up takes three loads and no search. Its
//! pages are filled in ahead of time, when a task is created and when measuring begins, so that the
//! probe of the scheduler allocates nothing. Pages that hold no living task's PID are swept out when
//! there are many, so that the memory follows the PIDs in use.

use core::{
    mem::MaybeUninit,
    ptr,
    sync::atomic::{
        AtomicPtr,
        AtomicUsize,
        Ordering, //
    },
};

use kernel::{
    alloc::{
        flags::__GFP_ZERO, //
        Flags,
    },
    ffi::c_void,
    prelude::*, //
};

use crate::boundary::{
    abstractions::{
        task::Task,
        work::Job, //
    },
    bindings, //
};
use crate::engine::switch::task_state::TaskState;

/// How many tasks a leaf holds, and what size that makes it: a page.
const LEAF_BITS: u32 = 6;
/// How many leaves a branch points to: a page of pointers.
const BRANCH_BITS: u32 = 9;
/// How many branches there are. The kernel gives out no PID from `PID_MAX_LIMIT` on: 2^22.
const ROOT_BITS: u32 = 7;

/// Sweeping fewer leaves than these is not worth the while.
const SWEEP_MIN: usize = 256;

type Leaf = [TaskState; 1 << LEAF_BITS];
type Branch = [AtomicPtr<Leaf>; 1 << BRANCH_BITS];
type Root = [AtomicPtr<Branch>; 1 << ROOT_BITS];

/// Shows that preemption is off, so that what RCU protects stays as long as this does.
///
/// # Safety
///
/// A value must exist only while preemption is off, on the CPU that has it.
pub(crate) unsafe trait NoPreemption {}

/// A table with room for the state of every task that there is.
///
/// # Invariants
///
/// - A pointer in `root` is null or comes from a `KBox`, and once set stays.
/// - A pointer in a branch is null or comes from a `KBox`, with [`SUSPECT`] added while it is being
///   looked into whether the leaf is needed. What it points to stays for an RCU grace period after
///   the pointer is gone.
pub(crate) struct TaskTable {
    root: KBox<Root>,
    /// How many leaves there are.
    leaves: AtomicUsize,
    /// How many there may be before the next sweep.
    limit: AtomicUsize,
}

/// Added to the address of a leaf that nobody has asked for since the sweep began.
const SUSPECT: usize = 1;

impl TaskTable {
    /// Creates a table without any room. Sleeps; fails with `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        // INVARIANT: All null.
        Ok(Self {
            root: zeroed(GFP_KERNEL)?,
            leaves: AtomicUsize::new(0),
            limit: AtomicUsize::new(SWEEP_MIN),
        })
    }

    /// Returns the state of the task `pid`, if there is room for it.
    #[inline(always)]
    pub(crate) fn get<'a>(&'a self, pid: i32, _: &'a impl NoPreemption) -> Option<&'a TaskState> {
        let (root, branch, leaf) = split(pid);
        let branch = branch_of(self.root.get(root)?)?.get(branch)?;
        let tasks = untagged(branch.load(Ordering::Acquire));
        // SAFETY: By the type's invariant it stays for a grace period, which does not end before
        // preemption is on again.
        unsafe { tasks.as_ref() }?.get(leaf)
    }

    /// Makes room for the task `pid`, unless there is. Does not sleep, but preemption must be on, as the
    /// allocator of `PREEMPT_RT` needs it. Fails with `ENOMEM`, and with `ERANGE` for what is no PID.
    ///
    /// The task must be one that [`schedhist_visit_tasks()`](bindings::schedhist_visit_tasks)
    /// finds: a sweep leaves room only for those, and for who asked for it since the sweep began.
    pub(crate) fn make_room(&self, pid: i32) -> Result {
        let (root, branch, _) = split(pid);
        let slot = self.root.get(root).ok_or(ERANGE)?;
        let branches = match branch_of(slot) {
            Some(branches) => branches,
            None => {
                insert(slot, ptr::null_mut())?;
                branch_of(slot).ok_or(ENOMEM)?
            }
        };
        let slot = branches.get(branch).ok_or(ERANGE)?;
        loop {
            let found = slot.load(Ordering::Acquire);
            if found.is_null() {
                if insert(slot, found)? {
                    self.leaves.fetch_add(1, Ordering::Relaxed);
                }
            } else if found == untagged(found) || exchange(slot, found, untagged(found)) {
                return Ok(());
            }
        }
    }

    /// Makes room for all tasks that there are, as far as memory allows.
    pub(crate) fn make_room_for_all(&self) {
        /// # Safety
        ///
        /// `table` must point to a `TaskTable`, `task` to a task.
        unsafe extern "C" fn visit(task: *mut bindings::task_struct, table: *mut c_void) {
            // SAFETY: This is the table that is passed below.
            let table = unsafe { &*table.cast::<TaskTable>() };
            // SAFETY: The task exists while it is visited.
            let task = unsafe { Task::from_raw(task) };
            // Where there is no memory the task is counted as untracked whenever it runs.
            let _ = table.make_room(task.pid());
        }

        let table = ptr::from_ref(self).cast_mut().cast::<c_void>();
        // SAFETY: `visit` expects a table, and is called only before this returns.
        unsafe { bindings::schedhist_visit_tasks(Some(visit), table) };
    }

    /// Says whether there are so many leaves that a sweep may be worth the while.
    pub(crate) fn wants_sweep(&self) -> bool {
        self.leaves.load(Ordering::Relaxed) > self.limit.load(Ordering::Relaxed)
    }

    /// Returns how much memory the table takes, in bytes.
    pub(crate) fn memory(&self) -> usize {
        let branches = self.branches().count();
        size_of::<Root>()
            + branches * size_of::<Branch>()
            + self.leaves.load(Ordering::Relaxed) * size_of::<Leaf>()
    }

    fn branches(&self) -> impl Iterator<Item = &Branch> + '_ {
        self.root.iter().filter_map(branch_of)
    }
}

impl Job for TaskTable {
    /// Sweeps out the leaves that no living task needs.
    ///
    /// First all leaves become suspects. Then every task asks for its own again, and so does every
    /// task that is created meanwhile, which is on the list of tasks before it is told of. What
    /// is still suspect goes.
    ///
    /// A task that is exiting and has given up its PID may find its leaf gone. It is counted as
    /// untracked then.
    fn run(&self) {
        // Asked for again while the last sweep was under way.
        if !self.wants_sweep() {
            return;
        }
        for slot in self.branches().flatten() {
            let found = slot.load(Ordering::Acquire);
            if !found.is_null() {
                exchange(slot, found, found.map_addr(|address| address | SUSPECT));
            }
        }
        self.make_room_for_all();

        let mut swept = KVVec::new();
        for slot in self.branches().flatten() {
            let found = slot.load(Ordering::Acquire);
            // Where there is no memory to remember it the leaf stays until the next sweep.
            if found == untagged(found) || swept.reserve(1, GFP_KERNEL).is_err() {
                continue;
            }
            if exchange(slot, found, ptr::null_mut()) {
                self.leaves.fetch_sub(1, Ordering::Relaxed);
                // SAFETY: From a `KBox` by the type's invariant, and now nobody finds it any more.
                let leaf: KBox<Leaf> = unsafe { KBox::from_raw(untagged(found)) };
                // Cannot fail: just reserved.
                let _ = swept.push_within_capacity(leaf);
            }
        }
        let leaves = self.leaves.load(Ordering::Relaxed);
        self.limit
            .store(SWEEP_MIN.max(2 * leaves), Ordering::Relaxed);
        // A probe may still look at one.
        //
        // SAFETY: Process context.
        unsafe { bindings::synchronize_rcu() };
    }
}

impl Drop for TaskTable {
    fn drop(&mut self) {
        for slot in self.branches().flatten() {
            let leaf = untagged(slot.load(Ordering::Relaxed));
            if !leaf.is_null() {
                // SAFETY: From a `KBox` by the type's invariant, and nobody else has the table.
                drop(unsafe { KBox::from_raw(leaf) });
            }
        }
        for slot in self.root.iter() {
            let branches = slot.load(Ordering::Relaxed);
            if !branches.is_null() {
                // SAFETY: As above.
                drop(unsafe { KBox::from_raw(branches) });
            }
        }
    }
}

/// Splits a PID, which is less than `PID_MAX_LIMIT` and not negative, into the indices of the three
/// levels.
#[inline(always)]
fn split(pid: i32) -> (usize, usize, usize) {
    let pid = pid as u32 as usize;
    (
        (pid >> (BRANCH_BITS + LEAF_BITS)) & ((1 << ROOT_BITS) - 1),
        (pid >> LEAF_BITS) & ((1 << BRANCH_BITS) - 1),
        pid & ((1 << LEAF_BITS) - 1),
    )
}

#[inline(always)]
fn branch_of(slot: &AtomicPtr<Branch>) -> Option<&Branch> {
    // SAFETY: By the invariant of `TaskTable`, of which all of these are part, it stays.
    unsafe { slot.load(Ordering::Acquire).as_ref() }
}

#[inline(always)]
fn untagged(leaf: *mut Leaf) -> *mut Leaf {
    leaf.map_addr(|address| address & !SUSPECT)
}

/// Puts `new` where `current` is; false when something else is there.
fn exchange<T>(slot: &AtomicPtr<T>, current: *mut T, new: *mut T) -> bool {
    slot.compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire)
        .is_ok()
}

/// Puts something zeroed where `current` is; false when something else is there.
fn insert<T: ZeroIsValid>(slot: &AtomicPtr<T>, current: *mut T) -> Result<bool> {
    // Not from the reserves: others need them more. It includes `__GFP_NOWARN`.
    let fresh = KBox::into_raw(zeroed::<T>(GFP_NOWAIT)?);
    let done = exchange(slot, current, fresh);
    if !done {
        // SAFETY: Made above, and nobody else has seen it.
        drop(unsafe { KBox::from_raw(fresh) });
    }
    Ok(done)
}

/// What is valid when all its bytes are 0.
///
/// # Safety
///
/// Zero bytes must be a valid value.
unsafe trait ZeroIsValid {}

// SAFETY: A task's state is made of integers.
unsafe impl ZeroIsValid for Leaf {}

// SAFETY: Pointers may be null.
unsafe impl ZeroIsValid for Branch {}

// SAFETY: As above.
unsafe impl ZeroIsValid for Root {}

fn zeroed<T: ZeroIsValid>(flags: Flags) -> Result<KBox<T>> {
    let memory: KBox<MaybeUninit<T>> = KBox::new_uninit(flags | __GFP_ZERO)?;
    // SAFETY: Zero bytes are a valid value.
    Ok(unsafe { memory.assume_init() })
}
