/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Makes a fuzzer's inputs: valid words, nearly valid words, and anything else.
 */
#ifndef FUZZ_INPUT_H
#define FUZZ_INPUT_H

#include <stddef.h>

#include "dice.h"
#include "fuzz_oracle.h"

enum { INPUT_MOST = 1 << 20 };

/* Fills the buffer, which has room for INPUT_MOST bytes, and returns the length. */
size_t make_input(struct dice *dice, enum kind kind, char *buffer);

#endif
