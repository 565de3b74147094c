// SPDX-License-Identifier: Apache-2.0
// Segments: where a trace whose beginning is overwritten can be read from. Drain lock held.
//
// A segment begins with a chunk that has all definitions and facts anew, the history so far, and the first part
// of a checkpoint (FORMAT.md, section 7). A large state is spread over the chunks that follow, so that no
// drain takes long.
#ifndef CT_SEGMENT_H
#define CT_SEGMENT_H

#include <cutrace/model/checkpoint.h>
#include <cutrace/model/history.h>

// Whether the next chunk should begin a segment.
int ct_checkpoint_writer_is_due(void);

// The chunk that begins is a segment's first one.
void ct_checkpoint_writer_begin(uint64_t seq, const struct ct_live *live);

// Whether parts of a checkpoint are still to be written: chunks should follow one another quickly.
int ct_checkpoint_writer_is_busy(void);

// Whether the newest segment tells sums by call site only.
int ct_checkpoint_writer_is_inexact(void);

// Writes the sections that the chunk has besides definitions and events: parts of the state as it is before its
// first event. Their definitions go into the chunk (staged.h). Returns the flags of the chunk.
unsigned ct_checkpoint_writer_put_sections(const struct ct_live *live,
                                           const struct ct_readings *readings,
                                           const struct ct_history *history, struct ct_out *out);

// The chunk is in the file, with so many bytes; or it could not be built, and its sections are lost.
void ct_checkpoint_writer_chunk_written(const struct ct_chunk *head, size_t bytes);
void ct_checkpoint_writer_chunk_lost(void);

// An allocation was refused, which is the event with this number: keeps what led to it.
void ct_checkpoint_writer_protect_oom(uint64_t event);

void ct_checkpoint_writer_reinit_child(void);

#endif
