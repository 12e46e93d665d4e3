// SPDX-License-Identifier: GPL-2.0

#include <string.h>
#include <unistd.h>

#include "cache.h"
#include "memory.h"

#define LINE 64

static volatile char *data;
static size_t l1d, l1i, l2;
static void (*run_code)(void);

static size_t size_of_cache(int name, size_t otherwise)
{
	long size = sysconf(name);

	return size > 0 ? (size_t)size : otherwise;
}

void prepare_caches(void)
{
	unsigned char *code;
	size_t size;

	l1d = size_of_cache(_SC_LEVEL1_DCACHE_SIZE, 32 << 10);
	l1i = size_of_cache(_SC_LEVEL1_ICACHE_SIZE, 32 << 10);
	l2 = size_of_cache(_SC_LEVEL2_CACHE_SIZE, 1 << 20);
	data = take_data(4 * l2, 2 << 20);
	memset((void *)data, 1, 4 * l2);
	/* A jump in each line to the next one. */
	size = 2 * l1i;
	code = take_code(size, LINE);
	for (size_t i = 0; i + LINE < size; i += LINE) {
		code[i] = 0xeb;
		code[i + 1] = LINE - 2;
	}
	code[size - LINE] = 0xc3;
	run_code = (void (*)(void))code;
}

static void read_data(size_t size)
{
	/* Twice: caches do not evict strictly what is oldest. */
	for (int i = 0; i < 2; i++)
		for (size_t at = 0; at < size; at += LINE)
			data[at];
}

void evict(enum cache cache)
{
	if (cache == HOT)
		return;
	read_data(cache == NO_L1 ? 2 * l1d : 4 * l2);
	run_code();
	run_code();
}
