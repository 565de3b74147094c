// SPDX-License-Identifier: Apache-2.0
// From a body to a chunk as it stands in the file: prefix, zstd frame, filler.
#ifndef CT_CHUNK_H
#define CT_CHUNK_H

#include <stddef.h>
#include <stdint.h>

#include <cutrace/format.h>

// Bytes that a chunk with a body of raw_bytes needs at most.
size_t ct_chunk_bound(size_t raw_bytes);

// Builds the chunk in `out` (ct_chunk_bound bytes). The caller has set flags, seq, dict_seq,
// events, times and trace_id of `head`; the rest is filled in. Returns its length (a multiple of
// 8), 0 if it could not be compressed. Takes its workspace from ct_pages once; not for two threads
// at a time.
size_t ct_chunk_build(struct ct_chunk *head, const void *raw, size_t raw_bytes, int level,
                      uint8_t *out);

// Writes the 104 bytes of prefix for a head whose checksum is to be renewed.
void ct_chunk_prefix(struct ct_chunk *head, uint8_t out[CT_PREFIX_BYTES]);

uint64_t ct_xxh64(const void *data, size_t n);

#endif
