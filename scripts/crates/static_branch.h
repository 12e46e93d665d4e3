/* SPDX-License-Identifier: GPL-2.0 */
/*
 * For static_branch_unlikely!: before 6.14 the kernel has its assembler text only within a function
 * in C. jump_label_*.h are what scripts/crates/prepare leaves of a later asm/jump_label.h.
 */
#include <linux/jump_label.h>

#ifndef ARCH_STATIC_BRANCH_ASM
#undef JUMP_TABLE_ENTRY
/* For the objtool of later kernels only. */
#ifndef ANNOTATE_DATA_SPECIAL
#define ANNOTATE_DATA_SPECIAL ""
#endif
#ifdef CONFIG_ARM64
#include "jump_label_arm64.h"
#else
#include "jump_label_x86.h"
#endif
#endif
