/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory below 2 GiB, as the kernel's code model needs, on huge pages, as the kernel's own memory
 * is: for code, and for all else.
 */
#ifndef MEMORY_H
#define MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/* Returns zeroes. Ends the program if there is no memory left. */
void *take_code(size_t size, size_t alignment);
void *take_data(size_t size, size_t alignment);

/* Makes the code executable, and no longer writable. */
void seal_code(void);

/* Returns whether the address is that of code. */
bool is_code(unsigned long address);

/* Prints a message, and ends the program. */
_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
