// SPDX-License-Identifier: GPL-2.0
/*
 * Runs the machine code of probes in user space: that of schedhist.ko and of C modules, loaded from
 * their files and relocated, not copies of it. Part of tests/bench/native.
 *
 * usage: native SCHEDHIST.KO FOLDER
 *
 * FOLDER has the modules of tests/bench/modules. Prints lines "ROW<tab>COLUMN<tab>VALUE<tab>UNIT".
 * Times are the least of several repetitions, without what the same takes with no probes.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "clock.h"
#include "memory.h"
#include "module.h"
#include "row.h"

#define REPETITIONS 25

static const char *const cache_names[CACHES] = { "hot", "L1 evicted", "L2 evicted" };

enum name {
	NOTHING, CLOCK, EMPTY, LOG2, RUNQLAT, USUAL, LOG2_ALONE, RUNQLAT_ALONE, USUAL_ALONE,
	SAME, LONGER, SHORTER, ENDLESS, ROWS
};

static struct row rows[ROWS];
/* The ticks of a switch. */
static double took[ROWS][CACHES][REPETITIONS];

static const char *ko, *folder;

static struct probes c_module(const char *name, const char *buckets, size_t count)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s.ko", folder, name);
	return c_probes(path, buckets, count);
}

/* Each row has buckets of its own. */
static struct probes log2_probes(void)
{
	return c_module("bench_log2", "buckets", 64);
}

static struct probes runqlat_probes(void)
{
	return c_module("bench_runqlat", "slots", 26);
}

static void add(enum name row, const char *name, struct probes probes, next_turn *next_turn)
{
	rows[row].name = name;
	rows[row].probes = probes;
	rows[row].next_turn = next_turn;
	rows[row].switch_alone = row >= LOG2_ALONE && row <= USUAL_ALONE;
}

static void prepare_rows(void)
{
	const struct fake_task_ops *ops;
	char path[4096];

	add(NOTHING, "nothing", no_probes, usual_turn);
	add(CLOCK, "the clock of this part", clock_probes, usual_turn);
	add(EMPTY, "C module: empty probes", c_module("bench_empty", NULL, 0), usual_turn);
	add(LOG2, "C module: clock and one log2 bucket", log2_probes(), usual_turn);
	add(RUNQLAT, "C module: as runqlat", runqlat_probes(), usual_turn);
	add(USUAL, "schedhist: default metrics", schedhist_probes(ko), usual_turn);
	add(LOG2_ALONE, "C module: clock and one log2 bucket, the switch alone", log2_probes(),
	    usual_turn);
	add(RUNQLAT_ALONE, "C module: as runqlat, the switch alone", runqlat_probes(), usual_turn);
	add(USUAL_ALONE, "schedhist: default metrics, the switch alone", schedhist_probes(ko),
	    usual_turn);
	add(SAME, "schedhist: everything in one bucket", schedhist_probes(ko), same_turn);
	add(LONGER, "schedhist: each sample a new maximum", schedhist_probes(ko), longer_turn);
	add(SHORTER, "schedhist: each sample a new minimum", schedhist_probes(ko), shorter_turn);
	add(ENDLESS, "schedhist: everything in the last bucket", schedhist_probes(ko), endless_turn);
	snprintf(path, sizeof(path), "%s/fake_task.ko", folder);
	ops = find_symbol(load_module(path), "fake_task_ops");
	prepare_caches();
	seal_code();
	for (int i = 0; i < ROWS; i++)
		init_row(&rows[i], ops);
}

/* Sorts them. */
static double least(double *values)
{
	for (int i = 1; i < REPETITIONS; i++) {
		double value = values[i];
		int j = i;

		for (; j && values[j - 1] > value; j--)
			values[j] = values[j - 1];
		values[j] = value;
	}
	return values[0];
}

/* ns: the nanoseconds of a tick. */
static void print_row(int row, double ns)
{
	int reference = rows[row].switch_alone ? LOG2_ALONE : LOG2;
	const char *name = rows[row].name;
	double spread = 0;

	printf("%s\tinstructions\t%.1f\tinstructions\n", name, count_instructions(&rows[row]));
	for (int i = 0; i < CACHES; i++) {
		double base = least(took[NOTHING][i]);
		double cost = least(took[row][i]) - base;
		double median = took[row][i][REPETITIONS / 2] - base;

		printf("%s\t%s, ns\t%.1f\tns\n", name, cache_names[i], cost * ns);
		if (row < LOG2)
			continue;
		printf("%s\t%s, ratio\t%.2f\tratio\n", name, cache_names[i],
		       cost / (least(took[reference][i]) - base));
		if (median / cost - 1 > spread)
			spread = median / cost - 1;
	}
	if (row >= LOG2)
		printf("%s\tnoise, percent\t%.0f\tpercent\n", name, 100 * spread);
}

static double ns_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e9 + now.tv_nsec;
}

int main(int argc, char **argv)
{
	double began, ns;
	uint64_t first;
	cpu_set_t cpu;

	if (argc != 3 || argv[1][0] == '-') {
		fprintf(stderr, "usage: native SCHEDHIST.KO FOLDER\n");
		return 2;
	}
	ko = argv[1];
	folder = argv[2];
	prepare_rows();
	CPU_ZERO(&cpu);
	CPU_SET(sched_getcpu(), &cpu);
	sched_setaffinity(0, sizeof(cpu), &cpu);

	began = ns_now();
	first = ticks();
	/* In turn, so that all rows run at the same speeds of the CPU. */
	for (int i = 0; i < REPETITIONS; i++)
		for (int cache = 0; cache < CACHES; cache++)
			for (int row = 0; row < ROWS; row++)
				took[row][cache][i] = time_switches(&rows[row], cache);
	ns = (ns_now() - began) / (ticks() - first);
	for (int row = CLOCK; row < ROWS; row++) {
		print_row(row, ns);
		check_buckets(&rows[row]);
	}
	return 0;
}
