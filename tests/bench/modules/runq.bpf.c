// SPDX-License-Identifier: GPL-2.0
/*
 * Only run-queue latency, with arrays instead of hashes.
 */

#include "types.bpf.h"

struct task {
	u64 queued;
};

struct cpu {
	struct histogram runq;
};

#include "maps.bpf.h"
#include "wakeups.bpf.h"

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev,
	     struct task_struct *next, unsigned int prev_state)
{
	u64 now = bpf_ktime_get_ns();
	struct task *task;
	struct cpu *cpu;
	u32 pid;

	if (preempt || !prev_state) {
		pid = prev->pid;
		task = task_of(pid);
		if (task && pid)
			task->queued = now;
	}
	pid = next->pid;
	task = task_of(pid);
	cpu = this_cpu();
	if (!pid || !task || !cpu || !task->queued)
		return 0;
	count(&cpu->runq, now - task->queued);
	task->queued = 0;
	return 0;
}
