/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Loads and unloads the module without a new process each time, so that more cycles fit.
 */
#ifndef MODULE_H
#define MODULE_H

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Like insmod: returns 0, or -1 and sets errno. */
static inline int load(int ko, const char *parameters)
{
	return syscall(SYS_finit_module, ko, parameters, 0);
}

/* Like rmmod; errno is EWOULDBLOCK while the module is in use. */
static inline int unload(void)
{
	return syscall(SYS_delete_module, "schedhist", O_NONBLOCK);
}

/* Returns whether nothing of the module is visible. */
static inline int is_gone(void)
{
	return access("/sys/module/schedhist", F_OK) && access("/sys/kernel/debug/schedhist", F_OK) &&
	       access("/sys/kernel/tracing/events/schedhist", F_OK);
}

#endif
