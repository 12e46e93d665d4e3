// SPDX-License-Identifier: GPL-2.0
/*
 * Reads a binary snapshot from standard input as the header tells readers to, and prints every
 * record on a line: the C counterpart of raw.rs.
 */
#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <schedhist_raw.h>

static_assert(sizeof(struct schedhist_raw_header) == 56, "header");
static_assert(offsetof(struct schedhist_raw_header, time_ns) == 16, "header");
static_assert(offsetof(struct schedhist_raw_header, flags) == 24, "header");
static_assert(sizeof(struct schedhist_raw_record) == 8, "record");
static_assert(sizeof(struct schedhist_raw_name) == 48, "name");
static_assert(offsetof(struct schedhist_raw_name, name) == 16, "name");
static_assert(sizeof(struct schedhist_raw_cpu) == 16, "cpu");
static_assert(offsetof(struct schedhist_raw_cpu, counter) == 16, "cpu");
static_assert(sizeof(struct schedhist_raw_histogram) == 40, "histogram");
static_assert(offsetof(struct schedhist_raw_histogram, sum_high_ns) == 32, "histogram");
static_assert(sizeof(struct schedhist_raw_worst) == 56, "worst");
static_assert(offsetof(struct schedhist_raw_worst, comm) == 40, "worst");
static_assert(sizeof(struct schedhist_raw_pair) == 12, "pair");
static_assert(sizeof(struct schedhist_raw_buckets) == 24, "buckets");
static_assert(offsetof(struct schedhist_raw_buckets, pair) == 24, "buckets");
static_assert(sizeof(struct schedhist_raw_grouping) == 48, "grouping");
static_assert(offsetof(struct schedhist_raw_grouping, limit) == 32, "grouping");
static_assert(offsetof(struct schedhist_raw_grouping, rule) == 48, "grouping");
static_assert(sizeof(struct schedhist_raw_group) == 288, "group");
static_assert(offsetof(struct schedhist_raw_group, metric) == 24, "group");
static_assert(offsetof(struct schedhist_raw_group, counter) == 120, "group");
static_assert(offsetof(struct schedhist_raw_group, ended_by) == 160, "group");
static_assert(offsetof(struct schedhist_raw_group, name) == 288, "group");
static_assert(sizeof(struct schedhist_raw_group_buckets) == 24, "group_buckets");
static_assert(sizeof(struct schedhist_raw_neighbour) == 32, "neighbour");
static_assert(offsetof(struct schedhist_raw_neighbour, waits) == 16, "neighbour");
static_assert(sizeof(struct schedhist_raw_stay) == 40, "stay");
static_assert(offsetof(struct schedhist_raw_stay, now_ns) == 16, "stay");
static_assert(sizeof(struct schedhist_raw_task) == 64, "task");
static_assert(offsetof(struct schedhist_raw_task, now_ns) == 24, "task");
static_assert(offsetof(struct schedhist_raw_task, comm) == 48, "task");
static_assert(sizeof(struct schedhist_raw_waiting) == 40, "waiting");
static_assert(sizeof(struct schedhist_raw_group_progress) == 32, "group_progress");

#define U64(n) ((unsigned long long)(n))

static unsigned char *buffer;
static size_t length;

static int broken(const char *what)
{
	fprintf(stderr, "raw: %s\n", what);
	return 1;
}

static int read_all(void)
{
	size_t room = 0, got;

	do {
		room = room ? room * 2 : 1 << 16;
		buffer = realloc(buffer, room);
		if (!buffer)
			return -1;
		got = fread(buffer + length, 1, room - length, stdin);
		length += got;
	} while (length == room);
	return 0;
}

/* Returns whether the numbers of the scheme are consistent. */
static int is_scheme(const struct schedhist_raw_header *header)
{
	__u64 precision = header->precision, bits = header->value_bits;

	return bits < 64 && precision < bits &&
	       header->buckets == ((bits - precision + 1) << precision) + 1;
}

static int print_name(const char *what, const struct schedhist_raw_name *name)
{
	if (name->record.length < sizeof(*name) || !memchr(name->name, 0, sizeof(name->name)))
		return broken("no name");
	for (const char *c = name->name; *c; c++)
		if (*c & 0x80)
			return broken("bad name");
	printf("%s %u %s\n", what, name->number, name->name);
	return 0;
}

static int print_buckets(const struct schedhist_raw_header *header,
			  const struct schedhist_raw_buckets *buckets)
{
	for (__u32 i = 0; i < buckets->pairs; i++) {
		const struct schedhist_raw_pair *pair = &buckets->pair[i];

		if (pair->index >= header->buckets)
			return broken("no such bucket");
		printf("bucket %u %u %llu %llu %llu\n", buckets->cpu, buckets->metric,
		       U64(schedhist_raw_lower(header->precision, pair->index)),
		       U64(schedhist_raw_upper(header->precision, header->buckets,
					       pair->index)),
		       U64(schedhist_raw_count(pair)));
	}
	return 0;
}

static int print_record(const struct schedhist_raw_header *header,
			const struct schedhist_raw_record *record)
{
	const struct schedhist_raw_cpu *cpu = (const void *)record;
	const struct schedhist_raw_histogram *histogram = (const void *)record;
	const struct schedhist_raw_worst *worst = (const void *)record;
	const struct schedhist_raw_buckets *buckets = (const void *)record;
	const struct schedhist_raw_stay *stay = (const void *)record;
	const struct schedhist_raw_task *task = (const void *)record;
	const struct schedhist_raw_waiting *waiting = (const void *)record;

	switch (record->type) {
	case SCHEDHIST_RAW_METRIC:
		return print_name("metric", (const void *)record);
	case SCHEDHIST_RAW_COUNTER:
		return print_name("counter", (const void *)record);
	case SCHEDHIST_RAW_SUM:
		return print_name("sum", (const void *)record);
	case SCHEDHIST_RAW_CPU:
		if (record->length < sizeof(*cpu) ||
		    (record->length - sizeof(*cpu)) / sizeof(cpu->counter[0]) < cpu->counters)
			return broken("counters do not fit");
		for (__u32 i = 0; i < cpu->counters; i++)
			printf("count %u %u %llu\n", cpu->cpu, i, U64(cpu->counter[i]));
		break;
	case SCHEDHIST_RAW_HISTOGRAM:
		if (record->length < sizeof(*histogram))
			return broken("short histogram");
		printf("histogram %u %u %016llx%016llx %llu\n", histogram->cpu,
		       histogram->metric, U64(histogram->sum_high_ns),
		       U64(histogram->sum_low_ns), U64(histogram->min_ns));
		break;
	case SCHEDHIST_RAW_WORST:
		if (record->length < sizeof(*worst))
			return broken("short sample");
		printf("worst %u %u %llu %llu %d %d ", worst->cpu, worst->metric,
		       U64(worst->value_ns), U64(worst->time_ns), worst->pid, worst->prio);
		for (size_t i = 0; i < sizeof(worst->comm); i++)
			printf("%02x", (unsigned char)worst->comm[i]);
		printf("\n");
		break;
	case SCHEDHIST_RAW_BUCKETS:
		if (record->length < sizeof(*buckets) ||
		    (record->length - sizeof(*buckets)) / sizeof(buckets->pair[0]) < buckets->pairs)
			return broken("buckets do not fit");
		return print_buckets(header, buckets);
	case SCHEDHIST_RAW_STAY:
		if (record->length < sizeof(*stay))
			return broken("short stay");
		printf("stay %u %u %llu %llu %llu\n", stay->cpu, stay->occupancy,
		       U64(stay->now_ns), U64(stay->since_ns), U64(stay->unseen_ns));
		break;
	case SCHEDHIST_RAW_TASK:
		if (record->length < sizeof(*task))
			return broken("short task");
		printf("task %u %u %u %u %llu %llu %d %d ", task->metric,
		       task->flags & SCHEDHIST_RAW_UNSEEN, task->cpu, task->group,
		       U64(task->now_ns), U64(task->duration_ns), task->pid, task->prio);
		for (size_t i = 0; i < sizeof(task->comm); i++)
			printf("%02x", (unsigned char)task->comm[i]);
		printf("\n");
		break;
	case SCHEDHIST_RAW_WAITING:
		if (record->length < sizeof(*waiting))
			return broken("short waiting");
		printf("waiting %u %llu %llu %llu\n", waiting->metric, U64(waiting->now_ns),
		       U64(waiting->count), U64(waiting->sum_ns));
		break;
	default:
		break;
	}
	return 0;
}

int main(void)
{
	const struct schedhist_raw_header *header;
	const struct schedhist_raw_record *record;
	size_t offset;
	__u32 cpus = 0;

	if (read_all())
		return broken("no memory");
	header = (const void *)buffer;
	if (length < sizeof(*header) || memcmp(header->magic, SCHEDHIST_RAW_MAGIC, 8))
		return broken("not a snapshot");
	if (header->version != SCHEDHIST_RAW_VERSION)
		return broken("another version");
	if (header->header_length < sizeof(*header) || header->header_length % 8)
		return broken("bad header");
	if (!is_scheme(header))
		return broken("bad scheme");
	printf("header %llu %u %u %u %u %u %u %u %u\n", U64(header->time_ns),
	       header->flags & SCHEDHIST_RAW_ENABLED, header->precision, header->value_bits,
	       header->buckets, header->cpus, header->metrics, header->counters,
	       header->metrics_on);
	for (offset = header->header_length;; offset += record->length) {
		if (offset > length || length - offset < sizeof(*record))
			return broken("cut off");
		record = (const void *)(buffer + offset);
		if (record->length < sizeof(*record) || record->length % 8)
			return broken("bad record");
		if (record->length > length - offset)
			return broken("cut off");
		if (record->type == SCHEDHIST_RAW_END)
			break;
		if (print_record(header, record))
			return 1;
		cpus += record->type == SCHEDHIST_RAW_CPU;
	}
	if (offset + record->length != length)
		return broken("something after the end");
	if (cpus != header->cpus)
		return broken("another number of CPUs");
	return 0;
}
