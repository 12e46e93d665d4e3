/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What most of these programs do: read the clock, sleep, choose a CPU and a priority, give up.
 * Whoever includes it defines _GNU_SOURCE first.
 */
#ifndef TASK_H
#define TASK_H

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MS 1000000LL

static inline void die(const char *what)
{
	perror(what);
	exit(1);
}

/* Returns the time by a clock, in nanoseconds. */
static inline long long time_by(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * 1000 * MS + ts.tv_nsec;
}

static inline long long now(void)
{
	return time_by(CLOCK_MONOTONIC);
}

/*
 * Returns how long the thread has had no CPU, up to an offset: the time less that of its slices. Reads
 * the clocks again if the host took the CPU away between the two.
 */
static inline long long off_cpu(void)
{
	long long before, cpu;

	do {
		before = now();
		cpu = time_by(CLOCK_THREAD_CPUTIME_ID);
	} while (now() > before + MS);
	return before - cpu;
}

/* Sleeps for less than a second. */
static inline void nap(long long milliseconds)
{
	nanosleep(&(struct timespec){ .tv_nsec = milliseconds * MS }, NULL);
}

static inline void spin_until(long long time)
{
	while (now() < time)
		;
}

static inline void use_cpu(int cpu)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(cpu, &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		die("sched_setaffinity");
}

/* Makes this a real-time task of priority 50. */
static inline void be_realtime(void)
{
	if (sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){ 50 }))
		die("sched_setscheduler");
}

#endif
