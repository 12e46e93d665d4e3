// SPDX-License-Identifier: GPL-2.0
/*
 * Makes the call number "nth" of a kernel function return "result" without running it. The kernel's
 * fail_function does the same, but only for the few functions on its list.
 */

#include <linux/module.h>

#include "skip.h"

static char *function = "";
module_param(function, charp, 0444);
MODULE_PARM_DESC(function, "Which function");

static long result;
module_param(result, long, 0444);
MODULE_PARM_DESC(result, "What it returns");

static int nth;
static atomic_t calls = ATOMIC_INIT(0);

static int set_nth(const char *value, const struct kernel_param *parameter)
{
	atomic_set(&calls, 0);
	return param_set_int(value, parameter);
}

static const struct kernel_param_ops nth_ops = {
	.set = set_nth,
	.get = param_get_int,
};
module_param_cb(nth, &nth_ops, &nth, 0600);
MODULE_PARM_DESC(nth, "Which call of it, counted from when this is written; 0 for none");

static int before(struct kprobe *probe, struct pt_regs *regs)
{
	if (atomic_inc_return(&calls) != nth)
		return 0;
	regs_set_return_value(regs, result);
	return skip_function(regs);
}

static struct kprobe probe = {
	.pre_handler = before,
	.post_handler = after_probe,
};

static int __init fail_call_init(void)
{
	probe.symbol_name = function;
	return register_kprobe(&probe);
}

static void __exit fail_call_exit(void)
{
	unregister_kprobe(&probe);
}

module_init(fail_call_init);
module_exit(fail_call_exit);
MODULE_DESCRIPTION("Has a call of a function of the kernel fail");
MODULE_LICENSE("GPL");
