// SPDX-License-Identifier: GPL-2.0
/*
 * C functions for Rust, for the inline functions and macros of the kernel: its own, and what older
 * kernels lack of it.
 */
#include <linux/compiler_types.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#define __rust_helper

/*
 * Before 6.18 there is no allocation that is aligned, on a node, and can be resized. kmalloc() aligns
 * to powers of two if the size is a multiple of it, which Rust has seen to.
 */
#ifndef krealloc_node_align
static void *krealloc_node_align(const void *old, size_t size, unsigned long align, gfp_t flags,
				 int node)
{
	return old || node == NUMA_NO_NODE ? krealloc(old, size, flags) :
	       size ? kmalloc_node(size, flags, node) : NULL;
}
#endif

/* A large one may come from vmalloc(), which aligns to pages. */
#ifndef kvrealloc_node_align
static void *kvrealloc_node_align(const void *old, size_t size, unsigned long align, gfp_t flags,
				  int node)
{
	if (size) {
		size = ALIGN(size, align);
		return old || node == NUMA_NO_NODE ? kvrealloc(old, size, flags) :
		       kvmalloc_node(size, flags, node);
	}
	kvfree(old);
	return NULL;
}
#endif

/* vrealloc() is not exported there, and the module does not use it. */
#ifndef vrealloc_node_align
#define vrealloc_node_align(old, size, align, flags, node) NULL
#endif

#include "helpers/atomic.c"
#include "helpers/atomic_ext.c"
#include "helpers/barrier.c"
#include "helpers/bug.c"
#include "helpers/build_bug.c"
#include "helpers/cpu.c"
#include "helpers/cpumask.c"
#include "helpers/err.c"
#include "helpers/jump_label.c"
#include "helpers/mutex.c"
#include "helpers/page.c"
#include "helpers/rcu.c"
#include "helpers/refcount.c"
#include "helpers/signal.c"
#include "helpers/slab.c"
#include "helpers/spinlock.c"
#include "helpers/sync.c"
#include "helpers/task.c"
#include "helpers/time.c"
#include "helpers/uaccess.c"
#include "helpers/vmalloc.c"
#include "helpers/workqueue.c"

#ifndef __BINDGEN__
/* What the crates call of them, for -fwhole-program: see Makefile.crates. */
#include "helpers_called.h"
#endif
