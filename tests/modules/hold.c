// SPDX-License-Identifier: GPL-2.0
/*
 * Holds a task within a tracepoint: it is called before the other probes, and
 * they only when it returns. So one can see whether a probe that is taken off
 * meanwhile is waited for.
 *
 * Where a tracepoint has one other probe or none, the kernel changes code when
 * a probe comes off, and waits until each CPU has interrupts on. That this
 * hides nothing, each has two of ours all the time.
 */

#include <linux/delay.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/processor.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/timekeeping.h>
#include <linux/tracepoint.h>
#include <trace/events/sched.h>
#include <trace/events/task.h>

static char *tracepoint = "task_newtask";
module_param(tracepoint, charp, 0444);
MODULE_PARM_DESC(tracepoint, "Where to hold: sched_switch, sched_waking or task_newtask");

static int pid;
module_param(pid, int, 0644);
MODULE_PARM_DESC(pid, "Whom to hold when it next comes by; 0 for nobody");

static uint ms = 3000;
module_param(ms, uint, 0644);
MODULE_PARM_DESC(ms, "For how long");

static bool holding;
module_param(holding, bool, 0444);
MODULE_PARM_DESC(holding, "Whether somebody is held");

static void hold(const char *here, bool sleeps)
{
	int wanted = READ_ONCE(pid);
	u64 end;

	if (!wanted || current->pid != wanted || strcmp(here, tracepoint))
		return;
	WRITE_ONCE(pid, 0);
	WRITE_ONCE(holding, true);
	/* Not mdelay(): with an emulated clock that counts turns, and takes ages. */
	end = ktime_get_mono_fast_ns() + (u64)ms * NSEC_PER_MSEC;
	if (sleeps)
		msleep(ms);
	while (ktime_get_mono_fast_ns() < end)
		cpu_relax();
	WRITE_ONCE(holding, false);
}

static void switch_first(void *data, bool preempt, struct task_struct *prev,
			 struct task_struct *next, unsigned int prev_state)
{
	hold("sched_switch", false);
}

static void switch_last(void *data, bool preempt, struct task_struct *prev,
			struct task_struct *next, unsigned int prev_state)
{
}

static void waking_first(void *data, struct task_struct *task)
{
	hold("sched_waking", false);
}

static void waking_last(void *data, struct task_struct *task)
{
}

/* Tasks are created where one may sleep. */
static void newtask_first(void *data, struct task_struct *task, u64 clone_flags)
{
	hold("task_newtask", true);
}

static void newtask_last(void *data, struct task_struct *task, u64 clone_flags)
{
}

/* In pairs: one that comes before all other probes, one after them. */
static struct {
	const char *name;
	void *probe;
	struct tracepoint *found;
} probes[] = {
	{ "sched_switch", switch_first },
	{ "sched_switch", switch_last },
	{ "sched_waking", waking_first },
	{ "sched_waking", waking_last },
	{ "task_newtask", newtask_first },
	{ "task_newtask", newtask_last },
};

static void __maybe_unused check_prototypes(void)
{
	check_trace_callback_type_sched_switch(switch_first);
	check_trace_callback_type_sched_switch(switch_last);
	check_trace_callback_type_sched_waking(waking_first);
	check_trace_callback_type_sched_waking(waking_last);
	check_trace_callback_type_task_newtask(newtask_first);
	check_trace_callback_type_task_newtask(newtask_last);
}

static void find(struct tracepoint *found, void *unused)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(probes); i++)
		if (!strcmp(found->name, probes[i].name))
			probes[i].found = found;
}

static void take_off(int count)
{
	while (count--)
		tracepoint_probe_unregister(probes[count].found,
					    probes[count].probe, NULL);
	tracepoint_synchronize_unregister();
}

static int __init hold_init(void)
{
	int i, error;

	for_each_kernel_tracepoint(find, NULL);
	for (i = 0; i < ARRAY_SIZE(probes); i++) {
		error = -ENOENT;
		if (probes[i].found)
			error = tracepoint_probe_register_prio(probes[i].found, probes[i].probe,
							       NULL, i % 2 ? INT_MIN : INT_MAX);
		if (error) {
			take_off(i);
			return error;
		}
	}
	return 0;
}

static void __exit hold_exit(void)
{
	take_off(ARRAY_SIZE(probes));
}

module_init(hold_init);
module_exit(hold_exit);
MODULE_DESCRIPTION("Holds a task within a tracepoint, for tests");
MODULE_LICENSE("GPL");
