// SPDX-License-Identifier: GPL-2.0
/*
 * Makes a task, the victim, wait for its CPU for a known time, while real-time tasks of priority 50
 * have it. The victim has nice value 5.
 *
 * usage: hog HOW CPU MILLISECONDS
 *
 * HOW: wakeup    the hog wakes the victim and then spins
 *      preempt   the victim wakes the hog, which spins
 *
 * Prints the PIDs of the hog and of the victim, and the least and the greatest time that the victim
 * can have waited, in nanoseconds, by CLOCK_MONOTONIC as the tasks themselves read it.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "task.h"

/* When the wait was about to begin, had begun, had not yet ended, and had ended. */
static volatile struct {
	long long before, began, ended, after;
} *times;

struct channel {
	int out, in;
};

static struct channel channel(void)
{
	int fds[2];

	if (pipe(fds))
		die("pipe");
	return (struct channel){ fds[0], fds[1] };
}

static void ring(struct channel channel)
{
	if (write(channel.in, "x", 1) != 1)
		die("write");
}

static void await(struct channel channel)
{
	char byte;

	if (read(channel.out, &byte, 1) != 1)
		die("read");
}

static void become(const char *name, int cpu, bool realtime)
{
	prctl(PR_SET_NAME, name);
	use_cpu(cpu);
	if (realtime)
		be_realtime();
	else if (setpriority(PRIO_PROCESS, 0, 5))
		die("setpriority");
}

static pid_t child(const char *name, int cpu, bool realtime)
{
	pid_t pid = fork();

	if (pid < 0)
		die("fork");
	if (!pid)
		become(name, cpu, realtime);
	return pid;
}

/* Waits until a task sleeps. */
static void settle(pid_t pid)
{
	char path[32], text[256];

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	for (int tries = 0; tries < 1000; tries++) {
		int fd = open(path, O_RDONLY);
		ssize_t length = read(fd, text, sizeof(text) - 1);

		close(fd);
		text[length > 0 ? length : 0] = '\0';
		if (strstr(text, ") S "))
			return;
		nap(10);
	}
	fprintf(stderr, "hog: %d does not fall asleep\n", pid);
	exit(1);
}

/* Wakes the victim, and lets it wait while this task has the CPU. */
static pid_t wakeup(int cpu, long long length)
{
	struct channel bell = channel();
	pid_t victim = child("victim", cpu, false);

	if (!victim) {
		await(bell);
		times->after = now();
		_exit(0);
	}
	settle(victim);
	become("hog", cpu, true);
	nap(20);

	times->before = now();
	ring(bell);
	times->began = now();
	spin_until(times->began + length);
	times->ended = now();
	waitpid(victim, NULL, 0);
	/* The victim must still exit, and must not wait until this task has exited. */
	nap(20);
	return victim;
}

/* Lets the victim wake this task, which then has the CPU. */
static pid_t preempt(int cpu, long long length)
{
	struct channel bell = channel();
	pid_t victim = child("victim", cpu, false);

	if (!victim) {
		settle(getppid());
		spin_until(now() + 10 * MS);
		times->before = now();
		ring(bell);
		times->after = now();
		_exit(0);
	}
	become("hog", cpu, true);
	await(bell);
	times->began = now();
	spin_until(times->began + length);
	times->ended = now();
	waitpid(victim, NULL, 0);
	return victim;
}

int main(int argc, char **argv)
{
	pid_t victim;
	long long length;
	int cpu;

	if (argc != 4)
		return 2;
	cpu = atoi(argv[2]);
	length = atoi(argv[3]) * MS;
	times = mmap(NULL, sizeof(*times), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (times == MAP_FAILED)
		die("mmap");
	if (!strcmp(argv[1], "preempt"))
		victim = preempt(cpu, length);
	else
		victim = wakeup(cpu, length);
	printf("%d %d %lld %lld\n", getpid(), victim, times->ended - times->began,
	       times->after - times->before);
	return 0;
}
