// SPDX-License-Identifier: Apache-2.0
// The shelf: with CUTRACE_MEMORY, finished chunks stay in the journal, the newest of them, until the trace's file is to have
// them. Without it, they go to the file at once. Drain lock held.
#ifndef CT_SHELF_H
#define CT_SHELF_H

#include <stddef.h>
#include <stdint.h>

// Takes a chunk: onto the shelf, or into the file if there is none. As ct_trace_file_append.
int ct_memory_chunks_append(const void *chunk, size_t n, uint64_t seq, unsigned flags);

// Where the next chunk will stand: what is there now ends here.
uint64_t ct_memory_chunks_get_end(void);

// Puts chunks into the file, oldest first, as far as `end`. 0: they all are; -EAGAIN: a part, since this takes long; -errno:
// those that are not stay where they are.
int ct_memory_chunks_flush(uint64_t end);

// What is known of `bytes` of the file (0: no bound) is at most this, for what is on the shelf must be readable alone.
uint64_t ct_memory_chunks_limit(uint64_t bytes);

#endif
