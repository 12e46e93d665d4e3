// SPDX-License-Identifier: GPL-2.0
/*
 * A mutex that kernel threads of different priorities compete for, and how long they slept and
 * waited for a CPU, from the tracepoints alone. With proxy execution, a thread that sleeps for the
 * mutex stays on a run queue, and its owner runs in its turn: `donors` counts these sleeps. An owner
 * that sleeps, too, ends that: the thread is then taken off the queue.
 */

#include <linux/delay.h>
#include <linux/kernel.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/random.h>
#include <linux/sched.h>
#include <linux/sched/clock.h>
#include <linux/tracepoint.h>
#include <trace/events/sched.h>

#include "tracepoints.h"

#define THREADS 8

static u64 donors, sleeps, slept, waits, waited;
module_param(donors, ullong, 0444);
MODULE_PARM_DESC(donors, "Sleeps on a run queue");
module_param(sleeps, ullong, 0444);
MODULE_PARM_DESC(sleeps, "Sleeps that ended");
module_param(slept, ullong, 0444);
MODULE_PARM_DESC(slept, "Nanoseconds without a CPU, of these sleeps");
module_param(waits, ullong, 0444);
MODULE_PARM_DESC(waits, "Waits for a CPU that ended");
module_param(waited, ullong, 0444);
MODULE_PARM_DESC(waited, "Nanoseconds of these waits: since it was woken and queued, or preempted");

static DEFINE_MUTEX(contended);
static DEFINE_RAW_SPINLOCK(totals);
static struct thread {
	struct task_struct *task;
	u64 out, woken;
	bool is_asleep, is_donor, was_queued;
} threads[THREADS];

static bool off;

static int set_off(const char *value, const struct kernel_param *param)
{
	int error = param_set_bool(value, param), i;

	for (i = 0; i < THREADS; i++) {
		if (threads[i].task)
			wake_up_process(threads[i].task);
	}
	return error;
}

static const struct kernel_param_ops off_ops = { .set = set_off, .get = param_get_bool };
module_param_cb(off, &off_ops, &off, 0644);
MODULE_PARM_DESC(off, "Whether the threads are to sleep on, so that nothing is counted");

static int compete(void *data)
{
	set_user_nice(current, (long)data * 5 - 15);
	while (!kthread_should_stop()) {
		set_current_state(TASK_INTERRUPTIBLE);
		if (READ_ONCE(off) && !kthread_should_stop())
			schedule();
		__set_current_state(TASK_RUNNING);
		if (READ_ONCE(off))
			continue;
		mutex_lock(&contended);
		/* Long enough to be preempted by a thread that then asks for the mutex. */
		mdelay(1 + get_random_u32_below(4));
		if (!get_random_u32_below(4))
			usleep_range(100, 3000);
		mutex_unlock(&contended);
		usleep_range(100, 100 + get_random_u32_below(5000));
	}
	return 0;
}

static struct thread *thread_of(struct task_struct *task)
{
	int i;

	for (i = 0; i < THREADS; i++) {
		if (threads[i].task == task)
			return &threads[i];
	}
	return NULL;
}

static void see_switch(void *data, bool preempt, struct task_struct *prev, struct task_struct *next,
		       unsigned int prev_state)
{
	struct thread *leaving = thread_of(prev), *entering = thread_of(next);
	u64 now = local_clock();

	if (leaving) {
		leaving->is_asleep = !preempt && prev_state;
		leaving->is_donor = leaving->is_asleep && READ_ONCE(prev->on_rq) && !prev->se.sched_delayed;
		leaving->out = now;
	}
	if (entering && entering->out) {
		u64 since = entering->out;

		raw_spin_lock(&totals);
		if (entering->is_asleep) {
			sleeps++;
			slept += now - since;
			donors += entering->is_donor;
			since = max(since, READ_ONCE(entering->woken));
		}
		waits++;
		waited += now - since;
		raw_spin_unlock(&totals);
	}
}

/* A thread that is on no run queue waits from when it is: another CPU may be slow to queue it. */
static void see_waking(void *data, struct task_struct *task)
{
	struct thread *woken = thread_of(task);

	if (!woken)
		return;
	WRITE_ONCE(woken->was_queued, READ_ONCE(task->on_rq) && !task->se.sched_delayed);
	WRITE_ONCE(woken->woken, local_clock());
}

static void see_wakeup(void *data, struct task_struct *task)
{
	struct thread *woken = thread_of(task);

	if (woken && !READ_ONCE(woken->was_queued))
		WRITE_ONCE(woken->woken, local_clock());
}

static struct tracepoint *sched_switch, *sched_waking, *sched_wakeup;

static void __maybe_unused check_prototypes(void)
{
	check_trace_callback_type_sched_switch(see_switch);
	check_trace_callback_type_sched_waking(see_waking);
	check_trace_callback_type_sched_wakeup(see_wakeup);
}

static void leave(void)
{
	int i;

	for (i = 0; i < THREADS; i++) {
		if (threads[i].task)
			kthread_stop(threads[i].task);
	}
	tracepoint_probe_unregister(sched_wakeup, see_wakeup, NULL);
	tracepoint_probe_unregister(sched_waking, see_waking, NULL);
	tracepoint_probe_unregister(sched_switch, see_switch, NULL);
	tracepoint_synchronize_unregister();
}

static int __init mutex_init_module(void)
{
	int error;
	long i;

	sched_switch = find_tracepoint("sched_switch");
	sched_waking = find_tracepoint("sched_waking");
	sched_wakeup = find_tracepoint("sched_wakeup");
	if (!sched_switch || !sched_waking || !sched_wakeup)
		return -ENOENT;
	error = tracepoint_probe_register(sched_switch, see_switch, NULL) ?:
		tracepoint_probe_register(sched_waking, see_waking, NULL) ?:
		tracepoint_probe_register(sched_wakeup, see_wakeup, NULL);
	if (error) {
		leave();
		return error;
	}
	for (i = 0; i < THREADS; i++) {
		struct task_struct *task = kthread_create(compete, (void *)i, "mutex");

		if (IS_ERR(task)) {
			leave();
			return PTR_ERR(task);
		}
		threads[i].task = task;
		wake_up_process(task);
	}
	return 0;
}

static void __exit mutex_exit(void)
{
	leave();
}

module_init(mutex_init_module);
module_exit(mutex_exit);
MODULE_DESCRIPTION("Kernel threads that compete for a mutex, for tests");
MODULE_LICENSE("GPL");
