// SPDX-License-Identifier: GPL-2.0

#include "turns.h"

struct turn usual_turn(unsigned int number)
{
	uint64_t random = (number * 0x9e3779b97f4a7c15ULL) >> 32;
	struct turn turn;

	/* The first turn, 0, does not count: its beginning was not seen. */
	if (number == 1)
		return (struct turn){ 1 << 20, 1 << 19 };
	if (number == 2)
		return (struct turn){ 1024, 256 };
	/* 8 to 128 microseconds, each power of two equally likely. */
	turn.length = (8192 + (random & 8191)) << (random >> 13) % 4;
	turn.wait = turn.length / 4 + (random >> 16) % (turn.length / 4);
	return turn;
}

struct turn same_turn(unsigned int number)
{
	(void)number;
	return (struct turn){ 50000, 20000 };
}

struct turn longer_turn(unsigned int number)
{
	uint64_t length = 10000 + 64ULL * number;

	return (struct turn){ length, length / 2 };
}

struct turn shorter_turn(unsigned int number)
{
	uint64_t length = (1ULL << 39) - 64ULL * number;

	return (struct turn){ length, length / 2 };
}

struct turn endless_turn(unsigned int number)
{
	(void)number;
	return (struct turn){ 1ULL << 41, 1ULL << 40 };
}
