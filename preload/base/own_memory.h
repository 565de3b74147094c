// SPDX-License-Identifier: Apache-2.0
// Reads memory of this process that another thread may unmap meanwhile: a failed read is an error,
// and no signal. One thread at a time.
#ifndef CT_BASE_OWN_MEMORY_H
#define CT_BASE_OWN_MEMORY_H

#include <stddef.h>
#include <stdint.h>

// Returns 0, or -errno if memory cannot be read in this way.
int ct_own_memory_open(void);
void ct_own_memory_close(void);
// Reads n bytes. Returns how many could be read.
size_t ct_own_memory_read(uint64_t address, void *to, size_t n);

#endif
