// SPDX-License-Identifier: GPL-2.0
/*
 * Forks many short-lived processes, and some threads that exec.
 *
 * usage: storm NUMBER [PAUSE_MS]
 *
 * A third of the processes exit at once, a third sleep first, a third yield. Eight live at a time.
 * With PAUSE_MS the program does so twice, with a pause between. Prints how often a PID was less
 * than the one before: how often the PIDs wrapped.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int storm(int number)
{
	static pid_t last;
	int wraps = 0;

	for (int i = 0; i < number; i++) {
		pid_t pid = fork();

		if (pid < 0) {
			perror("fork");
			exit(1);
		}
		if (!pid) {
			if (i % 3 == 1)
				nanosleep(&(struct timespec){ .tv_nsec = 100000 }, NULL);
			else if (i % 3 == 2)
				sched_yield();
			_exit(0);
		}
		wraps += pid < last;
		last = pid;
		if (i >= 7)
			wait(NULL);
	}
	while (wait(NULL) > 0)
		;
	return wraps;
}

int main(int argc, char **argv)
{
	int number = argc > 1 ? atoi(argv[1]) : 100;
	int pause = argc > 2 ? atoi(argv[2]) : 0;
	int wraps = storm(number);

	if (pause) {
		nanosleep(&(struct timespec){ pause / 1000, pause % 1000 * 1000000L }, NULL);
		wraps += storm(number);
	}
	printf("%d\n", wraps);
	return 0;
}
