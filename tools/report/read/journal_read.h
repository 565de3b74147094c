// SPDX-License-Identifier: Apache-2.0
// The journal beside a trace: what a process that was killed, or still runs, has not written to the
// trace yet.
//
// It is read with pread like every file here, and no value in it is trusted.
#ifndef CT_JOURNAL_READ_H
#define CT_JOURNAL_READ_H

#include <cutrace/format/journal.h>

#include "base/error.h"
#include "read/index.h"
#include "read/source.h"

// An event that was still in a ring.
struct ct_journal_record {
    uint64_t t_ns;
    uint64_t order;        // among events of the same time
    const uint8_t *record; // bytes of a struct ct_event, as many as its `present` says
};

// Events of a thread that found its ring full, as no record reports them.
struct ct_journal_loss {
    uint64_t count, t_ns;
    uint32_t thread;
};

struct ct_journal_contents {
    struct ct_source file; // fd -1 and no memory: there is none
    char *path;
    struct ct_journal head;
    int alive; // the process still runs
    // Chunks that were still in memory, whole, one after the other.
    uint8_t *memory;
    size_t memory_bytes, memory_cap;
    uint64_t memory_read; // how far they were read, as the journal counts
    // The open chunk: its streams, one after the other.
    struct ct_journal_open open;
    uint8_t *streams;
    size_t stream_at[CT_STREAMS + 1];
    // The events of all rings.
    uint8_t **records; // bytes of each ring
    size_t ring_count, ring_cap;
    struct ct_journal_record *pending; // sorted by time
    size_t pending_count, pending_cap;
    struct ct_journal_loss *losses;
    size_t loss_count, loss_cap;
    uint64_t torn;    // events that were being published when the process ended
    uint64_t damaged; // rings and chunks in memory that are malformed
    // What ct_journal_to_chunks found.
    uint64_t folded;    // events in its chunks
    uint64_t append_at; // where the chunks belong in the file, 0: at the end
    int replaces_cut;   // an incomplete chunk at the end of the file is the open one
};

// Reads the journal of a trace. 1: it was read; 0: there is none; -1: it cannot be used, the error
// says why.
int ct_journal_read_trace(struct ct_journal_contents *j, const char *trace, struct ct_error *error);
// The same with j->file, which is open already.
int ct_journal_read_source(struct ct_journal_contents *j, struct ct_error *error);
void ct_journal_read_close(struct ct_journal_contents *j);

// Makes chunks of what the trace does not have, to be appended to it (`bytes`, from malloc; NULL if
// there is nothing). `index` has the chunks of the file, in any order; those that an interrupted
// seal wrote are removed from it. Takes over the chunks in memory. 0, or -1: the journal belongs to
// another trace.
int ct_journal_to_chunks(struct ct_journal_contents *j, struct ct_index *index, uint8_t **bytes,
                         size_t *size, struct ct_error *error);

#endif
