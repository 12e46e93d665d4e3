/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What happens to the tasks: two of them take turns on one CPU, each wakes the other while it runs,
 * and then goes to sleep.
 */
#ifndef TURNS_H
#define TURNS_H

#include <stdint.h>

/*
 * The nanoseconds for which a task runs, and for which the other one, woken meanwhile, waits. The
 * other one was off the CPU for the whole turn, and asleep until its wait.
 */
struct turn {
	uint64_t length, wait;
};

/* Returns the turn of this number. */
typedef struct turn next_turn(unsigned int number);

/* Of many lengths, within the extremes that the first turns set. */
next_turn usual_turn;
/* All the same. */
next_turn same_turn;
/* Each longer than all before. */
next_turn longer_turn;
/* Each shorter than all before. */
next_turn shorter_turn;
/* All so long that they belong to the last buckets. */
next_turn endless_turn;

#endif
