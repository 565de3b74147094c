// SPDX-License-Identifier: Apache-2.0
// Where chunks lie in the trace file: a ring of bounded size that is a valid .zst at every instant. Knows the file by a
// descriptor and never reads it back. Drainer only.
#ifndef CT_STORE_H
#define CT_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "store/trace_file.h"

// A new file of 0 bytes, which may have `bound` bytes (0: as many as it likes).
void ct_file_ring_reset(uint64_t bound);

// Puts a chunk of n bytes (a multiple of 8) into the file, in place of the oldest ones if need be. -errno: it is not in
// the file, which is as valid as before; -EFBIG: it is larger than the bound, or would take the place of its own SEGMENT chunk.
int ct_file_ring_append(int fd, const void *chunk, size_t n, uint64_t seq, unsigned flags);

// The error that kept the file from growing during the last append (which may have succeeded all the same), or 0.
int ct_file_ring_get_growth_error(void);

// The file was found to have `size` bytes: what somebody has cut off is given up, what somebody has added is cut off.
// Returns 1 if chunks were lost by that, 0, or -errno.
int ct_file_ring_adopt_size(int fd, uint64_t size);

// Cuts off free space at the end of the file.
int ct_file_ring_trim(int fd);

void ct_file_ring_protect(uint64_t first_seq, uint64_t last_seq, enum ct_protected which);

uint64_t ct_file_ring_get_oldest_seq(void);
uint64_t ct_file_ring_get_written_bytes(void);
uint64_t ct_file_ring_get_size(void);
uint64_t ct_file_ring_get_capacity(void);

#endif
