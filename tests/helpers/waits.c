// SPDX-License-Identifier: GPL-2.0
/*
 * Runs all the time, and is preempted at two known places: a real-time task, the hog, takes its CPU
 * for 20 ms while it is in wait_short(), and then for 60 ms while it is in wait_long().
 *
 * usage: waits CPU
 *        waits quota
 *
 * Goes on until its standard input ends, or an "s" comes from there: then it stays, asleep. Prints
 * before for how long it did not have the CPU at each place, in nanoseconds, since the last other byte
 * came: "wait_short N", "wait_long N". That is the time by CLOCK_MONOTONIC, less that by the clock of
 * the thread's CPU time.
 *
 * With `quota` there is no hog: the program runs in wait_quota(), on whatever CPU and quota it is
 * given, until it is killed.
 *
 * It is compiled with frame pointers. The three functions call nothing, so that each is on top of
 * the user stack while it is preempted.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "task.h"

/* For how long the hog is to take the CPU, in nanoseconds; it sets this to 0 afterwards. */
static volatile long *wanted;

static __attribute__((noinline)) void wait_short(void)
{
	while (*wanted)
		;
	asm volatile("");
}

static __attribute__((noinline)) void wait_long(void)
{
	while (*wanted)
		;
	asm volatile("" : : "r"(&wanted));
}

static __attribute__((noinline, noreturn)) void wait_quota(void)
{
	for (;;)
		asm volatile("");
}

static __attribute__((noreturn)) void be_hog(void)
{
	if (prctl(PR_SET_PDEATHSIG, 9) || prctl(PR_SET_NAME, "hog"))
		die("hog");
	be_realtime();
	for (;;) {
		long long begin = now();

		while (now() < begin + *wanted)
			;
		*wanted = 0;
		nap(5);
	}
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		long length;
		void (*wait)(void);
	} waits[] = { { "wait_short", 20, wait_short }, { "wait_long", 60, wait_long } };
	long long waited[2] = { 0 };
	char byte;
	ssize_t got;

	if (argc != 2)
		return 2;
	if (!strcmp(argv[1], "quota"))
		wait_quota();
	use_cpu(atoi(argv[1]));
	wanted = mmap(NULL, sizeof(*wanted), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (wanted == MAP_FAILED || fcntl(0, F_SETFL, O_NONBLOCK))
		die("waits");
	if (!fork())
		be_hog();
	while ((got = read(0, &byte, 1)) != 0 && (got < 0 || byte != 's')) {
		if (got == 1)
			memset(waited, 0, sizeof(waited));
		for (int i = 0; i < 2; i++) {
			long long before = off_cpu();

			*wanted = waits[i].length * MS;
			waits[i].wait();
			waited[i] += off_cpu() - before;
		}
	}
	for (int i = 0; i < 2; i++)
		printf("%s %lld\n", waits[i].name, waited[i]);
	fflush(stdout);
	if (got)
		pause();
	return 0;
}
