/* SPDX-License-Identifier: GPL-2.0 */
/*
 * C declarations that the abstractions need and the kernel crate does not bind.
 * bindgen reads this file when the module is built.
 */

#ifndef _GLUE_H
#define _GLUE_H

/* bindgen reads this first, so that a build ends with one of these sentences. */
#if !defined(CONFIG_X86_64) && !defined(CONFIG_ARM64)
#error "this module runs on x86_64 and arm64 only"
#endif
#ifndef CONFIG_SMP
#error "this module needs a kernel with CONFIG_SMP"
#endif
#ifdef CONFIG_RANDSTRUCT
#error "this module does not run on a kernel with CONFIG_RANDSTRUCT: Rust does not know its structs"
#endif
#ifndef CONFIG_TRACING
#error "this module needs a kernel with CONFIG_TRACING: it has trace events"
#endif
#ifndef CONFIG_DEBUG_FS
#error "this module needs a kernel with CONFIG_DEBUG_FS: its files are there"
#endif
#ifndef CONFIG_CGROUPS
#error "this module needs a kernel with CONFIG_CGROUPS: tasks can be grouped by them"
#endif
#ifndef CONFIG_SCHED_INFO
#error "this module needs a kernel with CONFIG_SCHED_INFO, which stamps each wait"
#endif

#include <linux/binfmts.h>
#include <linux/cgroup.h>
#include <linux/cpu.h>
#include <linux/fs.h>
#include <linux/hrtimer.h>
#include <linux/irq_work.h>
#include <linux/percpu-defs.h>
#include <linux/poll.h>
#include <linux/random.h>
#include <linux/sched.h>
#include <linux/sched/clock.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/wait.h>

#include "features.h"

/* There a probe must not take a lock that sleeps, nor allocate memory. */
#if defined(CONFIG_PREEMPT_RT) && !defined(HAVE_PREEMPTIBLE_PROBES)
#error "this module does not run on PREEMPT_RT where probes run with preemption off"
#endif

/* The types of the probes. glue.c checks them against the kernel. */
typedef void (*schedhist_sched_switch_probe)(void *data, bool preempt,
					     struct task_struct *prev,
					     struct task_struct *next,
					     unsigned int prev_state);

typedef void (*schedhist_sched_exit_probe)(void *data, bool is_switch);

#ifdef HAVE_SCHED_SET_NEED_RESCHED_TP
typedef void (*schedhist_need_resched_probe)(void *data,
					     struct task_struct *task,
					     int cpu, int flag);

/* The flag of a request that is not lazy. */
enum {
	SCHEDHIST_TIF_NEED_RESCHED = TIF_NEED_RESCHED,
};

/* Returns whether a request to reschedule the current task is pending. */
bool schedhist_is_resched_pending(bool is_lazy);
#endif

typedef void (*schedhist_task_newtask_probe)(void *data,
					     struct task_struct *task,
#ifdef HAVE_CLONE_FLAGS_U64
					     u64 flags
#else
					     unsigned long flags
#endif
					     );

typedef void (*schedhist_sched_waking_probe)(void *data,
					     struct task_struct *task);

typedef void (*schedhist_sched_wakeup_new_probe)(void *data,
						 struct task_struct *task);

typedef void (*schedhist_softirq_probe)(void *data, unsigned int kind);

typedef void (*schedhist_hrtimer_expire_entry_probe)(void *data,
						     struct hrtimer *timer,
#ifdef HAVE_HRTIMER_NOW
						     ktime_t now
#else
						     ktime_t *now
#endif
						     );

typedef void (*schedhist_hrtimer_expire_exit_probe)(void *data,
						    struct hrtimer *timer);

typedef void (*schedhist_task_rename_probe)(void *data,
					    struct task_struct *task,
					    const char *comm);

typedef void (*schedhist_sched_process_exec_probe)(void *data,
						   struct task_struct *task,
						   pid_t old_pid,
						   struct linux_binprm *bprm);

typedef void (*schedhist_cgroup_attach_task_probe)(void *data,
						   struct cgroup *cgroup,
						   const char *path,
						   struct task_struct *task,
						   bool threadgroup);

typedef void (*schedhist_cgroup_mkdir_probe)(void *data, struct cgroup *cgroup,
					     const char *path);

typedef void (*schedhist_sched_process_exit_probe)(void *data,
						   struct task_struct *task
#ifdef HAVE_GROUP_DEAD
						   , bool group_dead
#endif
						   );

typedef void (*schedhist_call)(void *data);
/* Returns whether to go on. */
typedef bool (*schedhist_visit)(struct task_struct *task, void *data);

/*
 * Calls a function on a CPU, with interrupts off, and waits until it returns.
 * Returns -ENXIO if the CPU is offline.
 */
int schedhist_call_on_cpu(int cpu, schedhist_call call, void *data);

/*
 * Allocates zeroed memory for kvfree(), and for kfree() if it is no larger than
 * a page, on the NUMA node of a possible CPU, or on any node if cpu is
 * negative. Sleeps. Returns NULL rather than have the OOM killer make room.
 */
void *schedhist_alloc(size_t size, int cpu);

/*
 * Returns the leader of the process with this PID in the PID namespace of the
 * current task, or NULL if there is none, or if all its threads have exited.
 * The caller holds the RCU read lock.
 */
struct task_struct *schedhist_find_process(pid_t pid);

/* The bits of the preemption count that say what interrupts the task. */
enum {
	SCHEDHIST_IN_SOFTIRQ = SOFTIRQ_OFFSET,
	SCHEDHIST_IN_HARDIRQ = HARDIRQ_MASK | NMI_MASK,
};

/* Returns those that are set on this CPU. Callable in any context. */
unsigned int schedhist_interruptions(void);

/* TIMER_SOFTIRQ and so on, which are enumerators. */
#define SCHEDHIST_TIMER_SOFTIRQ		1
#define SCHEDHIST_HRTIMER_SOFTIRQ	8
#define SCHEDHIST_RCU_SOFTIRQ		9

/* Returns whether a task is a kernel thread that runs softirqs. Callable in any context. */
bool schedhist_is_softirq_thread(const struct task_struct *task);

/*
 * Visits every task, or those that are on a run queue or have a CPU, with the
 * RCU read lock held.
 */
void schedhist_visit_tasks(schedhist_visit visit, void *data, bool queued);

/* Visits every thread of a task's process, with the RCU read lock held. */
void schedhist_visit_threads(struct task_struct *task, schedhist_visit visit,
			     void *data);

/*
 * Finds the cgroup of a path in the default hierarchy, as the caller's cgroup
 * namespace shows it. Returns its id and its level, and in full, if that has a
 * size, its path as schedhist_cgroup_path() does, with its length or -E2BIG as
 * the result. The cgroup may still be being made; if that fails, no cgroup gets
 * this id. May sleep. Returns -ENOENT if there is none.
 */
int schedhist_find_cgroup(const char *path, size_t size, u64 *id, int *level,
			  char *full, size_t full_size);

/*
 * Returns the task's cgroup in the default hierarchy, or its ancestor at
 * max_level if it is deeper; NULL unless it is the cgroup with the id base,
 * which is at base_level, or below it. The caller holds the RCU read lock.
 */
struct cgroup *schedhist_task_cgroup(struct task_struct *task, u64 base,
				     int base_level, int max_level);

/* Returns a number that no other cgroup of the hierarchy ever has. */
u64 schedhist_cgroup_id(const struct cgroup *cgroup);

/* Returns the level of a cgroup: 0 for the root. */
int schedhist_cgroup_level(const struct cgroup *cgroup);

/*
 * Writes the path of a cgroup, with its NUL. Returns its length, or -E2BIG if
 * the path and its NUL do not leave one byte of the buffer. Does not sleep.
 */
int schedhist_cgroup_path(struct cgroup *cgroup, char *path, size_t size);

/*
 * Returns whether there is a cgroup with this id in the default hierarchy, as
 * the caller's cgroup namespace shows it. May sleep.
 */
bool schedhist_cgroup_exists(u64 id);

/* Returns whether a cgroup is in the default hierarchy. */
bool schedhist_is_default_cgroup(const struct cgroup *cgroup);

/* Returns the id of the root of the default hierarchy. */
u64 schedhist_root_cgroup(void);

/*
 * Takes a spinlock, with interrupts off, except on PREEMPT_RT, and releases it.
 * The former returns the interrupt flags that the latter restores.
 */
unsigned long schedhist_spin_lock(spinlock_t *lock);
void schedhist_spin_unlock(spinlock_t *lock, unsigned long flags);

/* Switches the interrupts of this CPU off, and back to what they were. */
unsigned long schedhist_irq_save(void);
void schedhist_irq_restore(unsigned long flags);

/*
 * Returns the next CPU after one that a task may use: by its affinity, active,
 * and not isolated from load balancing; -1 if there is none. The caller is an
 * RCU reader.
 */
int schedhist_next_allowed(const struct task_struct *task, int cpu);

/* Where a CPU is; what it means is the business of Rust. */
DECLARE_PER_CPU(u64, schedhist_topology);

/* Return whether two possible CPUs share a last-level cache, or are of one core. */
bool schedhist_shares_llc(int one, int two);
bool schedhist_is_sibling(int one, int two);

/* Returns the NUMA node of a possible CPU. */
int schedhist_node_of(int cpu);

typedef void (*schedhist_irq_work_func)(struct irq_work *work);

/* Initialises work that runs in a hard interrupt, even on PREEMPT_RT. */
void schedhist_init_irq_work(struct irq_work *work, schedhist_irq_work_func call);

/* Returns whether a task waits, after a full memory barrier. */
bool schedhist_has_sleeper(struct wait_queue_head *queue);

typedef bool (*schedhist_condition)(void *data);

/* Waits for a condition. Returns -ERESTARTSYS if a signal comes first. */
int schedhist_wait_event(struct wait_queue_head *queue,
			 schedhist_condition condition, void *data);

/* Adds a queue to those that a poll of a file waits on. */
void schedhist_poll_wait(struct file *file, struct wait_queue_head *queue,
			 struct poll_table_struct *table);

/* For bindings.rs, which has these where the kernel has static inlines. */
u64 schedhist_local_clock(void);
void schedhist_cpus_read_lock(void);
void schedhist_cpus_read_unlock(void);

/* For loops that take long on kernels that do not preempt them. */
void schedhist_cond_resched(void);

/* For assertions only: defined with CONFIG_RUST_DEBUG_ASSERTIONS. */
bool schedhist_irqs_disabled(void);
/* Always false without CONFIG_PREEMPT_COUNT. */
bool schedhist_preemptible(void);

#ifndef HAVE_SCHED_EXIT_TP
/*
 * Has a probe of sched_exit_tp called where the kernel has no such tracepoint:
 * after each switch that has asked for it, in the task that got the CPU, in an
 * interrupt that comes as soon as the scheduler switches interrupts on. The
 * probe is not called any more once schedhist_stop_exits() returns, which
 * sleeps. There can be one probe at a time: else returns -EBUSY. Asking while
 * there is none has no effect.
 */
int schedhist_start_exits(schedhist_sched_exit_probe probe, void *data);
void schedhist_stop_exits(void);
void schedhist_ask_for_exit(void);
#endif

#ifndef HAVE_GROUP_DEAD
/* Returns whether no thread of the current task's process goes on. */
bool schedhist_is_dead(struct task_struct *task);
#endif

/*
 * Creates a file in debugfs, and opens it once, which its operations must refuse. May sleep. If
 * this fails, the file may be there.
 */
struct dentry *schedhist_create_file(const char *name, umode_t mode,
				     struct dentry *parent, void *data,
				     const struct file_operations *fops);

/* Waits until no CPU runs a probe that was unregistered. May sleep. */
void schedhist_tracepoint_synchronize_unregister(void);

#endif /* _GLUE_H */
