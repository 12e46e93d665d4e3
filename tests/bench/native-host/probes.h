/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The probes of modules, with their data.
 */
#ifndef PROBES_H
#define PROBES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct task_struct;

struct probes {
	void *data, *wakeup_data;
	void (*on_switch)(void *data, bool preempt, struct task_struct *prev,
			  struct task_struct *next, unsigned int prev_state);
	void (*on_wakeup)(void *data, struct task_struct *task);
	/* The buckets of its histograms: how many they are, and how many count each switch. */
	const uint64_t *buckets;
	size_t bucket_count;
	int samples;
};

/* No probes. */
extern const struct probes no_probes;

/* Probes that read the clock, and do nothing else. */
extern const struct probes clock_probes;

/* The probes of a C module, whose buckets have this name, or which has none. */
struct probes c_probes(const char *path, const char *buckets, size_t count);

/* The probes of schedhist at default settings, each time with records of their own. */
struct probes schedhist_probes(const char *path);

#endif
