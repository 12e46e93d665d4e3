/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The text that each file accepts, by the documentation, and the text that it then reads.
 */
#ifndef FUZZ_ORACLE_H
#define FUZZ_ORACLE_H

#include <stdbool.h>
#include <stddef.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* A stream is read-only, too. Rules are always refused: no input groups tasks by a list. */
enum kind {
	READ_ONLY, STREAM, ENABLE, METRICS, RESET, THRESHOLD, RATE, LIMIT, ON_OUTLIER, GROUP_BY, GROUP_LIMIT,
	GROUP_RULES, CHAIN,
	KINDS
};

/* The maximum length that most files accept; that of a rule; more than any control shows here. */
enum { LONGEST = 256, LONGEST_RULE = 4096 + 64, LONGEST_SHOWN = 1024 };

/* Returns the kind of the file at this path below our directory. */
enum kind kind_of(const char *path);

/*
 * Returns the error with which a file of this kind refuses the text, or 0 if it accepts the text.
 * `shown` is as for is_taken().
 */
int error_of(enum kind kind, const char *text, size_t length, char shown[LONGEST_SHOWN]);

/*
 * Returns whether a file of this kind accepts the text. If so, `shown` is the text that the file
 * then reads, with the newline; empty if the file cannot be read.
 */
bool is_taken(enum kind kind, const char *text, size_t length, char shown[LONGEST_SHOWN]);

#endif
