/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What can be done with schedhist while it comes and goes.
 */
#ifndef FIRE_H
#define FIRE_H

#include <stdbool.h>

#include "dice.h"

enum { USES = 12 };

/*
 * One kind of use. `act` does it once, and has let go of all when it returns: whether it found what it
 * wants of the module. A signal cuts it short.
 */
extern const struct use {
	const char *name;
	bool (*act)(struct dice *dice);
	bool is_of_events;
} uses[USES];

/* Ends the program. */
void fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* Sleeps for as long as that, or less. */
void nap(struct dice *dice, unsigned int milliseconds);

#endif
