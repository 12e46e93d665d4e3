/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Probes in a situation: what they cost at a context switch and at the wakeup before it.
 */
#ifndef ROW_H
#define ROW_H

#include <stdbool.h>
#include <stdint.h>

#include "../modules/fake_task.h"
#include "cache.h"
#include "probes.h"
#include "turns.h"

struct row {
	const char *name;
	struct probes probes;
	next_turn *next_turn;
	/* The wakeup happens before the switch is measured. */
	bool switch_alone;

	struct task_struct *tasks[2];
	uint64_t now;
	unsigned int number;
};

/* Gives the row its tasks. */
void init_row(struct row *row, const struct fake_task_ops *ops);

/*
 * Returns the mean of the ticks of the faster half of many switches. Interrupts, and other programs
 * that use the same caches, slow down the others.
 */
double time_switches(struct row *row, enum cache cache);

/* Returns the mean of the instructions of many switches, without those of local_clock(). */
double count_instructions(struct row *row);

/* Ends the program unless each switch but the first ones is in as many buckets as it should be. */
void check_buckets(const struct row *row);

#endif
