// SPDX-License-Identifier: GPL-2.0

#include "clock.h"
#include "layout.h"
#include "memory.h"
#include "module.h"
#include "probes.h"

#define PAGE 4096
/* The size of the records of a CPU. */
#define RECORDS (64 << 10)
/* The pages of the states of tasks, of 64 each: enough for the PIDs here. */
#define STATE_PAGES 16

static void skip_switch(void *data, bool preempt, struct task_struct *prev,
			struct task_struct *next, unsigned int prev_state)
{
	(void)data;
	(void)preempt;
	(void)prev;
	(void)next;
	(void)prev_state;
}

static void skip_wakeup(void *data, struct task_struct *task)
{
	(void)data;
	(void)task;
}

static void read_clock(void *data, bool preempt, struct task_struct *prev,
		       struct task_struct *next, unsigned int prev_state)
{
	(void)data;
	(void)preempt;
	(void)prev;
	(void)next;
	(void)prev_state;
	local_clock();
}

const struct probes no_probes = { .on_switch = skip_switch, .on_wakeup = skip_wakeup };
const struct probes clock_probes = { .on_switch = read_clock, .on_wakeup = skip_wakeup };

struct probes c_probes(const char *path, const char *buckets, size_t count)
{
	struct module *module = load_module(path);
	struct probes probes = {
		.on_switch = find_symbol(module, "on_switch"),
		.on_wakeup = find_symbol(module, "on_wakeup"),
	};

	if (buckets) {
		probes.buckets = find_symbol(module, buckets);
		probes.bucket_count = count;
		probes.samples = 1;
	}
	return probes;
}

/*
 * The data of the probes on the only CPU. A reference to the table of states has two words, one of
 * which is the address of the first element. The probes do not read the other one.
 */
static void set_data(struct probes *probes, char *records)
{
	uint64_t *recorder = take_data(SIZEOF_RECORDER, 64);
	uint64_t *here = take_data(SIZEOF_CPURECORDER, 64);
	uint64_t *pages = take_data(STATE_PAGES * sizeof(*pages), 64);

	/* The address of the records, and how many buckets they have. */
	here[OFFSET_CPURECORDER_RECORDS / 8] = (uint64_t)records;
	here[OFFSET_CPURECORDER_RECORDS / 8 + 1] = (RECORDS - SIZEOF_HEADER) / sizeof(uint64_t);
	for (int i = 0; i < STATE_PAGES; i++)
		pages[i] = (uint64_t)take_data(PAGE, PAGE);
	for (int i = 0; i < 2; i++) {
		here[OFFSET_CPURECORDER_TASKS / 8 + i] = (uint64_t)pages;
		recorder[OFFSET_RECORDER_TASKS / 8 + i] = (uint64_t)pages;
	}
	probes->data = here;
	probes->wakeup_data = recorder;
}

struct probes schedhist_probes(const char *path)
{
	static struct module *module;
	struct probes probes;
	char *records = take_data(RECORDS, RECORDS);
	/* As in Range::new(): no sample yet. */
	uint64_t *ranges = (uint64_t *)(records + OFFSET_HEADER_TOTALS + OFFSET_TOTALS_RANGES);

	if (!module)
		module = load_module(path);
	for (int i = 0; i < SIZEOF_TOTALS_RANGES / SIZEOF_RANGE; i++)
		ranges[(i * SIZEOF_RANGE + OFFSET_RANGE_MINUS_MIN) / 8] = 1;
	probes = (struct probes){
		/* The recorder's settings follow at once, without groups and long waits. */
		.on_switch = find_symbol(module, "_R*16SchedSwitchProbe*11CpuRecorderINt*7VariantI*"
					 "5FixedKm5_EKb0_KB*_KB*_EE5probe*"),
		.on_wakeup = find_symbol(module, "_R*16SchedWakingProbe*8RecorderNt*QueuedWakeupsE5probe*"),
		.buckets = (uint64_t *)(records + SIZEOF_HEADER),
		.bucket_count = (RECORDS - SIZEOF_HEADER) / sizeof(uint64_t),
		/* On-CPU time, the wait for the CPU, off-CPU time, the sleep. */
		.samples = 4,
	};
	set_data(&probes, records);
	return probes;
}
