/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Lets a kprobe at the beginning of a function return from it at once. To be included once.
 */
#ifndef SKIP_H
#define SKIP_H

#include <linux/kprobes.h>
#include <linux/linkage.h>
#include <linux/objtool.h>

#ifdef CONFIG_ARM64
static inline void return_at_once(struct pt_regs *regs)
{
	instruction_pointer_set(regs, procedure_link_pointer(regs));
}
#else
/* Runs in place of the function: the return address is on the stack already. */
asmlinkage void do_nothing(void);
asm(".pushsection .text\n"
	".type do_nothing, @function\n"
	".globl do_nothing\n"
	"do_nothing:\n"
	ANNOTATE_NOENDBR "\n"
	ASM_RET
	".size do_nothing, . - do_nothing\n"
	".popsection\n");

static inline void return_at_once(struct pt_regs *regs)
{
	instruction_pointer_set(regs, (unsigned long)do_nothing);
}
#endif

/* For a pre_handler to return with: the function does not run. */
static inline int skip_function(struct pt_regs *regs)
{
	return_at_once(regs);
	return 1;
}

/* A probe with a post_handler is never optimized, so that it may change where to go on. */
static void after_probe(struct kprobe *probe, struct pt_regs *regs, unsigned long flags)
{
}

#endif
