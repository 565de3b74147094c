// SPDX-License-Identifier: Apache-2.0
// The open chunk: the one that is being filled. Its bytes lie in the journal, as streams of blocks,
// so that they survive the process. A reader sees what was put up to the last commit. Drain lock
// held.
#ifndef CT_WRITE_OPEN_CHUNK_H
#define CT_WRITE_OPEN_CHUNK_H

#include <stdint.h>

#include <cutrace/format/encode.h>
#include <cutrace/format/journal.h>
#include <cutrace/model/digest.h>

// The blocks that one event needs at most: one for each column, and definitions of a stack of a
// thousand new frames with their names and modules.
#define CT_OPEN_CHUNK_RESERVE_BLOCKS 96u
// The same without definitions, which are left out if they do not fit.
#define CT_OPEN_CHUNK_EVENT_BLOCKS 56u

// Begins an empty chunk, and commits it. Returns 0, or -ENOMEM.
int ct_open_chunk_begin(uint64_t seq, uint64_t dict_seq, uint64_t first_event);
// The chunk is a restart point, also for a reader of the journal: the file may overwrite all that
// is older before it has this chunk.
void ct_open_chunk_mark_restart(void);

// Appends to a section of definitions (INFO to THREADS). Returns 0, or -1: the chunk is full.
int ct_open_chunk_define(enum ct_section kind, const void *bytes, size_t n);

// Appends an event, whose numbers are ids of the trace. `probe`: what the encoder looked up for it.
// next_ns: the time of the next event, 0 if it is not known. Returns 0, or -1: the chunk is full.
int ct_open_chunk_put_event(const struct ct_event *e, const struct ct_encoder_probe *probe,
                            uint64_t next_ns);

// Makes all that was put valid for readers, in one step with drained_ns: events up to that time are
// ignored in the rings.
void ct_open_chunk_commit(uint64_t drained_ns);

// Whether all events that were put are committed: for assertions.
int ct_open_chunk_is_committed(void);

// The header of the open chunk; bytes of its definitions; blocks that it may still use.
struct ct_journal_open *ct_open_chunk_get(void);
size_t ct_open_chunk_definition_bytes(void);
uint32_t ct_open_chunk_blocks_left(void);

// Builds the chunk, as far as it goes now, in `out`: definitions, then `extra` (whole sections from
// elsewhere), then events; last the digest, unless it is NULL. `head` has the flags and the trace
// id; the rest of it is filled in. Returns its bytes; 0: the compressor has failed.
size_t ct_open_chunk_build(struct ct_chunk *head, const void *extra, size_t extra_bytes,
                           const struct ct_digest *digest, uint8_t *out, size_t room);

// The chunk's encoder. While the chunk has no events, a checkpoint may encode its records with it:
// it sets `room`, and resets the encoder afterwards.
struct ct_encoder *ct_open_chunk_get_encoder(void);
void ct_open_chunk_reset_encoder(void);

void ct_open_chunk_reinit_child(void);

// ---- provisional chunks -----------------------------------------------------------------------

// When the open chunk goes to the file before it is complete, as a provisional chunk, so that the
// file alone tells all but the last seconds of a process that is killed. Drain lock held.
//
// A provisional chunk has all of the open chunk so far, and the next one or the complete chunk
// replaces it. So of n bytes of chunks at most 4 n are written: VERSIONS provisional ones, none of
// them larger than the chunk itself, and the chunk, which is written twice where it does not fit in
// front of them (store/file_ring.c, R9). If it does not, they are smaller together than if it does:
// of sizes a <= b <= c <= n, it fits if n <= a + b, else a + b + c < 2 n.

// A new chunk is open, which has nothing yet.
void ct_provisional_begin_chunk(void);

// Plans the next provisional chunk, after a drain. `contents`: a number that grows with everything
// that is put into the open chunk; flush_ns: the time after which that is complete. Returns when it
// is due (ct_clock_read); 0: nothing is new in the open chunk, or it gets none.
uint64_t ct_provisional_plan(uint64_t contents, uint64_t flush_ns);

// Whether one is due now.
int ct_provisional_is_due(void);

// One is in the file, or has found no room there, with the contents of the last plan.
void ct_provisional_note_written(void);

#endif
