// SPDX-License-Identifier: GPL-2.0
/*
 * Loads and unloads schedhist while every operation on it runs: see test_unload.py.
 *
 * usage: unload_stress MODULE CYCLES SECONDS SEED
 *
 * There is a thread for each kind of use, and one that takes CPUs offline and online. For each life
 * of the module the dice decide which uses go on, whether they begin before it is loaded, and for
 * how long. It is unloaded during the uses: that succeeds, or fails because the module is in use;
 * then some more tries follow, and after all uses have ceased, it must succeed. Ends after CYCLES
 * or SECONDS, whichever comes first, but not before a few cycles. In its first life the module
 * stays until each use has succeeded once.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "dice.h"
#include "unload_stress.h"
#include "module.h"

/* The least number of cycles, however long they take. */
enum { MIN_CYCLES = 5 };

static unsigned long long seed;
static atomic_uint acting;
static atomic_bool is_over;
static atomic_ulong hotplugs;

static struct shooter {
	const struct use *use;
	pthread_t thread;
	struct dice dice;
	atomic_bool is_busy;
	atomic_ulong acts;
} shooters[USES];

void fail(const char *format, ...)
{
	va_list arguments;
	int error = errno;

	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fprintf(stderr, " (%s), seed %llu\n", strerror(error), seed);
	exit(1);
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

void nap(struct dice *dice, unsigned int milliseconds)
{
	nanosleep(&(struct timespec){ .tv_nsec = below(dice, milliseconds * 1000 + 1) * 1000 }, NULL);
}

/* Interrupts a thread that sleeps in a system call. */
static void interrupt(int number)
{
	(void)number;
}

static void *shoot(void *argument)
{
	struct shooter *me = argument;
	unsigned int bit = 1U << (me - shooters);

	/* Otherwise the kernel's own threads, which everything waits for, would starve. */
	setpriority(PRIO_PROCESS, gettid(), 10);
	while (!is_over) {
		me->is_busy = true;
		if (acting & bit) {
			me->acts += me->use->act(&me->dice);
			me->is_busy = false;
		} else {
			me->is_busy = false;
			nap(&me->dice, 2);
		}
	}
	return NULL;
}

static void cease(void)
{
	acting = 0;
	for (int i = 0; i < USES; i++)
		for (double start = seconds(); shooters[i].is_busy;) {
			pthread_kill(shooters[i].thread, SIGUSR1);
			usleep(10000);
			/* A debug kernel may take a minute to remove perf's events. */
			if (seconds() - start > 300)
				fail("%s does not end", shooters[i].use->name);
		}
}

static void *hotplug(void *argument)
{
	struct dice dice = dice_of(seed, 77);
	int cpus = sysconf(_SC_NPROCESSORS_CONF);

	(void)argument;
	while (!is_over && cpus > 1) {
		double start = seconds(), end;
		char path[64];
		int fd;

		snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/online",
			 (int)(1 + below(&dice, cpus - 1)));
		fd = open(path, O_WRONLY);
		if (fd < 0)
			fail("%s", path);
		/* The kernel may refuse now and then. */
		if (write(fd, "0", 1) == 1) {
			nap(&dice, 10);
			while (write(fd, "1", 1) != 1)
				nap(&dice, 20);
			hotplugs++;
		}
		close(fd);
		/* Patching code and registering wait for this: use a fifth of the time. */
		end = seconds() + 4 * (seconds() - start);
		while (seconds() < end && !is_over)
			nap(&dice, 50);
	}
	return NULL;
}

/* Waits until each use has succeeded once, and a CPU has gone offline. */
static void try_all(void)
{
	double start = seconds();

	acting = (1U << USES) - 1;
	for (int i = 0; i < USES; i++)
		while (!shooters[i].acts) {
			usleep(10000);
			if (seconds() - start > 300)
				fail("%s does nothing", shooters[i].use->name);
		}
	while (!hotplugs && sysconf(_SC_NPROCESSORS_CONF) > 1) {
		usleep(10000);
		if (seconds() - start > 300)
			fail("no CPU goes offline");
	}
}

static void say(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		fail("%s", path);
	close(fd);
}

/* Returns the uses that hold on to trace events. */
static unsigned int of_events(void)
{
	unsigned int mask = 0;

	for (int i = 0; i < USES; i++)
		mask |= uses[i].is_of_events << i;
	return mask;
}

static unsigned long at_once, in_use, under_fire, after_fire, refused;
static double loading, living, dying, ceasing;

/* Adds the time since `start` to `sum`, and returns the current time. */
static double add_time(double *sum, double start)
{
	double now = seconds();

	*sum += now - start;
	return now;
}

static void live_and_die(int ko, struct dice *dice, bool is_first)
{
	static const char *const METRICS[] = { "default", "all", "none", "oncpu,idle", "runq", "wakeup" };
	unsigned int mix = roll(dice) & roll(dice) & ((1U << USES) - 1);
	char parameters[128];
	int tries = below(dice, 5), n;
	double start, cease_start, ceased;

	/* Now and then all uses. */
	if (one_in(dice, 8))
		mix = (1U << USES) - 1;
	/* Everything waits for grace periods: most are short, so that more cycles fit. */
	say("/sys/kernel/rcu_expedited", one_in(dice, 32) ? "0" : "1");
	if (one_in(dice, 16)) {
		/*
		 * The kernel shows a module's events before the module can fail to load, and then
		 * removes them from their users: with a warning, or worse.
		 */
		cease();
		acting = mix & ~of_events();
		if (!load(ko, "precision=9") || errno != EINVAL)
			fail("precision=9 was not refused");
		refused++;
	}
	if (one_in(dice, 2))
		acting = mix;
	snprintf(parameters, sizeof(parameters), "precision=%d metrics=%s", (int)(1 + below(dice, 7)),
		 METRICS[below(dice, sizeof(METRICS) / sizeof(METRICS[0]))]);
	start = seconds();
	if (load(ko, parameters))
		fail("cannot be loaded: %s", parameters);
	start = add_time(&loading, start);
	if (is_first)
		try_all();
	acting = mix;
	if (!one_in(dice, 4))
		nap(dice, one_in(dice, 8) ? 300 : 60);
	start = add_time(&living, start);

	for (n = 0; unload(); n++) {
		if (errno != EWOULDBLOCK)
			fail("refused to be unloaded, but not because it is in use");
		in_use++;
		if (n == tries)
			break;
		/* Some of the uses cease. */
		acting &= roll(dice);
		nap(dice, 10);
	}
	if (is_gone()) {
		if (n)
			under_fire++;
		else
			at_once++;
	} else {
		after_fire++;
		cease_start = seconds();
		cease();
		ceased = add_time(&ceasing, cease_start);
		start += ceased - cease_start;
		while (unload()) {
			if (errno != EWOULDBLOCK)
				fail("refused to be unloaded, but not because it is in use");
			if (seconds() - ceased > 300)
				fail("still in use, and nobody uses it");
			usleep(1000);
		}
	}
	add_time(&dying, start);
	if (!is_gone())
		fail("something is left");
	/* Now and then the uses go on into the next life. */
	if (one_in(dice, 2))
		cease();
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = interrupt };
	struct dice dice;
	pthread_t plugger;
	double start = seconds(), limit;
	int ko, cycles, n;

	if (argc != 5)
		return 2;
	ko = open(argv[1], O_RDONLY | O_CLOEXEC);
	if (ko < 0)
		fail("%s", argv[1]);
	cycles = atoi(argv[2]);
	limit = atof(argv[3]);
	seed = strtoull(argv[4], NULL, 0);
	dice = dice_of(seed, 0);
	sigaction(SIGUSR1, &action, NULL);
	for (int i = 0; i < USES; i++) {
		shooters[i].use = &uses[i];
		shooters[i].dice = dice_of(seed, i + 1);
		pthread_create(&shooters[i].thread, NULL, shoot, &shooters[i]);
	}
	pthread_create(&plugger, NULL, hotplug, NULL);

	for (n = 0; n < cycles && (n < MIN_CYCLES || seconds() - start < limit); n++) {
		live_and_die(ko, &dice, !n);
		if (n % 50 == 49) {
			char line[100];

			/* In the log, so that it is visible even if the guest crashes. */
			snprintf(line, sizeof(line), "unload_stress: seed %llu, %d cycles, %.0f s\n", seed, n + 1,
				 seconds() - start);
			say("/dev/kmsg", line);
		}
	}
	cease();
	is_over = true;
	pthread_join(plugger, NULL);
	printf("# %d load/unload cycles, %lu hotplug cycles, %.0f s of storm, seed %llu\n", n, hotplugs,
	       seconds() - start, seed);
	printf("# unloaded at once %lu, at a later try %lu, after all ceased %lu; ", at_once, under_fire, after_fire);
	printf("in use %lu times; %lu loads refused\n", in_use, refused);
	printf("# seconds: loading %.0f, loaded %.0f, ceasing %.0f, unloading %.0f\n", loading, living, ceasing,
	       dying);
	printf("# uses:");
	for (int i = 0; i < USES; i++) {
		pthread_join(shooters[i].thread, NULL);
		printf(" %s %lu", shooters[i].use->name, shooters[i].acts);
	}
	printf("\n");
	return 0;
}
