// SPDX-License-Identifier: GPL-2.0
/*
 * Code that must be C: wrappers of static inlines, the check of our probes'
 * prototypes, the module's parameters, and its version, for which the module!
 * macro has no key.
 */

#include <linux/irq_work.h>
#include <linux/irqflags.h>
#include <linux/jump_label.h>
#include <linux/module.h>
#include <linux/poll.h>
#include <linux/preempt.h>
#include <linux/rcupdate.h>
#include <linux/sched/signal.h>
#include <linux/smp.h>
#include <linux/topology.h>
#include <linux/tracepoint.h>
#include <linux/wait.h>
#include <trace/events/sched.h>
#include <trace/events/task.h>

#include "schedhist_bindings.h"

void schedhist_tracepoint_synchronize_unregister(void)
{
	tracepoint_synchronize_unregister();
}

void schedhist_visit_tasks(schedhist_visit visit, void *data)
{
	struct task_struct *process, *task;

	rcu_read_lock();
	/*
	 * Not for_each_process_thread(): with PROVE_RCU_LIST it refers to
	 * tasklist_lock, which is not exported.
	 */
	for_each_process(process)
		list_for_each_entry_rcu(task, &process->signal->thread_head,
					thread_node)
			visit(task, data);
	rcu_read_unlock();
}

int schedhist_call_on_cpu(int cpu, schedhist_call call, void *data)
{
	return smp_call_function_single(cpu, call, data, 1);
}

int schedhist_cpu_to_node(int cpu)
{
	return cpu_to_node(cpu);
}

void schedhist_observe_outliers(bool on)
{
	static bool was_on;

	if (on == was_on)
		return;
	if (on)
		static_branch_inc(&schedhist_trace_any.key);
	else
		static_branch_dec(&schedhist_trace_any.key);
	was_on = on;
}

void schedhist_init_irq_work(struct irq_work *work, schedhist_irq_work_func call)
{
	*work = IRQ_WORK_INIT_HARD(call);
}

bool schedhist_has_sleeper(struct wait_queue_head *queue)
{
	return wq_has_sleeper(queue);
}

int schedhist_wait_event(struct wait_queue_head *queue,
			 schedhist_condition condition, void *data)
{
	return wait_event_interruptible(*queue, condition(data));
}

void schedhist_poll_wait(struct file *file, struct wait_queue_head *queue,
			 struct poll_table_struct *table)
{
	poll_wait(file, queue, table);
}

#ifdef CONFIG_RUST_DEBUG_ASSERTIONS
bool schedhist_irqs_disabled(void)
{
	return irqs_disabled();
}

bool schedhist_preemptible(void)
{
	return preemptible();
}
#endif

/* Never called: fails to compile if a tracepoint's prototype has changed. */
static void __maybe_unused check_prototypes(void)
{
	check_trace_callback_type_sched_switch((schedhist_sched_switch_probe)NULL);
	check_trace_callback_type_sched_waking((schedhist_sched_waking_probe)NULL);
	check_trace_callback_type_task_newtask((schedhist_task_newtask_probe)NULL);
}

/*
 * Parameters of the module! macro cannot be text and do not appear in sysfs, so
 * they are defined here.
 */
unsigned int schedhist_precision = SCHEDHIST_PRECISION_DEFAULT;
module_param_named(precision, schedhist_precision, uint, 0444);
MODULE_PARM_DESC(precision, "Histogram precision in bits, 1 to 7: buckets are at most 2^-precision of their value wide (default 5, 3.13 %)");

char schedhist_metrics[128] = "default";
module_param_string(metrics, schedhist_metrics, sizeof(schedhist_metrics), 0444);
MODULE_PARM_DESC(metrics, "Metrics to record: comma-separated names of files in hist/, or all, default, none");

MODULE_VERSION(SCHEDHIST_VERSION);
