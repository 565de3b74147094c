// SPDX-License-Identifier: Apache-2.0
// The ring of finished chunks in the journal: with CUTRACE_MEMORY, it keeps the newest chunks until
// they are flushed into the trace file. Without it, chunks go to the file at once. Drain lock held.
#ifndef CT_STORE_MEMORY_CHUNKS_H
#define CT_STORE_MEMORY_CHUNKS_H

#include <stddef.h>
#include <stdint.h>

// Puts a chunk into the ring, or into the file if there is no ring or the chunk is too large for
// it. Arguments and result as of ct_trace_file_append.
int ct_memory_chunks_append(const void *chunk, size_t n, uint64_t seq, unsigned flags);

// The position at which the next chunk will begin: all chunks in the ring now end here.
uint64_t ct_memory_chunks_get_end(void);

// Writes chunks up to position `end` to the file, oldest first. Returns 0 when all are written;
// -EAGAIN after a part, because this takes long; -errno: the chunks that are not written stay in
// the ring.
int ct_memory_chunks_flush(uint64_t end);

// Limits `bytes` of history (0: no limit) to what the ring holds, because its chunks must be
// readable without older ones.
uint64_t ct_memory_chunks_limit(uint64_t bytes);

#endif
