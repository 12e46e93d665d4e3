/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The maps of our BPF programs, for their own struct task and struct cpu.
 */

/*
 * Arrays have no lock and no hash; lookups in them are inlined. A PID that is
 * used again finds what the old task left: that costs nothing, and is wrong
 * seldom.
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
