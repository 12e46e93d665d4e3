/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the Rust code needs of C that the kernel crate has no bindings for.
 * bindgen reads this when the module is built.
 */

#ifndef _SCHEDHIST_BINDINGS_H
#define _SCHEDHIST_BINDINGS_H

#include <linux/cpu.h>
#include <linux/sched.h>
#include <linux/sched/clock.h>
#include <linux/types.h>

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

/* The module parameter "metrics". */
extern char schedhist_metrics[128];

typedef void (*schedhist_call)(void *data);
typedef void (*schedhist_visit)(struct task_struct *task, void *data);

/* Calls on a CPU, with interrupts off, and waits; -ENXIO where it is offline. */
int schedhist_call_on_cpu(int cpu, schedhist_call call, void *data);

/* Returns the NUMA node of a possible CPU; NUMA_NO_NODE where it is not known. */
int schedhist_cpu_to_node(int cpu);

/* Visits every task, with the RCU read lock held. */
void schedhist_visit_tasks(schedhist_visit visit, void *data);

/* Waits until no CPU is in a probe that was taken off. May sleep. */
void schedhist_tracepoint_synchronize_unregister(void);

#endif /* _SCHEDHIST_BINDINGS_H */
