/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The uses of schedhist while it is loaded and unloaded.
 */
#ifndef UNLOAD_STRESS_H
#define UNLOAD_STRESS_H

#include <stdbool.h>

#include "dice.h"

enum { USES = 12 };

/*
 * One kind of use. `act` does it once, and holds nothing when it returns. Returns whether it found
 * what it needs of the module. A signal interrupts it.
 */
extern const struct use {
	const char *name;
	bool (*act)(struct dice *dice);
	bool is_of_events;
} uses[USES];

/* Prints the message and ends the program. */
void fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* Sleeps for at most `milliseconds`. */
void nap(struct dice *dice, unsigned int milliseconds);

#endif
