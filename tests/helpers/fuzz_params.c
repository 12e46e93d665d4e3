// SPDX-License-Identifier: GPL-2.0
/*
 * Loads schedhist with parameters of all kinds: see test_fuzz.py.
 *
 * usage: fuzz_params MODULE LOADS SECONDS SEED
 *
 * Valid parameters must be accepted, and show in the files; all others must be refused, and leave
 * nothing behind.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "dice.h"
#include "fuzz_input.h"
#include "fuzz_oracle.h"
#include "module.h"

static unsigned long long seed;

static const char *const NUMBERS[] = {
	"1", "2", "3", "4", "5", "6", "7", "0", "8", "07", "08", "0x5", "0X7", "0b101", "0o7", "+5", "-1",
	"-0", "", "5\n", " 5", "5 ", "1_0", "4294967301", "18446744073709551621", "0x", "0x+5", "++5",
	"5.0", "five", "\xd9\xa5", "000000000000000000000000000000000000000000000000000000000000000000005",
};

static void fail(const char *what, const char *parameters)
{
	fprintf(stderr, "%s (%s), seed %llu: '%.2000s'\n", what, strerror(errno), seed, parameters);
	exit(1);
}

/* A value may hold anything but the quotes around it. */
static void make_value(struct dice *dice, char value[LONGEST])
{
	static char buffer[2 * INPUT_MOST];
	size_t length = make_input(dice, METRICS, buffer);

	if (one_in(dice, 2)) {
		static const char *const GOOD[] = {
			"default", "all", "none", "oncpu", "runq,idle", " offcpu\n", "wakeup\toncpu",
			/* The longest value that fits, and one that does not. */
			"all,all,all,all,all,all,all,all,all,all,all,all,all,all,all,all,all,all,all,all,"
			"all,all,all,all,all,all,all,all,all,all,default",
			"all,all,all,all,all,all,all,all,all,all,all,all,all,all,all,all,all,all,all,all,"
			"all,all,all,all,all,all,all,all,all,all,default,",
		};

		strcpy(value, GOOD[below(dice, LENGTH(GOOD))]);
		return;
	}
	length = length < LONGEST ? length : LONGEST - 1;
	for (size_t i = 0; i < length; i++)
		value[i] = buffer[i] && buffer[i] != '"' ? buffer[i] : '_';
	value[length] = 0;
}

/* Asserts that a file, or a line of it, has this text. */
static void must_hold(const char *path, const char *text, const char *parameters)
{
	char found[4096];
	int fd = open(path, O_RDONLY);
	ssize_t length = fd < 0 ? -1 : read(fd, found, sizeof(found) - 1);

	if (length < 0)
		fail(path, parameters);
	found[length] = 0;
	close(fd);
	if (!strstr(found, text))
		fail(found, parameters);
}

int main(int argc, char **argv)
{
	static char parameters[1 << 17];
	int ko, accepted = 0, refused = 0;
	struct dice dice;
	time_t end;

	if (argc != 5)
		return 2;
	ko = open(argv[1], O_RDONLY | O_CLOEXEC);
	if (ko < 0)
		fail("cannot open it", argv[1]);
	end = time(NULL) + atoi(argv[3]);
	seed = strtoull(argv[4], NULL, 0);
	dice = dice_of(seed, 99);

	/* Continues beyond the limits until there was one of each. */
	for (int n = 0; (n < atoi(argv[2]) && time(NULL) < end) || !accepted || !refused; n++) {
		const char *precision = NUMBERS[below(&dice, one_in(&dice, 2) ? 7 : LENGTH(NUMBERS))];
		char value[LONGEST] = "default", shown[LONGEST_SHOWN], wanted[32] = "\nprecision 5\n";
		bool is_good = true;
		int length = 0;

		if (!one_in(&dice, 4)) {
			length += sprintf(parameters + length, "precision=\"%s\" ", precision);
			is_good = precision_of(precision);
			sprintf(wanted, "\nprecision %u\n", precision_of(precision));
		}
		if (one_in(&dice, 2)) {
			make_value(&dice, value);
			length += sprintf(parameters + length, "metrics=\"%s\" ", value);
			is_good &= is_metrics(value);
		}
		switch (below(&dice, 16)) {
		case 0:
			/* The kernel does not refuse an unknown parameter. */
			length += sprintf(parameters + length, "bogus=%d", n);
			break;
		case 1:
			length += sprintf(parameters + length, one_in(&dice, 2) ? "precision" : "metrics=\"\"");
			is_good = false;
			break;
		case 2:
			memset(parameters + length, ' ', 60000);
			length += 60000;
			break;
		case 3:
			memset(parameters + length, 'x', 60000);
			memcpy(parameters + length, "metrics=", 8);
			length += 60000;
			is_good = false;
		}
		parameters[length] = 0;

		if (load(ko, parameters)) {
			if (is_good)
				fail("refused", parameters);
			if (errno != EINVAL && errno != ERANGE && errno != ENOSPC && errno != EEXIST)
				fail("refused in another way", parameters);
			refused++;
		} else {
			if (!is_good)
				fail("taken", parameters);
			is_taken(METRICS, value, strlen(value), shown);
			must_hold("/sys/kernel/debug/schedhist/metrics", shown, parameters);
			must_hold("/sys/kernel/debug/schedhist/status", wanted, parameters);
			if (unload())
				fail("cannot be unloaded", parameters);
			accepted++;
		}
		if (!is_gone())
			fail("something is left", parameters);
	}
	printf("# %d loads, %d accepted, %d refused, seed %llu\n", accepted + refused, accepted, refused, seed);
	return 0;
}
