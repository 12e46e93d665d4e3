// SPDX-License-Identifier: GPL-2.0
/*
 * Repeats an operation while the kernel makes allocations of this task fail.
 *
 * usage: fail_nth load MODULE PARAMETERS
 *        fail_nth unload NAME
 *        fail_nth write FILE TEXT
 *        fail_nth read FILE
 *        fail_nth fork NAPS
 *
 * Each line of the input, "HOW N [PID]", is one attempt. HOW: once, and the Nth allocation fails;
 * rest, and all from the Nth on fail, for which the shell sets the probability of failures to 100;
 * off, and none fails. PID is the child's. For each attempt the program prints whether any
 * allocation failed, the errno or 0, the number of bytes read, a hash of them, and the number of
 * allocations, up to the Nth.
 *
 * Page faults, for which the kernel allocates too, would disturb the count: the program touches no
 * new page during an attempt.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int fail_nth, make_it_fail;
static char **arguments;
static int module = -1;
static int output = -1;
static pid_t child;
static unsigned long bytes, hash;
static char buffer[1 << 16];

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static int open_or_die(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC);

	if (fd < 0)
		die(path);
	return fd;
}

/* An operation returns 0 or an errno. */

static int load(void)
{
	return syscall(SYS_finit_module, module, arguments[1], 0) ? errno : 0;
}

static int unload(void)
{
	return syscall(SYS_delete_module, arguments[0], O_NONBLOCK) ? errno : 0;
}

static int write_text(void)
{
	size_t length = strlen(arguments[1]);

	return write(output, arguments[1], length) == (ssize_t)length ? 0 : errno;
}

static int read_all(void)
{
	int fd = open(arguments[0], O_RDONLY | O_NONBLOCK | O_CLOEXEC), error;
	ssize_t got;

	if (fd < 0)
		return errno;
	while ((got = read(fd, buffer, sizeof(buffer))) > 0) {
		bytes += got;
		for (ssize_t i = 0; i < got; i++)
			hash = (hash ^ (unsigned char)buffer[i]) * 0x100000001b3;
	}
	error = got < 0 ? errno : 0;
	close(fd);
	return error;
}

/* The child naps as often as it is told, and thereby switches. */
static int fork_child(void)
{
	struct clone_args args = {
		.exit_signal = SIGCHLD,
		.set_tid = (uintptr_t)&child,
		.set_tid_size = 1,
	};
	int naps = atoi(arguments[0]);
	pid_t pid = syscall(SYS_clone3, &args, sizeof(args));

	if (pid < 0)
		return errno;
	if (!pid) {
		for (int i = 0; i < naps; i++)
			nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL);
		_exit(0);
	}
	bytes = pid;
	return 0;
}

static const struct {
	const char *name;
	int (*run)(void);
} operations[] = {
	{ "load", load },      { "unload", unload },	 { "write", write_text },
	{ "read", read_all },  { "fork", fork_child },
};

static void put(int fd, unsigned int value)
{
	char text[16];
	int length = snprintf(text, sizeof(text), "%u", value);

	if (pwrite(fd, text, length, 0) != length)
		_exit(2);
}

int main(int argc, char **argv)
{
	int (*run)(void) = NULL;
	char line[80];

	for (size_t i = 0; argc > 1 && i < sizeof(operations) / sizeof(*operations); i++)
		if (!strcmp(argv[1], operations[i].name))
			run = operations[i].run;
	if (!run)
		return 2;
	arguments = argv + 2;
	if (run == load)
		module = open_or_die(arguments[0], O_RDONLY);
	fail_nth = open_or_die("/proc/thread-self/fail-nth", O_RDWR);
	make_it_fail = open_or_die("/proc/thread-self/make-it-fail", O_RDWR);
	memset(buffer, 1, sizeof(buffer));
	if (mlockall(MCL_CURRENT))
		die("mlockall");

	while (fgets(line, sizeof(line), stdin)) {
		char how[8], left[16] = "";
		unsigned int n = 0;
		int error;

		if (sscanf(line, "%7s %u %d", how, &n, &child) < 1)
			return 2;
		if (run == write_text)
			output = open_or_die(arguments[0], O_WRONLY);
		bytes = 0;
		hash = 0xcbf29ce484222325;
		put(fail_nth, n);
		put(make_it_fail, !strcmp(how, "rest"));
		error = run();
		put(make_it_fail, 0);
		if (pread(fail_nth, left, sizeof(left) - 1, 0) <= 0)
			return 2;
		put(fail_nth, 0);
		if (run == write_text)
			close(output);
		while (run == fork_child && wait(NULL) > 0)
			;
		printf("%d %d %lu %lx %u\n", n && !atoi(left), error, bytes, hash,
		       n - atoi(left));
		fflush(stdout);
	}
	return 0;
}
