// SPDX-License-Identifier: Apache-2.0
// Encodes a chunk in its form in the file: prefix, zstd frame, digest, filler. The caller passes
// the body part by part. One chunk, and one thread, at a time.
#ifndef CT_STORE_CHUNK_ENCODE_H
#define CT_STORE_CHUNK_ENCODE_H

#include <stddef.h>
#include <stdint.h>

#include <cutrace/format/format.h>

// Bytes that a chunk with a body of raw_bytes has at most.
size_t ct_chunk_encode_bound(size_t raw_bytes);

// Begins a chunk with a body of raw_bytes in `out`, which has ct_chunk_encode_bound of it bytes
// (`room`). Maps its workspace once. Returns 0 or -ENOMEM.
int ct_chunk_encode_begin(uint64_t raw_bytes, int level, uint8_t *out, size_t room);

// Appends n bytes to the body.
void ct_chunk_encode_put(const void *bytes, size_t n);

// Ends a zstd block where a section or a column of events begins, unless the block has less than
// CT_CUT_BYTES. A block has one table for all of its literals, and columns differ.
void ct_chunk_encode_cut(void);

// Ends the body and writes the prefix. The caller has set flags, seq, dict_seq, events, times and
// trace_id of `head`; this sets the other fields. Returns 0, or -1: zstd failed.
int ct_chunk_encode_end_body(struct ct_chunk *head);

// Where the digest's frame goes, which has CT_CHUNK_DIGEST_BYTES at most; the caller writes it
// between the end of the body and that of the chunk, and says how long it is.
#define CT_CHUNK_DIGEST_BYTES 8192u
uint8_t *ct_chunk_encode_digest_place(void);
void ct_chunk_encode_add_digest(size_t n);

// Ends the chunk. Returns its length, a multiple of 8.
size_t ct_chunk_encode_end(void);

// Writes the prefix of a chunk and renews the checksum in `head`.
void ct_chunk_encode_prefix(struct ct_chunk *head, uint8_t out[CT_PREFIX_BYTES]);

#endif
