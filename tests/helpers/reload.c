// SPDX-License-Identifier: GPL-2.0
/*
 * Loads, uses and unloads schedhist, one life after the other, in eight ways in turn: see
 * test_unload.py.
 *
 * usage: reload MODULE FIRST LAST
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "module.h"

#define FOLDER "/sys/kernel/debug/schedhist/"
#define TRACING "/sys/kernel/tracing/"
#define EVENTS TRACING "events/schedhist/"

static int life;

static void fail(const char *what)
{
	fprintf(stderr, "life %d: %s: %s\n", life, what, strerror(errno));
	exit(1);
}

static void nap(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 50000000 }, NULL);
}

static void say(const char *path, int flags, const char *text)
{
	int fd = open(path, O_WRONLY | flags);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		fail(path);
	close(fd);
}

/* Returns the length of one read(). */
static ssize_t look(const char *path, char *buffer, size_t size)
{
	int fd = open(path, O_RDONLY);
	ssize_t length = fd < 0 ? -1 : read(fd, buffer, size);

	if (length < 0)
		fail(path);
	close(fd);
	return length;
}

static void in_use(void)
{
	if (!unload() || errno != EWOULDBLOCK)
		fail("it is in use, and can be unloaded");
}

/* Counts on all CPUs, like perf stat. */
static void count_by_perf(void)
{
	struct perf_event_attr attributes = { .type = PERF_TYPE_TRACEPOINT, .size = sizeof(attributes) };
	int cpus = sysconf(_SC_NPROCESSORS_ONLN), events[cpus];
	char text[32] = "";

	look(EVENTS "runq/id", text, sizeof(text) - 1);
	attributes.config = atoi(text);
	for (int cpu = 0; cpu < cpus; cpu++) {
		events[cpu] = syscall(SYS_perf_event_open, &attributes, -1, cpu, -1, 0);
		if (events[cpu] < 0)
			fail("perf_event_open");
	}
	for (int cpu = 0; cpu < cpus; cpu++)
		close(events[cpu]);
}

/* Another process waits for an outlier, of which there are soon many. */
static void wait_for_outlier(void)
{
	char text[512];
	int status;
	pid_t waiting;

	say(EVENTS "enable", 0, "1");
	say(FOLDER "outlier_rate", 0, "none");
	/* Before the fork, because no reader waits if no outlier can come. */
	say(FOLDER "threshold_ns/runq", 0, "1");
	waiting = fork();
	if (!waiting) {
		/* The child must not outlive this process, because it keeps the module loaded. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(look(FOLDER "outlier_pipe", text, sizeof(text)) <= 0);
	}
	if (waiting < 0 || waitpid(waiting, &status, 0) < 0 || status)
		fail("who waits for an outlier");
	say(EVENTS "enable", 0, "0");
}

static void use(int way)
{
	char text[4096];
	int has_hist;

	switch (way) {
	case 0:
		break; /* unloaded at once */
	case 1:
		say(EVENTS "enable", 0, "1");
		nap();
		say(EVENTS "enable", 0, "0");
		break;
	case 2:
		say(FOLDER "enable", 0, "0");
		say(FOLDER "enable", 0, "1");
		break;
	case 3:
		say(TRACING "set_event", O_APPEND, "schedhist:oncpu");
		look(FOLDER "summary", text, sizeof(text));
		in_use();
		say(FOLDER "enable", 0, "0");
		say(TRACING "set_event", O_APPEND, "!schedhist:oncpu");
		break;
	case 4:
		/* Not each kernel has hist triggers. */
		has_hist = !access(EVENTS "runq/hist", F_OK);
		say(EVENTS "runq/trigger", O_APPEND, has_hist ? "hist:keys=cause" : "traceon");
		nap();
		in_use();
		say(EVENTS "runq/trigger", O_APPEND, has_hist ? "!hist:keys=cause" : "!traceon");
		break;
	case 5:
		if (!access("/proc/sys/kernel/perf_event_paranoid", F_OK))
			count_by_perf();
		break;
	case 6:
		wait_for_outlier();
		break;
	case 7:
		/* With outliers until the end. */
		say(FOLDER "threshold_ns/idle", 0, "1");
		nap();
		break;
	}
}

int main(int argc, char **argv)
{
	int ko = argc == 4 ? open(argv[1], O_RDONLY | O_CLOEXEC) : -1;

	if (ko < 0)
		fail("usage: reload MODULE FIRST LAST");
	for (life = atoi(argv[2]); life <= atoi(argv[3]); life++) {
		/* Most lives are fast; each way also runs at normal speed. */
		say("/sys/kernel/rcu_expedited", 0, life % 20 >= 4 ? "1" : "0");
		if (load(ko, "precision=7"))
			fail("cannot be loaded");
		use(life % 8);
		if (unload())
			fail("cannot be unloaded");
		if (!is_gone())
			fail("something is left");
	}
	return 0;
}
