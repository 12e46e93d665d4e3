// SPDX-License-Identifier: GPL-2.0
/*
 * Makes a task wait for its CPU for about the same time, again and again: a real-time task on CPU 0
 * wakes it there, and spins.
 *
 * usage: delay NUMBER MICROSECONDS
 */
#define _GNU_SOURCE
#include <sys/wait.h>
#include <unistd.h>

#include "task.h"

int main(int argc, char **argv)
{
	int number, wake[2], done[2];
	long long spin;
	pid_t child;
	char byte = 0;

	number = argc == 3 ? atoi(argv[1]) : 0;
	spin = argc == 3 ? atoll(argv[2]) * 1000 : 0;
	if (number <= 0 || spin <= 0) {
		fprintf(stderr, "usage: delay NUMBER MICROSECONDS\n");
		return 2;
	}
	use_cpu(0);
	if (pipe(wake) || pipe(done))
		die("pipe");
	child = fork();
	if (child < 0)
		die("fork");
	if (!child) {
		while (number-- && read(wake[0], &byte, 1) == 1 && write(done[1], &byte, 1) == 1)
			;
		_exit(0);
	}
	be_realtime();
	while (number--) {
		if (write(wake[1], &byte, 1) != 1)
			die("write");
		spin_until(now() + spin);
		if (read(done[0], &byte, 1) != 1)
			die("read");
	}
	return waitpid(child, NULL, 0) == child ? 0 : 1;
}
