/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Fake task_structs, for code of the kernel that runs in user space: see tests/bench/native.
 * Included by that program, too.
 */
#ifndef FAKE_TASK_H
#define FAKE_TASK_H

struct task_struct;

struct fake_task_ops {
	unsigned long size;
	/* Makes a task of zeroes one that has run on CPU 0. */
	void (*init)(struct task_struct *task, int pid);
	/* Returns where the time is at which the task was put on its run queue. */
	unsigned long long *(*queued)(struct task_struct *task);
	/* The task gets its CPU, after it waited for this long. */
	void (*arrive)(struct task_struct *task, unsigned long long waited);
};

extern const struct fake_task_ops fake_task_ops;

#endif
