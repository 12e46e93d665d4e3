/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the Rust code needs of C that the kernel crate has no bindings for.
 * bindgen reads this when the module is built.
 */

#ifndef _SCHEDHIST_BINDINGS_H
#define _SCHEDHIST_BINDINGS_H

#include <linux/cpu.h>
#include <linux/fs.h>
#include <linux/irq_work.h>
#include <linux/jump_label.h>
#include <linux/poll.h>
#include <linux/sched.h>
#include <linux/sched/clock.h>
#include <linux/types.h>
#include <linux/wait.h>

#include "schedhist_trace.h"

/* The types of probes; glue.c checks them against the kernel. */
typedef void (*schedhist_sched_switch_probe)(void *data, bool preempt,
					     struct task_struct *prev,
					     struct task_struct *next,
					     unsigned int prev_state);

typedef void (*schedhist_task_newtask_probe)(void *data,
					     struct task_struct *task,
					     u64 clone_flags);

typedef void (*schedhist_sched_waking_probe)(void *data,
					     struct task_struct *task);

/* The module parameters. */
#define SCHEDHIST_PRECISION_DEFAULT 5

extern unsigned int schedhist_precision;
extern char schedhist_metrics[128];

typedef void (*schedhist_call)(void *data);
typedef void (*schedhist_visit)(struct task_struct *task, void *data);

/* Calls on a CPU, with interrupts off, and waits; -ENXIO where it is offline. */
int schedhist_call_on_cpu(int cpu, schedhist_call call, void *data);

/* Returns the NUMA node of a possible CPU; NUMA_NO_NODE where it is not known. */
int schedhist_cpu_to_node(int cpu);

/* Visits every task, with the RCU read lock held. */
void schedhist_visit_tasks(schedhist_visit visit, void *data);

/*
 * Makes outliers a listener to the events, or ends that. May sleep; to be
 * called by one at a time.
 */
void schedhist_set_watching(bool on);

typedef void (*schedhist_soon)(struct irq_work *work);

/* Makes work that runs in an interrupt, on PREEMPT_RT, too. */
void schedhist_init_irq_work(struct irq_work *work, schedhist_soon call);

/* Says whether anybody waits, as of all that came before. */
bool schedhist_has_sleeper(struct wait_queue_head *queue);

typedef bool (*schedhist_condition)(void *data);

/* Waits for a condition; -ERESTARTSYS when a signal comes first. */
int schedhist_wait_event(struct wait_queue_head *queue,
			 schedhist_condition condition, void *data);

/* Lets who polls a file wait for a queue. */
void schedhist_poll_wait(struct file *file, struct wait_queue_head *queue,
			 struct poll_table_struct *table);

/* For assertions only: there with CONFIG_RUST_DEBUG_ASSERTIONS. */
bool schedhist_irqs_disabled(void);

/* False where the kernel does not count, without CONFIG_PREEMPT_COUNT. */
bool schedhist_preemptible(void);

/* Waits until no CPU is in a probe that was taken off. May sleep. */
void schedhist_tracepoint_synchronize_unregister(void);

#endif /* _SCHEDHIST_BINDINGS_H */
