// SPDX-License-Identifier: GPL-2.0
/*
 * Empty probes on sched_switch and sched_wakeup: the cost of calling a probe.
 */

#include "bench.h"

static void on_switch(void *data, bool preempt, struct task_struct *prev,
		      struct task_struct *next, unsigned int prev_state)
{
}

static void on_wakeup(void *data, struct task_struct *task)
{
}

MODULE_DESCRIPTION("Empty probes, for comparison");
MODULE_LICENSE("GPL");
