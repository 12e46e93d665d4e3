// SPDX-License-Identifier: GPL-2.0
/*
 * Run-queue latency, on-CPU and off-CPU time at once, with arrays instead of hashes.
 */

#include "types.bpf.h"

struct task {
	u64 out;	/* when it blocked, or 0 */
	u64 queued;	/* when its wait for a CPU began, or 0 */
};

struct cpu {
	u64 since;
	struct histogram runq, oncpu, offcpu;
};

#include "maps.bpf.h"
#include "wakeups.bpf.h"

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev,
	     struct task_struct *next, unsigned int prev_state)
{
	u64 now = bpf_ktime_get_ns();
	struct cpu *cpu = this_cpu();
	struct task *task;
	u32 pid;

	if (!cpu)
		return 0;
	pid = prev->pid;
	task = task_of(pid);
	if (pid && task) {
		if (cpu->since)
			count(&cpu->oncpu, now - cpu->since);
		if (preempt || !prev_state) {
			task->out = 0;
			task->queued = now;
		} else {
			task->out = now;
			task->queued = 0;
		}
	}
	cpu->since = now;
	pid = next->pid;
	task = task_of(pid);
	if (!pid || !task)
		return 0;
	if (task->queued)
		count(&cpu->runq, now - task->queued);
	if (task->out)
		count(&cpu->offcpu, now - task->out);
	return 0;
}
