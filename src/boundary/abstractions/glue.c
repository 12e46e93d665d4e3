// SPDX-License-Identifier: GPL-2.0
/*
 * What the abstractions need and only C has: wrappers of static inlines and
 * macros, and the check of the probes' prototypes.
 */

#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/debugfs.h>
#include <linux/err.h>
#include <linux/interrupt.h>
#include <linux/irq_work.h>
#include <linux/irqflags.h>
#include <linux/percpu.h>
#include <linux/pid.h>
#include <linux/poll.h>
#include <linux/preempt.h>
#include <linux/rcupdate.h>
#include <linux/sched/clock.h>
#include <linux/sched/isolation.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/topology.h>
#include <linux/tracepoint.h>
#include <linux/wait.h>
#include <trace/events/cgroup.h>
#include <trace/events/irq.h>
#include <trace/events/sched.h>
#include <trace/events/task.h>
#include <trace/events/timer.h>

#include "glue.h"

void schedhist_tracepoint_synchronize_unregister(void)
{
	tracepoint_synchronize_unregister();
}

#ifndef HAVE_SCHED_EXIT_TP
static DEFINE_PER_CPU(struct irq_work, exit_work);
static schedhist_sched_exit_probe exit_probe;
static void *exit_data;
static bool exits_wanted;

static void call_exit_probe(struct irq_work *work)
{
	exit_probe(exit_data, true);
}

int schedhist_start_exits(schedhist_sched_exit_probe probe, void *data)
{
	int cpu;

	if (cmpxchg(&exit_probe, NULL, probe))
		return -EBUSY;
	exit_data = data;
	/* The initial values of a module's per-CPU variables are not relocated. */
	for_each_possible_cpu(cpu)
		schedhist_init_irq_work(per_cpu_ptr(&exit_work, cpu), call_exit_probe);
	/* Whoever sees it true sees the work and the probe, too. */
	smp_store_release(&exits_wanted, true);
	return 0;
}

void schedhist_stop_exits(void)
{
	int cpu;

	WRITE_ONCE(exits_wanted, false);
	/* Whoever has seen it true has queued the work. */
	synchronize_rcu();
	for_each_possible_cpu(cpu)
		irq_work_sync(per_cpu_ptr(&exit_work, cpu));
	/* The next one to start writes exit_data only after this. */
	smp_store_release(&exit_probe, NULL);
}

void schedhist_ask_for_exit(void)
{
	preempt_disable_notrace();
	/* Pairs with the release in schedhist_start_exits(). */
	if (smp_load_acquire(&exits_wanted))
		irq_work_queue(this_cpu_ptr(&exit_work));
	preempt_enable_notrace();
}
#endif

#ifdef HAVE_SCHED_SET_NEED_RESCHED_TP
bool schedhist_is_resched_pending(bool is_lazy)
{
	return test_thread_flag(is_lazy ? TIF_NEED_RESCHED_LAZY : TIF_NEED_RESCHED);
}
#endif

#ifndef HAVE_GROUP_DEAD
/* do_exit() counts a thread down before it hits the tracepoint. */
bool schedhist_is_dead(struct task_struct *task)
{
	return !atomic_read(&task->signal->live);
}
#endif

unsigned int schedhist_interruptions(void)
{
	return (preempt_count() & SCHEDHIST_IN_HARDIRQ) |
	       (in_serving_softirq() ? SCHEDHIST_IN_SOFTIRQ : 0);
}

static_assert(SCHEDHIST_TIMER_SOFTIRQ == TIMER_SOFTIRQ);
static_assert(SCHEDHIST_HRTIMER_SOFTIRQ == HRTIMER_SOFTIRQ);
static_assert(SCHEDHIST_RCU_SOFTIRQ == RCU_SOFTIRQ);

/* The engine has these as literals: switch_out.rs and rule.rs. */
static_assert(TASK_INTERRUPTIBLE == 0x1 && TASK_UNINTERRUPTIBLE == 0x2 &&
	      __TASK_STOPPED == 0x4 && __TASK_TRACED == 0x8 &&
	      TASK_PARKED == 0x40 && TASK_DEAD == 0x80 && TASK_NOLOAD == 0x400 &&
	      TASK_RTLOCK_WAIT == 0x1000 && TASK_FROZEN == 0x8000);
static_assert(PID_MAX_LIMIT <= 1 << 22);

bool schedhist_is_softirq_thread(const struct task_struct *task)
{
	/* Another CPU may change other flags. Only root renames a thread. */
	return READ_ONCE(task->flags) & PF_KTHREAD &&
	       (!strncmp(task->comm, "ksoftirqd/", 10) ||
		!strncmp(task->comm, "ktimers/", 8));
}

int schedhist_next_allowed(const struct task_struct *task, int cpu)
{
	const unsigned long *allowed = cpumask_bits(task->cpus_ptr);
	const unsigned long *active = cpumask_bits(cpu_active_mask);
	const unsigned long *domain =
		cpumask_bits(housekeeping_cpumask(HK_TYPE_DOMAIN));
	unsigned long mask = BITMAP_FIRST_WORD_MASK(cpu + 1);
	unsigned int i;

	/* Word by word: thousands of CPUs may be isolated. */
	for (i = BIT_WORD(cpu + 1); i < BITS_TO_LONGS(nr_cpu_ids); i++) {
		mask &= READ_ONCE(allowed[i]) & READ_ONCE(active[i]) &
			READ_ONCE(domain[i]);
		if (mask)
			return i * BITS_PER_LONG + __ffs(mask);
		mask = ~0UL;
	}
	return -1;
}

DEFINE_PER_CPU(u64, schedhist_topology);

bool schedhist_shares_llc(int one, int two)
{
	/* As for the kernel, which splits that of a package with Intel's SNC. */
	if (cpu_to_node(one) != cpu_to_node(two))
		return false;
#if defined(CONFIG_X86) && !defined(CONFIG_UML)
	/* As match_llc() does, without the parameter split_llc. */
	return per_cpu_llc_id(one) != BAD_APICID &&
	       per_cpu_llc_id(one) == per_cpu_llc_id(two);
#else
#ifdef CONFIG_GENERIC_ARCH_TOPOLOGY
	const struct cpumask *ones = &cpu_topology[one].llc_sibling;
	const struct cpumask *twos = &cpu_topology[two].llc_sibling;

	/* Has only the CPU itself, too, if firmware does not describe the caches. */
	if (!cpumask_equal(ones, cpumask_of(one)) ||
	    !cpumask_equal(twos, cpumask_of(two)))
		return cpumask_test_cpu(two, ones);
#endif
	return topology_physical_package_id(one) == topology_physical_package_id(two);
#endif
}

bool schedhist_is_sibling(int one, int two)
{
	return cpumask_test_cpu(two, topology_sibling_cpumask(one));
}

int schedhist_node_of(int cpu)
{
	return cpu_to_node(cpu);
}

struct dentry *schedhist_create_file(const char *name, umode_t mode,
				     struct dentry *parent, void *data,
				     const struct file_operations *fops)
{
	struct dentry *dentry = debugfs_create_file(name, mode, parent, data, fops);
	int err;

	if (IS_ERR(dentry))
		return dentry;
	/*
	 * The first open of a file reads its file operations before it knows whether the file is
	 * still there (__debugfs_file_get() of 7.3), and so freed memory if the module is gone.
	 * Later ones read what the first one has kept. So open it once, in vain: it is refused
	 * before Tree::publish(), and nobody looks at more of the file than this.
	 */
	struct file file = { .f_path = { .dentry = dentry }, .f_inode = d_inode(dentry) };

	err = file.f_inode->i_fop->open(file.f_inode, &file);
	return err == -ENOMEM ? ERR_PTR(err) : dentry;
}

struct task_struct *schedhist_find_process(pid_t pid)
{
	struct task_struct *leader = pid_task(find_vpid(pid), PIDTYPE_TGID);

	/* The leader may have exited before other threads of its process. */
	return leader && atomic_read(&leader->signal->live) ? leader : NULL;
}

void schedhist_visit_tasks(schedhist_visit visit, void *data, bool queued)
{
	struct task_struct *process, *task;

	rcu_read_lock();
	/*
	 * Not for_each_process_thread(): with PROVE_RCU_LIST it refers to
	 * tasklist_lock, which is not exported.
	 */
	for_each_process(process)
		list_for_each_entry_rcu(task, &process->signal->thread_head,
					thread_node)
			if ((!queued || READ_ONCE(task->on_rq)) &&
			    !visit(task, data))
				goto out;
out:
	rcu_read_unlock();
}

void schedhist_visit_threads(struct task_struct *task, schedhist_visit visit,
			     void *data)
{
	struct task_struct *thread;

	rcu_read_lock();
	/* Not for_each_thread(), for the same reason. */
	list_for_each_entry_rcu(thread, &task->signal->thread_head, thread_node)
		if (!visit(thread, data))
			break;
	rcu_read_unlock();
}

unsigned long schedhist_spin_lock(spinlock_t *lock)
{
	unsigned long flags;

	spin_lock_irqsave(lock, flags);
	return flags;
}

void schedhist_spin_unlock(spinlock_t *lock, unsigned long flags)
{
	spin_unlock_irqrestore(lock, flags);
}

unsigned long schedhist_irq_save(void)
{
	unsigned long flags;

	local_irq_save(flags);
	return flags;
}

void schedhist_irq_restore(unsigned long flags)
{
	local_irq_restore(flags);
}

int schedhist_call_on_cpu(int cpu, schedhist_call call, void *data)
{
	return smp_call_function_single(cpu, call, data, 1);
}

void *schedhist_alloc(size_t size, int cpu)
{
	const gfp_t flags = GFP_KERNEL | __GFP_ZERO | __GFP_NOWARN |
			    __GFP_RETRY_MAYFAIL;

	return kvmalloc_node(size, flags, cpu < 0 ? NUMA_NO_NODE : cpu_to_node(cpu));
}

void schedhist_init_irq_work(struct irq_work *work, schedhist_irq_work_func call)
{
	*work = IRQ_WORK_INIT_HARD(call);
}

bool schedhist_has_sleeper(struct wait_queue_head *queue)
{
	return wq_has_sleeper(queue);
}

int schedhist_wait_event(struct wait_queue_head *queue,
			 schedhist_condition condition, void *data)
{
	return wait_event_interruptible(*queue, condition(data));
}

void schedhist_poll_wait(struct file *file, struct wait_queue_head *queue,
			 struct poll_table_struct *table)
{
	poll_wait(file, queue, table);
}

#ifndef CONFIG_HAVE_UNSTABLE_SCHED_CLOCK
u64 schedhist_local_clock(void)
{
	return local_clock();
}
#endif

#ifndef CONFIG_HOTPLUG_CPU
void schedhist_cpus_read_lock(void)
{
	cpus_read_lock();
}

void schedhist_cpus_read_unlock(void)
{
	cpus_read_unlock();
}
#endif

void schedhist_cond_resched(void)
{
	cond_resched();
}

#ifdef CONFIG_RUST_DEBUG_ASSERTIONS
bool schedhist_irqs_disabled(void)
{
	return irqs_disabled();
}

bool schedhist_preemptible(void)
{
	return preemptible();
}
#endif

/* Never called: fails to compile if a tracepoint's prototype has changed. */
static void __maybe_unused check_prototypes(void)
{
	check_trace_callback_type_sched_switch((schedhist_sched_switch_probe)NULL);
#ifdef HAVE_SCHED_EXIT_TP
	check_trace_callback_type_sched_exit_tp((schedhist_sched_exit_probe)NULL);
#endif
#ifdef HAVE_SCHED_SET_NEED_RESCHED_TP
	check_trace_callback_type_sched_set_need_resched_tp((schedhist_need_resched_probe)NULL);
#endif
	check_trace_callback_type_sched_waking((schedhist_sched_waking_probe)NULL);
	check_trace_callback_type_sched_wakeup_new((schedhist_sched_wakeup_new_probe)NULL);
	check_trace_callback_type_softirq_raise((schedhist_softirq_probe)NULL);
	check_trace_callback_type_softirq_entry((schedhist_softirq_probe)NULL);
	check_trace_callback_type_hrtimer_expire_entry((schedhist_hrtimer_expire_entry_probe)NULL);
	check_trace_callback_type_hrtimer_expire_exit((schedhist_hrtimer_expire_exit_probe)NULL);
	check_trace_callback_type_task_newtask((schedhist_task_newtask_probe)NULL);
	check_trace_callback_type_task_rename((schedhist_task_rename_probe)NULL);
	check_trace_callback_type_sched_process_exec((schedhist_sched_process_exec_probe)NULL);
	check_trace_callback_type_sched_process_exit((schedhist_sched_process_exit_probe)NULL);
	check_trace_callback_type_cgroup_attach_task((schedhist_cgroup_attach_task_probe)NULL);
	check_trace_callback_type_cgroup_mkdir((schedhist_cgroup_mkdir_probe)NULL);
}
