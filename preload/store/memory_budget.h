// SPDX-License-Identifier: Apache-2.0
// How much memory CUTRACE_MEMORY may use for chunks, and the text to report when that is less than
// asked for. Drain lock held.
#ifndef CT_STORE_MEMORY_BUDGET_H
#define CT_STORE_MEMORY_BUDGET_H

#include <stdint.h>

// Bytes for the ring of chunks where the file system has free_bytes; 0 if that is too little to be
// useful. Half of them stays free, because the host and other programs use /dev/shm, too.
uint64_t ct_memory_budget_get_bytes(uint64_t free_bytes);

// How many of `bytes` are reserved at the start; the rest is reserved as the ring grows.
uint64_t ct_memory_budget_get_first_bytes(uint64_t bytes);

// Reports that there is no ring (rc: -errno), or that it has only `ready` bytes from now on.
void ct_memory_budget_report_failure(int rc);
void ct_memory_budget_report_shrink(uint64_t ready);

// The last report since the previous call, as the text of a NOTE; NULL if there was none.
const char *ct_memory_budget_take_error(void);

#endif
