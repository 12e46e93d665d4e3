/* SPDX-License-Identifier: GPL-2.0 */
/* The clock, and the context switches of all CPUs so far. */
#ifndef BENCH_STAMP_H
#define BENCH_STAMP_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct stamp {
	long long ns, switches;
};

static inline struct stamp stamp(void)
{
	struct timespec now;
	struct stamp stamp;
	char line[256];
	FILE *stat = fopen("/proc/stat", "r");

	stamp.switches = -1;
	while (stat && fgets(line, sizeof(line), stat))
		if (sscanf(line, "ctxt %lld", &stamp.switches) == 1)
			break;
	if (stamp.switches < 0) {
		perror("/proc/stat");
		exit(1);
	}
	fclose(stat);
	clock_gettime(CLOCK_MONOTONIC, &now);
	stamp.ns = now.tv_sec * 1000000000LL + now.tv_nsec;
	return stamp;
}

#endif
