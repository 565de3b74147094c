// SPDX-License-Identifier: Apache-2.0
// Restart points: chunks from which a trace can be read when its beginning is overwritten. Drain
// lock held.
//
// A restart point has all definitions and INFO again, the history, and the first part of a
// checkpoint (FORMAT.md, section 7). A large checkpoint is spread over the chunks that follow, so
// that no drain takes long.
#ifndef CT_WRITE_CHECKPOINT_WRITER_H
#define CT_WRITE_CHECKPOINT_WRITER_H

#include <cutrace/model/checkpoint.h>
#include <cutrace/model/history.h>

// Whether the next chunk must be a restart point.
int ct_checkpoint_writer_is_due(void);

// Begins a checkpoint of `live`; the chunk `seq`, which begins, is a restart point.
void ct_checkpoint_writer_begin(uint64_t seq, const struct ct_live *live);

// Whether parts of a checkpoint are missing, so that chunks must follow each other quickly.
int ct_checkpoint_writer_is_busy(void);

// Whether the newest checkpoint has sums by call site only.
int ct_checkpoint_writer_is_inexact(void);

// Writes the next checkpoint part into `out`, and the history before the first one: the state
// before the first event of the chunk that begins. Puts its definitions into the open chunk.
// Returns the flags of the chunk.
unsigned ct_checkpoint_writer_put_sections(const struct ct_live *live,
                                           const struct ct_readings *readings,
                                           const struct ct_history *history, struct ct_out *out);

// The chunk is in the file and has so many bytes.
void ct_checkpoint_writer_chunk_written(const struct ct_chunk *head, size_t bytes);

// The chunk is dropped, with its checkpoint part: another checkpoint is needed.
void ct_checkpoint_writer_chunk_lost(void);

// Protects the chunks before an OOM, which is the event with this number, from being overwritten.
void ct_checkpoint_writer_protect_oom(uint64_t event);

void ct_checkpoint_writer_reinit_child(void);

#endif
