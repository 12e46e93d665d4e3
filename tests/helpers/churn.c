// SPDX-License-Identifier: GPL-2.0
/*
 * Kernel threads that leave their CPUs as often as they can. They need no switch to user space and
 * back, which takes longer than all the rest.
 *
 * Write N to "leave", and the threads run until they have left their CPUs N times in all; the write
 * returns when all of them are parked again. "left" is how often they have left their CPUs since the
 * module was loaded, as the kernel counts it in each task.
 *
 * Of the six threads of each CPU, two wake each other, two yield, and two wake threads of other CPUs
 * and wait for them. They are called churn/NUMBER.
 */

#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

struct churner {
	struct task_struct *task;
	/* Wakes this one and waits for it, or yields if there is none. */
	struct churner *partner;
	unsigned int state;
	bool turn;
};

enum { PER_CPU = 6 };

static struct churner *churners;
static unsigned int number;
static DEFINE_MUTEX(lock);

static void wait_for_turn(struct churner *me)
{
	set_current_state(me->state);
	if (!READ_ONCE(me->turn) && !kthread_should_park() && !kthread_should_stop())
		schedule();
	__set_current_state(TASK_RUNNING);
	WRITE_ONCE(me->turn, false);
}

static int churn(void *data)
{
	struct churner *me = data;

	while (!kthread_should_stop()) {
		if (kthread_should_park()) {
			kthread_parkme();
		} else if (me->partner) {
			WRITE_ONCE(me->partner->turn, true);
			wake_up_process(me->partner->task);
			wait_for_turn(me);
		} else {
			yield();
		}
	}
	return 0;
}

static u64 count_left(void)
{
	u64 sum = 0;

	for (unsigned int i = 0; i < number; i++)
		sum += READ_ONCE(churners[i].task->nvcsw) +
		       READ_ONCE(churners[i].task->nivcsw);
	return sum;
}

static int leave(const char *text, const struct kernel_param *param)
{
	u64 end, times;
	int error = kstrtou64(text, 0, &times);

	if (error)
		return error;
	mutex_lock(&lock);
	end = count_left() + times;
	for (unsigned int i = 0; i < number; i++)
		kthread_unpark(churners[i].task);
	while (count_left() < end && !error) {
		msleep(20);
		if (signal_pending(current))
			error = -EINTR;
	}
	for (unsigned int i = 0; i < number; i++)
		kthread_park(churners[i].task);
	mutex_unlock(&lock);
	return error;
}

static int get_left(char *text, const struct kernel_param *param)
{
	return sprintf(text, "%llu\n", count_left());
}

static const struct kernel_param_ops leave_ops = { .set = leave };
static const struct kernel_param_ops left_ops = { .get = get_left };
module_param_cb(leave, &leave_ops, NULL, 0200);
MODULE_PARM_DESC(leave, "Leave the CPUs so many times");
module_param_cb(left, &left_ops, NULL, 0444);
MODULE_PARM_DESC(left, "How often the threads have left their CPUs");

static void stop(void)
{
	for (unsigned int i = 0; i < number; i++)
		kthread_stop_put(churners[i].task);
	kfree(churners);
}

static struct churner *churner(unsigned int i)
{
	return &churners[i % (num_online_cpus() * PER_CPU)];
}

/* Sets the partner of thread i, and the state in which it waits. */
static void pair(unsigned int i)
{
	static const unsigned int states[] = { TASK_INTERRUPTIBLE, TASK_UNINTERRUPTIBLE };
	struct churner *me = churner(i);

	switch (i % PER_CPU) {
	case 0:
		me->partner = churner(i + 1);
		break;
	case 1:
		me->partner = churner(i - 1);
		break;
	case 4:
		/* Its partner on the next CPU is the fifth thread there. */
		me->partner = churner(i + PER_CPU + 1);
		break;
	case 5:
		me->partner = churner(i + (num_online_cpus() - 1) * PER_CPU - 1);
		break;
	}
	me->state = states[i & 1];
}

static int __init churn_init(void)
{
	int cpu;

	churners = kcalloc(num_online_cpus() * PER_CPU, sizeof(*churners), GFP_KERNEL);
	if (!churners)
		return -ENOMEM;
	for_each_online_cpu(cpu)
		for (int i = 0; i < PER_CPU; i++) {
			struct task_struct *task;

			pair(number);
			task = kthread_create(churn, &churners[number], "churn/%u", number);
			if (IS_ERR(task)) {
				stop();
				return PTR_ERR(task);
			}
			get_task_struct(task);
			churners[number++].task = task;
			/* Unlike kthread_bind(), this lets it enter a cgroup. */
			set_cpus_allowed_ptr(task, cpumask_of(cpu));
		}
	for (unsigned int i = 0; i < number; i++)
		kthread_park(churners[i].task);
	return 0;
}

static void __exit churn_exit(void)
{
	stop();
}

module_init(churn_init);
module_exit(churn_exit);
MODULE_DESCRIPTION("Threads that leave their CPUs as often as they can, for tests");
MODULE_LICENSE("GPL");
