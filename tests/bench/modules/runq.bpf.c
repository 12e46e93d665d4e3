// SPDX-License-Identifier: GPL-2.0
/*
 * Run-queue latency alone, with arrays in place of hashes.
 */

#include "types.bpf.h"

struct task {
	u64 queued;
};

struct cpu {
	struct histogram runq;
};

#include "maps.bpf.h"

static __always_inline int queued(u32 pid)
{
	struct task *task = task_of(pid);

	if (task)
		task->queued = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(on_wakeup, struct task_struct *task)
{
	return queued(task->pid);
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(on_wakeup_new, struct task_struct *task)
{
	return queued(task->pid);
}

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
