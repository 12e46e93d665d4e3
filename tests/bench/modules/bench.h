/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A module with two probes, on_switch() and on_wakeup(), which the including file must define.
 */
#ifndef BENCH_H
#define BENCH_H

#include <linux/module.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/sysfs.h>
#include <linux/tracepoint.h>
#include <trace/events/sched.h>

static void on_switch(void *data, bool preempt, struct task_struct *prev,
		      struct task_struct *next, unsigned int prev_state);
static void on_wakeup(void *data, struct task_struct *task);

static struct tracepoint *sched_switch, *sched_wakeup;

static void __maybe_unused check_prototypes(void)
{
	check_trace_callback_type_sched_switch(on_switch);
	check_trace_callback_type_sched_wakeup(on_wakeup);
}

static void find(struct tracepoint *found, void *unused)
{
	if (!strcmp(found->name, "sched_switch"))
		sched_switch = found;
	else if (!strcmp(found->name, "sched_wakeup"))
		sched_wakeup = found;
}

static int __init bench_init(void)
{
	int error;

	for_each_kernel_tracepoint(find, NULL);
	if (!sched_switch || !sched_wakeup)
		return -ENOENT;
	error = tracepoint_probe_register(sched_switch, on_switch, NULL);
	if (error)
		return error;
	error = tracepoint_probe_register(sched_wakeup, on_wakeup, NULL);
	if (error) {
		tracepoint_probe_unregister(sched_switch, on_switch, NULL);
		tracepoint_synchronize_unregister();
	}
	return error;
}

static void __exit bench_exit(void)
{
	tracepoint_probe_unregister(sched_switch, on_switch, NULL);
	tracepoint_probe_unregister(sched_wakeup, on_wakeup, NULL);
	tracepoint_synchronize_unregister();
}

module_init(bench_init);
module_exit(bench_exit);

#endif
