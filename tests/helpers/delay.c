// SPDX-License-Identifier: GPL-2.0
/*
 * Makes a task wait for its CPU for about the same time, again and again: a real-time task on CPU 0
 * wakes it there, and spins.
 *
 * usage: delay NUMBER MICROSECONDS
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long long now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000LL + ts.tv_nsec;
}

static void die(const char *what)
{
	perror(what);
	exit(1);
}

int main(int argc, char **argv)
{
	struct sched_param param = { .sched_priority = 50 };
	int number, wake[2], done[2];
	long long spin;
	cpu_set_t cpu;
	pid_t child;
	char byte = 0;

	number = argc == 3 ? atoi(argv[1]) : 0;
	spin = argc == 3 ? atoll(argv[2]) * 1000 : 0;
	if (number <= 0 || spin <= 0) {
		fprintf(stderr, "usage: delay NUMBER MICROSECONDS\n");
		return 2;
	}
	CPU_ZERO(&cpu);
	CPU_SET(0, &cpu);
	if (sched_setaffinity(0, sizeof(cpu), &cpu) || pipe(wake) || pipe(done))
		die("delay");
	child = fork();
	if (child < 0)
		die("fork");
	if (!child) {
		while (number-- && read(wake[0], &byte, 1) == 1 && write(done[1], &byte, 1) == 1)
			;
		_exit(0);
	}
	if (sched_setscheduler(0, SCHED_FIFO, &param))
		die("sched_setscheduler");
	while (number--) {
		long long end;

		if (write(wake[1], &byte, 1) != 1)
			die("write");
		end = now() + spin;
		while (now() < end)
			;
		if (read(done[0], &byte, 1) != 1)
			die("read");
	}
	return waitpid(child, NULL, 0) == child ? 0 : 1;
}
