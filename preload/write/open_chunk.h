// SPDX-License-Identifier: Apache-2.0
// The chunk that is being filled: what is in it survives the process before it is in the file. Drain lock held.
//
// Its bytes lie in the journal as the streams of cutrace/journal.h. What has been put since the last
// commit does not count yet.
#ifndef CT_STAGED_H
#define CT_STAGED_H

#include <cutrace/format/encode.h>
#include <cutrace/format/journal.h>

// One event needs at most this many blocks: a piece of every column, and a stack of a thousand new frames with their names
// and the modules that they lie in. Without the definitions, which are left out where they do not fit:
#define CT_OPEN_CHUNK_RESERVE_BLOCKS 96u
#define CT_OPEN_CHUNK_EVENT_BLOCKS 56u

// Begins an empty chunk, and commits that. 0, or -ENOMEM.
int ct_open_chunk_begin(uint64_t seq, uint64_t dict_seq, uint64_t first_event);

// Adds to the section of definitions of a kind, INFO to THREADS. 0, or -1: the chunk is full.
int ct_open_chunk_define(enum ct_section kind, const void *bytes, size_t n);

// Adds an event, whose numbers are the file's. `at`: where it looks into the encoder's tables; next_ns: the time of the one
// behind it, if that is known, else 0. 0, or -1: the chunk is full.
int ct_open_chunk_put_event(const struct ct_event *e, const struct ct_columns_look *at, uint64_t next_ns);

// All that was put counts from now on; events up to taken_ns have left the rings.
void ct_open_chunk_commit(uint64_t taken_ns);

// What is in it. Definitions: bytes of sections before the events.
struct ct_journal_open *ct_open_chunk_get(void);
size_t ct_open_chunk_definition_bytes(void);
uint32_t ct_open_chunk_blocks_left(void);

// Puts the body into the chunk that is being built (chunk.h): definitions, `more` (whole sections that lie elsewhere), events.
// Bytes of the first and the last.
void ct_open_chunk_encode(const void *more, size_t more_bytes);
uint64_t ct_open_chunk_body_bytes(void);

// Lends the chunk's encoder, as long as it has no events: for records that do not belong to its events. The borrower sets
// `room`, and gives it back.
struct ct_columns *ct_open_chunk_get_encoder(void);
void ct_open_chunk_reset_encoder(void);

void ct_open_chunk_reinit_child(void);

#endif
