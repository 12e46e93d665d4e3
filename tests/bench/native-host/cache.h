/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Evicts code and data from caches.
 */
#ifndef CACHE_H
#define CACHE_H

enum cache { HOT, NO_L1, NO_L2, CACHES };

/* Prepares evict(). Call this before the code is sealed. */
void prepare_caches(void);

/* Evicts all code and data from L1, or from L1 and L2. */
void evict(enum cache cache);

#endif
