// SPDX-License-Identifier: Apache-2.0
// Where chunks lie in the trace file: a ring of bounded size that is a valid .zst at every instant. Knows the file by a
// descriptor and never reads it back. Drainer only.
#ifndef CT_STORE_H
#define CT_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "store/trace_file.h"

// A new file of 0 bytes, which may have `bound` bytes (0: as many as it likes).
void ct_store_begin(uint64_t bound);

// Puts a chunk of n bytes (a multiple of 8) into the file, in place of the oldest ones if need be. -errno: it is not in
// the file, which is as valid as before; -EFBIG: it is larger than the bound, or would take the place of its own SEGMENT chunk.
int ct_store_append(int fd, const void *chunk, size_t n, uint64_t seq, unsigned flags);

// The error that kept the file from growing during the last append (which may have succeeded all the same), or 0.
int ct_store_refused(void);

// The file was found to have `size` bytes: what somebody has cut off is given up, what somebody has added is cut off.
// Returns 1 if chunks were lost by that, 0, or -errno.
int ct_store_fit(int fd, uint64_t size);

// Cuts off free space at the end of the file.
int ct_store_trim(int fd);

void ct_store_pin(uint64_t first_seq, uint64_t last_seq, enum ct_pin which);

uint64_t ct_store_oldest_seq(void);
uint64_t ct_store_written(void);
uint64_t ct_store_size(void);
uint64_t ct_store_capacity(void);

#endif
