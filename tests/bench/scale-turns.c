// SPDX-License-Identifier: GPL-2.0
/*
 * Tasks that take turns, and the cost of a turn.
 *
 * usage: scale-turns CPUS TASKS [NAMES]
 *
 * Makes TASKS tasks for each of CPUS CPUs, which sleep. The tasks of a CPU have NAMES different names
 * in turn, 1 by default. Then reads lines
 *
 *	CPUS TASKS TURNS
 *
 * and lets the first tasks of the first CPUs take turns, TURNS times on each CPU: a task wakes the
 * next one on the same CPU, and sleeps. So there are one wakeup and one context switch per turn.
 * When all are done it prints the number of instructions. The line "end" ends the program.
 *
 * Instructions are those of all CPUs: under --icount the CPUs take turns, too, and an idle one
 * executes none. So the cost of a turn is the quotient, on any number of CPUs.
 *
 * All tasks have the same real-time priority, so none preempts another, and all turns are alike.
 * They must end within the 0.95 s after which the kernel throttles them.
 */

#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "read-whole.h"

#define STACK (16 << 10)

struct task {
	struct cpu *cpu;
	int wakeup;
};

struct cpu {
	struct task *tasks;
	long in_turn, left;
	/* Not on the same cache line as another CPU's data. */
	char unused[128];
};

static struct cpu *cpus;
static int done;
static long names = 1;

static void check(int error, const char *what)
{
	if (error) {
		errno = error;
		err(1, "%s", what);
	}
}

static int event(void)
{
	int fd = eventfd(0, EFD_SEMAPHORE);

	if (fd < 0)
		err(1, "eventfd");
	return fd;
}

static void wake(int fd)
{
	if (eventfd_write(fd, 1))
		err(1, "eventfd_write");
}

static void sleep_until_woken(int fd)
{
	eventfd_t value;

	if (eventfd_read(fd, &value))
		err(1, "eventfd_read");
}

static void *take_turns(void *arg)
{
	struct task *task = arg, *next;
	struct cpu *cpu = task->cpu;
	char name[32];

	snprintf(name, sizeof(name), "turn-%ld", (task - cpu->tasks) % names);
	check(pthread_setname_np(pthread_self(), name), "pthread_setname_np");
	for (;;) {
		sleep_until_woken(task->wakeup);
		if (cpu->left-- == 0) {
			wake(done);
			continue;
		}
		next = task + 1 == cpu->tasks + cpu->in_turn ? cpu->tasks : task + 1;
		wake(next->wakeup);
	}
	return NULL;
}

static void stay_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	check(sched_setaffinity(0, sizeof(set), &set) ? errno : 0, "sched_setaffinity");
}

/* The new task inherits this CPU and this priority. */
static void make_task(void *(*function)(void *), void *arg, void *stack)
{
	pthread_attr_t attributes;
	pthread_t thread;

	check(pthread_attr_init(&attributes), "pthread_attr_init");
	check(pthread_attr_setstack(&attributes, stack, STACK), "pthread_attr_setstack");
	check(pthread_create(&thread, &attributes, function, arg), "pthread_create");
}

static void make_tasks(int cpu_count, int task_count)
{
	const struct rlimit files = { 1 << 20, 1 << 20 };
	const struct sched_param priority = { .sched_priority = 1 };
	char *stacks;

	if (setrlimit(RLIMIT_NOFILE, &files))
		err(1, "setrlimit");
	if (sched_setscheduler(0, SCHED_FIFO, &priority))
		err(1, "sched_setscheduler");
	stacks = mmap(NULL, (long)cpu_count * task_count * STACK, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	cpus = calloc(cpu_count, sizeof(*cpus));
	if (stacks == MAP_FAILED || !cpus)
		err(1, "memory");
	for (int i = 0; i < cpu_count; i++) {
		cpus[i].tasks = calloc(task_count, sizeof(*cpus[i].tasks));
		if (!cpus[i].tasks)
			err(1, "memory");
		stay_on(i);
		for (int j = 0; j < task_count; j++) {
			struct task *task = &cpus[i].tasks[j];

			task->cpu = &cpus[i];
			task->wakeup = event();
			make_task(take_turns, task, stacks);
			stacks += STACK;
		}
	}
}

static unsigned long all_turns(int cpu_count)
{
	unsigned long start = instructions();

	/* This CPU last: it runs its tasks when this one sleeps. */
	for (int i = cpu_count - 1; i >= 0; i--)
		wake(cpus[i].tasks[0].wakeup);
	for (int i = 0; i < cpu_count; i++)
		sleep_until_woken(done);
	return instructions() - start;
}

int main(int argc, char **argv)
{
	int cpu_count = argc > 2 ? atoi(argv[1]) : 0, task_count = argc > 2 ? atoi(argv[2]) : 0;
	char line[512];

	if (argc == 4)
		names = atol(argv[3]);
	if (argc > 4 || cpu_count < 1 || task_count < 2 || names < 1)
		errx(2, "usage: scale-turns CPUS TASKS [NAMES]");
	done = event();
	make_tasks(cpu_count, task_count);
	stay_on(0);
	while (fgets(line, sizeof(line), stdin) && strcmp(line, "end\n")) {
		int turning_cpus;
		long tasks, turns;

		if (sscanf(line, "%d %ld %ld", &turning_cpus, &tasks, &turns) != 3 ||
		    turning_cpus < 1 || turning_cpus > cpu_count || tasks < 2 ||
		    tasks > task_count || turns < 1)
			errx(2, "scale-turns: what does this mean: %s", line);
		for (int i = 0; i < turning_cpus; i++) {
			cpus[i].in_turn = tasks;
			cpus[i].left = turns;
		}
		printf("%lu\n", all_turns(turning_cpus));
		fflush(stdout);
	}
	return 0;
}
