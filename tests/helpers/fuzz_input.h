/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Makes what a fuzzer writes: words that are right, words that are nearly right, and anything else.
 */
#ifndef FUZZ_INPUT_H
#define FUZZ_INPUT_H

#include <stddef.h>

#include "dice.h"
#include "fuzz_oracle.h"

enum { INPUT_MOST = 1 << 20 };

/* Fills the buffer, which has room for INPUT_MOST bytes, and returns how many there are. */
size_t make_input(struct dice *dice, enum kind kind, char *buffer);

#endif
