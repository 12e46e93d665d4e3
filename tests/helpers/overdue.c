// SPDX-License-Identifier: GPL-2.0
/*
 * Sleeps uninterruptibly for 300 ms, and then waits for its CPU, while a real-time task of priority
 * 50 has it.
 *
 * usage: overdue CPU MILLISECONDS
 */
#define _GNU_SOURCE
#include <sys/wait.h>
#include <unistd.h>

#include "task.h"

enum { SLEEP_MS = 300, LEAD_MS = 100 };

static void hog(int length)
{
	long long end = now() + (SLEEP_MS + length) * MS;

	be_realtime();
	nap(SLEEP_MS - LEAD_MS);
	spin_until(end);
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
	use_cpu(cpu);
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
		use_cpu(!cpu);
		nap(SLEEP_MS);
		_exit(0);
	}
	while (wait(NULL) > 0)
		;
	return 0;
}
