/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The maps of our BPF programs, for their own struct task and struct cpu.
 */

/*
 * Arrays have no lock and no hash, and lookups in them are inlined. A reused PID finds the data of
 * the old task: that costs nothing, and is seldom wrong.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PIDS);
	__type(key, u32);
	__type(value, struct task);
} tasks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct cpu);
} cpus SEC(".maps");

static __always_inline struct task *task_of(u32 pid)
{
	return bpf_map_lookup_elem(&tasks, &pid);
}

static __always_inline struct cpu *this_cpu(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&cpus, &zero);
}
