// SPDX-License-Identifier: GPL-2.0
/*
 * Makes the interrupt late by which schedhist calls its probe after a switch, on kernels without
 * sched_exit_tp: the CPU has time for other switches before it.
 */

#include <linux/delay.h>
#include <linux/hrtimer.h>
#include <linux/irq_work.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/prandom.h>
#include <linux/random.h>

#include "skip.h"

static atomic_t calls = ATOMIC_INIT(0);
module_param_named(calls, calls.counter, int, 0444);
MODULE_PARM_DESC(calls, "How many calls came late");

static unsigned int longest_us = 2000;
module_param(longest_us, uint, 0444);
MODULE_PARM_DESC(longest_us, "By how much a call comes late at most");

struct late_call {
	struct hrtimer timer;
	/* What is to be called, while the timer runs. */
	struct irq_work *work;
	bool due;
	/* The kernel's own generator takes a lock that may sleep on PREEMPT_RT. */
	struct rnd_state random;
};

static DEFINE_PER_CPU(struct late_call, late_calls);

static enum hrtimer_restart call_now(struct hrtimer *timer)
{
	struct late_call *late = container_of(timer, struct late_call, timer);

	WRITE_ONCE(late->due, true);
	irq_work_queue(late->work);
	return HRTIMER_NORESTART;
}

/* In a hard interrupt. */
static int before(struct kprobe *probe, struct pt_regs *regs)
{
	struct late_call *late = this_cpu_ptr(&late_calls);
	u64 ns = prandom_u32_state(&late->random) % (longest_us * NSEC_PER_USEC);

	if (READ_ONCE(late->due)) {
		WRITE_ONCE(late->due, false);
		return 0;
	}
	/* Any other call comes together with the one that is late already. */
	if (!hrtimer_active(&late->timer)) {
		late->work = (struct irq_work *)regs_get_kernel_argument(regs, 0);
		hrtimer_start(&late->timer, ns_to_ktime(ns), HRTIMER_MODE_REL_PINNED_HARD);
		atomic_inc(&calls);
	}
	return skip_function(regs);
}

static struct kprobe probe = {
	.symbol_name = "schedhist:call_exit_probe",
	.pre_handler = before,
	.post_handler = after_probe,
};

static int __init late_init(void)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		struct late_call *late = per_cpu_ptr(&late_calls, cpu);

		prandom_seed_state(&late->random, get_random_u64());
		hrtimer_init(&late->timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
		late->timer.function = call_now;
	}
	return register_kprobe(&probe);
}

/* The module must not be unloaded before the last call. */
static void __exit late_exit(void)
{
	int cpu;

	unregister_kprobe(&probe);
	for_each_possible_cpu(cpu) {
		struct late_call *late = per_cpu_ptr(&late_calls, cpu);

		while (hrtimer_active(&late->timer))
			usleep_range(1000, 2000);
		if (late->work)
			irq_work_sync(late->work);
	}
}

module_init(late_init);
module_exit(late_exit);
MODULE_DESCRIPTION("Makes the call of schedhist's probe after a switch late");
MODULE_LICENSE("GPL");
