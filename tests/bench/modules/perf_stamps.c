// SPDX-License-Identifier: GPL-2.0
/*
 * Stands before the C library in perf bench. That asks for the time when its
 * workload begins, and again when it has ended, and tells the difference in
 * milliseconds. Here each answer but the first also writes to descriptor 3
 * the nanoseconds since the one before, and the switches meanwhile.
 *
 * usage: LD_PRELOAD=perf_stamps.so perf bench sched ... 3> FILE
 */
#include <stdbool.h>
#include <sys/time.h>

#include "stamp.h"

int gettimeofday(struct timeval *restrict tv, void *restrict unused)
{
	static struct stamp before;
	static bool again;
	struct stamp now = stamp();

	if (again)
		dprintf(3, "%lld %lld\n", now.ns - before.ns,
			now.switches - before.switches);
	again = true;
	tv->tv_sec = now.ns / 1000000000;
	tv->tv_usec = now.ns % 1000000000 / 1000;
	/* The writing is not to be measured. */
	before = stamp();
	return 0;
}
