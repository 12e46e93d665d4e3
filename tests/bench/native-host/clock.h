/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The clocks: one for the probes, which shows what the scenario says, and one to time them.
 */
#ifndef CLOCK_H
#define CLOCK_H

#include <stdint.h>
#include <x86intrin.h>

/* What local_clock() returns. */
extern uint64_t fake_now;

/*
 * In place of the kernel's function: reads and scales the time stamp counter, as that one does at
 * its core, but returns fake_now.
 */
uint64_t local_clock(void);

/* Returns the time stamp counter, when all before is done and nothing after has begun. */
static inline uint64_t ticks(void)
{
	uint64_t now;

	_mm_lfence();
	now = __rdtsc();
	_mm_lfence();
	return now;
}

#endif
