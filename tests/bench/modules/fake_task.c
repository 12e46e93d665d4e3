// SPDX-License-Identifier: GPL-2.0
/*
 * Fake task_structs. This is a module only so that it is compiled with the kernel's own layout of
 * task_struct; it is not meant to be inserted.
 */

#include <linux/module.h>
#include <linux/sched.h>

#include "fake_task.h"

static void init(struct task_struct *task, int pid)
{
	task->pid = pid;
	task->prio = DEFAULT_PRIO;
	task->sched_info.pcount = 1;
	memcpy(task->comm, "fake", 5);
}

static unsigned long long *queued(struct task_struct *task)
{
	return &task->sched_info.last_queued;
}

static void arrive(struct task_struct *task, unsigned long long waited)
{
	task->sched_info.pcount++;
	task->sched_info.run_delay += waited;
	task->sched_info.last_queued = 0;
}

const struct fake_task_ops fake_task_ops = {
	.size = sizeof(struct task_struct),
	.init = init,
	.queued = queued,
	.arrive = arrive,
};

MODULE_DESCRIPTION("Fake task_structs, for the benchmark on the host");
MODULE_LICENSE("GPL");
