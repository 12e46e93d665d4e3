// SPDX-License-Identifier: GPL-2.0
/*
 * Measures the cost of reading files, including opening and closing them.
 *
 * usage: read-files FILE...
 *
 * Prints "INSTRUCTIONS BYTES" for all of the files together: the least of five runs, as the timer
 * interrupts some of them.
 */

#include <stdio.h>

#include "read-whole.h"

int main(int argc, char **argv)
{
	unsigned long least = -1UL, start, taken;
	long bytes = 0;

	for (int round = 0; round < 5; round++) {
		bytes = 0;
		start = instructions();
		for (int i = 1; i < argc; i++)
			bytes += read_whole(argv[i]);
		taken = instructions() - start;
		if (taken < least)
			least = taken;
	}
	printf("%lu %ld\n", least, bytes);
	return 0;
}
