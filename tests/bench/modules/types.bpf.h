/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Definitions that our BPF programs share: the kernel's types, as far as they are needed, and the
 * buckets of schedhist at its default precision.
 */
#ifndef TYPES_BPF_H
#define TYPES_BPF_H

#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <stdbool.h>

typedef __u32 u32;
typedef __u64 u64;

struct sched_info {
	unsigned long long run_delay;
} __attribute__((preserve_access_index));

struct task_struct {
	int pid;
	struct sched_info sched_info;
} __attribute__((preserve_access_index));

char LICENSE[] SEC("license") = "GPL";

/* The number of PIDs: the kernel's own limit on 64 bits. */
#define PIDS (4 << 20)

#define PRECISION 5
#define BUCKETS 1153

struct histogram {
	u64 bucket[BUCKETS];
};

static __always_inline void count(struct histogram *histogram, u64 value)
{
	u64 shift = 0;
	u32 index;

	if (value >> (PRECISION + 1)) {
		/* The highest bit set, by bisection: BPF has no instruction for it. */
		u64 rest = value;

		for (u64 half = 32; half >= 2; half /= 2) {
			if (rest >> half) {
				rest >>= half;
				shift += half;
			}
		}
		shift += (rest >> 1) - PRECISION;
	}
	index = (shift << PRECISION) + (value >> shift);
	if (index >= BUCKETS)
		index = BUCKETS - 1;
	histogram->bucket[index]++;
}

#endif
