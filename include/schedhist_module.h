/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The C declarations that the Rust code needs and the kernel crate does not
 * bind. bindgen reads this file when the module is built.
 */

#ifndef _SCHEDHIST_MODULE_H
#define _SCHEDHIST_MODULE_H

#include <linux/limits.h>
#include <linux/types.h>

#include "glue.h"
#include "schedhist_trace.h"

/* The module parameters. */
#define SCHEDHIST_PRECISION_DEFAULT 5

extern unsigned int schedhist_precision;

/* What the file takes, and a NUL. */
#define SCHEDHIST_METRICS_SIZE 257

extern char schedhist_metrics[SCHEDHIST_METRICS_SIZE];
extern unsigned int schedhist_chain;

/* A path, and what may stand beside it. */
#define SCHEDHIST_GROUP_BY_SIZE (PATH_MAX + 64)

extern char schedhist_group_by[SCHEDHIST_GROUP_BY_SIZE];

/* Rules of a list, with a path or two. */
#define SCHEDHIST_GROUP_RULES_SIZE (2 * PATH_MAX)

extern char schedhist_group_rules[SCHEDHIST_GROUP_RULES_SIZE];

/*
 * Adds outliers to the listeners of the static key of all events, or removes
 * them; no effect if it is so already. Sleeps.
 */
void schedhist_observe_outliers(bool on);

#endif /* _SCHEDHIST_MODULE_H */
