// SPDX-License-Identifier: GPL-2.0
/*
 * Removes a cgroup and makes it again, without a pause, while rules of schedhist name it.
 *
 * usage: remake churn CGROUP
 *        remake rule CGROUP SECONDS
 *        remake under CGROUP SECONDS
 *
 * CGROUP is the path below the mount of the default hierarchy. It must not exist.
 *
 * churn  goes on until standard input ends.
 * rule   adds and removes a rule for the cgroup meanwhile, and looks from time to time whether the
 *        rule matches a task in the cgroup that is there in the end.
 * under  the same with "group_by cgroup under CGROUP".
 *
 * The latter two print how often they did so, and end with status 1 if a rule did not match. In the
 * end, CGROUP exists.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CGROUPS "/sys/fs/cgroup"
#define SCHEDHIST "/sys/kernel/debug/schedhist/"

/* The writes between two looks. */
#define WRITES 50

static char folder[4096], rule[4096], procs[4200];
static atomic_bool ends;
/* The writes for which there was no cgroup. */
static long early;

static void use_cpu(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	/* There may be only one. */
	sched_setaffinity(0, sizeof(set), &set);
}

static void make_folder(void)
{
	if (mkdir(folder, 0755) && errno != EEXIST)
		err(2, "cannot make %s", folder);
}

static void *churn(void *unused)
{
	use_cpu(1);
	while (!ends) {
		/* Fails while a task that has ended is still in it. */
		rmdir(folder);
		make_folder();
	}
	return unused;
}

/* Returns 0 or an error. */
static int try_write(const char *file, const char *text)
{
	int fd = open(file, O_WRONLY), error = 0;

	if (fd < 0)
		err(2, "cannot open %s", file);
	if (write(fd, text, strlen(text)) < 0)
		error = errno;
	close(fd);
	return error;
}

static void must_write(const char *file, const char *text)
{
	int error = try_write(file, text);

	if (error)
		errx(2, "cannot write \"%s\" to %s: %s", text, file, strerror(error));
}

/* Returns whether the file of the rule takes it. */
static bool set_rule(const char *file)
{
	int error = try_write(file, rule);

	if (error && error != ENOENT)
		errx(2, "\"%s\" fails: %s", rule, strerror(error));
	/* A pause now and then, as the other thread may wait for this CPU. */
	if (error && ++early % 16 == 0)
		usleep(1000);
	return !error;
}

/* Returns whether schedhist has a task in a group of its own. */
static bool is_grouped(pid_t task)
{
	char line[256];
	int pid, group = 0;
	FILE *file = fopen(SCHEDHIST "group_tasks", "r");

	if (!file)
		err(2, "cannot read group_tasks");
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "task pid %d group %d ", &pid, &group) == 2 && pid == task)
			break;
	fclose(file);
	return pid == task && group;
}

/* Returns whether a new task in the cgroup is in the group of the rule. */
static bool is_matched(void)
{
	char number[16];
	pid_t task = fork();
	bool result;

	if (task < 0)
		err(2, "cannot fork");
	if (!task)
		for (;;)
			pause();
	snprintf(number, sizeof(number), "%d", task);
	must_write(procs, number);
	result = is_grouped(task);
	/* So that the cgroup can be removed at once. */
	must_write(CGROUPS "/cgroup.procs", number);
	kill(task, SIGKILL);
	waitpid(task, NULL, 0);
	return result;
}

static void start(pthread_t *thread)
{
	ends = false;
	errno = pthread_create(thread, NULL, churn, NULL);
	if (errno)
		err(2, "cannot create a thread");
}

static void stop(pthread_t thread)
{
	ends = true;
	pthread_join(thread, NULL);
}

/* Adds the rule WRITES times, the last time for good. Returns how often. */
static long add_rules(void)
{
	long done = 0;

	for (;;) {
		if (!set_rule(SCHEDHIST "group_rules"))
			continue;
		if (++done == WRITES)
			return done;
		must_write(SCHEDHIST "group_rules", "remove remade");
	}
}

/* Begins groups below the cgroup, while measuring is off: that is faster. Returns how often. */
static long group_under(void)
{
	must_write(SCHEDHIST "enable", "0");
	while (!set_rule(SCHEDHIST "group_by"))
		;
	return 1;
}

int main(int argc, char **argv)
{
	long writes = 0, looks = 0, lost = 0;
	bool is_list;
	pthread_t thread;
	time_t end;

	if (argc < 3)
		errx(2, "usage: remake churn|rule|under CGROUP [SECONDS]");
	snprintf(folder, sizeof(folder), CGROUPS "%s", argv[2]);
	snprintf(procs, sizeof(procs), "%s/cgroup.procs", folder);
	is_list = !strcmp(argv[1], "rule");
	snprintf(rule, sizeof(rule), is_list ? "add remade cgroup %s" : "cgroup under %s", argv[2]);
	if (argc == 3) {
		char byte;

		start(&thread);
		while (read(0, &byte, 1) > 0)
			;
		stop(thread);
		return 0;
	}
	use_cpu(0);
	end = time(NULL) + atol(argv[3]);
	while (time(NULL) < end) {
		start(&thread);
		writes += is_list ? add_rules() : group_under();
		stop(thread);
		if (!is_list)
			must_write(SCHEDHIST "enable", "1");
		lost += !is_matched();
		/* It is also followed once it is there. */
		while (rmdir(folder))
			sched_yield();
		make_folder();
		lost += !is_matched();
		looks += 2;
		if (is_list)
			must_write(SCHEDHIST "group_rules", "remove remade");
	}
	printf("# %ld writes and %ld too early, %ld looks, %ld of them at a task in no group\n",
	       writes, early, looks, lost);
	return lost != 0;
}
