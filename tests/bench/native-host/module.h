/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Loads a kernel module into this program, so that its functions can be called.
 */
#ifndef MODULE_H
#define MODULE_H

struct module;

/*
 * Loads the module, and binds local_clock() to the function of this program. A call of any other
 * function of the kernel ends the program. Variables of each CPU are there once: this needs a GS
 * base of 0, as programs have it.
 */
struct module *load_module(const char *path);

/*
 * Returns the address of the only symbol that matches the pattern of a shell. Names of Rust are
 * mangled.
 */
void *find_symbol(const struct module *module, const char *pattern);

#endif
