// SPDX-License-Identifier: GPL-2.0
/*
 * Misbehaves when it is loaded, in the way that the parameter "fault" names.
 * tests/faults/run has the reports that the kernel must print.
 */

#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/timer.h>
#include <linux/vmalloc.h>

static char *fault = "none";
module_param(fault, charp, 0444);
MODULE_PARM_DESC(fault, "What to do wrong");

/* Volatile, so that the compiler neither reports nor removes the faults. */
static volatile int forty = 40;
static volatile char sink;

static void none(void)
{
}

static void warn(void)
{
	WARN(1, "asked for\n");
}

static void slab_overrun(void)
{
	char *memory = kmalloc(forty, GFP_KERNEL);

	if (memory)
		sink = memory[forty];
	kfree(memory);
}

static void use_after_free(void)
{
	char *memory = kmalloc(forty, GFP_KERNEL);

	kfree(memory);
	OPTIMIZER_HIDE_VAR(memory);
	if (memory)
		sink = *memory;
}

static void vmalloc_overrun(void)
{
	char *memory = vmalloc(forty);

	if (memory)
		sink = memory[forty];
	vfree(memory);
}

static void global_overrun(void)
{
	static char global[8];
	char *memory = global;

	OPTIMIZER_HIDE_VAR(memory);
	sink = memory[sizeof(global) + forty / 40];
}

/* Leaks many objects, as a stale pointer on a stack may refer to one. */
static void leak(void)
{
	int i;

	for (i = 0; i < 100; i++) {
		void *memory = kmalloc(forty, GFP_KERNEL);

		OPTIMIZER_HIDE_VAR(memory);
	}
}

static void shift(void)
{
	sink = 1 << forty;
}

static void sleep_in_atomic(void)
{
	static DEFINE_MUTEX(lock);

	preempt_disable();
	mutex_lock(&lock);
	mutex_unlock(&lock);
	preempt_enable();
}

static void preemptible_cpu(void)
{
	sink = smp_processor_id();
}

static void expired(struct timer_list *unused)
{
}

static void free_armed_timer(void)
{
	struct timer_list *timer = kzalloc(sizeof(*timer), GFP_KERNEL);

	if (!timer)
		return;
	timer_setup(timer, expired, 0);
	mod_timer(timer, jiffies + 1000 * HZ);
	kfree(timer);
}

static void wrong_rcu(void)
{
	static void __rcu *pointer;

	sink = rcu_dereference(pointer) != NULL;
}

static DEFINE_MUTEX(lock_a);
static DEFINE_MUTEX(lock_b);

static void lock_order(void)
{
	mutex_lock(&lock_a);
	mutex_lock(&lock_b);
	mutex_unlock(&lock_b);
	mutex_unlock(&lock_a);
	mutex_lock(&lock_b);
	mutex_lock(&lock_a);
	mutex_unlock(&lock_a);
	mutex_unlock(&lock_b);
}

/* On a real-time kernel spin_lock() may sleep. */
static void wait_context(void)
{
	static DEFINE_RAW_SPINLOCK(raw);
	static DEFINE_SPINLOCK(lock);

	raw_spin_lock(&raw);
	spin_lock(&lock);
	spin_unlock(&lock);
	raw_spin_unlock(&raw);
}

static void lock_kept(void)
{
	mutex_lock(&lock_a);
}

static void list_twice(void)
{
	static LIST_HEAD(list);
	static struct list_head entry;

	list_add(&entry, &list);
	list_add(&entry, &list);
}

static noinline int takes_long(long value)
{
	return value;
}

static void call_of_another_type(void)
{
	int (*call)(char *text) = (void *)takes_long;

	OPTIMIZER_HIDE_VAR(call);
	sink = call(NULL);
}

static unsigned long raced;

static int racer(void *unused)
{
	while (!kthread_should_stop()) {
		raced++;
		cond_resched();
	}
	return 0;
}

static void race(void)
{
	struct task_struct *tasks[2];
	int i;

	for (i = 0; i < ARRAY_SIZE(tasks); i++)
		tasks[i] = kthread_run(racer, NULL, "racer%d", i);
	msleep(5000);
	for (i = 0; i < ARRAY_SIZE(tasks); i++) {
		if (!IS_ERR(tasks[i]))
			kthread_stop(tasks[i]);
	}
}

static const struct {
	const char *name;
	void (*commit)(void);
} faults[] = {
	{ "none", none },
	{ "warn", warn },
	{ "slab_overrun", slab_overrun },
	{ "use_after_free", use_after_free },
	{ "vmalloc_overrun", vmalloc_overrun },
	{ "global_overrun", global_overrun },
	{ "leak", leak },
	{ "shift", shift },
	{ "sleep_in_atomic", sleep_in_atomic },
	{ "preemptible_cpu", preemptible_cpu },
	{ "free_armed_timer", free_armed_timer },
	{ "wrong_rcu", wrong_rcu },
	{ "lock_order", lock_order },
	{ "wait_context", wait_context },
	{ "lock_kept", lock_kept },
	{ "list_twice", list_twice },
	{ "call_of_another_type", call_of_another_type },
	{ "race", race },
};

static int __init faults_init(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(faults); i++) {
		if (strcmp(fault, faults[i].name))
			continue;
		faults[i].commit();
		return 0;
	}
	return -EINVAL;
}
module_init(faults_init);

static void __exit faults_exit(void)
{
}
module_exit(faults_exit);

MODULE_DESCRIPTION("Goes wrong on purpose");
MODULE_LICENSE("GPL");
