/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * The layout of /sys/kernel/debug/schedhist/raw, version 1: a snapshot of all
 * that schedhist has recorded, on all possible CPUs, for tools.
 *
 * All numbers are little-endian, all offsets multiples of four, and those of
 * 64-bit numbers multiples of eight. The first thing is a struct
 * schedhist_raw_header. Records follow it, one after the other, from offset
 * header_length on; each begins with a struct schedhist_raw_record, which says
 * what it is and how long, so that one pass is enough:
 *
 *	METRIC, COUNTER, SUM	the names, before all that refers to them
 *	CPU			for each possible CPU: its counters, then
 *	  HISTOGRAM		for each metric that has memory on it: the totals
 *	  WORST			the greatest sample, if there is one
 *	  BUCKETS		the buckets that are not empty, in any number
 *				of records; none if all are empty
 *	END			nothing comes after it
 *
 * Without an END at its end the snapshot is cut off.
 *
 * What a reader must do to read snapshots of later schedhists:
 *  - refuse another magic or version,
 *  - find the first record by header_length, and each next one by length,
 *  - skip a record of a type that it does not know,
 *  - ignore what a record, or the header, holds beyond what it knows, and
 *  - identify metrics and counters by their names, not by their numbers.
 * The version goes up only with a change that such a reader could trip over.
 *
 * The probes go on while a snapshot is made. A histogram's count of samples is
 * the sum of its buckets, and nothing else; sum, minimum and worst sample may
 * be ahead of the buckets, or behind them, by the samples that were recorded
 * meanwhile; counters likewise. What does not come from a snapshot of a system
 * at rest is exact in itself all the same: a number is never half written.
 *
 * All of it is since the module was loaded; the file "reset" does not touch it.
 * Counters, sums and buckets only ever grow: subtract two snapshots to see what
 * happened between them. Minima and worst samples cannot be subtracted. Sums
 * have 128 bits, as 64 bits of nanoseconds would wrap around: 20000 tasks that
 * sleep for an hour each get there in ten days.
 */
#ifndef _UAPI_SCHEDHIST_RAW_H
#define _UAPI_SCHEDHIST_RAW_H

#include <linux/types.h>

/* The bytes that a snapshot begins with; no NUL after them. */
#define SCHEDHIST_RAW_MAGIC	"SCHDHIST"

#define SCHEDHIST_RAW_VERSION	1

/* Bits of schedhist_raw_header::flags; others are to be ignored. */
#define SCHEDHIST_RAW_ENABLED	0x1	/* it was measuring */

/**
 * struct schedhist_raw_header - what a snapshot begins with
 * @magic: SCHEDHIST_RAW_MAGIC
 * @version: SCHEDHIST_RAW_VERSION
 * @header_length: where the first record begins, in bytes; a multiple of eight
 * @time_ns: when the snapshot was begun, in nanoseconds of local_clock()
 * @flags: SCHEDHIST_RAW_ENABLED
 * @precision: of the histograms, in bits: a power of two is cut into
 *	2^precision buckets; see schedhist_raw_lower()
 * @value_bits: values below 2^value_bits, in nanoseconds, have buckets with an
 *	upper bound
 * @buckets: how many buckets a histogram has: indices are below this
 * @cpus: how many CPUs are possible, and so how many CPU records there are
 * @metrics: how many METRIC records there are
 * @counters: how many COUNTER records there are
 * @metrics_on: which metrics are switched on: bit N is that of metric N
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

/* Types of records; those that are not here are to be skipped. */
#define SCHEDHIST_RAW_END	0	/* a struct schedhist_raw_record alone */
#define SCHEDHIST_RAW_METRIC	1	/* struct schedhist_raw_name */
#define SCHEDHIST_RAW_COUNTER	2	/* struct schedhist_raw_name */
#define SCHEDHIST_RAW_SUM	3	/* struct schedhist_raw_name */
#define SCHEDHIST_RAW_CPU	4	/* struct schedhist_raw_cpu */
#define SCHEDHIST_RAW_HISTOGRAM	5	/* struct schedhist_raw_histogram */
#define SCHEDHIST_RAW_WORST	6	/* struct schedhist_raw_worst */
#define SCHEDHIST_RAW_BUCKETS	7	/* struct schedhist_raw_buckets */

/**
 * struct schedhist_raw_record - what each record begins with
 * @type: what it is: SCHEDHIST_RAW_*
 * @length: of all of it, this included, in bytes; a multiple of eight
 */
struct schedhist_raw_record {
	__u32 type;
	__u32 length;
};

/**
 * struct schedhist_raw_name - what a metric or a counter is called
 * @record: METRIC, COUNTER or SUM
 * @number: METRIC, COUNTER: the number by which other records refer to it.
 *	SUM: what it is the sum of, bucket by bucket: bit N stands for metric N
 * @reserved: 0
 * @name: as in the text files, filled up with NULs, of which there is one at
 *	least
 *
 * A metric that is the sum of others is not recorded; tools that show it are
 * to add up its parts.
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
 * @counters: how many counters follow
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
 * @time_ns: when it was taken, in nanoseconds of local_clock() on that CPU
 * @pid: the thread id of the task in the initial PID namespace; 0: idle
 * @prio: the kernel's priority of the task
 * @comm: the name of the task, filled up with NULs
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
 * @index: of the bucket: schedhist_raw_lower() and schedhist_raw_upper() have
 *	its bounds
 * @count_low: the lower half of the number of samples in it
 * @count_high: the upper half
 *
 * In halves, so that a pair takes 12 bytes, has no hole, and needs no alignment
 * but that of a __u32.
 */
struct schedhist_raw_pair {
	__u32 index;
	__u32 count_low;
	__u32 count_high;
};

/**
 * struct schedhist_raw_buckets - some of the buckets of a metric on a CPU
 * @record: BUCKETS; with an odd number of pairs, four bytes of padding are
 *	part of its length
 * @cpu: the number of the CPU
 * @metric: the number of the metric
 * @pairs: how many pairs follow
 * @reserved: 0
 * @pair: the pairs, their indices ascending, also from one record of a
 *	histogram to its next
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
 * schedhist_raw_count() - how many samples are in a bucket
 * @pair: the bucket
 */
static inline __u64 schedhist_raw_count(const struct schedhist_raw_pair *pair)
{
	return ((__u64)pair->count_high << 32) | pair->count_low;
}

/**
 * schedhist_raw_lower() - the least value that falls into a bucket
 * @precision: schedhist_raw_header::precision
 * @index: of the bucket, below schedhist_raw_header::buckets
 *
 * With p for the precision: the buckets 0 to 2^(p+1) - 1 hold one value each,
 * their index. After them each 2^p buckets cover one power of two, and are
 * twice as wide as the 2^p before. So the width is 2^shift, where shift is
 * index / 2^p - 1, or 0 if that is less, and the lower bound is
 * (index - shift * 2^p) * 2^shift. The last bucket begins at 2^value_bits, of
 * which this formula is true as well.
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
 * @index: of the bucket, below @buckets
 *
 * One less than the lower bound of the next bucket; the last has no bound.
 *
 * Return: the bound, in nanoseconds, inclusive; all bits set for the last.
 */
static inline __u64 schedhist_raw_upper(__u32 precision, __u32 buckets, __u32 index)
{
	if (index + 1 >= buckets)
		return ~(__u64)0;
	return schedhist_raw_lower(precision, index + 1) - 1;
}

#endif /* _UAPI_SCHEDHIST_RAW_H */
