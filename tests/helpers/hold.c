// SPDX-License-Identifier: GPL-2.0
/*
 * Holds a task within task_newtask until it is released: its probe is called before the others,
 * which run only when it returns. This shows whether unregistering waits for a task that is about
 * to call a probe. A probe of task_newtask may sleep; one under a run queue's lock must not.
 *
 * If a tracepoint has at most one other probe, the kernel patches code when a probe is removed, and
 * waits until each CPU has interrupts on. To rule out this effect, the tracepoint always has two
 * probes of this module.
 */

#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/tracepoint.h>
#include <trace/events/task.h>

#include "tracepoints.h"

static int pid;
module_param(pid, int, 0644);
MODULE_PARM_DESC(pid, "Whom to hold when it next comes by; 0 for nobody");

static bool release;
module_param(release, bool, 0644);
MODULE_PARM_DESC(release, "Whether to let go");

static bool holding;
module_param(holding, bool, 0444);
MODULE_PARM_DESC(holding, "Whether somebody is held");

static void first(void *data, struct task_struct *task, u64 clone_flags)
{
	int wanted = READ_ONCE(pid);
	unsigned long longest = jiffies + 60 * HZ;

	if (!wanted || current->pid != wanted)
		return;
	WRITE_ONCE(pid, 0);
	WRITE_ONCE(holding, true);
	while (!READ_ONCE(release) && time_before(jiffies, longest))
		msleep(20);
	WRITE_ONCE(holding, false);
}

static void last(void *data, struct task_struct *task, u64 clone_flags)
{
}

static struct tracepoint *task_newtask;

static void __maybe_unused check_prototypes(void)
{
	check_trace_callback_type_task_newtask(first);
	check_trace_callback_type_task_newtask(last);
}

static int __init hold_init(void)
{
	int error;

	task_newtask = find_tracepoint("task_newtask");
	if (!task_newtask)
		return -ENOENT;
	error = tracepoint_probe_register_prio(task_newtask, first, NULL, INT_MAX);
	if (error)
		return error;
	error = tracepoint_probe_register_prio(task_newtask, last, NULL, INT_MIN);
	if (error) {
		tracepoint_probe_unregister(task_newtask, first, NULL);
		tracepoint_synchronize_unregister();
	}
	return error;
}

static void __exit hold_exit(void)
{
	tracepoint_probe_unregister(task_newtask, first, NULL);
	tracepoint_probe_unregister(task_newtask, last, NULL);
	tracepoint_synchronize_unregister();
}

module_init(hold_init);
module_exit(hold_exit);
MODULE_DESCRIPTION("Holds a task within a tracepoint, for tests");
MODULE_LICENSE("GPL");
