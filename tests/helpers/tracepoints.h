/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Looks up tracepoints by name, for modules.
 */
#ifndef TRACEPOINTS_H
#define TRACEPOINTS_H

#include <linux/string.h>
#include <linux/tracepoint.h>

struct sought_tracepoint {
	const char *name;
	struct tracepoint *found;
};

static inline void compare_tracepoint(struct tracepoint *tracepoint, void *data)
{
	struct sought_tracepoint *sought = data;

	if (!strcmp(tracepoint->name, sought->name))
		sought->found = tracepoint;
}

/* Returns NULL if the kernel has no tracepoint of that name. */
static inline struct tracepoint *find_tracepoint(const char *name)
{
	struct sought_tracepoint sought = { .name = name };

	for_each_kernel_tracepoint(compare_tracepoint, &sought);
	return sought.found;
}

#endif
