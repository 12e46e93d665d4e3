// SPDX-License-Identifier: GPL-2.0

//! The states of tasks, by PID.
//!
//! The table is an array of pointers to pages, with a page for each 64 PIDs: a look-up takes two
//! loads and no search. Pages are allocated ahead of time, when a task is created and when
//! measuring begins, so that the scheduler's probes allocate nothing. Once there are many pages, a
//! sweep frees those without a PID of a living task, so that memory follows the PIDs in use. It
//! also allocates those for which there was no memory.
//!
//! The pointers take 512 KiB. A tree would take less memory, but cost each switch more loads and
//! cache lines.

use core::{
    alloc::Layout,
    marker::PhantomData,
    sync::atomic::{
        AtomicBool,
        AtomicPtr,
        AtomicUsize,
        Ordering, //
    },
};

use kernel::{
    prelude::*,
    sync::{
        rcu,
        Arc, //
    },
};

use crate::{
    boundary::abstractions::{
        allocate,
        for_each_task,
        synchronize_rcu,
        Job,
        RcuReader, //
    },
    engine::switch::TaskState, //
};

/// The binary logarithm of the number of tasks in a page: 64 tasks, of 64 bytes each.
const PAGE_BITS: u32 = 6;

/// The maximum number of pages. The kernel allocates PIDs below `PID_MAX_LIMIT` only, which is
/// 2^22.
const PAGES: usize = 1 << (22 - PAGE_BITS);

/// A sweep begins when there are more pages than this, or one is lacking.
const SWEEP_MIN: usize = 256;

type Page = [TaskState; 1 << PAGE_BITS];

// SAFETY: A task's state consists of integers. They are all 0, as in `TaskState::new()`.
unsafe impl Zeroable for TaskState {}

/// Stands in for each page that is not allocated, so that a look-up needs no check.
static NO_PAGE: Page = [const { TaskState::untracked() }; 1 << PAGE_BITS];

const fn no_page() -> *mut Page {
    (&raw const NO_PAGE).cast_mut()
}

/// A table with room for the state of every existing task.
///
/// # Invariants
///
/// There are [`PAGES`] pointers in `pages`. Each points to [`NO_PAGE`] or comes from a `KBox`. A
/// pointer from a `KBox` has [`SUSPECT`] added while a sweep finds out whether the page is needed.
/// A page stays valid for an RCU grace period after its pointer was removed from `pages`.
pub(crate) struct TaskTable {
    pages: KVVec<AtomicPtr<Page>>,
    /// The number of allocated pages.
    count: AtomicUsize,
    /// The number of pages above which the next sweep begins.
    limit: AtomicUsize,
    /// There was no memory for a page, so the next sweep is due.
    lacks_pages: AtomicBool,
}

/// Added to the address of a page for which no room was requested since the sweep began.
const SUSPECT: usize = 1;

/// A reference to a [`TaskTable`] for look-ups.
///
/// # Invariants
///
/// `pages` points to the first of the `pages` of `table`, so that a look-up need not read the table
/// itself.
pub(crate) struct TaskStates {
    pages: *const AtomicPtr<Page>,
    table: Arc<TaskTable>,
}

// SAFETY: This is an `Arc` of a table, which is `Send` and `Sync`, with the address of memory that
// the table owns.
unsafe impl Send for TaskStates {}

// SAFETY: Shared references give access to the table, which is `Sync`, and to its pages by atomic
// operations only.
unsafe impl Sync for TaskStates {}

const _: () = {
    const fn is_send_and_sync<T: Send + Sync>() {}
    is_send_and_sync::<Arc<TaskTable>>();
};

impl TaskStates {
    pub(crate) fn new(table: Arc<TaskTable>) -> Self {
        // INVARIANT: This is the address of the first. It stays so, as a table never changes the
        // number of its `pages`.
        Self {
            pages: table.pages.as_ptr(),
            table,
        }
    }

    pub(crate) fn table(&self) -> &Arc<TaskTable> {
        &self.table
    }

    /// Returns the pages, for look-ups while RCU protects them.
    #[inline(always)]
    pub(crate) fn pages<'a>(&'a self, _: &'a impl RcuReader) -> TaskPages<'a> {
        // INVARIANT: `pages` points to those of `table` by the type's invariant. `self` keeps the
        // table for `'a`, and RCU protects its pages for `'a` by the contract of `RcuReader`.
        TaskPages {
            pages: self.pages,
            _lifetime: PhantomData,
        }
    }
}

/// The pages of a [`TaskTable`], for look-ups.
///
/// # Invariants
///
/// `pages` points to the first of the `pages` of a `TaskTable` that exists for `'a`. RCU keeps its
/// pages for `'a`.
#[derive(Clone, Copy)]
pub(crate) struct TaskPages<'a> {
    pages: *const AtomicPtr<Page>,
    _lifetime: PhantomData<&'a TaskTable>,
}

impl<'a> TaskPages<'a> {
    /// Returns the state of the task `pid`; [`TaskState::untracked`] if the table has no room for
    /// it.
    #[inline(always)]
    pub(crate) fn get(self, pid: i32) -> &'a TaskState {
        let (page, place) = split(pid);
        // SAFETY: By the invariants of this type and of `TaskTable` there are `PAGES` pointers from
        // `pages` on, and `split()` returns a page number below `PAGES`.
        let slot = unsafe { &*self.pages.add(page) };
        let states = untagged(slot.load(Ordering::Acquire));
        // SAFETY: By the invariant of `TaskTable` the page stays valid for a grace period, which
        // does not end before `'a` does. `split()` returns a place within a page.
        unsafe { (*states).get_unchecked(place) }
    }
}

impl TaskTable {
    /// Creates a table without pages. Sleeps; fails with `ENOMEM`.
    pub(crate) fn new() -> Result<Arc<Self>> {
        let mut pages = KVVec::with_capacity(PAGES, GFP_KERNEL)?;
        for _ in 0..PAGES {
            pages.push(AtomicPtr::new(no_page()), GFP_KERNEL)?;
        }
        // INVARIANT: The loop pushed `PAGES` pointers to `NO_PAGE`.
        let table = Self {
            pages,
            count: AtomicUsize::new(0),
            limit: AtomicUsize::new(SWEEP_MIN),
            lacks_pages: AtomicBool::new(false),
        };
        Ok(Arc::new(table, GFP_KERNEL)?)
    }

    /// Makes room for the task `pid` if the table has none for it. Does not sleep, but preemption
    /// must be on, as the allocator of `PREEMPT_RT` requires. Fails with `ENOMEM`; the next sweep
    /// then waits for memory.
    ///
    /// The task must be one that [`for_each_task`] finds. A sweep keeps the room of those tasks,
    /// and room that was requested since the sweep began.
    pub(crate) fn make_room(&self, pid: i32) -> Result {
        let (page, _) = split(pid);
        // Cannot fail: `split()` returns a page number below `PAGES`.
        let slot = self.pages.get(page).ok_or(ERANGE)?;
        self.make_page(slot, new_page)
    }

    /// Makes room in `slot` for a task that the caller knows of, with memory from `allocate`.
    fn make_page(
        &self,
        slot: &AtomicPtr<Page>,
        allocate: impl Fn() -> Result<KBox<Page>>,
    ) -> Result {
        loop {
            let found = slot.load(Ordering::Acquire);
            if found == no_page() {
                let page = allocate();
                let page = page.inspect_err(|_| self.lacks_pages.store(true, Ordering::Relaxed))?;
                if insert(slot, page) {
                    self.count.fetch_add(1, Ordering::Relaxed);
                }
            } else if found == untagged(found) || exchange(slot, found, untagged(found)) {
                return Ok(());
            }
        }
    }

    /// Makes room for all existing tasks. Sleeps; fails with `ENOMEM` if there is none for some of
    /// them.
    pub(crate) fn make_room_for_all(&self) -> Result {
        self.make_needed_pages(none_needed()?)
    }

    /// The same; `needed` says of each page whether a task needs it.
    fn make_needed_pages(&self, mut needed: KVVec<bool>) -> Result {
        // Memory cannot be waited for during the walk.
        for_each_task(|task| {
            if let Some(is_needed) = needed.get_mut(split(task.pid()).0) {
                *is_needed = true;
            }
        });
        let mut result = Ok(());
        for (slot, is_needed) in self.pages.iter().zip(needed) {
            if is_needed {
                result = self.make_page(slot, wait_for_page).and(result);
            }
        }
        result
    }

    /// Calls `visit` with the states of each page. `visit` must not sleep.
    pub(crate) fn for_each_page(&self, mut visit: impl FnMut(&[TaskState])) {
        for slot in self.pages.iter() {
            let _rcu = rcu::read_lock();
            let page = untagged(slot.load(Ordering::Acquire));
            if page != no_page() {
                // SAFETY: By the type's invariant the page stays valid for a grace period, which
                // does not end while the RCU read lock is held.
                visit(unsafe { &*page });
            }
        }
    }

    /// Returns whether a task lacks its page, or there are so many pages that some may be free.
    pub(crate) fn wants_sweep(&self) -> bool {
        self.count.load(Ordering::Relaxed) > self.limit.load(Ordering::Relaxed)
            || self.lacks_pages.load(Ordering::Relaxed)
    }

    /// Returns how much memory the table takes, in bytes.
    pub(crate) fn memory(&self) -> usize {
        PAGES * size_of::<AtomicPtr<Page>>()
            + self.count.load(Ordering::Relaxed) * size_of::<Page>()
    }
}

impl Job for TaskTable {
    /// Frees the pages that no living task needs, and makes those that one lacks.
    ///
    /// The sweep first marks all pages as suspect. It then makes room for every task again, which
    /// clears the marks of their pages. A task that is created meanwhile is on the list of tasks
    /// before its `task_newtask` probe makes room for it, so that it is not missed. Last, the sweep
    /// removes the pages that are still suspect, and frees them after a grace period.
    ///
    /// The page of an exiting task that has given up its PID may be freed. The task then counts as
    /// untracked.
    fn run(&self) {
        // The job was queued again while the last sweep was running.
        if !self.wants_sweep() {
            return;
        }
        // Without memory for it, the next task that is created queues the job again.
        let Ok(needed) = none_needed() else {
            return;
        };
        self.lacks_pages.store(false, Ordering::Relaxed);
        for slot in self.pages.iter() {
            let found = slot.load(Ordering::Acquire);
            if found != no_page() {
                exchange(slot, found, found.map_addr(|address| address | SUSPECT));
            }
        }
        // Pages that are still needed are kept. If some are still lacking, the next task that is
        // created queues the job again.
        let _ = self.make_needed_pages(needed);

        let mut swept = KVVec::new();
        for slot in self.pages.iter() {
            let found = slot.load(Ordering::Acquire);
            // Without memory to remember it, the page stays until the next sweep.
            if found == untagged(found) || swept.reserve(1, GFP_KERNEL).is_err() {
                continue;
            }
            if exchange(slot, found, no_page()) {
                self.count.fetch_sub(1, Ordering::Relaxed);
                // SAFETY: The pointer is from a `KBox` by the type's invariant. It was just removed
                // from `pages`, so that nothing else can make a box of it.
                let page: KBox<Page> = unsafe { KBox::from_raw(untagged(found)) };
                // Cannot fail: room was reserved above.
                let _ = swept.push_within_capacity(page);
            }
        }
        let count = self.count.load(Ordering::Relaxed);
        self.limit
            .store(SWEEP_MIN.max(2 * count), Ordering::Relaxed);
        // Probes may still use a swept page. `swept` is dropped after this.
        synchronize_rcu();
    }
}

impl Drop for TaskTable {
    fn drop(&mut self) {
        for slot in self.pages.iter() {
            let page = untagged(slot.load(Ordering::Relaxed));
            if page != no_page() {
                // SAFETY: The pointer is from a `KBox` by the type's invariant, and `self` is the
                // only reference to the table.
                drop(unsafe { KBox::from_raw(page) });
            }
        }
    }
}

/// Splits a PID, which is less than `PID_MAX_LIMIT` and not negative, into the number of its page
/// and its place in the page. Both are within bounds for any other `pid`, too.
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

/// Replaces `current` by `new` in `slot`. Returns false if `slot` holds another pointer.
fn exchange(slot: &AtomicPtr<Page>, current: *mut Page, new: *mut Page) -> bool {
    slot.compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire)
        .is_ok()
}

/// Puts `page` into `slot`. If `slot` has a page by now, drops `page` and returns false.
fn insert(slot: &AtomicPtr<Page>, page: KBox<Page>) -> bool {
    let page = KBox::into_raw(page);
    let is_done = exchange(slot, no_page(), page);
    if !is_done {
        // SAFETY: The pointer is from `KBox::into_raw()` above, and was not stored anywhere.
        drop(unsafe { KBox::from_raw(page) });
    }
    is_done
}

/// Returns that no page is needed. Sleeps; fails with `ENOMEM`.
fn none_needed() -> Result<KVVec<bool>> {
    Ok(KVVec::from_elem(false, PAGES, GFP_KERNEL)?)
}

/// Allocates a page. Sleeps; fails with `ENOMEM` rather than have the OOM killer make room.
fn wait_for_page() -> Result<KBox<Page>> {
    const { assert!(size_of::<Page>() <= kernel::page::PAGE_SIZE) };
    let memory = allocate(Layout::new::<Page>(), None)?;
    // SAFETY: The memory has the layout of a `Page`, for which zero bytes are valid. `Kmalloc` can
    // free it, as it is no larger than a page of the kernel. The box becomes its only owner.
    Ok(unsafe { KBox::from_raw(memory.cast().as_ptr()) })
}

/// Allocates a page. Does not sleep, and leaves the memory reserves to more urgent users.
fn new_page() -> Result<KBox<Page>> {
    // `GFP_NOWAIT` includes `__GFP_NOWARN`.
    Ok(KBox::zeroed(GFP_NOWAIT)?)
}
