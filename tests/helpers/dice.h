/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Random numbers that a seed reproduces.
 */
#ifndef DICE_H
#define DICE_H

#include <stdbool.h>
#include <stdint.h>

struct dice {
	uint64_t state;
};

/* SplitMix64: good from any seed. */
static inline uint64_t roll(struct dice *dice)
{
	uint64_t z = dice->state += 0x9e3779b97f4a7c15;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

/* Returns a number from 0 to n - 1. */
static inline uint64_t below(struct dice *dice, uint64_t n)
{
	return roll(dice) % n;
}

static inline bool one_in(struct dice *dice, uint64_t n)
{
	return !below(dice, n);
}

/* Returns separate dice for the thread `number`. */
static inline struct dice dice_of(uint64_t seed, uint64_t number)
{
	struct dice dice = { seed ^ (number << 32) };

	roll(&dice);
	return dice;
}

#endif
