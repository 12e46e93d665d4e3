// SPDX-License-Identifier: GPL-2.0

//! Cgroups of the default hierarchy (v2).
//!
//! C header: [`include/linux/cgroup.h`](srctree/include/linux/cgroup.h)

use core::{
    marker::PhantomData,
    mem::MaybeUninit, //
};

use kernel::{
    alloc::{
        flags::__GFP_ZERO,
        Flags, //
    },
    ffi::c_int,
    prelude::*,
    sync::rcu, //
};

use super::{
    bindings,
    context,
    task::Task, //
};

/// Finds the cgroup `path`, as the caller's cgroup namespace shows it. Returns its [`Cgroup::id`]
/// and its level, and writes its [`Cgroup::path`] to `full`, unless that is empty; returns the
/// length.
fn find(path: &[u8], full: &mut [u8]) -> Result<(u64, c_int, usize)> {
    context::might_sleep();
    let (mut id, mut level) = (0, 0);
    // SAFETY: Process context. The path and the buffer have these lengths, and both results can be
    // written.
    let len = unsafe {
        bindings::schedhist_find_cgroup(
            path.as_ptr().cast(),
            path.len(),
            &mut id,
            &mut level,
            full.as_mut_ptr().cast(),
            full.len(),
        )
    };
    let len = usize::try_from(len).map_err(|_| ENOENT)?;
    Ok((id, level, len))
}

/// A cgroup and those below it, down to some level.
///
/// It belongs to a path: when the cgroup is removed and made again, [`Subtree::follow`] makes it
/// that of the new one.
pub(crate) struct Subtree {
    base: u64,
    base_level: c_int,
    max_level: c_int,
    /// The path of the cgroup `base`, as the initial cgroup namespace shows it.
    path: KVec<u8>,
}

impl Subtree {
    /// Finds the cgroup `path`, as the caller's cgroup namespace shows it. The subtree has `depth`
    /// levels below it.
    ///
    /// Sleeps. Fails with `ENOENT` if there is no such cgroup, or its path is longer than
    /// `PATH_MAX`, and with `ENOMEM`.
    pub(crate) fn find(path: &[u8], depth: u32) -> Result<Self> {
        let mut full = path_buffer(GFP_KERNEL)?;
        let (base, base_level, len) = find(path, &mut full)?;
        full.truncate(len);
        let depth = c_int::try_from(depth).unwrap_or(c_int::MAX);
        Ok(Self {
            base,
            base_level,
            max_level: base_level.saturating_add(depth),
            path: full,
        })
    }

    /// Returns the whole hierarchy, with `depth` levels below its root.
    pub(crate) fn whole(depth: u32) -> Self {
        Self {
            // SAFETY: It has no preconditions.
            base: unsafe { bindings::schedhist_root_cgroup() },
            base_level: 0,
            max_level: c_int::try_from(depth).unwrap_or(c_int::MAX),
            // The root is never made again.
            path: KVec::new(),
        }
    }

    /// Returns the path of the cgroup below which the subtree is, as the initial cgroup namespace
    /// shows it; empty if [`Subtree::whole`] made it.
    pub(crate) fn path(&self) -> &[u8] {
        &self.path
    }

    /// Returns whether the cgroup below which the subtree is can be removed.
    pub(crate) fn may_go(&self) -> bool {
        self.base_level > 0
    }

    /// Returns whether `cgroup` is at the level of the one below which the subtree is.
    pub(crate) fn is_level_with(&self, cgroup: &Cgroup<'_>) -> bool {
        self.base_level == cgroup.level()
    }

    /// Makes `cgroup` the one below which the subtree is, if `path` is that of the subtree.
    pub(crate) fn follow(&mut self, cgroup: &Cgroup<'_>, path: &[u8]) {
        if *self.path == *path {
            self.base = cgroup.id();
        }
    }

    /// Returns the [`Cgroup::id`] of the cgroup below which the subtree is.
    pub(crate) fn id(&self) -> u64 {
        self.base
    }

    /// Makes the cgroup `new` the one below which the subtree is, if that is still `old`. Both are
    /// a [`Cgroup::id`].
    pub(crate) fn replace(&mut self, old: u64, new: u64) {
        if self.base == old {
            self.base = new;
        }
    }

    pub(crate) fn contains(&self, task: Task<'_>, rcu: &rcu::Guard) -> bool {
        self.cgroup_of(task, rcu).is_some()
    }

    /// Returns the cgroup of `task`, or its ancestor at the deepest level of the subtree. Returns
    /// `None` if the task is not in the subtree. A task that has exited stays in its last cgroup.
    pub(crate) fn cgroup_of<'a>(&self, task: Task<'_>, _: &'a rcu::Guard) -> Option<Cgroup<'a>> {
        // SAFETY: The task exists, so it has a css_set even if it is new or exiting: see
        // `glue_cgroup.c`. The guard shows that this is an RCU read-side critical section.
        let cgroup = unsafe {
            bindings::schedhist_task_cgroup(
                task.as_ptr(),
                self.base,
                self.base_level,
                self.max_level,
            )
        };
        if cgroup.is_null() {
            return None;
        }
        // INVARIANT: A task's cgroup and its ancestors are complete, and RCU protects them for as
        // long as the guard exists.
        Some(Cgroup {
            cgroup,
            _lifetime: PhantomData,
        })
    }
}

/// Returns the [`Cgroup::id`] of the cgroup `path`, as the caller's cgroup namespace shows it. It
/// may still be being made. Sleeps.
pub(crate) fn find_id(path: &[u8]) -> Option<u64> {
    let (id, ..) = find(path, &mut []).ok()?;
    Some(id)
}

/// Returns whether there still is a cgroup with this [`Cgroup::id`]. Process context of a task in
/// the initial cgroup namespace, or in one that shows the cgroup.
pub(crate) fn exists(id: u64) -> bool {
    context::might_sleep();
    // SAFETY: Process context.
    unsafe { bindings::schedhist_cgroup_exists(id) }
}

/// Allocates memory for any [`Cgroup::path`].
pub(crate) fn path_buffer(flags: Flags) -> Result<KVec<u8>> {
    Ok(KVec::from_elem(0, bindings::PATH_MAX as usize, flags)?)
}

/// A cgroup.
///
/// # Invariants
///
/// `cgroup` points to a `struct cgroup` that is valid for `'a`, with its node, root, level and
/// ancestors.
pub(crate) struct Cgroup<'a> {
    cgroup: *mut bindings::cgroup,
    _lifetime: PhantomData<&'a rcu::Guard>,
}

impl Cgroup<'_> {
    /// Creates a reference to `cgroup`. Returns `None` if it is not in the default hierarchy.
    ///
    /// # Safety
    ///
    /// `cgroup` must point to a cgroup that `cgroup_create()` has returned, and that stays valid
    /// for the lifetime of the result.
    pub(super) unsafe fn from_raw(cgroup: *mut bindings::cgroup) -> Option<Self> {
        // SAFETY: By the safety requirement.
        if !unsafe { bindings::schedhist_is_default_cgroup(cgroup) } {
            return None;
        }
        // INVARIANT: By the safety requirement.
        Some(Self {
            cgroup,
            _lifetime: PhantomData,
        })
    }

    /// Returns a number that no other cgroup of the hierarchy ever has.
    pub(crate) fn id(&self) -> u64 {
        // SAFETY: Valid by the type's invariant.
        unsafe { bindings::schedhist_cgroup_id(self.cgroup) }
    }

    /// Returns the number of cgroups above it.
    fn level(&self) -> c_int {
        // SAFETY: Valid by the type's invariant.
        unsafe { bindings::schedhist_cgroup_level(self.cgroup) }
    }

    /// Returns the path, as `/proc/PID/cgroup` shows it in the initial cgroup namespace. Does not
    /// sleep; fails with `ENOMEM`, and with `E2BIG` if it has more than `PATH_MAX - 2` bytes.
    pub(crate) fn path(&self) -> Result<KVec<u8>> {
        // Most paths are short, and a page would have to be cleared.
        let mut short = [0; 256];
        if let Ok(path) = self.path_in(&mut short) {
            return copy(path);
        }
        let long: KBox<MaybeUninit<[u8; bindings::PATH_MAX as usize]>> =
            KBox::new_uninit(GFP_NOWAIT | __GFP_ZERO)?;
        // SAFETY: Zero bytes are bytes.
        let mut long = unsafe { long.assume_init() };
        copy(self.path_in(&mut *long)?)
    }

    /// Writes the path to `buffer`, and returns it: see [`Cgroup::path`] and [`path_buffer`]. Fails
    /// with `E2BIG` if there is no room.
    pub(crate) fn path_in<'b>(&self, buffer: &'b mut [u8]) -> Result<&'b [u8]> {
        // SAFETY: Valid by the type's invariant, and the buffer has that size.
        let len = unsafe {
            bindings::schedhist_cgroup_path(self.cgroup, buffer.as_mut_ptr().cast(), buffer.len())
        };
        let len = usize::try_from(len).map_err(|_| E2BIG)?;
        buffer.get(..len).ok_or(E2BIG)
    }
}

/// Copies a path. Does not sleep; fails with `ENOMEM`.
fn copy(path: &[u8]) -> Result<KVec<u8>> {
    let mut copied = KVec::with_capacity(path.len(), GFP_NOWAIT)?;
    copied.extend_from_slice(path, GFP_NOWAIT)?;
    Ok(copied)
}
