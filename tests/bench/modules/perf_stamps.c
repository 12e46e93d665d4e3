// SPDX-License-Identifier: GPL-2.0
/*
 * Stands before the C library in perf bench. That asks for the time when its
 * workload begins, and again when it has ended, and tells the difference in
 * milliseconds. Here each answer but the first also writes to descriptor 3
 * the nanoseconds since the one before, and the switches meanwhile.
 *
 * With STAMP_READS=FIRST,LAST it is those between two of the reads that the
 * process makes after its first question: so that what it takes to make another
 * process and to wait for its end, which is not the same twice, stays out.
 *
 * With STAMP_TIMES=N perf does what it is to do N times, one after the other:
 * in a process each, made when its libraries are loaded. That takes longer than
 * the workload.
 *
 * usage: LD_PRELOAD=perf_stamps.so perf bench sched ... 3> FILE
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stamp.h"

static struct stamp before;
static bool asked;
static long first, last, reads;

static void tell(struct stamp now)
{
	dprintf(3, "%lld %lld\n", now.ns - before.ns,
		now.switches - before.switches);
}

static void in_child(void)
{
	last = 0;
}

__attribute__((constructor)) static void begin(void)
{
	const char *wanted = getenv("STAMP_READS");
	const char *times = getenv("STAMP_TIMES");
	int left = times ? atoi(times) : 1;

	if (wanted && sscanf(wanted, "%ld,%ld", &first, &last) != 2) {
		fprintf(stderr, "STAMP_READS=FIRST,LAST\n");
		exit(2);
	}
	/* Not in the program that starts perf. */
	if (strcmp(program_invocation_short_name, "perf"))
		return;
	while (--left > 0 && fork())
		wait(NULL);
	pthread_atfork(NULL, NULL, in_child);
}

int gettimeofday(struct timeval *restrict tv, void *restrict unused)
{
	struct stamp now = stamp();

	if (asked && !last)
		tell(now);
	asked = true;
	tv->tv_sec = now.ns / 1000000000;
	tv->tv_usec = now.ns % 1000000000 / 1000;
	/* The writing is not to be measured. */
	before = stamp();
	return 0;
}

ssize_t read(int fd, void *buffer, size_t size)
{
	if (last && asked) {
		reads++;
		if (reads == first)
			before = stamp();
		else if (reads == last)
			tell(stamp());
	}
	return syscall(SYS_read, fd, buffer, size);
}
