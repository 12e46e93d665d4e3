// SPDX-License-Identifier: GPL-2.0
/*
 * Forks many short-lived processes.
 *
 * usage: storm NUMBER
 *
 * A third of the processes exit at once, a third sleep first, a third yield. Eight live at a time.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int number = argc > 1 ? atoi(argv[1]) : 100;

	for (int i = 0; i < number; i++) {
		pid_t pid = fork();

		if (pid < 0) {
			perror("fork");
			return 1;
		}
		if (!pid) {
			if (i % 3 == 1)
				nanosleep(&(struct timespec){ .tv_nsec = 100000 }, NULL);
			else if (i % 3 == 2)
				sched_yield();
			_exit(0);
		}
		if (i >= 7)
			wait(NULL);
	}
	while (wait(NULL) > 0)
		;
	return 0;
}
