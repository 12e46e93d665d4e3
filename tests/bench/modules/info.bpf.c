// SPDX-License-Identifier: GPL-2.0
/*
 * Run-queue latency, on-CPU and off-CPU time at once, as in all.bpf.c, but without a program at
 * wakeups: the kernel itself sums up how long each task has waited for a CPU. A wait is counted
 * when the task leaves the CPU again.
 */

#include "types.bpf.h"

struct task {
	u64 out;	/* when it blocked, or 0 */
	u64 waited;	/* until it had the CPU before, or 0 */
};

struct cpu {
	u64 since;
	struct histogram runq, oncpu, offcpu;
};

#include "maps.bpf.h"

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
		u64 waited = prev->sched_info.run_delay;

		if (task->waited)
			count(&cpu->runq, waited - task->waited);
		task->waited = waited;
		if (cpu->since)
			count(&cpu->oncpu, now - cpu->since);
		task->out = preempt || !prev_state ? 0 : now;
	}
	cpu->since = now;
	pid = next->pid;
	task = task_of(pid);
	if (pid && task && task->out)
		count(&cpu->offcpu, now - task->out);
	return 0;
}
