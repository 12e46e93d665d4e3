// SPDX-License-Identifier: GPL-2.0

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "memory.h"

struct area {
	unsigned long begin;
	size_t size, used;
};

/* Far from each other: the CPU watches for stores near the code that it runs. */
static struct area code = { .begin = 0x10000000, .size = 8 << 20 };
static struct area data = { .begin = 0x20000000, .size = 64 << 20 };

_Noreturn void die(const char *format, ...)
{
	va_list list;

	fputs("native: ", stderr);
	va_start(list, format);
	vfprintf(stderr, format, list);
	va_end(list);
	fputc('\n', stderr);
	exit(1);
}

static void *take(struct area *area, size_t size, size_t alignment)
{
	size_t at = alignment ? (area->used + alignment - 1) / alignment * alignment : area->used;

	if (!area->used) {
		void *begin = mmap((void *)area->begin, area->size, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

		if (begin != (void *)area->begin)
			die("the memory at %#lx is in use", area->begin);
		/* Without huge pages, misses of the TLB are measured, too. */
		madvise(begin, area->size, MADV_HUGEPAGE);
	}
	if (at + size > area->size)
		die("out of memory below 2 GiB");
	area->used = at + size;
	return (void *)(area->begin + at);
}

void *take_code(size_t size, size_t alignment)
{
	return take(&code, size, alignment);
}

void *take_data(size_t size, size_t alignment)
{
	return take(&data, size, alignment);
}

void seal_code(void)
{
	if (mprotect((void *)code.begin, code.size, PROT_READ | PROT_EXEC))
		die("cannot make the code executable");
}

bool is_code(unsigned long address)
{
	return address - code.begin < code.used;
}
