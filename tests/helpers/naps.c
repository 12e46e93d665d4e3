// SPDX-License-Identifier: GPL-2.0
/*
 * Sleeps in three ways for a fifth, three tenths and half of the time: on a futex, in a read from a
 * pipe, and on a timer. Between two rounds it also runs for a millisecond.
 *
 * usage: naps
 *
 * Goes on until its standard input ends, or an "s" comes from there: then it stays, asleep. Prints
 * before for how long it did not have a CPU in each of the sleeps, in nanoseconds, since the last other
 * byte came: "nap_futex N", "nap_pipe N", "nap_timer N". That is the time by CLOCK_MONOTONIC, less that
 * by the clock of the thread's CPU time.
 *
 * It is compiled with frame pointers, and makes its system calls by itself: so each sleep has the
 * function of its name on top of its user stack.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "task.h"

static __attribute__((always_inline)) inline long call(long number, long a, long b, long c, long d)
{
#ifdef __aarch64__
	register long x0 asm("x0") = a, x1 asm("x1") = b, x2 asm("x2") = c, x3 asm("x3") = d;
	register long x8 asm("x8") = number;

	asm volatile("svc #0" : "+r"(x0) : "r"(x1), "r"(x2), "r"(x3), "r"(x8) : "memory");
	return x0;
#else
	register long r10 asm("r10") = d;

	asm volatile("syscall"
		     : "+a"(number)
		     : "D"(a), "S"(b), "d"(c), "r"(r10)
		     : "rcx", "r11", "memory");
	return number;
#endif
}

static int word, request[2], reply[2];

/* off_cpu() when the sleep began. */
static long long began;

static __attribute__((noinline)) void nap_futex(void)
{
	struct timespec length = { .tv_nsec = 20 * MS };

	began = off_cpu();
	call(SYS_futex, (long)&word, FUTEX_WAIT_PRIVATE, 0, (long)&length);
	asm volatile("");
}

static __attribute__((noinline)) void nap_pipe(void)
{
	char byte = 'x';

	if (write(request[1], &byte, 1) != 1)
		exit(1);
	began = off_cpu();
	call(SYS_read, reply[0], (long)&byte, 1, 0);
	asm volatile("");
}

static __attribute__((noinline)) void nap_timer(void)
{
	struct timespec length = { .tv_nsec = 50 * MS };

	began = off_cpu();
	call(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, (long)&length, 0);
	asm volatile("");
}

/* Answers each byte after 30 ms. */
static void answer(void)
{
	char byte;

	close(request[1]);
	while (read(request[0], &byte, 1) == 1) {
		nap(30);
		if (write(reply[1], &byte, 1) != 1)
			exit(1);
	}
	exit(0);
}

int main(void)
{
	static const struct {
		const char *name;
		void (*nap)(void);
	} naps[] = { { "nap_futex", nap_futex }, { "nap_pipe", nap_pipe }, { "nap_timer", nap_timer } };
	long long slept[3] = { 0 };
	char byte;
	ssize_t got;

	if (pipe(request) || pipe(reply) || fcntl(0, F_SETFL, O_NONBLOCK))
		die("naps");
	if (!fork())
		answer();
	while ((got = read(0, &byte, 1)) != 0 && (got < 0 || byte != 's')) {
		for (int i = 0; i < 3 && got == 1; i++)
			slept[i] = 0;
		spin_until(now() + MS);
		for (int i = 0; i < 3; i++) {
			naps[i].nap();
			slept[i] += off_cpu() - began;
		}
	}
	for (int i = 0; i < 3; i++)
		printf("%s %lld\n", naps[i].name, slept[i]);
	fflush(stdout);
	if (got)
		pause();
	return 0;
}
