// SPDX-License-Identifier: GPL-2.0
/*
 * Many threads that sleep for a short time, over and over, and more of them than the CPU can run at
 * once: so one is always runnable, the CPU is never idle, and each sleep is one switch and one
 * wakeup by a timer.
 *
 * usage: sleepers THREADS SLEEPS
 *
 * Prints the nanoseconds that SLEEPS sleeps of all threads took, and the switches meanwhile.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#include "stamp.h"

/* Longer than one round of all threads takes under load: see main(). */
#define SLEEP_NS 200000

static atomic_long begun;
static long warmup, last;
static struct stamp start, end;
static pthread_barrier_t ready, done;

static void *run(void *unused)
{
	const struct timespec nap = { .tv_nsec = SLEEP_NS };

	/* As exact as for real-time tasks. */
	prctl(PR_SET_TIMERSLACK, 1);
	pthread_barrier_wait(&ready);
	for (;;) {
		long number = atomic_fetch_add(&begun, 1);

		if (number == warmup)
			start = stamp();
		else if (number == last)
			end = stamp();
		if (number >= last)
			break;
		nanosleep(&nap, NULL);
	}
	pthread_barrier_wait(&done);
	return unused;
}

int main(int argc, char **argv)
{
	int threads = argc > 2 ? atoi(argv[1]) : 0;
	int sleeps = argc > 2 ? atoi(argv[2]) : 0;
	pthread_attr_t attr;

	if (threads < 1 || sleeps < 1) {
		fprintf(stderr, "usage: sleepers THREADS SLEEPS\n");
		return 2;
	}
	/* The order of the threads settles in the first rounds. */
	warmup = 4L * threads;
	last = warmup + sleeps;
	pthread_barrier_init(&ready, NULL, threads);
	pthread_barrier_init(&done, NULL, threads + 1);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 65536);
	for (int i = 0; i < threads; i++) {
		pthread_t thread;

		if (pthread_create(&thread, &attr, run, NULL)) {
			fprintf(stderr, "sleepers: cannot start thread %d\n", i);
			return 1;
		}
	}
	pthread_barrier_wait(&done);
	printf("%lld %lld\n", end.ns - start.ns, end.switches - start.switches);
	return 0;
}
