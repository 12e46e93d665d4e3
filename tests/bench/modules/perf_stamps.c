// SPDX-License-Identifier: GPL-2.0
/*
 * Stands before the C library in perf bench, and writes to descriptor 3 the
 * nanoseconds and the switches between two of the reads that the process makes
 * after it has first asked for the time: STAMP_READS=FIRST,LAST. So what it
 * takes to make other tasks and to wait for their end, which is not the same
 * twice, stays out.
 *
 * With STAMP_TIMES=N perf does what it is to do N times, one after the other:
 * in a process each, made when its libraries are loaded. That takes longer than
 * the workload.
 *
 * usage: STAMP_READS=FIRST,LAST LD_PRELOAD=perf_stamps.so perf bench sched ... 3> FILE
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
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
static long first, last;
static atomic_long reads;

static void in_child(void)
{
	last = 0;
}

__attribute__((constructor)) static void begin(void)
{
	const char *wanted = getenv("STAMP_READS");
	const char *times = getenv("STAMP_TIMES");
	int left = times ? atoi(times) : 1;

	if (!wanted || sscanf(wanted, "%ld,%ld", &first, &last) != 2) {
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
	asked = true;
	return syscall(SYS_gettimeofday, tv, unused);
}

ssize_t read(int fd, void *buffer, size_t size)
{
	if (asked && last) {
		long number = ++reads;
		struct stamp now;

		if (number == first) {
			before = stamp();
		} else if (number == last) {
			now = stamp();
			dprintf(3, "%lld %lld\n", now.ns - before.ns,
				now.switches - before.switches);
		}
	}
	return syscall(SYS_read, fd, buffer, size);
}

/* What the compiler makes of it where it cannot tell whether that much fits. */
ssize_t __read_chk(int fd, void *buffer, size_t size, size_t room);
ssize_t __read_chk(int fd, void *buffer, size_t size, size_t room)
{
	if (size > room)
		abort();
	return read(fd, buffer, size);
}
