// SPDX-License-Identifier: GPL-2.0
/*
 * Tasks that block in states that user space cannot choose.
 *
 * Write "STATE MS" to "block" to block for so many milliseconds. STATE is "idle", "uninterruptible"
 * or "killable": the writer blocks. Or it is "parked": a thread of this module does. Or it is
 * "rtlock", with PREEMPT_RT: the writer waits for a spinlock. The writer must be bound to a CPU and
 * have a real-time priority then, so that it takes the CPU from the owner of the lock, and not
 * spin until the lock is free.
 */

#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/errno.h>
#include <linux/jiffies.h>
#include <linux/kernel.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/spinlock.h>
#include <linux/string.h>

static int parker_pid;
module_param(parker_pid, int, 0444);
MODULE_PARM_DESC(parker_pid, "The thread that parks");

static struct task_struct *parker;

static int park_often(void *unused)
{
	while (!kthread_should_stop()) {
		if (kthread_should_park())
			kthread_parkme();
		schedule_timeout_interruptible(HZ);
	}
	return 0;
}

static int park(unsigned int ms)
{
	int error = kthread_park(parker);

	if (error)
		return error;
	msleep(ms);
	kthread_unpark(parker);
	return 0;
}

static DEFINE_SPINLOCK(lock);

struct owner {
	struct completion owns;
	unsigned int ms;
};

static int own(void *data)
{
	struct owner *owner = data;

	spin_lock(&lock);
	complete(&owner->owns);
	mdelay(owner->ms);
	spin_unlock(&lock);
	/* The writer may not be there any more once it has the lock. */
	return 0;
}

static int wait_for_lock(unsigned int ms)
{
	struct owner owner = { .ms = ms };
	struct task_struct *task;

	if (!IS_ENABLED(CONFIG_PREEMPT_RT))
		return -EOPNOTSUPP;
	if (current->nr_cpus_allowed != 1)
		return -EINVAL;
	init_completion(&owner.owns);
	task = kthread_run_on_cpu(own, &owner, cpumask_first(current->cpus_ptr), "owner/%u");
	if (IS_ERR(task))
		return PTR_ERR(task);
	wait_for_completion(&owner.owns);
	spin_lock(&lock);
	spin_unlock(&lock);
	return 0;
}

static int block(const char *text, const struct kernel_param *param)
{
	unsigned int ms;
	char state[16];

	if (sscanf(text, "%15s %u", state, &ms) != 2)
		return -EINVAL;
	if (!strcmp(state, "idle"))
		schedule_timeout_idle(msecs_to_jiffies(ms));
	else if (!strcmp(state, "uninterruptible"))
		schedule_timeout_uninterruptible(msecs_to_jiffies(ms));
	else if (!strcmp(state, "killable"))
		schedule_timeout_killable(msecs_to_jiffies(ms));
	else if (!strcmp(state, "parked"))
		return park(ms);
	else if (!strcmp(state, "rtlock"))
		return wait_for_lock(ms);
	else
		return -EINVAL;
	return 0;
}

static const struct kernel_param_ops block_ops = {
	.set = block,
};
module_param_cb(block, &block_ops, NULL, 0200);
MODULE_PARM_DESC(block, "Block in a state, for a time");

static int __init states_init(void)
{
	parker = kthread_run(park_often, NULL, "parker");
	if (IS_ERR(parker))
		return PTR_ERR(parker);
	parker_pid = parker->pid;
	return 0;
}

static void __exit states_exit(void)
{
	kthread_stop(parker);
}

module_init(states_init);
module_exit(states_exit);
MODULE_DESCRIPTION("Tasks that block in states that user space cannot choose, for tests");
MODULE_LICENSE("GPL");
