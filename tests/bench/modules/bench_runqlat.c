// SPDX-License-Identifier: GPL-2.0
/*
 * Run-queue latency as runqlat measures it, but in C: a hash of the waiting tasks, with a lock for
 * each of its buckets, and one log2 histogram, in microseconds, that all CPUs share.
 */

#include <linux/atomic.h>
#include <linux/bitops.h>
#include <linux/jhash.h>
#include <linux/percpu.h>
#include <linux/sched/clock.h>

#include "bench.h"

/* As in runqlat: the size of its map, rounded up. */
#define WAITING 10240
#define BUCKETS 16384
#define SLOTS 26

struct waiting {
	struct waiting *next;
	u64 since;
	u32 pid;
};

struct bucket {
	unsigned long lock;
	struct waiting *first;
};

static struct bucket table[BUCKETS];
static struct waiting pool[WAITING];
static atomic_t used;
static DEFINE_PER_CPU(struct waiting *, unused);
static atomic64_t slots[SLOTS];

static struct bucket *lock_bucket(u32 pid)
{
	struct bucket *bucket = &table[jhash_1word(pid, 0) & (BUCKETS - 1)];

	while (test_and_set_bit_lock(0, &bucket->lock))
		cpu_relax();
	return bucket;
}

static void unlock_bucket(struct bucket *bucket)
{
	clear_bit_unlock(0, &bucket->lock);
}

/* Returns where the pointer to the entry of @pid is, or belongs. */
static struct waiting **find_waiting(struct bucket *bucket, u32 pid)
{
	struct waiting **place = &bucket->first;

	while (*place && (*place)->pid != pid)
		place = &(*place)->next;
	return place;
}

static struct waiting *new_waiting(void)
{
	struct waiting *entry = this_cpu_read(unused);

	if (entry)
		this_cpu_write(unused, entry->next);
	else if (atomic_read(&used) < WAITING)
		entry = &pool[atomic_fetch_inc(&used)];
	return entry;
}

/* Its callers have interrupts off, as for all tracepoints here but a task's wakeup of itself. */
static void begin_wait(u32 pid)
{
	u64 now = local_clock();
	struct bucket *bucket;
	struct waiting **place;

	if (!pid)
		return;
	bucket = lock_bucket(pid);
	place = find_waiting(bucket, pid);
	if (!*place) {
		*place = new_waiting();
		if (*place) {
			(*place)->next = NULL;
			(*place)->pid = pid;
		}
	}
	if (*place)
		(*place)->since = now;
	unlock_bucket(bucket);
}

static void on_wakeup(void *data, struct task_struct *task)
{
	begin_wait(task->pid);
}

static void on_switch(void *data, bool preempt, struct task_struct *prev,
		      struct task_struct *next, unsigned int prev_state)
{
	struct waiting **place, *entry;
	struct bucket *bucket;
	u64 waited;

	if (preempt || !prev_state)
		begin_wait(prev->pid);
	bucket = lock_bucket(next->pid);
	place = find_waiting(bucket, next->pid);
	entry = *place;
	if (entry) {
		waited = (local_clock() - entry->since) / 1000;
		atomic64_inc(&slots[min(fls64(waited >> 1), SLOTS - 1)]);
		*place = entry->next;
		entry->next = this_cpu_read(unused);
		this_cpu_write(unused, entry);
	}
	unlock_bucket(bucket);
}

static int get_waits(char *text, const struct kernel_param *param)
{
	u64 sum = 0;
	int i;

	for (i = 0; i < SLOTS; i++)
		sum += atomic64_read(&slots[i]);
	return sysfs_emit(text, "%llu\n", sum);
}

static const struct kernel_param_ops waits_ops = {
	.get = get_waits,
};
module_param_cb(waits, &waits_ops, NULL, 0444);
MODULE_PARM_DESC(waits, "What the slots add up to");

MODULE_DESCRIPTION("Run-queue latency as runqlat measures it, for comparison");
MODULE_LICENSE("GPL");
