// SPDX-License-Identifier: GPL-2.0
/*
 * See fuzz_oracle.h. Simple rather than quick, and made from the documentation alone.
 */
#define _GNU_SOURCE
#include "fuzz_oracle.h"

#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

struct word {
	const char *name;
	unsigned int bits;
};

static const struct word METRIC_WORDS[] = {
	{ "oncpu", 1 },
	{ "runq_wakeup", 2 },
	{ "runq_preempt", 4 },
	{ "blocked_interruptible", 8 },
	{ "blocked_uninterruptible", 16 },
	{ "offcpu", 32 },
	{ "idle", 64 },
	{ "wakeup", 128 },
	{ "throttled", 256 },
	{ "resched", 512 },
	{ "resched_lazy", 1024 },
	/* The ones above are shown. */
	{ "runq", 2 | 4 },
	{ "default", 127 },
	{ "all", 2047 },
	{ "none", 0 },
};

static const struct word ACTION_WORDS[] = {
	{ "tracing_off", 1 },
	{ "snapshot", 2 },
	{ "none", 0 },
};

enum { METRICS_SHOWN = 11, ACTIONS_SHOWN = 2 };

enum kind kind_of(const char *path)
{
	if (!strcmp(path, "enable"))
		return ENABLE;
	if (!strcmp(path, "metrics"))
		return METRICS;
	if (!strcmp(path, "reset"))
		return RESET;
	if (!strncmp(path, "threshold_ns/", strlen("threshold_ns/")) || !strcmp(path, "long_wait_ns"))
		return THRESHOLD;
	if (!strcmp(path, "outlier_pipe"))
		return STREAM;
	if (!strcmp(path, "outlier_rate"))
		return RATE;
	if (!strcmp(path, "outlier_limit") || !strcmp(path, "group_memory_limit"))
		return LIMIT;
	if (!strcmp(path, "chain"))
		return CHAIN;
	if (!strcmp(path, "group_limit"))
		return GROUP_LIMIT;
	if (!strcmp(path, "group_by"))
		return GROUP_BY;
	if (!strcmp(path, "group_rules"))
		return GROUP_RULES;
	if (!strcmp(path, "on_outlier"))
		return ON_OUTLIER;
	return READ_ONLY;
}

static bool is_space(char byte)
{
	return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\f' || byte == '\r';
}

static bool is_space_or_comma(char byte)
{
	return byte == ',' || is_space(byte);
}

static bool is_number(const char *word, size_t length, uint64_t *number)
{
	*number = 0;
	for (size_t i = 0; i < length; i++) {
		if (!isdigit((unsigned char)word[i]))
			return false;
		if (__builtin_mul_overflow(*number, 10, number) ||
		    __builtin_add_overflow(*number, word[i] - '0', number))
			return false;
	}
	return length;
}

/* Returns whether the text is words of the table. A word without bits must stand alone. */
static bool are_words(const char *text, size_t length, const struct word *table, size_t rows,
		      unsigned int *bits)
{
	size_t start = 0, words = 0, empty = 0;

	*bits = 0;
	for (size_t end = 0; end <= length; end++) {
		size_t i, size = end - start;

		if (end < length && !is_space_or_comma(text[end]))
			continue;
		for (i = 0; size && i < rows; i++) {
			if (strlen(table[i].name) == size && !memcmp(table[i].name, text + start, size)) {
				*bits |= table[i].bits;
				words++;
				empty += !table[i].bits;
				break;
			}
		}
		if (size && i == rows)
			return false;
		start = end + 1;
	}
	return words && (!empty || words == 1);
}

/* Shows the bits as the first words of the table that have them, or as the word for none. */
static void show_words(char *shown, const struct word *table, size_t words, unsigned int bits,
		       const char *none)
{
	unsigned int done = 0;

	for (size_t i = 0; i < words; i++)
		if (bits & table[i].bits)
			done += sprintf(shown + done, "%s%s", done ? " " : "", table[i].name);
	sprintf(shown + done, "%s\n", done ? "" : none);
}

/* Returns the length of the next part between separators, and moves the text to it; 0 at the end. */
static size_t next_part(const char **text, const char *end, bool (*is_separator)(char byte))
{
	size_t length = 0;

	while (*text < end && is_separator(**text))
		++*text;
	while (*text + length < end && !is_separator((*text)[length]))
		length++;
	return length;
}

static size_t next_word(const char **text, const char *end)
{
	return next_part(text, end, is_space);
}

static bool is_word(const char *text, size_t length, const char *word)
{
	return length == strlen(word) && !memcmp(text, word, length);
}

/*
 * Process IDs. EINVAL if one of these is none, or if there are commas only, and else ESRCH if one is
 * not that of a process.
 */
static int error_of_pids(const char *text, const char *end, char *shown)
{
	bool has_commas = memchr(text, ',', end - text);
	size_t length;
	int number = 0, error = 0;

	while ((length = next_part(&text, end, is_space_or_comma))) {
		uint64_t pid;

		if (++number > 64 || !is_number(text, length, &pid) || !pid || pid >= 1 << 22)
			return EINVAL;
		if (kill(pid, 0) && errno == ESRCH)
			error = ESRCH;
		shown += sprintf(shown, " %llu", (unsigned long long)pid);
		text += length;
	}
	if (!number && has_commas)
		return EINVAL;
	strcpy(shown, "\n");
	return error;
}

/* Knows no cgroup but the root: with another one the error is ENOENT, unless the rule is none. */
static int error_of_rule(const char *text, const char *end, char shown[LONGEST_SHOWN])
{
	const char *under = NULL;
	size_t under_length = 0;
	uint64_t depth = 0;
	size_t length = next_word(&text, end);
	const char *first = text;

	if (is_word(first, length, "none") || is_word(first, length, "comm")) {
		sprintf(shown, "%.*s\n", (int)length, first);
		text += length;
		return next_word(&text, end) ? EINVAL : 0;
	}
	text += length;
	if (is_word(first, length, "process") || is_word(first, length, "thread"))
		return error_of_pids(text, end, shown + sprintf(shown, "%.*s", (int)length, first));
	if (!is_word(first, length, "cgroup"))
		return EINVAL;
	while ((length = next_word(&text, end))) {
		const char *key = text;
		size_t size = length;

		text += size;
		length = next_word(&text, end);
		if (is_word(key, size, "under") && !under && length && text[0] == '/') {
			under = text;
			under_length = length;
		} else if (!is_word(key, size, "depth") || depth || !is_number(text, length, &depth) ||
			   !depth || depth >= UINT32_MAX) {
			return EINVAL;
		}
		text += length;
	}
	shown += sprintf(shown, "cgroup");
	if (under && memchr(under, '\0', under_length))
		return EINVAL;
	/* More slashes than one are the root, too. */
	for (size_t i = 0; i < under_length; i++)
		if (under[i] != '/')
			return ENOENT;
	if (under_length > 1 && under_length < LONGEST_SHOWN / 2)
		shown += sprintf(shown, " under %.*s", (int)under_length, under);
	if (depth)
		shown += sprintf(shown, " depth %llu", (unsigned long long)depth);
	strcpy(shown, "\n");
	return 0;
}

static bool is_taken_otherwise(enum kind kind, const char *text, size_t length, char *shown);

int error_of(enum kind kind, const char *text, size_t length, char shown[LONGEST_SHOWN])
{
	shown[0] = 0;
	if (length > (kind == GROUP_BY ? LONGEST_RULE : LONGEST))
		return EINVAL;
	while (length && is_space(text[length - 1]))
		length--;
	while (length && is_space(text[0]))
		text++, length--;
	if (kind == GROUP_BY)
		return error_of_rule(text, text + length, shown);
	return is_taken_otherwise(kind, text, length, shown) ? 0 : EINVAL;
}

bool is_taken(enum kind kind, const char *text, size_t length, char shown[LONGEST_SHOWN])
{
	return !error_of(kind, text, length, shown);
}

/* Whether the kernel tells when it requests to reschedule a CPU. */
static bool has_resched(void)
{
	struct utsname name;

	return uname(&name) || strncmp(name.release, "6.12.", 5);
}

/* As is_taken(), for text without space around it, and not for rules. */
static bool is_taken_otherwise(enum kind kind, const char *text, size_t length, char *shown)
{
	unsigned int bits;
	uint64_t number;

	switch (kind) {
	case ENABLE:
		if (length != 1 || (text[0] != '0' && text[0] != '1'))
			return false;
		sprintf(shown, "%c\n", text[0]);
		return true;
	case RESET:
		return length == 1 && text[0] == '1';
	case THRESHOLD:
	case RATE:
	case LIMIT:
		if (length == strlen("none") && !memcmp(text, "none", length)) {
			strcpy(shown, "none\n");
			return true;
		}
		if (!is_number(text, length, &number) || !number || (kind == RATE && number > 1000000000))
			return false;
		sprintf(shown, "%llu\n", (unsigned long long)number);
		return true;
	case GROUP_LIMIT:
		if (!is_number(text, length, &number) || !number || number > 4095)
			return false;
		sprintf(shown, "%llu\n", (unsigned long long)number);
		return true;
	case CHAIN:
		if (!is_number(text, length, &number) || number & (number - 1) || number > 65536 ||
		    (number && number < 16))
			return false;
		sprintf(shown, "%llu\n", (unsigned long long)number);
		return true;
	case METRICS:
		if (!are_words(text, length, METRIC_WORDS, LENGTH(METRIC_WORDS), &bits))
			return false;
		if (!has_resched()) {
			if (memmem(text, length, "resched", 7))
				return false;
			bits &= 511;
		}
		show_words(shown, METRIC_WORDS, METRICS_SHOWN, bits, "none");
		return true;
	case ON_OUTLIER:
		if (!are_words(text, length, ACTION_WORDS, LENGTH(ACTION_WORDS), &bits))
			return false;
		show_words(shown, ACTION_WORDS, ACTIONS_SHOWN, bits, "none");
		return true;
	default:
		return false;
	}
}
