// SPDX-License-Identifier: GPL-2.0
/*
 * Preloaded before the C library in perf bench. Writes to descriptor 3 the nanoseconds and the
 * switches between two of the reads that the process makes after it first asks for the time:
 * STAMP_READS=FIRST,LAST. This excludes creating other tasks and waiting for their end, whose cost
 * varies.
 *
 * With STAMP_TIMES=N perf runs its workload N times, one after the other, each in a process that is
 * forked after its libraries are loaded. Loading takes longer than the workload.
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

/* The compiler calls this if it cannot tell whether that much fits. */
ssize_t __read_chk(int fd, void *buffer, size_t size, size_t room);
ssize_t __read_chk(int fd, void *buffer, size_t size, size_t room)
{
	if (size > room)
		abort();
	return read(fd, buffer, size);
}
