// SPDX-License-Identifier: GPL-2.0
/*
 * Tasks that wake themselves, with interrupts on, while interrupts on the same CPU wake another
 * task: so one wakeup comes during the other.
 *
 * Write a number to "run" for that many self-wakeups, by a task that is bound to one CPU.
 */

#include <linux/atomic.h>
#include <linux/hrtimer.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <asm/irq_regs.h>

static unsigned int period_us = 100;
module_param(period_us, uint, 0644);
MODULE_PARM_DESC(period_us, "Time between two interrupts");

static int sleeper_pid;
module_param(sleeper_pid, int, 0444);
MODULE_PARM_DESC(sleeper_pid, "Whom the interrupts wake");

static ulong self_wakeups;
module_param(self_wakeups, ulong, 0444);
MODULE_PARM_DESC(self_wakeups, "How often a task has woken itself");

static ulong wakeups;
module_param(wakeups, ulong, 0444);
MODULE_PARM_DESC(wakeups, "How often interrupts have woken the sleeper");

static ulong inside;
module_param(inside, ulong, 0444);
MODULE_PARM_DESC(inside, "How many of these came in the midst of another module's code");

static struct task_struct *sleeper;
static struct task_struct *self;
static struct hrtimer timer;

static int sleep_often(void *unused)
{
	for (;;) {
		set_current_state(TASK_INTERRUPTIBLE);
		if (kthread_should_stop())
			break;
		schedule();
	}
	__set_current_state(TASK_RUNNING);
	return 0;
}

/* Returns whether `ip` is in another module: the only other one with code is schedhist. */
static bool in_another_module(unsigned long ip)
{
	return ip >= MODULES_VADDR && ip < MODULES_END &&
	       !within_module(ip, THIS_MODULE);
}

static enum hrtimer_restart wake_sleeper(struct hrtimer *expired)
{
	struct pt_regs *regs = get_irq_regs();

	if (wake_up_process(sleeper)) {
		wakeups++;
		if (current == self && regs &&
		    in_another_module(instruction_pointer(regs)))
			inside++;
	}
	hrtimer_forward_now(expired, ns_to_ktime(period_us * NSEC_PER_USEC));
	return HRTIMER_RESTART;
}

static int run(const char *text, const struct kernel_param *param)
{
	static DEFINE_MUTEX(running);
	unsigned int count;
	int error;

	error = kstrtouint(text, 0, &count);
	if (error)
		return error;
	if (current->nr_cpus_allowed != 1)
		return -EINVAL;
	guard(mutex)(&running);
	if (!self)
		set_cpus_allowed_ptr(sleeper, current->cpus_ptr);
	self = current;
	hrtimer_start(&timer, ns_to_ktime(period_us * NSEC_PER_USEC),
		      HRTIMER_MODE_REL_PINNED_HARD);
	while (count--) {
		set_current_state(TASK_INTERRUPTIBLE);
		self_wakeups += wake_up_process(current);
		cond_resched();
	}
	hrtimer_cancel(&timer);
	return 0;
}

static const struct kernel_param_ops run_ops = {
	.set = run,
};
module_param_cb(run, &run_ops, NULL, 0200);
MODULE_PARM_DESC(run, "Wake yourself so many times");

static int __init selfwake_init(void)
{
	sleeper = kthread_run(sleep_often, NULL, "selfwake");
	if (IS_ERR(sleeper))
		return PTR_ERR(sleeper);
	sched_set_fifo(sleeper);
	sleeper_pid = sleeper->pid;
#ifdef HAVE_HRTIMER_SETUP
	hrtimer_setup(&timer, wake_sleeper, CLOCK_MONOTONIC,
		      HRTIMER_MODE_REL_PINNED_HARD);
#else
	hrtimer_init(&timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
	timer.function = wake_sleeper;
#endif
	return 0;
}

static void __exit selfwake_exit(void)
{
	hrtimer_cancel(&timer);
	kthread_stop(sleeper);
}

module_init(selfwake_init);
module_exit(selfwake_exit);
MODULE_DESCRIPTION("Tasks that wake themselves, for tests");
MODULE_LICENSE("GPL");
