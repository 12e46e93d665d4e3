// SPDX-License-Identifier: GPL-2.0
/*
 * See fuzz_input.h.
 */
#include "fuzz_input.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static const char *const WORDS[] = {
	"0", "1", "2", "on", "off", "y", "N", "true", "oncpu", "runq", "runq_wakeup", "runq_preempt",
	"blocked", "blocked_interruptible", "blocked_uninterruptible", "offcpu", "idle", "wakeup",
	"throttled", "resched", "resched_lazy", "default", "all", "none", "nothing", "tracing_off",
	"tracing_on", "snapshot", "1000", "42",
	"cgroup", "comm", "depth", "under", "/", "process", "thread",
	"18446744073709551615", "18446744073709551616", "9223372036854775808", "4294967296", "-1",
	"+1", "0x10", "1e9", "1ms", "%s%n", "../reset", "all default", "\357\273\2771", "\xd9\xa1",
};

static const char *const METRIC_NAMES[] = {
	"oncpu", "runq", "runq_wakeup", "runq_preempt", "blocked_interruptible",
	"blocked_uninterruptible", "offcpu", "idle", "wakeup", "throttled", "resched",
	"resched_lazy", "default", "all", "none",
};

static const char *const ACTIONS[] = { "none", "tracing_off", "snapshot" };

/* Of the PIDs, 4194303 is that of no process, and 4194304 cannot be one. */
static const char *const RULES[] = {
	"none", "comm", "process 1", "process", "thread 1,2", "1", "2", "4194303", "4194304", "cgroup",
	"cgroup under /", "under", "/", "/nothing", "//", "depth", "depth 2", "cgroup under /nothing",
};

static const char SEPARATORS[] = { ' ', ',', '\n', '\t', '\r', '\f', '\v', ';', '\0', '\xa0' };

static size_t add(char *buffer, size_t length, const char *word)
{
	memcpy(buffer + length, word, strlen(word));
	return length + strlen(word);
}

/* Writes some of the words, mostly with valid separators between them. */
static size_t some(struct dice *dice, char *buffer, const char *const *words, size_t number, int most)
{
	size_t length = 0;

	for (int n = 1 + below(dice, most); n; n--) {
		length = add(buffer, length, words[below(dice, number)]);
		if (n > 1)
			buffer[length++] = SEPARATORS[below(dice, one_in(dice, 8) ? LENGTH(SEPARATORS) : 6)];
	}
	return length;
}

static size_t make_number(struct dice *dice, char *buffer)
{
	static const uint64_t EDGES[] = { 0, 1, 1000, 1000000000, 1ULL << 32, 1ULL << 40, 1ULL << 63, UINT64_MAX };
	uint64_t number = roll(dice) >> below(dice, 64);

	if (one_in(dice, 4))
		number = EDGES[below(dice, LENGTH(EDGES))] + below(dice, 3) - 1;
	if (one_in(dice, 8)) {
		/* Of any length, with any digits. */
		size_t length = 1 + below(dice, 30);

		for (size_t i = 0; i < length; i++)
			buffer[i] = '0' + below(dice, 10);
		return length;
	}
	/* No file takes a sign. */
	return sprintf(buffer, "%s%llu", one_in(dice, 32) ? "+" : "", (unsigned long long)number);
}

static size_t make_good(struct dice *dice, enum kind kind, char *buffer)
{
	switch (kind) {
	case ENABLE:
		return add(buffer, 0, one_in(dice, 4) ? "0" : "1");
	case RESET:
		return add(buffer, 0, "1");
	case THRESHOLD:
	case RATE:
	case LIMIT:
	case GROUP_LIMIT:
		return one_in(dice, 8) ? add(buffer, 0, "none") : make_number(dice, buffer);
	case CHAIN:
		if (one_in(dice, 4))
			return make_number(dice, buffer);
		return sprintf(buffer, "%llu", 1ull << below(dice, 20));
	case GROUP_BY:
		return some(dice, buffer, RULES, LENGTH(RULES), 3);
	case METRICS:
		return some(dice, buffer, METRIC_NAMES, LENGTH(METRIC_NAMES), 6);
	case ON_OUTLIER:
		return some(dice, buffer, ACTIONS, LENGTH(ACTIONS), 3);
	default:
		return some(dice, buffer, WORDS, LENGTH(WORDS), 2);
	}
}

static size_t surround(struct dice *dice, char *buffer, size_t length)
{
	size_t before = below(dice, 4), after = below(dice, 4);

	memmove(buffer + before, buffer, length);
	for (size_t i = 0; i < before; i++)
		buffer[i] = SEPARATORS[below(dice, 6)];
	for (size_t i = 0; i < after; i++)
		buffer[before + length + i] = SEPARATORS[below(dice, 6)];
	return before + length + after;
}

/* Makes one change, of one byte or of several. */
static size_t mutate(struct dice *dice, char *buffer, size_t length)
{
	size_t at = length ? below(dice, length) : 0, rest = length - at;

	switch (below(dice, 8)) {
	case 0:
		if (length)
			buffer[at] ^= 1 << below(dice, 8);
		return length;
	case 1:
		if (length)
			buffer[at] = roll(dice);
		return length;
	case 2:
		memmove(buffer + at + 1, buffer + at, rest);
		buffer[at] = roll(dice);
		if (one_in(dice, 2))
			buffer[at] = SEPARATORS[below(dice, LENGTH(SEPARATORS))];
		return length + 1;
	case 3:
		if (!length)
			return 0;
		memmove(buffer + at, buffer + at + 1, rest - 1);
		return length - 1;
	case 4:
		/* Duplicates the text from there on. */
		memmove(buffer + length, buffer + at, rest);
		return length + rest;
	case 5:
		return at;
	case 6:
		if (length && (buffer[at] | 32) >= 'a' && (buffer[at] | 32) <= 'z')
			buffer[at] ^= 32;
		return length;
	default:
		buffer[length] = "\n\0+- 0"[below(dice, 6)];
		return length + 1;
	}
}

static size_t make_random(struct dice *dice, char *buffer, size_t length)
{
	for (size_t i = 0; i < length; i++)
		buffer[i] = roll(dice);
	return length;
}

/* Makes text around the maximum length, or far longer, most of it white space. */
static size_t make_long(struct dice *dice, enum kind kind, char *buffer)
{
	size_t length, word, at;
	char good[LONGEST];

	length = one_in(dice, 30) ? below(dice, INPUT_MOST + 1) : LONGEST - 6 + below(dice, 12);
	memset(buffer, one_in(dice, 4) ? '0' : ' ', length);
	word = make_good(dice, kind, good);
	if (word > length)
		word = length;
	at = one_in(dice, 2) ? length - word : below(dice, length - word + 1);
	memcpy(buffer + at, good, word);
	return length;
}

size_t make_input(struct dice *dice, enum kind kind, char *buffer)
{
	/* Valid text switches these all off and on, which is slow: write it less often. */
	bool is_slow = (kind == ENABLE || kind == METRICS) && !one_in(dice, 100);
	char shown[LONGEST_SHOWN];
	size_t length;

	switch (below(dice, 10)) {
	case 0:
		length = make_random(dice, buffer, below(dice, one_in(dice, 8) ? 300 : 24));
		break;
	case 1:
		length = some(dice, buffer, WORDS, LENGTH(WORDS), 4);
		break;
	case 2:
		length = make_long(dice, kind, buffer);
		break;
	case 3:
	case 4:
	case 5:
		length = make_good(dice, kind, buffer);
		if (one_in(dice, 2))
			length = surround(dice, buffer, length);
		break;
	default:
		length = make_good(dice, kind, buffer);
		if (one_in(dice, 3))
			length = surround(dice, buffer, length);
		for (int n = 1 + below(dice, 3); n; n--)
			length = mutate(dice, buffer, length);
	}
	while (is_slow && is_taken(kind, buffer, length, shown))
		length = mutate(dice, buffer, length);
	return length;
}
