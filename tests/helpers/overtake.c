// SPDX-License-Identifier: GPL-2.0
/*
 * A task that blocks while it is being woken: the waker has traced sched_waking, and waits for the
 * lock of the run queue, on which the task is, preempted with its sleep state set. The task gets
 * its CPU, and blocks, before the waker goes on.
 *
 * This needs a waker that is slow just there, as when the host of a virtual machine takes its CPU
 * away. Here a probe delays it, called after all others.
 *
 * Write a number to "run", on a CPU other than 1, to repeat this as often. Another task of this
 * module preempts the first one.
 */

#include <linux/compiler.h>
#include <linux/err.h>
#include <linux/errno.h>
#include <linux/iopoll.h>
#include <linux/kernel.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/sched/clock.h>
#include <linux/time64.h>
#include <linux/tracepoint.h>
#include <trace/events/sched.h>

#include "tracepoints.h"

#define CPU 1

/* The interval at which a step is polled, and the timeout. */
#define POLL_US 100
#define LONGEST_US (20 * USEC_PER_SEC)

static int sleeper_pid;
module_param(sleeper_pid, int, 0444);
MODULE_PARM_DESC(sleeper_pid, "Who blocks while it is being woken");

static struct task_struct *sleeper;
static struct task_struct *preempter;
static struct task_struct *waker;
static struct tracepoint *sched_waking;

/* The last completed step: each task takes the step that follows. */
static enum {
	ASLEEP,
	/* The sleeper must set its state. */
	WANTED,
	/* The sleeper has set its state. */
	READY,
	/* The sleeper is preempted. */
	PREEMPTED,
	/* The waker has traced the wakeup: the preempter lets the sleeper go on. */
	TOLD,
} step;

/* Returns how often a task has blocked: counted under the run queue's lock, while on its CPU. */
static unsigned long sleeps(const struct task_struct *task)
{
	/* The counter only grows, and the caller polls it until it has. */
	return data_race(READ_ONCE(task->nvcsw));
}

static void waking(void *data, struct task_struct *task)
{
	unsigned long before = sleeps(task);
	u64 longest;

	if (task != sleeper || current != READ_ONCE(waker) ||
	    READ_ONCE(step) != PREEMPTED)
		return;
	WRITE_ONCE(step, TOLD);
	longest = local_clock() + 2 * NSEC_PER_SEC;
	while (sleeps(task) == before && local_clock() < longest)
		cpu_relax();
}

static int sleep_often(void *unused)
{
	for (;;) {
		set_current_state(TASK_INTERRUPTIBLE);
		if (kthread_should_stop())
			break;
		if (READ_ONCE(step) == WANTED) {
			WRITE_ONCE(step, READY);
			while (READ_ONCE(step) != TOLD &&
			       READ_ONCE(step) != ASLEEP)
				cond_resched();
		}
		schedule();
	}
	__set_current_state(TASK_RUNNING);
	return 0;
}

static int preempt_often(void *unused)
{
	for (;;) {
		set_current_state(TASK_INTERRUPTIBLE);
		if (kthread_should_stop())
			break;
		if (READ_ONCE(step) == READY) {
			WRITE_ONCE(step, PREEMPTED);
			while (READ_ONCE(step) == PREEMPTED)
				cpu_relax();
		}
		schedule();
	}
	__set_current_state(TASK_RUNNING);
	return 0;
}

static int overtake(void)
{
	unsigned long before = sleeps(sleeper), after;
	int now, error;

	WRITE_ONCE(step, WANTED);
	wake_up_process(sleeper);
	error = read_poll_timeout(READ_ONCE, now, now == READY, POLL_US, LONGEST_US, false, step);
	if (error)
		return error;
	wake_up_process(preempter);
	error = read_poll_timeout(READ_ONCE, now, now == PREEMPTED, POLL_US, LONGEST_US, false, step);
	if (error)
		return error;
	wake_up_process(sleeper);
	if (READ_ONCE(step) != TOLD)
		return -EIO;
	/* It blocks once in between, if all went well, and once at the end. */
	return read_poll_timeout(sleeps, after, after == before + 2, POLL_US, LONGEST_US, false, sleeper);
}

static int run(const char *text, const struct kernel_param *param)
{
	static DEFINE_MUTEX(running);
	unsigned int count;
	int error;

	error = kstrtouint(text, 0, &count);
	if (error)
		return error;
	if (current->nr_cpus_allowed != 1 || cpumask_test_cpu(CPU, current->cpus_ptr))
		return -EINVAL;
	guard(mutex)(&running);
	WRITE_ONCE(waker, current);
	while (count-- && !error)
		error = overtake();
	WRITE_ONCE(step, ASLEEP);
	WRITE_ONCE(waker, NULL);
	return error;
}

static const struct kernel_param_ops run_ops = {
	.set = run,
};
module_param_cb(run, &run_ops, NULL, 0200);
MODULE_PARM_DESC(run, "Wake the sleeper so many times");

static void __maybe_unused check_prototype(void)
{
	check_trace_callback_type_sched_waking(waking);
}

static int __init overtake_init(void)
{
	int error;

	sched_waking = find_tracepoint("sched_waking");
	if (!sched_waking)
		return -ENOENT;
	sleeper = kthread_run_on_cpu(sleep_often, NULL, CPU, "overtaken/%u");
	if (IS_ERR(sleeper))
		return PTR_ERR(sleeper);
	sleeper_pid = sleeper->pid;
	preempter = kthread_run_on_cpu(preempt_often, NULL, CPU, "overtakes/%u");
	if (IS_ERR(preempter)) {
		error = PTR_ERR(preempter);
		goto stop_sleeper;
	}
	sched_set_fifo(preempter);
	error = tracepoint_probe_register_prio(sched_waking, waking, NULL, INT_MIN);
	if (!error)
		return 0;
	kthread_stop(preempter);
stop_sleeper:
	kthread_stop(sleeper);
	return error;
}

static void __exit overtake_exit(void)
{
	tracepoint_probe_unregister(sched_waking, waking, NULL);
	tracepoint_synchronize_unregister();
	kthread_stop(preempter);
	kthread_stop(sleeper);
}

module_init(overtake_init);
module_exit(overtake_exit);
MODULE_DESCRIPTION("A task that blocks while it is being woken, for tests");
MODULE_LICENSE("GPL");
