// SPDX-License-Identifier: GPL-2.0

#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <ucontext.h>

#include "clock.h"
#include "memory.h"
#include "row.h"

#define WARM_UP 64
/* The switches that are timed at once. */
static const int switches[CACHES] = { 2000, 400, 200 };
#define MAX_SWITCHES 2000

/* The state of a task that sleeps until it is woken or gets a signal. */
#define TASK_INTERRUPTIBLE 1

static const struct fake_task_ops *task_ops;

/* --- Instructions --- */

static volatile long steps;
static bool stepping;

static void count_step(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)info;
	if (is_code(((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP]))
		steps++;
}

/* Begins a trap after each instruction. */
static inline void begin_steps(void)
{
	__asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc");
}

static inline void end_steps(void)
{
	__asm__ volatile("pushfq; andq $~0x100, (%%rsp); popfq" ::: "memory", "cc");
}

/* --- Switches --- */

/* Ends the turn of a task. Returns how many ticks the probes took. */
static uint64_t end_turn(struct row *row, enum cache cache)
{
	struct task_struct *prev = row->tasks[row->number % 2];
	struct task_struct *next = row->tasks[(row->number + 1) % 2];
	unsigned long long *queued = task_ops->queued(next);
	struct turn turn = row->next_turn(row->number++);
	struct probes probes = row->probes;
	uint64_t now = row->now += turn.length;
	uint64_t woken = now - turn.wait;
	uint64_t begin, end;

	if (row->switch_alone) {
		fake_now = woken;
		probes.on_wakeup(probes.wakeup_data, next);
		probes.on_wakeup = no_probes.on_wakeup;
	}
	evict(cache);
	/* The scheduler itself has just read the clock. */
	local_clock();
	if (stepping)
		begin_steps();
	begin = ticks();
	fake_now = woken;
	probes.on_wakeup(probes.wakeup_data, next);
	*queued = woken;
	fake_now = now;
	probes.on_switch(probes.data, false, prev, next, TASK_INTERRUPTIBLE);
	end = ticks();
	if (stepping)
		end_steps();
	task_ops->arrive(next, turn.wait);
	return end - begin;
}

void init_row(struct row *row, const struct fake_task_ops *ops)
{
	task_ops = ops;
	row->now = 1000000;
	for (int i = 0; i < 2; i++) {
		row->tasks[i] = take_data(ops->size, 64);
		/* PIDs whose states are on different pages of the table. */
		ops->init(row->tasks[i], 100 * (i + 1));
	}
}

static int compare(const void *one, const void *other)
{
	uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;

	return (a > b) - (a < b);
}

double time_switches(struct row *row, enum cache cache)
{
	static uint64_t took[MAX_SWITCHES];
	int count = switches[cache], used = count / 2;
	double sum = 0;

	for (int i = 0; i < WARM_UP; i++)
		end_turn(row, cache);
	for (int i = 0; i < count; i++)
		took[i] = end_turn(row, cache);
	qsort(took, count, sizeof(took[0]), compare);
	for (int i = 0; i < used; i++)
		sum += took[i];
	return sum / used;
}

double count_instructions(struct row *row)
{
	struct sigaction action = { .sa_sigaction = count_step, .sa_flags = SA_SIGINFO };

	sigaction(SIGTRAP, &action, NULL);
	for (int i = 0; i < WARM_UP; i++)
		end_turn(row, HOT);
	steps = 0;
	stepping = true;
	for (int i = 0; i < WARM_UP; i++)
		end_turn(row, HOT);
	stepping = false;
	return (double)steps / WARM_UP;
}

void check_buckets(const struct row *row)
{
	const struct probes *probes = &row->probes;
	uint64_t expected = (uint64_t)row->number * probes->samples;
	uint64_t sum = 0;

	for (size_t i = 0; i < probes->bucket_count; i++)
		sum += probes->buckets[i];
	if (sum > expected || sum + 2 * probes->samples < expected)
		die("%s: %lu samples of %u switches", row->name, sum, row->number);
}
