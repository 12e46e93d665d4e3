// SPDX-License-Identifier: GPL-2.0
/*
 * Sleeps uninterruptibly for 300 ms, and then waits for its CPU, while a real-time task of priority
 * 50 has it.
 *
 * usage: overdue CPU MILLISECONDS
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SLEEP_MS = 300, LEAD_MS = 100 };

static long long now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000LL + ts.tv_nsec / 1000000;
}

static void nap(int milliseconds)
{
	nanosleep(&(struct timespec){ .tv_nsec = milliseconds * 1000000L }, NULL);
}

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void pin(int cpu)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(cpu, &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		die("sched_setaffinity");
}

static void hog(int length)
{
	long long end = now_ms() + SLEEP_MS + length;

	if (sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){ 50 }))
		die("sched_setscheduler");
	nap(SLEEP_MS - LEAD_MS);
	while (now_ms() < end)
		;
	_exit(0);
}

int main(int argc, char **argv)
{
	int cpu, length;
	pid_t pid;

	if (argc != 3) {
		fprintf(stderr, "usage: overdue CPU MILLISECONDS\n");
		return 2;
	}
	cpu = atoi(argv[1]);
	length = atoi(argv[2]);
	pin(cpu);
	pid = fork();
	if (pid < 0)
		die("fork");
	if (!pid)
		hog(length);
	/* A parent sleeps uninterruptibly until the child of vfork() has exited. */
	pid = vfork();
	if (pid < 0)
		die("vfork");
	if (!pid) {
		pin(!cpu);
		nap(SLEEP_MS);
		_exit(0);
	}
	while (wait(NULL) > 0)
		;
	return 0;
}
