// SPDX-License-Identifier: GPL-2.0

//! The state of tasks, by PID.
//!
//! An array of pointers to pages, one for each 64 PIDs: looking a PID up takes two loads and no
//! search. The pages are filled in ahead of time, when a task is created and when measuring begins, so
//! that the probe of the scheduler allocates nothing. Pages that hold no living task's PID are swept
//! out when there are many, so that the memory follows the PIDs in use. The pointers take 512 KiB; a
//! tree would take less, and each switch some loads and lines of the cache more.

use core::{
    marker::PhantomData,
    mem::MaybeUninit,
    ptr,
    sync::atomic::{
        AtomicPtr,
        AtomicUsize,
        Ordering, //
    },
};

use kernel::{
    alloc::flags::__GFP_ZERO,
    ffi::c_void,
    prelude::*,
    sync::Arc, //
};

use crate::{
    boundary::{
        abstractions::{
            task::Task,
            work::Job, //
        },
        bindings, //
    },
    engine::switch::task_state::TaskState, //
};

/// How many tasks a page holds: 64, of 64 bytes each.
const PAGE_BITS: u32 = 6;

/// How many pages there can be. The kernel gives out no PID from `PID_MAX_LIMIT` on: 2^22.
const PAGES: usize = 1 << (22 - PAGE_BITS);

/// A sweep begins when there are more pages than this.
const SWEEP_MIN: usize = 256;

type Page = [TaskState; 1 << PAGE_BITS];

/// Stands for each page that is not there, so that a look-up need not ask.
static NO_PAGE: Page = [const { TaskState::untracked() }; 1 << PAGE_BITS];

const fn no_page() -> *mut Page {
    (&raw const NO_PAGE).cast_mut()
}

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
/// There are [`PAGES`] pointers in `pages`. Each is that of [`NO_PAGE`], or comes from a `KBox`, with [`SUSPECT`] added while a
/// sweep finds out whether the page is needed. What it points to stays for an RCU grace period after
/// the pointer is gone.
pub(crate) struct TaskTable {
    pages: KVVec<AtomicPtr<Page>>,
    /// How many pages there are.
    count: AtomicUsize,
    /// How many there may be before the next sweep.
    limit: AtomicUsize,
}

/// Added to the address of a page that nobody has asked for since the sweep began.
const SUSPECT: usize = 1;

/// A reference to a [`TaskTable`] for who looks up states in it.
///
/// # Invariants
///
/// `pages` is where those of `table` begin: so a look-up does not have to read the table itself.
pub(crate) struct TaskStates {
    pages: *const AtomicPtr<Page>,
    table: Arc<TaskTable>,
}

// SAFETY: It is a reference to a table, with the address of what that owns.
unsafe impl Send for TaskStates {}

// SAFETY: As above.
unsafe impl Sync for TaskStates {}

impl TaskStates {
    /// Refers to `table`.
    pub(crate) fn new(table: Arc<TaskTable>) -> Self {
        // INVARIANT: Just so.
        Self {
            pages: table.pages.as_ptr(),
            table,
        }
    }

    /// Returns the table.
    pub(crate) fn table(&self) -> &TaskTable {
        &self.table
    }

    /// Returns what to look up states in, for as long as preemption is off.
    #[inline(always)]
    pub(crate) fn pages<'a>(&'a self, _: &'a impl NoPreemption) -> TaskPages<'a> {
        // INVARIANT: By the type's invariant; and `table` keeps the pages.
        TaskPages {
            pages: self.pages,
            _lifetime: PhantomData,
        }
    }
}

/// The pages of a [`TaskTable`], to look up states in.
///
/// # Invariants
///
/// `pages` is where those of a `TaskTable` begin that stays for `'a`, and preemption is off for `'a`.
#[derive(Clone, Copy)]
pub(crate) struct TaskPages<'a> {
    pages: *const AtomicPtr<Page>,
    _lifetime: PhantomData<&'a TaskTable>,
}

impl<'a> TaskPages<'a> {
    /// Returns the state of the task `pid`; [`TaskState::untracked`] if there is no room for it.
    #[inline(always)]
    pub(crate) fn get(self, pid: i32) -> &'a TaskState {
        let (page, place) = split(pid);
        // SAFETY: By the type's invariant and that of `TaskTable` there are `PAGES` of them, and
        // `split()` returns a number below that.
        let slot = unsafe { &*self.pages.add(page) };
        let states = untagged(slot.load(Ordering::Acquire));
        // SAFETY: By the invariant of `TaskTable` the page stays for a grace period, which does not
        // end before preemption is on again; and `split()` returns a place in it.
        unsafe { (*states).get_unchecked(place) }
    }
}

impl TaskTable {
    /// Creates a table without any room. Sleeps; fails with `ENOMEM`.
    pub(crate) fn new() -> Result<Arc<Self>> {
        let mut pages = KVVec::with_capacity(PAGES, GFP_KERNEL)?;
        for _ in 0..PAGES {
            pages.push(AtomicPtr::new(no_page()), GFP_KERNEL)?;
        }
        // INVARIANT: Just so, and no page is there.
        let table = Self {
            pages,
            count: AtomicUsize::new(0),
            limit: AtomicUsize::new(SWEEP_MIN),
        };
        Ok(Arc::new(table, GFP_KERNEL)?)
    }

    /// Makes room for the task `pid`, unless there is. Does not sleep, but preemption must be on, as the
    /// allocator of `PREEMPT_RT` needs it. Fails with `ENOMEM`, and with `ERANGE` for what is no PID.
    ///
    /// The task must be one that [`schedhist_visit_tasks()`](bindings::schedhist_visit_tasks)
    /// finds: a sweep leaves room only for those, and for who asked for it since the sweep began.
    pub(crate) fn make_room(&self, pid: i32) -> Result {
        let (page, _) = split(pid);
        let slot = self.pages.get(page).ok_or(ERANGE)?;
        loop {
            let found = slot.load(Ordering::Acquire);
            if found == no_page() {
                if insert(slot, new_page()?) {
                    self.count.fetch_add(1, Ordering::Relaxed);
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

    /// Returns whether there are so many pages that a sweep may be worth the while.
    pub(crate) fn wants_sweep(&self) -> bool {
        self.count.load(Ordering::Relaxed) > self.limit.load(Ordering::Relaxed)
    }

    /// Returns how much memory the table takes, in bytes.
    pub(crate) fn memory(&self) -> usize {
        PAGES * size_of::<AtomicPtr<Page>>()
            + self.count.load(Ordering::Relaxed) * size_of::<Page>()
    }
}

impl Job for TaskTable {
    /// Sweeps out the pages that no living task needs.
    ///
    /// First all pages become suspects. Then every task asks for its own again, and so does every
    /// task that is created meanwhile, which is on the list of tasks before it is told of. What
    /// is still suspect goes.
    ///
    /// A task that is exiting and has given up its PID may find its page gone. It is counted as
    /// untracked then.
    fn run(&self) {
        // Queued again while the last sweep was under way.
        if !self.wants_sweep() {
            return;
        }
        for slot in self.pages.iter() {
            let found = slot.load(Ordering::Acquire);
            if found != no_page() {
                exchange(slot, found, found.map_addr(|address| address | SUSPECT));
            }
        }
        self.make_room_for_all();

        let mut swept = KVVec::new();
        for slot in self.pages.iter() {
            let found = slot.load(Ordering::Acquire);
            // If there is no memory to remember it, the page stays until the next sweep.
            if found == untagged(found) || swept.reserve(1, GFP_KERNEL).is_err() {
                continue;
            }
            if exchange(slot, found, no_page()) {
                self.count.fetch_sub(1, Ordering::Relaxed);
                // SAFETY: From a `KBox` by the type's invariant, and now nobody finds it any more.
                let page: KBox<Page> = unsafe { KBox::from_raw(untagged(found)) };
                // Cannot fail: just reserved.
                let _ = swept.push_within_capacity(page);
            }
        }
        let count = self.count.load(Ordering::Relaxed);
        self.limit
            .store(SWEEP_MIN.max(2 * count), Ordering::Relaxed);
        // A probe may still look at one.
        //
        // SAFETY: Process context.
        unsafe { bindings::synchronize_rcu() };
    }
}

impl Drop for TaskTable {
    fn drop(&mut self) {
        for slot in self.pages.iter() {
            let page = untagged(slot.load(Ordering::Relaxed));
            if page != no_page() {
                // SAFETY: From a `KBox` by the type's invariant, and nobody else has the table.
                drop(unsafe { KBox::from_raw(page) });
            }
        }
    }
}

/// Splits a PID, which is less than `PID_MAX_LIMIT` and not negative, into the number of its page and
/// its place there. Both are within bounds, whatever the PID.
#[inline(always)]
fn split(pid: i32) -> (usize, usize) {
    let pid = pid as u32 as usize;
    (
        (pid >> PAGE_BITS) & (PAGES - 1),
        pid & ((1 << PAGE_BITS) - 1),
    )
}

#[inline(always)]
fn untagged(page: *mut Page) -> *mut Page {
    page.map_addr(|address| address & !SUSPECT)
}

/// Puts `new` in the place of `current`; returns false if something else is there.
fn exchange(slot: &AtomicPtr<Page>, current: *mut Page, new: *mut Page) -> bool {
    slot.compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire)
        .is_ok()
}

/// Puts `page` where there is none; if there is one by now, drops it and returns false.
fn insert(slot: &AtomicPtr<Page>, page: KBox<Page>) -> bool {
    let page = KBox::into_raw(page);
    let is_done = exchange(slot, no_page(), page);
    if !is_done {
        // SAFETY: From a `KBox`, as said above, and nobody else has seen it.
        drop(unsafe { KBox::from_raw(page) });
    }
    is_done
}

/// Allocates a page, not from the reserves, as others need them more. Does not sleep.
fn new_page() -> Result<KBox<Page>> {
    // It includes `__GFP_NOWARN`.
    let memory: KBox<MaybeUninit<Page>> = KBox::new_uninit(GFP_NOWAIT | __GFP_ZERO)?;
    // SAFETY: Zero bytes are a valid page: a task's state is made of integers. They are those of
    // `TaskState::new()`.
    Ok(unsafe { memory.assume_init() })
}
