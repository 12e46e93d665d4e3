/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What may be written to each file, as the documentation has it, and what the file reads then.
 */
#ifndef FUZZ_ORACLE_H
#define FUZZ_ORACLE_H

#include <stdbool.h>
#include <stddef.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* A stream is read only, too. */
enum kind { READ_ONLY, STREAM, ENABLE, METRICS, RESET, THRESHOLD, RATE, LIMIT, ON_OUTLIER, KINDS };

/* As much as any file takes, and more than any control shows. */
enum { LONGEST = 256 };

/* The kind of the file at this path below our folder. */
enum kind kind_of(const char *path);

/*
 * Whether a file of this kind takes the text. If so, `shown` is what it reads then, with the newline;
 * nothing where it cannot be read.
 */
bool is_taken(enum kind kind, const char *text, size_t length, char shown[LONGEST]);

/* The precision that the module's parameter takes the value for; 0 where it is refused. */
unsigned int precision_of(const char *text);
/* Whether the module's parameter takes the value. */
bool is_metrics(const char *text);

#endif
