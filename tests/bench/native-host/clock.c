// SPDX-License-Identifier: GPL-2.0

#include "clock.h"

uint64_t fake_now;

/* The code of modules keeps no stack that is aligned for vectors. */
__attribute__((target("general-regs-only")))
uint64_t local_clock(void)
{
	/* Volatile, as in the kernel, where it is no constant either. */
	static volatile uint64_t scale = 1ULL << 31;
	uint64_t scaled = (unsigned __int128)__rdtsc() * scale >> 32;

	/* The result depends on the counter, but is not changed by it. */
	return fake_now + (scaled >> 63);
}
