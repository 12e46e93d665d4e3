/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Loads and unloads the module without a process for each, which makes many fit.
 */
#ifndef MODULE_H
#define MODULE_H

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* As insmod: 0, or -1 and an error. */
static inline int load(int ko, const char *parameters)
{
	return syscall(SYS_finit_module, ko, parameters, 0);
}

/* As rmmod; the error is EWOULDBLOCK while the module is in use. */
static inline int unload(void)
{
	return syscall(SYS_delete_module, "schedhist", O_NONBLOCK);
}

/* Whether nothing of it can be seen. */
static inline int is_gone(void)
{
	return access("/sys/module/schedhist", F_OK) && access("/sys/kernel/debug/schedhist", F_OK) &&
	       access("/sys/kernel/tracing/events/schedhist", F_OK);
}

#endif
