// SPDX-License-Identifier: GPL-2.0
/*
 * What the module needs and only C has: its parameters, its version, for which
 * the module! macro has no key, and changes of a static key.
 */

#include <linux/jump_label.h>
#include <linux/module.h>
#include <linux/mutex.h>

#include "schedhist_module.h"

void schedhist_observe_outliers(bool on)
{
	static DEFINE_MUTEX(lock);
	static bool was_on;

	mutex_lock(&lock);
	if (on && !was_on)
		static_branch_inc(&schedhist_trace_any.key);
	else if (!on && was_on)
		static_branch_dec(&schedhist_trace_any.key);
	was_on = on;
	mutex_unlock(&lock);
}

/*
 * Parameters of the module! macro cannot be text and do not appear in sysfs, so
 * they are defined here.
 */
unsigned int schedhist_precision = SCHEDHIST_PRECISION_DEFAULT;
module_param_named(precision, schedhist_precision, uint, 0444);
MODULE_PARM_DESC(precision, "Histogram precision in bits, 1 to 7: buckets are at most 2^-precision of their value wide (default 5, 3.13 %)");

char schedhist_metrics[SCHEDHIST_METRICS_SIZE] = "default";
module_param_string(metrics, schedhist_metrics, sizeof(schedhist_metrics), 0444);
MODULE_PARM_DESC(metrics, "Metrics to record: comma-separated names of files in hist/, or all, default, none");

char schedhist_group_by[SCHEDHIST_GROUP_BY_SIZE] = "none";
module_param_string(group_by, schedhist_group_by, sizeof(schedhist_group_by), 0444);
MODULE_PARM_DESC(group_by, "What the tasks of a group have in common: none, cgroup [under PATH] [depth N], comm, process [PID...], thread [PID...], or list");

char schedhist_group_rules[SCHEDHIST_GROUP_RULES_SIZE];
module_param_string(group_rules, schedhist_group_rules, sizeof(schedhist_group_rules), 0444);
MODULE_PARM_DESC(group_rules, "Rules for group_by=list, with semicolons between them: NAME cgroup PATH|pid PID...|comm GLOB|children PID");

unsigned int schedhist_chain;
module_param_named(chain, schedhist_chain, uint, 0444);
MODULE_PARM_DESC(chain, "How many slices to keep of each CPU, a power of two from 16 to 65536, so that an outlier has the chain of its wakers (default 0, none)");

MODULE_VERSION(SCHEDHIST_VERSION);
