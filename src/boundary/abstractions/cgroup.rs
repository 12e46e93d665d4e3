// SPDX-License-Identifier: GPL-2.0

//! Cgroups of the default hierarchy (v2).
//!
//! C header: [`include/linux/cgroup.h`](srctree/include/linux/cgroup.h)

use core::marker::PhantomData;

use kernel::{
    error::to_result,
    ffi::c_int,
    prelude::*,
    str::CStr,
    sync::rcu, //
};

use super::{
    bindings,
    context,
    task::Task, //
};

/// Returns the error of a kernel without cgroups. 7.2 has no name for it.
pub(crate) fn no_cgroups() -> Error {
    Error::from_errno(-(bindings::EOPNOTSUPP as c_int))
}

/// A cgroup and those below it, down to some level.
#[derive(Clone, Copy)]
pub(crate) struct Subtree {
    base: u64,
    base_level: c_int,
    max_level: c_int,
}

impl Subtree {
    /// Finds the cgroup `path`, as the caller's cgroup namespace shows it. The subtree has `depth`
    /// levels below it.
    ///
    /// Sleeps. Fails with `ENOENT` if there is no such cgroup, and with `EOPNOTSUPP` if the kernel
    /// has no cgroups.
    pub(crate) fn find(path: &CStr, depth: u32) -> Result<Self> {
        context::might_sleep();
        let (mut base, mut base_level) = (0, 0);
        // SAFETY: Process context; the path is a C string, and both results can be written.
        let error = unsafe {
            bindings::schedhist_find_cgroup(path.as_char_ptr(), &mut base, &mut base_level)
        };
        to_result(match error {
            // The path is that of a file in a cgroup.
            error if error == -(bindings::ENOTDIR as c_int) => -(bindings::ENOENT as c_int),
            error => error,
        })?;
        let depth = c_int::try_from(depth).unwrap_or(c_int::MAX);
        Ok(Self {
            base,
            base_level,
            max_level: base_level.saturating_add(depth),
        })
    }

    /// Returns the path of the cgroup below which the subtree is, as [`Cgroup::path`] does. Fails
    /// with `ENOENT` if it is gone, or its path is longer than `PATH_MAX`, and with `ENOMEM`. The
    /// context is that of [`exists`].
    pub(crate) fn path(&self) -> Result<KVec<u8>> {
        let mut path = KVec::from_elem(0, bindings::PATH_MAX as usize, GFP_KERNEL)?;
        // SAFETY: Process context, and the buffer has that size.
        let len = unsafe {
            bindings::schedhist_cgroup_path_of(self.base, path.as_mut_ptr().cast(), path.len())
        };
        let len = usize::try_from(len).map_err(|_| ENOENT)?;
        path.truncate(len);
        Ok(path)
    }

    /// Makes `cgroup` the one below which the subtree is.
    pub(crate) fn follow(&mut self, cgroup: &Cgroup<'_>) {
        self.base = cgroup.id();
    }

    /// Returns whether `task` is in the subtree.
    pub(crate) fn contains(&self, task: Task<'_>, rcu: &rcu::Guard) -> bool {
        self.cgroup_of(task, rcu).is_some()
    }

    /// Returns the cgroup of `task`, or its ancestor at the deepest level of the subtree. Returns
    /// `None` if the task is not in the subtree. A task that has exited stays in its last cgroup.
    pub(crate) fn cgroup_of<'a>(&self, task: Task<'_>, _: &'a rcu::Guard) -> Option<Cgroup<'a>> {
        // SAFETY: The task exists, and the guard shows that this is an RCU read-side critical
        // section.
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
        // INVARIANT: RCU protects a task's cgroup and its ancestors for as long as the guard
        // exists.
        Some(Cgroup {
            cgroup,
            _lifetime: PhantomData,
        })
    }
}

/// Returns whether there still is a cgroup with this [`Cgroup::id`]. Process context of a task in
/// the initial cgroup namespace, or in one that shows the cgroup.
pub(crate) fn exists(id: u64) -> bool {
    context::might_sleep();
    // SAFETY: Process context.
    unsafe { bindings::schedhist_cgroup_exists(id) }
}

/// A cgroup.
///
/// # Invariants
///
/// `cgroup` points to a `struct cgroup` that is valid for `'a`.
pub(crate) struct Cgroup<'a> {
    cgroup: *mut bindings::cgroup,
    _lifetime: PhantomData<&'a rcu::Guard>,
}

impl Cgroup<'_> {
    /// Creates a reference to `cgroup`. Returns `None` if it is not in the default hierarchy.
    ///
    /// # Safety
    ///
    /// `cgroup` must point to a cgroup that stays valid for the lifetime of the result.
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

    /// Returns the path, as `/proc/PID/cgroup` shows it in the initial cgroup namespace. Does not
    /// sleep; fails with `ENOMEM`, and with `E2BIG` if it has more than `PATH_MAX - 2` bytes.
    pub(crate) fn path(&self) -> Result<KVec<u8>> {
        let mut path = KVec::from_elem(0, bindings::PATH_MAX as usize, GFP_NOWAIT)?;
        // SAFETY: Valid by the type's invariant, and the buffer has that size.
        let len = unsafe {
            bindings::schedhist_cgroup_path(self.cgroup, path.as_mut_ptr().cast(), path.len())
        };
        let len = usize::try_from(len).map_err(|_| E2BIG)?;
        let mut short = KVec::with_capacity(len, GFP_NOWAIT)?;
        short.extend_from_slice(path.get(..len).ok_or(E2BIG)?, GFP_NOWAIT)?;
        Ok(short)
    }
}
