// SPDX-License-Identifier: Apache-2.0
// How much memory CUTRACE_MEMORY may keep chunks in, and what to report when it is less than asked for. Holder of the
// drain lock only.
#ifndef CT_MEMORY_BUDGET_H
#define CT_MEMORY_BUDGET_H

#include <stdint.h>

// Bytes for the ring of chunks where the file system has `room` bytes free; 0 if that is too little to be of use. Half
// of the room stays free: the host and its neighbours use /dev/shm, too.
uint64_t ct_memory_budget_get_bytes(uint64_t room);

// How many of `bytes` are reserved at the start; the rest is reserved as the ring grows.
uint64_t ct_memory_budget_get_first_bytes(uint64_t bytes);

// The option cannot be honoured (rc: -errno), or only `ready` bytes of it from now on.
void ct_memory_budget_report_failure(int rc);
void ct_memory_budget_report_shrink(uint64_t ready);

// Text of the newest trouble for a NOTE, once; NULL if there is none.
const char *ct_memory_budget_take_error(void);

#endif
