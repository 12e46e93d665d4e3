/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * The layout of /sys/kernel/debug/schedhist/raw, version 1: a snapshot of all
 * records of schedhist, on all possible CPUs, for tools.
 *
 * All numbers are little-endian. All offsets are multiples of four, and those
 * of 64-bit numbers multiples of eight. A snapshot begins with a struct
 * schedhist_raw_header. Records follow one another from offset header_length
 * on. Each begins with a struct schedhist_raw_record, which holds the record's
 * type and length, so that a reader needs one pass only:
 *
 *	METRIC, COUNTER, SUM	the names, before all records that refer to them
 *	CPU			for each possible CPU: its counters, then
 *	  SLICE			the slice in progress, if measuring is on, at least
 *				one metric is, and the CPU is online
 *	  HISTOGRAM		for each metric that has memory on it: the totals
 *	  WORST			the greatest sample, if there is one
 *	  BUCKETS		the buckets that are not empty, in any number
 *				of records; none if all are empty
 *	OFFLINE			for each possible CPU that is offline
 *	LONG_WAITS		once a limit was set: for each possible CPU
 *	CHAIN			while chain is not 0: each chain that is kept, then
 *	  HOP			its tasks, from that of the outlier back in time
 *	GROUPING		while tasks are grouped: how, then
 *	  GROUPING_MORE		more about them
 *	  GROUP			each group, of all CPUs together
 *	  GROUP_SLICES		slices in progress of its tasks, if there are any
 *	  GROUP_MIGRATIONS	its migrations, if there were any
 *	  GROUP_LONG_WAITS	its long waits, likewise
 *	  GROUP_BUCKETS		its buckets that are not empty, likewise
 *	  NEIGHBOUR		other groups that had the CPU when its waits
 *				ended
 *	TASK			while measuring is on: for each CPU the task that
 *				has it, if it had it all the while
 *	WAITING			likewise, for each kind of wait: the waits in
 *				progress, then
 *	  TASK			the longest ones, in no order
 *	GROUP_WAITING		for each group: its waits in progress, if any, and
 *	GROUP_UNSEEN		its slices in progress whose beginning was not
 *				seen, if any
 *	END			the last record
 *
 * A snapshot that does not end with an END is truncated.
 *
 * To be able to read snapshots of later versions of schedhist, a reader must:
 *  - refuse another magic or version,
 *  - find the first record by header_length, and each next one by length,
 *  - skip a record of an unknown type,
 *  - ignore bytes of a record, or of the header, after the known fields, and
 *  - identify metrics and counters by their names, not by their numbers.
 * The version is incremented only for a change that breaks such a reader.
 *
 * The probes go on recording while a snapshot is made. A histogram's count of
 * samples is the sum of its buckets, and nothing else. The sum, the minimum and
 * the worst sample may be ahead of the buckets, or behind them, by the samples
 * that were recorded meanwhile. The same holds for counters. Each number is
 * exact in itself even so: none is ever half written.
 *
 * A histogram has samples only of what has ended. What is in progress is there
 * beside it, so that the difference of two snapshots tells what happened between
 * them, no more and no less. For a CPU with a SLICE in both, for example, tasks
 * had it for the difference of the sums of "oncpu", plus what was in progress at
 * the later snapshot, less what was in progress at the earlier one. Two laws:
 *
 *   now_ns = sum of "oncpu" + sum of "idle" + in progress + unseen_ns
 *
 * modulo 2^64 on each CPU with a SLICE, while both metrics are on. Here the sums,
 * and all in the SLICE, are of one moment. In progress is now_ns - since_ns, or 0
 * if the occupancy is UNSEEN.
 *
 * The other law is that of a group: the sum of its "oncpu" and its GROUP_SLICES
 * are of one moment on each CPU, so that no slice is in both. Waits are looked for
 * last: a wait that ends while the snapshot is made may be missing from it.
 *
 * What begins before measuring does is in no histogram when it ends. So it is not
 * among the slices and waits in progress either, but told apart as "unseen".
 *
 * All numbers count from the load of the module; the file "reset" does not
 * affect them. Counters, sums and buckets never decrease: subtract two
 * snapshots to get the activity between them. Minima and worst samples cannot
 * be subtracted. Sums have 128 bits, as 64 bits of nanoseconds would wrap
 * around: 20000 tasks that sleep for an hour at a time get there in ten days.
 *
 * The numbers of groups count from the write to group_by that began them:
 * subtract only snapshots with the same schedhist_raw_grouping::since_ns, and
 * only groups with the same number and name. The number of a group that is gone
 * may be given to another one, even of the same name: if a count is less than
 * before, the group is new. Two groups may have the same name, as by comm a
 * thread may be named "other".
 */
#ifndef _UAPI_SCHEDHIST_RAW_H
#define _UAPI_SCHEDHIST_RAW_H

#include <linux/types.h>

/* The first bytes of a snapshot. No NUL follows them. */
#define SCHEDHIST_RAW_MAGIC	"SCHDHIST"

#define SCHEDHIST_RAW_VERSION	1

/* Bits of schedhist_raw_header::flags. Readers ignore other bits. */
#define SCHEDHIST_RAW_ENABLED		0x1	/* measuring was on */
#define SCHEDHIST_RAW_TELLS_OFFLINE	0x2	/* CPUs without OFFLINE were online */

/**
 * struct schedhist_raw_header - the beginning of a snapshot
 * @magic: SCHEDHIST_RAW_MAGIC
 * @version: SCHEDHIST_RAW_VERSION
 * @header_length: offset of the first record, in bytes; a multiple of eight
 * @time_ns: time at the beginning of the snapshot, in nanoseconds of
 *	local_clock()
 * @flags: SCHEDHIST_RAW_ENABLED, SCHEDHIST_RAW_TELLS_OFFLINE
 * @precision: precision of the histograms, in bits: a power of two is divided
 *	into 2^precision buckets; see schedhist_raw_lower()
 * @value_bits: values below 2^value_bits, in nanoseconds, have buckets with an
 *	upper bound
 * @buckets: number of buckets in a histogram: indices are below this number
 * @cpus: number of possible CPUs, which is the number of CPU records
 * @metrics: number of METRIC records
 * @counters: number of COUNTER records
 * @metrics_on: set of the metrics that are switched on: bit N is that of metric
 *	N
 */
struct schedhist_raw_header {
	__u8 magic[8];
	__u32 version;
	__u32 header_length;
	__u64 time_ns;
	__u32 flags;
	__u32 precision;
	__u32 value_bits;
	__u32 buckets;
	__u32 cpus;
	__u32 metrics;
	__u32 counters;
	__u32 metrics_on;
};

/* The first bytes of the file slices. No NUL follows them. */
#define SCHEDHIST_RAW_SLICES_MAGIC	"SCHDSLCS"

#define SCHEDHIST_RAW_SLICES_VERSION	1

/**
 * struct schedhist_raw_slices - the beginning of the file slices
 * @magic: SCHEDHIST_RAW_SLICES_MAGIC
 * @version: SCHEDHIST_RAW_SLICES_VERSION
 * @header_length: offset of the first record, in bytes; a multiple of eight
 * @time_ns: when it was read, in nanoseconds of local_clock()
 * @since_ns: when slices began to be kept: their numbers count from then on; 0 if
 *	none are kept
 *
 * If slices are kept, a KEPT_CPU of each possible CPU follows, with its KEPT_SLICEs
 * after it. An END comes last. Each rule for readers of a snapshot holds here, too.
 */
struct schedhist_raw_slices {
	__u8 magic[8];
	__u32 version;
	__u32 header_length;
	__u64 time_ns;
	__u64 since_ns;
};

/* Types of records. Readers skip records of other types. */
#define SCHEDHIST_RAW_END	0	/* a struct schedhist_raw_record alone */
#define SCHEDHIST_RAW_METRIC	1	/* struct schedhist_raw_name */
#define SCHEDHIST_RAW_COUNTER	2	/* struct schedhist_raw_name */
#define SCHEDHIST_RAW_SUM	3	/* struct schedhist_raw_name */
#define SCHEDHIST_RAW_CPU	4	/* struct schedhist_raw_cpu */
#define SCHEDHIST_RAW_HISTOGRAM	5	/* struct schedhist_raw_histogram */
#define SCHEDHIST_RAW_WORST	6	/* struct schedhist_raw_worst */
#define SCHEDHIST_RAW_BUCKETS	7	/* struct schedhist_raw_buckets */
#define SCHEDHIST_RAW_GROUPING	8	/* struct schedhist_raw_grouping */
#define SCHEDHIST_RAW_GROUP	9	/* struct schedhist_raw_group */
#define SCHEDHIST_RAW_GROUP_BUCKETS	10 /* struct schedhist_raw_group_buckets */
#define SCHEDHIST_RAW_NEIGHBOUR	11	/* struct schedhist_raw_neighbour */
#define SCHEDHIST_RAW_SLICE	12	/* struct schedhist_raw_slice */
#define SCHEDHIST_RAW_TASK	13	/* struct schedhist_raw_task */
#define SCHEDHIST_RAW_WAITING	14	/* struct schedhist_raw_waiting */
#define SCHEDHIST_RAW_GROUP_SLICES	15 /* struct schedhist_raw_group_progress */
#define SCHEDHIST_RAW_GROUP_WAITING	16 /* struct schedhist_raw_group_progress */
#define SCHEDHIST_RAW_GROUP_UNSEEN	17 /* struct schedhist_raw_group_progress */
#define SCHEDHIST_RAW_GROUPING_MORE	18 /* struct schedhist_raw_grouping_more */
#define SCHEDHIST_RAW_OFFLINE	19	/* struct schedhist_raw_offline */
#define SCHEDHIST_RAW_LONG_WAITS	20 /* struct schedhist_raw_long_waits */
#define SCHEDHIST_RAW_GROUP_LONG_WAITS	21 /* struct schedhist_raw_group_long_waits */
#define SCHEDHIST_RAW_GROUP_MIGRATIONS	22 /* struct schedhist_raw_group_migrations */
#define SCHEDHIST_RAW_CHAIN	30	/* struct schedhist_raw_chain */
#define SCHEDHIST_RAW_HOP	31	/* struct schedhist_raw_hop */
#define SCHEDHIST_RAW_KEPT_SLICE	32 /* struct schedhist_raw_kept_slice; only in `slices` */
#define SCHEDHIST_RAW_KEPT_CPU	33	/* struct schedhist_raw_kept_cpu; only in `slices` */

/* Values of schedhist_raw_hop::via. */
#define SCHEDHIST_RAW_VIA_TASK	0	/* what the task itself did */
#define SCHEDHIST_RAW_VIA_SOFTIRQ	1 /* a softirq that it had raised */
#define SCHEDHIST_RAW_VIA_FORK	2	/* it created the task */
#define SCHEDHIST_RAW_VIA_INTERRUPT	3 /* no task: a hard interrupt */
#define SCHEDHIST_RAW_VIA_INTERRUPT_SOFTIRQ	4 /* no task: a softirq that one had raised */
#define SCHEDHIST_RAW_VIA_UNKNOWN_SOFTIRQ	5 /* another softirq */
#define SCHEDHIST_RAW_VIA_IDLE	6	/* the idle task */
#define SCHEDHIST_RAW_VIA_UNKNOWN	7	/* not known */
#define SCHEDHIST_RAW_VIA_TIMER	8	/* no task: the function of a timer */

/* Values of schedhist_raw_kept_slice::start. */
#define SCHEDHIST_RAW_START_WOKEN	0	/* the task was woken */
#define SCHEDHIST_RAW_START_FORKED	1	/* the task was created */
#define SCHEDHIST_RAW_START_PREEMPTED	2	/* the task had been preempted */
#define SCHEDHIST_RAW_START_THROTTLED	3	/* its quota had been spent */
#define SCHEDHIST_RAW_START_UNKNOWN	4	/* not known */

/* Values of schedhist_raw_chain::end. */
#define SCHEDHIST_RAW_END_START	0	/* where the interval begins */
#define SCHEDHIST_RAW_END_INTERRUPT	1 /* a hard interrupt woke the last task */
#define SCHEDHIST_RAW_END_INTERRUPT_SOFTIRQ	2 /* a softirq that one had raised did */
#define SCHEDHIST_RAW_END_UNKNOWN_SOFTIRQ	3 /* another softirq did */
#define SCHEDHIST_RAW_END_IDLE	4	/* the idle task did */
#define SCHEDHIST_RAW_END_OVERWRITTEN	5 /* a slice is not kept any more */
#define SCHEDHIST_RAW_END_UNKNOWN	6	/* what comes before was not seen */
#define SCHEDHIST_RAW_END_LIMIT	7	/* there are too many hops or slices */
#define SCHEDHIST_RAW_END_TIMER	8	/* the function of a timer woke the last task */

/* Values of schedhist_raw_slice::occupancy. */
#define SCHEDHIST_RAW_IS_IDLE	0	/* the idle task has the CPU */
#define SCHEDHIST_RAW_IS_BUSY	1	/* a task has it */
#define SCHEDHIST_RAW_IS_UNSEEN	2	/* no switch was seen yet */

/* Bits of schedhist_raw_task::flags. Readers ignore other bits. */
#define SCHEDHIST_RAW_UNSEEN	0x1	/* it began before measuring did */

/* Metrics, counters and culprits of groups. */
#define SCHEDHIST_RAW_GROUP_METRICS	3 /* oncpu, runq, offcpu */
#define SCHEDHIST_RAW_GROUP_COUNTERS	5 /* voluntary, involuntary, migrations, */
					  /* throttled, throttled_ns */
#define SCHEDHIST_RAW_GROUP_CULPRITS	4 /* own, other, kernel, idle */

/**
 * struct schedhist_raw_record - the beginning of each record
 * @type: type of the record: SCHEDHIST_RAW_*
 * @length: length of the whole record, this struct included, in bytes; a
 *	multiple of eight
 */
struct schedhist_raw_record {
	__u32 type;
	__u32 length;
};

/**
 * struct schedhist_raw_name - the name of a metric or a counter
 * @record: METRIC, COUNTER or SUM
 * @number: METRIC, COUNTER: the number by which other records refer to it.
 *	SUM: the metrics that it is the sum of, bucket by bucket: bit N stands
 *	for metric N
 * @reserved: 0
 * @name: the name in the text files, padded with at least one NUL
 *
 * A metric that is the sum of others is not recorded. Tools that show it must
 * add up its parts.
 */
struct schedhist_raw_name {
	struct schedhist_raw_record record;
	__u32 number;
	__u32 reserved;
	char name[32];
};

/**
 * struct schedhist_raw_cpu - the counters of a CPU
 * @record: CPU
 * @cpu: the number of the CPU
 * @counters: number of counters that follow
 * @counter: the counters, by their numbers
 */
struct schedhist_raw_cpu {
	struct schedhist_raw_record record;
	__u32 cpu;
	__u32 counters;
	__u64 counter[];
};

/**
 * struct schedhist_raw_histogram - a metric on a CPU, besides its buckets
 * @record: HISTOGRAM
 * @cpu: the number of the CPU
 * @metric: the number of the metric
 * @sum_low_ns: the lower half of the sum of all samples, in nanoseconds
 * @min_ns: the least sample, in nanoseconds; all bits set if there is none
 * @sum_high_ns: the upper half of the sum
 */
struct schedhist_raw_histogram {
	struct schedhist_raw_record record;
	__u32 cpu;
	__u32 metric;
	__u64 sum_low_ns;
	__u64 min_ns;
	__u64 sum_high_ns;
};

/**
 * struct schedhist_raw_worst - the greatest sample of a metric on a CPU
 * @record: WORST
 * @cpu: the number of the CPU
 * @metric: the number of the metric
 * @value_ns: the sample, in nanoseconds
 * @time_ns: time of the sample, in nanoseconds of local_clock() on that CPU
 * @pid: the thread id of the task in the initial PID namespace; 0 for idle
 * @prio: the kernel's priority of the task
 * @comm: the name of the task, padded with NULs
 */
struct schedhist_raw_worst {
	struct schedhist_raw_record record;
	__u32 cpu;
	__u32 metric;
	__u64 value_ns;
	__u64 time_ns;
	__s32 pid;
	__s32 prio;
	char comm[16];
};

/**
 * struct schedhist_raw_pair - a bucket that is not empty
 * @index: index of the bucket; schedhist_raw_lower() and schedhist_raw_upper()
 *	return its bounds
 * @count_low: the lower half of the number of samples in the bucket
 * @count_high: the upper half of this number
 *
 * The number is split into halves so that a pair takes 12 bytes, has no hole,
 * and needs the alignment of a __u32 only.
 */
struct schedhist_raw_pair {
	__u32 index;
	__u32 count_low;
	__u32 count_high;
};

/**
 * struct schedhist_raw_buckets - some of the buckets of a metric on a CPU
 * @record: BUCKETS; with an odd number of pairs, the length includes four bytes
 *	of padding
 * @cpu: the number of the CPU
 * @metric: the number of the metric
 * @pairs: number of pairs that follow
 * @reserved: 0
 * @pair: the pairs, in ascending order of their indices, which continues in the
 *	next record of the same histogram
 */
struct schedhist_raw_buckets {
	struct schedhist_raw_record record;
	__u32 cpu;
	__u32 metric;
	__u32 pairs;
	__u32 reserved;
	struct schedhist_raw_pair pair[];
};

/**
 * struct schedhist_raw_grouping - how tasks are grouped
 * @record: GROUPING; the length includes padding after @rule
 * @since_ns: time at which these groups began, in nanoseconds of local_clock();
 *	another time means other groups
 * @refused: as in the file groups
 * @gone: likewise
 * @limit: the maximum number of groups
 * @precision: the precision of their histograms, as
 *	schedhist_raw_header::precision
 * @buckets: the number of buckets in one, likewise
 * @rule_length: the length of @rule in bytes, without its padding
 * @rule: what the file group_by holds
 */
struct schedhist_raw_grouping {
	struct schedhist_raw_record record;
	__u64 since_ns;
	__u64 refused;
	__u64 gone;
	__u32 limit;
	__u32 precision;
	__u32 buckets;
	__u32 rule_length;
	char rule[];
};

/**
 * struct schedhist_raw_grouping_more - more about how tasks are grouped
 * @record: GROUPING_MORE
 * @memory_bytes: as in the file groups
 * @no_memory: likewise
 * @unfollowed: likewise
 * @late: likewise
 */
struct schedhist_raw_grouping_more {
	struct schedhist_raw_record record;
	__u64 memory_bytes;
	__u64 no_memory;
	__u64 unfollowed;
	__u64 late;
};

/**
 * struct schedhist_raw_group_metric - a metric of a group
 * @count: the number of samples, in buckets or not
 * @sum_low_ns: the lower half of their sum, in nanoseconds
 * @sum_high_ns: the upper half of this sum
 * @max_ns: the greatest sample; 0 if there is none
 */
struct schedhist_raw_group_metric {
	__u64 count;
	__u64 sum_low_ns;
	__u64 sum_high_ns;
	__u64 max_ns;
};

/**
 * struct schedhist_raw_group_waits - some of the waits of a group
 * @count: how many there were
 * @sum_ns: how long they took, in nanoseconds, modulo 2^64
 */
struct schedhist_raw_group_waits {
	__u64 count;
	__u64 sum_ns;
};

/**
 * struct schedhist_raw_group - a group
 * @record: GROUP; the length includes padding after @name
 * @group: its number; 0 is "other"
 * @tasks: how many tasks it has
 * @live: 0 if it is dead, otherwise 1
 * @name_length: the length of @name in bytes, without its padding
 * @metric: its metrics
 * @counter: its counters
 * @ended_by: its waits by who had the CPU when they ended
 * @preempted_by: its waits after a preemption by who preempted the task
 * @name: the name, as it is: any bytes but NUL
 */
struct schedhist_raw_group {
	struct schedhist_raw_record record;
	__u32 group;
	__u32 tasks;
	__u32 live;
	__u32 name_length;
	struct schedhist_raw_group_metric metric[SCHEDHIST_RAW_GROUP_METRICS];
	__u64 counter[SCHEDHIST_RAW_GROUP_COUNTERS];
	struct schedhist_raw_group_waits ended_by[SCHEDHIST_RAW_GROUP_CULPRITS];
	struct schedhist_raw_group_waits preempted_by[SCHEDHIST_RAW_GROUP_CULPRITS];
	char name[];
};

/**
 * struct schedhist_raw_group_buckets - some of the buckets of a metric of a group
 * @record: GROUP_BUCKETS, padded as BUCKETS
 * @group: the number of the group
 * @metric: the place of the metric in schedhist_raw_group::metric
 * @pairs: number of pairs that follow
 * @reserved: 0
 * @pair: the pairs, as those of BUCKETS, with
 *	schedhist_raw_grouping::precision and ::buckets
 */
struct schedhist_raw_group_buckets {
	struct schedhist_raw_record record;
	__u32 group;
	__u32 metric;
	__u32 pairs;
	__u32 reserved;
	struct schedhist_raw_pair pair[];
};

/**
 * struct schedhist_raw_neighbour - waits that one other group ended
 * @record: NEIGHBOUR
 * @group: the number of the group that waited
 * @other: the number of the other group
 * @waits: lower bounds, as in the file groups
 */
struct schedhist_raw_neighbour {
	struct schedhist_raw_record record;
	__u32 group;
	__u32 other;
	struct schedhist_raw_group_waits waits;
};

/**
 * struct schedhist_raw_slice - the slice in progress on a CPU
 * @record: SLICE
 * @cpu: the number of the CPU
 * @occupancy: what has the CPU: SCHEDHIST_RAW_IS_*
 * @now_ns: the time at which this was read, in nanoseconds of local_clock()
 * @since_ns: the time at which the slice began; if the occupancy is UNSEEN, the
 *	time at which measuring did
 * @unseen_ns: the part of the clock's time that is in no slice on this CPU:
 *	before measuring began and until the first switch that was seen, while it
 *	was off or the CPU offline, and by how much the clock was found to have
 *	gone backwards; modulo 2^64
 *
 * The sums of "oncpu" and "idle" in the HISTOGRAM records of this CPU are of the
 * same moment.
 */
struct schedhist_raw_slice {
	struct schedhist_raw_record record;
	__u32 cpu;
	__u32 occupancy;
	__u64 now_ns;
	__u64 since_ns;
	__u64 unseen_ns;
};

/**
 * struct schedhist_raw_offline - a possible CPU that is offline
 * @record: OFFLINE
 * @cpu: the number of the CPU
 * @reserved: 0
 *
 * Valid only if SCHEDHIST_RAW_TELLS_OFFLINE is set: early versions of schedhist do
 * not write this record. A CPU that goes offline or online during the snapshot may
 * have both an OFFLINE and a SLICE, or neither.
 */
struct schedhist_raw_offline {
	struct schedhist_raw_record record;
	__u32 cpu;
	__u32 reserved;
};

/**
 * struct schedhist_raw_long_waits - the long waits that have ended on a CPU
 * @record: LONG_WAITS
 * @cpu: the number of the CPU
 * @reserved: 0
 * @limit_ns: what the file long_wait_ns holds: waits for a CPU of this many
 *	nanoseconds or more are long; 0 if none are, any more
 * @waits: how many there were
 * @waited_ns: how long they took, in nanoseconds
 * @own_idle_ns: for how much of that the CPU that was to run the task was idle:
 *	waking up
 * @llc_idle_ns: for how much of the rest another CPU of the same last-level
 *	cache was idle, on which the task might have run
 * @remote_idle_ns: for how much of the rest any other such CPU was idle
 * @unknown_ns: for how much of the rest it is not known
 * @busy_ns: the rest
 * @moved: in how many the task was moved to the queue of another CPU meanwhile
 * @moved_ns: how long these took, in nanoseconds
 * @forked: how many of the rest began with a fork
 * @forked_ns: likewise
 * @preempted: how many of the rest began with a preemption or a yield
 * @preempted_ns: likewise
 * @woken_idle: how many of the rest began with a wakeup onto a CPU that was idle,
 *	until it ran the task
 * @woken_idle_ns: likewise
 * @woken_busy: the rest
 * @woken_busy_ns: likewise
 *
 * All are modulo 2^64, and of one moment: waited_ns is the sum of the next five, and
 * of the last five sums; waits is that of the last five numbers.
 * own_idle_ns, the sum of llc_idle_ns and remote_idle_ns, and busy_ns are lower
 * bounds: each may be greater by up to unknown_ns. llc_idle_ns is always one.
 */
struct schedhist_raw_long_waits {
	struct schedhist_raw_record record;
	__u32 cpu;
	__u32 reserved;
	__u64 limit_ns;
	__u64 waits;
	__u64 waited_ns;
	__u64 own_idle_ns;
	__u64 llc_idle_ns;
	__u64 remote_idle_ns;
	__u64 unknown_ns;
	__u64 busy_ns;
	__u64 moved;
	__u64 moved_ns;
	__u64 forked;
	__u64 forked_ns;
	__u64 preempted;
	__u64 preempted_ns;
	__u64 woken_idle;
	__u64 woken_idle_ns;
	__u64 woken_busy;
	__u64 woken_busy_ns;
};

/**
 * struct schedhist_raw_group_long_waits - the long waits of a group
 * @record: GROUP_LONG_WAITS
 * @group: the number of the group
 * @reserved: 0
 * @waits: as in struct schedhist_raw_long_waits
 * @waited_ns: likewise
 * @own_idle_ns: likewise
 * @llc_idle_ns: likewise
 * @remote_idle_ns: likewise
 * @unknown_ns: likewise
 * @busy_ns: likewise
 * @moved: likewise
 * @moved_ns: likewise
 * @forked: likewise
 * @forked_ns: likewise
 * @preempted: likewise
 * @preempted_ns: likewise
 * @woken_idle: likewise
 * @woken_idle_ns: likewise
 * @woken_busy: likewise
 * @woken_busy_ns: likewise
 *
 * If tasks were grouped all the while, and those of all groups are added up, they are
 * those of all CPUs.
 */
struct schedhist_raw_group_long_waits {
	struct schedhist_raw_record record;
	__u32 group;
	__u32 reserved;
	__u64 waits;
	__u64 waited_ns;
	__u64 own_idle_ns;
	__u64 llc_idle_ns;
	__u64 remote_idle_ns;
	__u64 unknown_ns;
	__u64 busy_ns;
	__u64 moved;
	__u64 moved_ns;
	__u64 forked;
	__u64 forked_ns;
	__u64 preempted;
	__u64 preempted_ns;
	__u64 woken_idle;
	__u64 woken_idle_ns;
	__u64 woken_busy;
	__u64 woken_busy_ns;
};

/**
 * struct schedhist_raw_group_migrations - the migrations of a group, by distance
 * @record: GROUP_MIGRATIONS
 * @group: the number of the group
 * @reserved: 0
 * @core: those between two threads of one core
 * @llc: those between two cores of one last-level cache
 * @node: those between two last-level caches of one NUMA node
 * @remote: those between two nodes
 *
 * They are its counter "migrations", told apart.
 */
struct schedhist_raw_group_migrations {
	struct schedhist_raw_record record;
	__u32 group;
	__u32 reserved;
	__u64 core;
	__u64 llc;
	__u64 node;
	__u64 remote;
};

/**
 * struct schedhist_raw_chain - who could have woken the task of an outlier earlier
 * @record: CHAIN
 * @outlier: the number of the outlier
 * @cpu: the CPU on which it ended
 * @metric: the number of its metric
 * @duration_ns: its duration, in nanoseconds
 * @time_ns: its end, in nanoseconds of local_clock()
 * @blocked_ns: for how long the last task had been blocked when it was woken, if the
 *	chain ends in an interrupt, a softirq, a timer or the idle task
 * @missing_ns: for how much of the duration it is not known who did what
 * @end: where the chain ends: SCHEDHIST_RAW_END_*
 * @hops: how many HOP records follow, from the task of the outlier back in time
 *
 * blocked_ns, missing_ns and the times of all hops add up to duration_ns.
 */
struct schedhist_raw_chain {
	struct schedhist_raw_record record;
	__u64 outlier;
	__u32 cpu;
	__u32 metric;
	__u64 duration_ns;
	__u64 time_ns;
	__u64 blocked_ns;
	__u64 missing_ns;
	__u32 end;
	__u32 hops;
};

/**
 * struct schedhist_raw_hop - a task in a chain
 * @record: HOP
 * @outlier: the number of the outlier
 * @number: 0 for the task of the outlier, 1 for the one that woke it, and so on
 * @via: how it woke the task before it in the chain: SCHEDHIST_RAW_VIA_*; 7 if it is
 *	the first
 * @pid: the thread id of the task in the initial PID namespace
 * @slices: the number of its slices
 * @ran_ns: for how long it had a CPU, from its own wakeup until it woke the task
 *	before it, in nanoseconds
 * @waited_ns: for how long it waited for one after that wakeup
 * @preempted_ns: for how long it waited for one after it was preempted
 * @throttled_ns: for how long its quota was spent
 * @comm: the name of the task, padded with NULs
 * @cpu: the CPU on which it woke the task before it
 * @group: the number of its group then; 0 for the group "other", and while tasks are
 *	not grouped
 */
struct schedhist_raw_hop {
	struct schedhist_raw_record record;
	__u64 outlier;
	__u32 number;
	__u32 via;
	__s32 pid;
	__u32 slices;
	__u64 ran_ns;
	__u64 waited_ns;
	__u64 preempted_ns;
	__u64 throttled_ns;
	char comm[16];
	__u32 cpu;
	__u32 group;
};

/**
 * struct schedhist_raw_kept_slice - a slice of a task that is kept for chains
 * @record: KEPT_SLICE
 * @cpu: the CPU that the task got
 * @pid: the thread id of the task in the initial PID namespace
 * @number: the number of the slice on that CPU, from 1 on
 * @since_ns: when the task got the CPU, in nanoseconds of local_clock()
 * @idle_ns: when the CPU became idle after it; 0 if it did not, or not yet: the
 *	slice then ends where the next one begins, or is in progress, or was when
 *	measuring was switched off or the CPU went offline
 * @waiting_ns: from when on the task had waited for the CPU
 * @link_number: the number of the slice in which another task woke or created this
 *	one or, if this one was preempted or throttled, of its own slice before; 0 if
 *	that is not known
 * @link_cpu: the CPU of that slice
 * @via: the context there: SCHEDHIST_RAW_VIA_*
 * @start: what had led to the slice: SCHEDHIST_RAW_START_*
 * @group: the number of the task's group, as in HOP
 * @comm: the name of the task, padded with NULs
 */
struct schedhist_raw_kept_slice {
	struct schedhist_raw_record record;
	__u32 cpu;
	__s32 pid;
	__u64 number;
	__u64 since_ns;
	__u64 idle_ns;
	__u64 waiting_ns;
	__u64 link_number;
	__u32 link_cpu;
	__u32 via;
	__u32 start;
	__u32 group;
	char comm[16];
};

/**
 * struct schedhist_raw_kept_cpu - a CPU that keeps slices for chains
 * @record: KEPT_CPU
 * @cpu: the number of the CPU
 * @reserved: 0
 * @first: the number of its first slice since all were forgotten: the first one that
 *	follows has a greater number if older ones were overwritten
 */
struct schedhist_raw_kept_cpu {
	struct schedhist_raw_record record;
	__u32 cpu;
	__u32 reserved;
	__u64 first;
};

/**
 * struct schedhist_raw_task - a task's slice on a CPU, or a wait, in progress
 * @record: TASK
 * @metric: the number of the metric of which it becomes a sample
 * @flags: SCHEDHIST_RAW_UNSEEN: it does not become one, and may have begun
 *	earlier
 * @cpu: the CPU that the task has, or on whose run queue it is
 * @group: the number of its group; 0 if tasks are not grouped
 * @now_ns: the time at which it was found, in nanoseconds of local_clock()
 * @duration_ns: how long it had taken by then, in nanoseconds
 * @pid: the thread id of the task in the initial PID namespace
 * @prio: the kernel's priority of the task
 * @comm: the name of the task, padded with NULs
 *
 * At most 16 waits are named.
 */
struct schedhist_raw_task {
	struct schedhist_raw_record record;
	__u32 metric;
	__u32 flags;
	__u32 cpu;
	__u32 group;
	__u64 now_ns;
	__u64 duration_ns;
	__s32 pid;
	__s32 prio;
	char comm[16];
};

/**
 * struct schedhist_raw_waiting - the waits in progress of a metric
 * @record: WAITING
 * @metric: the number of the metric of which they become samples
 * @reserved: 0
 * @now_ns: the time at which they had been found, in nanoseconds of
 *	local_clock()
 * @count: how many there are, but for those whose beginning was not seen
 * @sum_ns: how long they have taken so far, in nanoseconds, modulo 2^64
 */
struct schedhist_raw_waiting {
	struct schedhist_raw_record record;
	__u32 metric;
	__u32 reserved;
	__u64 now_ns;
	__u64 count;
	__u64 sum_ns;
};

/**
 * struct schedhist_raw_group_progress - what is in progress of a group
 * @record: GROUP_SLICES: slices of its tasks on a CPU. GROUP_WAITING: their waits
 *	for one. GROUP_UNSEEN: slices whose beginning was not seen
 * @group: the number of the group
 * @reserved: 0
 * @count: how many there are
 * @sum_ns: how long they have taken so far, in nanoseconds, modulo 2^64
 */
struct schedhist_raw_group_progress {
	struct schedhist_raw_record record;
	__u32 group;
	__u32 reserved;
	__u64 count;
	__u64 sum_ns;
};

/**
 * schedhist_raw_count() - the number of samples in a bucket
 * @pair: the bucket
 */
static inline __u64 schedhist_raw_count(const struct schedhist_raw_pair *pair)
{
	return ((__u64)pair->count_high << 32) | pair->count_low;
}

/**
 * schedhist_raw_lower() - the least value that falls into a bucket
 * @precision: schedhist_raw_header::precision
 * @index: index of the bucket, below schedhist_raw_header::buckets
 *
 * Let p be the precision. Each of the buckets 0 to 2^(p+1) - 1 holds one value:
 * its index. From there on, each 2^p buckets cover one power of two, and are
 * twice as wide as the 2^p buckets before. So the width is 2^shift, with
 * shift = max(index / 2^p - 1, 0), and the lower bound is
 * (index - shift * 2^p) * 2^shift. This formula holds for the last bucket, too,
 * which begins at 2^value_bits.
 *
 * Return: the bound, in nanoseconds.
 */
static inline __u64 schedhist_raw_lower(__u32 precision, __u32 index)
{
	__u32 power = index >> precision;
	__u32 shift = power ? power - 1 : 0;

	return (__u64)(index - (shift << precision)) << shift;
}

/**
 * schedhist_raw_upper() - the greatest value that falls into a bucket
 * @precision: schedhist_raw_header::precision
 * @buckets: schedhist_raw_header::buckets
 * @index: index of the bucket, below @buckets
 *
 * The upper bound is one less than the lower bound of the next bucket. The last
 * bucket has no upper bound.
 *
 * Return: the bound, in nanoseconds, inclusive; all bits set for the last
 * bucket.
 */
static inline __u64 schedhist_raw_upper(__u32 precision, __u32 buckets, __u32 index)
{
	if (index + 1 >= buckets)
		return ~(__u64)0;
	return schedhist_raw_lower(precision, index + 1) - 1;
}

#endif /* _UAPI_SCHEDHIST_RAW_H */
