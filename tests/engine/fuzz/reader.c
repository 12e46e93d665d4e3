// SPDX-License-Identifier: GPL-2.0
/*
 * The C reader of binary snapshots, as a function for the fuzzer.
 */
#define main reader_main
#include "../tests/raw.c"
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
