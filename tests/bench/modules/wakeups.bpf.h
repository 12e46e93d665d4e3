/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The wakeups of our BPF programs: a task begins to wait for a CPU.
 */

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
