// SPDX-License-Identifier: GPL-2.0
/*
 * The least work for one histogram: the clock and one log2 bucket at each switch, the clock at each
 * wakeup.
 */

#include <linux/log2.h>
#include <linux/percpu.h>
#include <linux/sched/clock.h>

#include "bench.h"

static DEFINE_PER_CPU(u64, since);
static DEFINE_PER_CPU(u64, woken);
static DEFINE_PER_CPU(u64[64], buckets);

static void on_switch(void *data, bool preempt, struct task_struct *prev,
		      struct task_struct *next, unsigned int prev_state)
{
	u64 now = local_clock();
	u64 delta = now - this_cpu_read(since);

	this_cpu_inc(buckets[fls64(delta) & 63]);
	this_cpu_write(since, now);
}

static void on_wakeup(void *data, struct task_struct *task)
{
	this_cpu_write(woken, local_clock());
}

static int get_switches(char *text, const struct kernel_param *param)
{
	u64 sum = 0;
	int cpu, i;

	for_each_possible_cpu(cpu)
		for (i = 0; i < 64; i++)
			sum += per_cpu(buckets, cpu)[i];
	return sysfs_emit(text, "%llu\n", sum);
}

static const struct kernel_param_ops switches_ops = {
	.get = get_switches,
};
module_param_cb(switches, &switches_ops, NULL, 0444);
MODULE_PARM_DESC(switches, "What the buckets add up to");

MODULE_DESCRIPTION("The floor for one histogram, for comparison");
MODULE_LICENSE("GPL");
