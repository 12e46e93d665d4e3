/* SPDX-License-Identifier: GPL-2.0 */
/* Reads a whole file, like a tool that wants all of it, and counts the cost. */

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>
#include <x86intrin.h>

/* As long as any file, so that the cost of a read() besides copying counts once. */
static char read_buffer[8 << 20];

/* Opens the file, reads it to its end, and closes it. Returns its length. */
static inline long read_whole(const char *path)
{
	long length = 0;
	ssize_t n;
	int fd;

	fd = open(path, O_RDONLY);
	if (fd < 0)
		err(1, "%s", path);
	while ((n = read(fd, read_buffer, sizeof(read_buffer))) > 0)
		length += n;
	if (n < 0)
		err(1, "%s", path);
	close(fd);
	return length;
}

/* With --icount the time stamp counter counts instructions, those of all CPUs. */
static inline unsigned long instructions(void)
{
	return __rdtsc();
}
