/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the Rust code needs of C that the kernel crate has no bindings for.
 * bindgen reads this when the module is built.
 */

#ifndef _SCHEDHIST_BINDINGS_H
#define _SCHEDHIST_BINDINGS_H

#include <linux/sched.h>
#include <linux/sched/clock.h>
#include <linux/types.h>

#include "schedhist_trace.h"

/* The type of a probe on sched_switch; glue.c checks it against the kernel. */
typedef void (*schedhist_sched_switch_probe)(void *data, bool preempt,
					     struct task_struct *prev,
					     struct task_struct *next,
					     unsigned int prev_state);

/* Waits until no CPU is in a probe that was taken off. May sleep. */
void schedhist_tracepoint_synchronize_unregister(void);

#endif /* _SCHEDHIST_BINDINGS_H */
