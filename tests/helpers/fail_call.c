// SPDX-License-Identifier: GPL-2.0
/*
 * Makes the call number "nth" of a kernel function return "result" without running it. The kernel's
 * fail_function does the same, but only for the few functions on its list.
 */

#include <linux/kprobes.h>
#include <linux/linkage.h>
#include <linux/module.h>
#include <linux/objtool.h>

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

/* Runs in place of the function: the return address is on the stack already. */
asmlinkage void fail_call_return(void);
asm(".pushsection .text\n"
	".type fail_call_return, @function\n"
	".globl fail_call_return\n"
	"fail_call_return:\n"
	ANNOTATE_NOENDBR "\n"
	ASM_RET
	".size fail_call_return, . - fail_call_return\n"
	".popsection\n");

static int before(struct kprobe *probe, struct pt_regs *regs)
{
	if (atomic_inc_return(&calls) != nth)
		return 0;
	regs->ax = result;
	instruction_pointer_set(regs, (unsigned long)fail_call_return);
	return 1;
}

/* A probe with a post_handler is never optimized, so that it may change where to go on. */
static void after(struct kprobe *probe, struct pt_regs *regs, unsigned long flags)
{
}

static struct kprobe probe = {
	.pre_handler = before,
	.post_handler = after,
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
