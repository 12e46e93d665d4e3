/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Lets a kprobe at the beginning of a function return from it at once. To be included once.
 */
#ifndef SKIP_H
#define SKIP_H

#include <linux/kprobes.h>
#include <linux/linkage.h>
#include <linux/objtool.h>

/* Runs in place of the function: the return address is on the stack already. */
asmlinkage void return_at_once(void);
asm(".pushsection .text\n"
	".type return_at_once, @function\n"
	".globl return_at_once\n"
	"return_at_once:\n"
	ANNOTATE_NOENDBR "\n"
	ASM_RET
	".size return_at_once, . - return_at_once\n"
	".popsection\n");

/* For a pre_handler to return with: the function does not run. */
static inline int skip_function(struct pt_regs *regs)
{
	instruction_pointer_set(regs, (unsigned long)return_at_once);
	return 1;
}

/* A probe with a post_handler is never optimized, so that it may change where to go on. */
static void after_probe(struct kprobe *probe, struct pt_regs *regs, unsigned long flags)
{
}

#endif
