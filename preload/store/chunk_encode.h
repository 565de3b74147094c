// SPDX-License-Identifier: Apache-2.0
// From the pieces of a body to a chunk as it stands in the file: prefix, zstd frame, filler.
#ifndef CT_CHUNK_H
#define CT_CHUNK_H

#include <stddef.h>
#include <stdint.h>

#include <cutrace/format/format.h>

// Bytes that a chunk with a body of raw_bytes needs at most.
size_t ct_chunk_encode_bound(size_t raw_bytes);

// Builds a chunk in `out` (`room`: ct_chunk_encode_bound of its body) from pieces of the body, which has raw_bytes in all. Takes its
// workspace from ct_pages_map once; not for two threads at a time. 0 or -ENOMEM.
int ct_chunk_encode_begin(uint64_t raw_bytes, int level, uint8_t *out, size_t room);
void ct_chunk_put(const void *bytes, size_t n);
// Here begins a section, or a column of events: what comes is compressed for itself, unless what was put since the last cut
// is too little for that. (A block of zstd has one table for all of its literals; columns differ.)
void ct_chunk_encode_cut(void);
// The caller has set flags, seq, dict_seq, events, times and trace_id of `head`; the rest is filled in. Returns the chunk's
// length (a multiple of 8), 0 if it could not be compressed.
size_t ct_chunk_encode_end(struct ct_chunk *head);

// Writes the 104 bytes of prefix for a head whose checksum is to be renewed.
void ct_chunk_encode_prefix(struct ct_chunk *head, uint8_t out[CT_PREFIX_BYTES]);

uint64_t ct_xxh64(const void *data, size_t n);

#endif
