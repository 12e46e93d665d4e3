// SPDX-License-Identifier: GPL-2.0

//! A view of a `task_struct` from within a probe.
//!
//! C header: [`include/linux/sched.h`](srctree/include/linux/sched.h)

use core::{
    marker::PhantomData,
    mem::{
        align_of,
        offset_of, //
    },
    ptr::NonNull, //
};

use kernel::{
    ffi::c_void,
    sync::rcu, //
};

use super::bindings;

/// The length of [`Task::comm`], with its final NUL.
pub(crate) const COMM_LEN: usize = bindings::TASK_COMM_LEN as usize;

/// A task that is known to exist for `'a`.
///
/// Unlike `kernel::task::Task` it does not hold a reference: a probe must not take one for every
/// event.
///
/// # Invariants
///
/// `task` points to a `task_struct` that is valid for `'a`.
#[derive(Clone, Copy)]
pub(crate) struct Task<'a> {
    task: NonNull<bindings::task_struct>,
    _lifetime: PhantomData<&'a bindings::task_struct>,
}

/// Reads a field of a [`Task`].
macro_rules! read {
    ($task:expr, $($field:ident).+) => {{
        let task: Task<'_> = $task;
        // SAFETY: Valid by the type's invariant. Volatile, as another CPU may change it.
        unsafe { (&raw const (*task.task.as_ptr()).$($field).+).read_volatile() }
    }};
}

impl<'a> Task<'a> {
    /// Creates a view of the task at `task`.
    ///
    /// # Safety
    ///
    /// `task` must point to a `task_struct` that stays valid for `'a`.
    #[inline(always)]
    pub(crate) unsafe fn from_raw(task: *mut bindings::task_struct) -> Self {
        Self {
            // SAFETY: A pointer to a valid `task_struct` is not null.
            // INVARIANT: The `task_struct` is valid for `'a` by the safety requirement.
            task: unsafe { NonNull::new_unchecked(task) },
            _lifetime: PhantomData,
        }
    }

    /// Returns the thread id in the initial PID namespace; 0 for the idle task of any CPU.
    #[inline(always)]
    pub(crate) fn pid(self) -> i32 {
        // `exec()` by a thread that is not the leader of its group gives it the leader's id.
        read!(self, pid)
    }

    /// Returns the id of the task's process in the initial PID namespace: that of its leader.
    pub(crate) fn tgid(self) -> i32 {
        // SAFETY: Valid by the type's invariant. It does not change after the task was created.
        unsafe { (*self.task.as_ptr()).tgid }
    }

    /// Returns the leader of the task's process; `None` if the task is exiting, as the leader may
    /// be gone then.
    pub(crate) fn leader<'g>(self, _: &'g rcu::Guard) -> Option<Task<'g>> {
        if self.is_exiting() {
            return None;
        }
        let leader = read!(self, group_leader);
        // SAFETY: A leader is released after the other threads of its process, or by `de_thread()`,
        // which first makes the thread that is left its own leader. It is freed an RCU grace period
        // later. The task has just not been exiting, so the leader that was read was not released
        // before this RCU read-side critical section began, which is at least as long as `'g`.
        Some(unsafe { Task::from_raw(leader) })
    }

    /// Returns the time at which the task was created, on the monotonic clock. A thread that
    /// executes a program gets the time of its leader before it gets the leader's PID.
    pub(crate) fn start_time(self) -> u64 {
        read!(self, start_time)
    }

    /// Returns the identity of the task's process; `None` if the task is exiting.
    pub(crate) fn process(self, rcu: &rcu::Guard) -> Option<ProcessId> {
        self.leader(rcu).map(ProcessId::of)
    }

    #[inline(always)]
    pub(crate) fn is_idle(self) -> bool {
        self.pid() == 0
    }

    /// Returns the number of the CPU that the task runs on, or ran on last.
    #[inline(always)]
    pub(crate) fn cpu(self) -> u32 {
        read!(self, thread_info.cpu)
    }

    /// Returns the time at which the task was put on its current run queue, in nanoseconds of that
    /// CPU's clock: `sched_info.last_queued`. Returns 0 if the task is on no run queue, and for a
    /// task that was preempted with its sleep state set. Callable in any context: another CPU may
    /// be changing the value.
    ///
    /// `enqueue_task()` stamps a task that has no stamp, under the run queue's lock, but not when a
    /// quota returns: see [`Task::is_throttled`]. At the `sched_switch`
    /// tracepoint the task that gets the CPU still has its stamp: `sched_info_switch()` runs after
    /// the tracepoint.
    #[inline(always)]
    pub(crate) fn last_queued(self) -> u64 {
        read!(self, sched_info.last_queued)
    }

    /// Returns whether the task, which is being woken, is on a run queue already: it was stamped
    /// there, or, with `CONFIG_SCHED_PROXY_EXEC`, `__schedule()` has left it there though it sleeps
    /// for a mutex (`try_to_block_task()`), without a stamp. A task whose dequeue is delayed, and
    /// that has no stamp, gets one at its wakeup.
    #[inline(always)]
    pub(crate) fn is_queued(self) -> bool {
        #[cfg(CONFIG_SCHED_PROXY_EXEC)]
        if read!(self, on_rq) != 0 && read!(self, se.sched_delayed) == 0 {
            return true;
        }
        self.last_queued() != 0
    }

    /// Returns a number that no other task has during this task's life: its address.
    #[inline(always)]
    pub(crate) fn id(self) -> u64 {
        self.task.as_ptr() as u64
    }

    /// Returns whether the task is exiting. It may have given up its PID then.
    #[inline(always)]
    pub(crate) fn is_exiting(self) -> bool {
        read!(self, flags) & bindings::PF_EXITING != 0
    }

    pub(crate) fn is_kernel_thread(self) -> bool {
        read!(self, flags) & bindings::PF_KTHREAD != 0
    }

    /// Returns whether this is a kernel thread that runs softirqs.
    pub(crate) fn is_softirq_thread(self) -> bool {
        // SAFETY: Callable in any context. Valid by the type's invariant.
        unsafe { bindings::schedhist_is_softirq_thread(self.task.as_ptr()) }
    }

    pub(super) fn as_ptr(self) -> *mut bindings::task_struct {
        self.task.as_ptr()
    }

    /// Returns the sum of the task's completed waits for a CPU, in nanoseconds:
    /// `sched_info.run_delay`. The parts of the current wait that migrations cut off count, too.
    #[inline(always)]
    pub(crate) fn run_delay(self) -> u64 {
        // It does not change for the two tasks of a switch within the `sched_switch` probe, as the
        // run queue's lock is held there.
        read!(self, sched_info.run_delay)
    }

    /// Returns whether the task is off its run queue until its quota returns. Valid for a task that
    /// leaves its CPU runnable, within the `sched_switch` probe: the run queue's lock is held.
    ///
    /// The kernel throttles only the running task, and both ways end in the task's switch-out:
    ///
    /// - `cpu.max` (`CONFIG_CFS_BANDWIDTH`): on its way to user space, the task dequeues itself in
    ///   `throttle_cfs_rq_work()`, and is then on a list of throttled tasks until
    ///   `tg_unthrottle_up()` queues it again, or until the task moves to a run queue that is not
    ///   throttled (`enqueue_throttled_task()`). Membership in that list is exact, but
    ///   `task_struct::throttled` is not: `dequeue_throttled_task()` leaves it set if a throttled
    ///   task changes its scheduling class. A task in the kernel goes on although its group is
    ///   throttled; if it is preempted there, it waits for a CPU.
    ///   Before 6.18 the kernel throttles a run queue, with all tasks on it and below it
    ///   (`cfs_rq::throttle_count`). A task that leaves the CPU then is throttled, in the kernel,
    ///   too. Those that wait there already are not known: they go on waiting for a CPU here, until
    ///   they get one.
    /// - `SCHED_DEADLINE`: `update_curr_dl_se()` sets `dl_throttled` and dequeues the task when its
    ///   budget is spent, or given up by `sched_yield()`; `enqueue_dl_entity()` clears it. The bit
    ///   outlives the scheduling class, so it counts only for a task with a deadline priority.
    ///
    /// Both call the functions of the scheduling class directly, and not `enqueue_task()`: so
    /// [`Task::last_queued`] does not tell when the quota returned.
    ///
    /// Other quotas are not known here. The kernel only tells a sched_ext scheduler the `cpu.max`
    /// of its tasks (`ops.cgroup_set_bandwidth()`), and throttles nothing itself. Real-time groups
    /// (`CONFIG_RT_GROUP_SCHED`) are throttled as a whole.
    #[inline(always)]
    pub(crate) fn is_throttled(self) -> bool {
        let task = self.task.as_ptr();
        #[cfg(all(CONFIG_CFS_BANDWIDTH, HAVE_THROTTLE_NODE))]
        {
            // SAFETY: Valid by the type's invariant.
            let node = unsafe { &raw mut (*task).throttle_node };
            // SAFETY: `node` is part of the task, which is valid by the type's invariant. Volatile,
            // as another CPU may change the list where the run queue's lock is not held.
            if unsafe { (&raw const (*node).next).read_volatile() } != node {
                return true;
            }
        }
        #[cfg(CFS_RQ_THROTTLE_COUNT)]
        {
            // SAFETY: Valid by the type's invariant.
            let (on_rq, rq) = unsafe {
                let se = &raw const (*task).se;
                ((&raw const (*se).on_rq).read_volatile(), (*se).cfs_rq)
            };
            // Only the fair class queues it so.
            if on_rq != 0 {
                // SAFETY: A task that is queued there has a run queue, whose layout is BTF's. The
                // field is an `int`.
                let count = unsafe {
                    rq.cast::<i32>()
                        .byte_add(bindings::CFS_RQ_THROTTLE_COUNT as usize)
                        .read_volatile()
                };
                if count != 0 {
                    return true;
                }
            }
        }
        self.prio() < bindings::MAX_DL_PRIO as i32
            // SAFETY: Valid by the type's invariant. The bit changes only under the lock of the
            // task's run queue; where that is not held, any value of the byte that is loaded is
            // valid.
            && unsafe { bindings::sched_dl_entity::dl_throttled_raw(&raw const (*task).dl) } != 0
    }

    /// Returns whether the task ever had a CPU: `sched_info.pcount` is not 0.
    #[inline(always)]
    pub(crate) fn has_run(self) -> bool {
        read!(self, sched_info.pcount) != 0
    }

    /// Returns whether the task has a CPU. A task that gets one does from before the switch on, and
    /// one that leaves one until after it.
    pub(crate) fn is_on_cpu(self) -> bool {
        read!(self, on_cpu) != 0
    }

    /// Returns whether the task neither sleeps nor is about to.
    pub(crate) fn is_awake(self) -> bool {
        read!(self, __state) == bindings::TASK_RUNNING
    }

    /// Returns the effective priority: -1 for a deadline, 0 to 99 for real time, 100 to 139 for
    /// nice -20 to 19.
    #[inline(always)]
    pub(crate) fn prio(self) -> i32 {
        read!(self, prio)
    }

    /// Returns a copy of the name, which ends in a NUL. The copy may be torn if the task is being
    /// renamed meanwhile, as in any of the kernel's own events.
    #[inline(always)]
    pub(crate) fn comm(self) -> [u8; COMM_LEN] {
        // Two loads, where a volatile array of bytes takes sixteen.
        const {
            assert!(offset_of!(bindings::task_struct, comm) % align_of::<u64>() == 0);
            assert!(align_of::<bindings::task_struct>() >= align_of::<u64>());
        }
        // SAFETY: Valid by the type's invariant, and aligned as asserted above. Volatile, as
        // another CPU may change it. The last byte always is a NUL: see `__set_task_comm()`.
        let words = unsafe {
            let comm = &raw const (*self.task.as_ptr()).comm;
            comm.cast::<[u64; COMM_LEN / 8]>().read_volatile()
        };
        // SAFETY: Any bytes are bytes. A copy of slices would have a panic for lengths that differ.
        unsafe { core::mem::transmute::<[u64; COMM_LEN / 8], [u8; COMM_LEN]>(words) }
    }
}

pub(crate) fn with_current<R>(f: impl FnOnce(Task<'_>) -> R) -> R {
    // SAFETY: The current task exists while it runs this.
    f(unsafe { Task::from_raw(kernel::task::Task::current_raw()) })
}

/// Tells a process from all others, even from later ones with the same PID.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProcessId {
    pid: i32,
    start_time: u64,
}

impl ProcessId {
    pub(crate) fn of(leader: Task<'_>) -> Self {
        Self {
            pid: leader.tgid(),
            start_time: leader.start_time(),
        }
    }

    /// Returns the process of `task`, which may be exiting.
    ///
    /// # Safety
    ///
    /// `task` must be the current task, and must not have reached `exit_notify()`.
    pub(super) unsafe fn of_exiting(task: *mut bindings::task_struct) -> Self {
        // SAFETY: The current task exists. A leader is released after the other threads of its
        // process, or by `de_thread()` in one of them, which waits until all others have reached
        // their `exit_notify()`.
        Self::of(unsafe { Task::from_raw((*task).group_leader) })
    }

    /// Finds the process that has the PID `pid` in the namespace of the current task, unless all
    /// of its threads have exited. Process context.
    pub(crate) fn find(pid: i32) -> Option<Self> {
        let rcu = rcu::read_lock();
        find_leader(pid, &rcu).map(Self::of)
    }

    /// Returns the PID in the initial namespace.
    pub(crate) fn pid(self) -> i32 {
        self.pid
    }

    /// Returns a number that no other process has.
    pub(crate) fn key(self) -> u128 {
        task_key(self.pid, self.start_time)
    }
}

/// Returns a number that no other task has, before or after.
pub(crate) fn task_key(pid: i32, start_time: u64) -> u128 {
    u128::from(start_time) << 32 | u128::from(pid as u32)
}

/// Calls the `F` at `visit` with `task`. Returns whether to go on.
///
/// # Safety
///
/// `visit` must point to an `F` to which there is no other reference in use, `task` to a task.
unsafe extern "C" fn call<F: FnMut(Task<'_>) -> bool>(
    task: *mut bindings::task_struct,
    visit: *mut c_void,
) -> bool {
    // SAFETY: By the safety requirement.
    let visit = unsafe { &mut *visit.cast::<F>() };
    // SAFETY: The task exists while it is visited.
    visit(unsafe { Task::from_raw(task) })
}

/// Calls `visit` for every task but the idle tasks; those that are created or exit meanwhile may be
/// missed. `visit` must not sleep.
pub(crate) fn for_each_task(visit: impl FnMut(Task<'_>)) {
    visit_tasks(to_the_end(visit), false);
}

/// Does the same for every task that is on a run queue or has a CPU, which takes far less time
/// where most tasks sleep.
pub(crate) fn for_each_queued_task(visit: impl FnMut(Task<'_>)) {
    visit_tasks(to_the_end(visit), true);
}

fn to_the_end(mut visit: impl FnMut(Task<'_>)) -> impl FnMut(Task<'_>) -> bool {
    move |task: Task<'_>| {
        visit(task);
        true
    }
}

fn visit_tasks<F: FnMut(Task<'_>) -> bool>(mut visit: F, queued: bool) {
    // SAFETY: `call` gets this `F`, and is not called any more once this has returned.
    unsafe { bindings::schedhist_visit_tasks(Some(call::<F>), (&raw mut visit).cast(), queued) };
}

/// Calls `visit` for the threads of the process of `task`, until it returns false. `visit` must not
/// sleep.
pub(crate) fn visit_threads<F: FnMut(Task<'_>) -> bool>(task: Task<'_>, mut visit: F) {
    let visit = (&raw mut visit).cast();
    // SAFETY: The task exists. `call` gets this `F`, and is not called any more once this has
    // returned.
    unsafe { bindings::schedhist_visit_threads(task.as_ptr(), Some(call::<F>), visit) };
}

/// Calls `visit` for every thread of the process that has the PID `pid` in the namespace of the
/// current task, which is the initial one for a kernel worker. `visit` must not sleep.
pub(crate) fn for_each_thread_of(pid: i32, visit: impl FnMut(Task<'_>)) {
    let rcu = rcu::read_lock();
    if let Some(leader) = find_leader(pid, &rcu) {
        visit_threads(leader, to_the_end(visit));
    }
}

/// Returns the leader of the process that has the PID `pid` in the namespace of the current task,
/// unless all of its threads have exited. The leader may have exited before the others.
fn find_leader(pid: i32, _: &rcu::Guard) -> Option<Task<'_>> {
    // SAFETY: The RCU read lock is held.
    let leader = NonNull::new(unsafe { bindings::schedhist_find_process(pid) })?;
    // SAFETY: It was found in this RCU read-side critical section, to whose end it stays valid.
    Some(unsafe { Task::from_raw(leader.as_ptr()) })
}
