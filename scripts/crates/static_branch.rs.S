/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The assembler text of a branch that the kernel patches, for static_branch_unlikely!: from
 * asm/jump_label.h, which has it in this form since 6.14.
 */
#include <linux/jump_label.h>

#ifndef ARCH_STATIC_BRANCH_ASM
#ifndef CONFIG_HAVE_JUMP_LABEL_HACK
#error the text of a static branch is known only with CONFIG_HAVE_JUMP_LABEL_HACK
#endif
#define ARCH_STATIC_BRANCH_ASM(key, label)			\
	"1: jmp " label " # objtool NOPs this\n\t"		\
	".pushsection __jump_table, \"aw\"\n\t"		\
	".balign 8\n\t"						\
	".long 1b - ., " label " - .\n\t"			\
	".quad " key " + 2 - .\n\t"				\
	".popsection\n\t"
#endif

// Cut here.

::kernel::concat_literals!(ARCH_STATIC_BRANCH_ASM("{symb} + {off} + {branch}", "{l_yes}"))
