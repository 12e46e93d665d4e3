// SPDX-License-Identifier: GPL-2.0
/*
 * What any user can do that schedhist does work for, and its cost.
 *
 * usage: bounds rename FIRST LAST TIMES
 *        bounds move FOLDER CGROUPS TIMES
 *        bounds process THREADS CGROUP CGROUP TIMES
 *        bounds fork TIMES
 *
 * rename	gives this task the names n-FIRST to n-LAST
 * move		makes that many cgroups in FOLDER, and moves this task into each
 * process	moves this task, with that many threads, between two cgroups
 * fork		makes processes that exit at once
 *
 * Prints the median of the instructions that the last TIMES took, as an interrupt adds its own to
 * some of them; of moves the least, as most of them wait for RCU, and of forks, as the memory of some
 * comes from the kernel's caches and that of others does not.
 */

#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "read-whole.h"

#define STACK (16 << 10)

static unsigned long *taken;
static long count, times;

static void begin(const char *number)
{
	times = atol(number);
	taken = calloc(times > 0 ? times : 1, sizeof(*taken));
	if (times < 1 || !taken)
		errx(2, "TIMES: %s", number);
}

/* Keeps the last ones. */
static void took(unsigned long since)
{
	taken[count++ % times] = instructions() - since;
}

static int compare(const void *a, const void *b)
{
	const unsigned long *one = a, *other = b;

	return (*one > *other) - (*one < *other);
}

static unsigned long percentile(long percent)
{
	if (count < times)
		errx(1, "%ld of %ld times", count, times);
	qsort(taken, times, sizeof(*taken), compare);
	return taken[times * percent / 100];
}

static void write_pid(const char *folder)
{
	char path[4096], pid[16];
	int fd, length;

	snprintf(path, sizeof(path), "%s/cgroup.procs", folder);
	length = snprintf(pid, sizeof(pid), "%d", getpid());
	fd = open(path, O_WRONLY);
	if (fd < 0)
		err(1, "%s", path);

	unsigned long since = instructions();

	if (write(fd, pid, length) != length)
		err(1, "%s", path);
	took(since);
	close(fd);
}

static void rename_task(long first, long last)
{
	char name[16];

	for (long number = first; number <= last; number++) {
		snprintf(name, sizeof(name), "n-%ld", number);

		unsigned long since = instructions();

		if (prctl(PR_SET_NAME, name))
			err(1, "prctl");
		took(since);
	}
}

static void move(const char *folder, long cgroups)
{
	char path[4096];

	for (long number = 0; number < cgroups; number++) {
		snprintf(path, sizeof(path), "%s/%ld", folder, number);
		if (mkdir(path, 0755) && errno != EEXIST)
			err(1, "%s", path);
		write_pid(path);
	}
}

/* No worker is to run within what is measured. */
static void be_first(void)
{
	const struct sched_param priority = { .sched_priority = 1 };

	if (sched_setscheduler(0, SCHED_FIFO, &priority))
		err(1, "sched_setscheduler");
}

static void *sleep_forever(void *unused)
{
	for (;;)
		pause();
	return unused;
}

static void move_process(long threads, const char *one, const char *other)
{
	pthread_attr_t attributes;
	pthread_t thread;
	char *stacks;

	stacks = mmap(NULL, threads * STACK, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (stacks == MAP_FAILED)
		err(1, "mmap");
	for (long i = 1; i < threads; i++) {
		pthread_attr_init(&attributes);
		pthread_attr_setstack(&attributes, stacks + i * STACK, STACK);
		errno = pthread_create(&thread, &attributes, sleep_forever, NULL);
		if (errno)
			err(1, "pthread_create");
	}
	be_first();
	for (long i = 0; i < times; i++) {
		write_pid(i % 2 ? one : other);
		/* What was put off is not part of the move. */
		usleep(200000);
	}
}

static void fork_tasks(void)
{
	be_first();
	for (long i = 0; i < times; i++) {
		unsigned long since = instructions();
		pid_t pid = fork();

		if (pid < 0)
			err(1, "fork");
		if (!pid)
			_exit(0);
		took(since);
		if (waitpid(pid, NULL, 0) != pid)
			err(1, "waitpid");
	}
}

int main(int argc, char **argv)
{
	const char *what = argc > 2 ? argv[1] : "";

	if (argc > 2)
		begin(argv[argc - 1]);
	if (argc == 5 && !strcmp(what, "rename"))
		rename_task(atol(argv[2]), atol(argv[3]));
	else if (argc == 5 && !strcmp(what, "move"))
		move(argv[2], atol(argv[3]));
	else if (argc == 6 && !strcmp(what, "process"))
		move_process(atol(argv[2]), argv[3], argv[4]);
	else if (argc == 3 && !strcmp(what, "fork"))
		fork_tasks();
	else
		errx(2, "usage: bounds rename|move|process|fork ... TIMES");
	printf("%lu\n", percentile(strcmp(what, "rename") ? 0 : 50));
	return 0;
}
