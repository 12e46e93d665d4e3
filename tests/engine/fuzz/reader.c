// SPDX-License-Identifier: GPL-2.0
/*
 * The program of raw_reader.py, which reads binary snapshots, as a function for the fuzzer.
 */
#include <assert.h>

#define main reader_main
#include "raw_reader.c"
#undef main

int schedhist_raw_reader(const unsigned char *data, size_t len, char **text);

int schedhist_raw_reader(const unsigned char *data, size_t len, char **text)
{
	FILE *in = stdin, *out = stdout, *err = stderr;
	size_t size;
	int result;

	stdin = fmemopen((void *)data, len, "r");
	stdout = open_memstream(text, &size);
	stderr = stdout;
	assert(stdin && stdout);
	result = reader_main();
	fclose(stdin);
	fclose(stdout);
	stdin = in;
	stdout = out;
	stderr = err;
	free(buffer);
	buffer = NULL;
	length = 0;
	return result;
}
