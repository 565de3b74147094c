// SPDX-License-Identifier: Apache-2.0
// The journal beside a trace: what a process that did not end in good order had not put into the trace yet.
//
// Read with pread like every file here, and believed as little: what it says may be anything.
#ifndef CT_REPORT_JOURNAL_H
#define CT_REPORT_JOURNAL_H

#include <cutrace/format/journal.h>

#include "read/index.h"
#include "read/source.h"

// An event that was still in a ring.
struct ct_journal_record {
    uint64_t t_ns;
    uint64_t order;        // of events of the same time
    const uint8_t *record; // bytes of a struct ct_event, as many as its `present` says
};

// Events of a thread that found its ring full.
struct ct_journal_loss {
    uint64_t count, t_ns;
    uint32_t thread;
};

struct ct_journal_contents {
    struct ct_source file; // fd -1 and no memory: there is none
    char *path;
    struct ct_journal head;
    int alive; // its process is still running (of this boot of this machine)
    // the shelf
    uint8_t *shelf; // its chunks, whole, one behind the other
    size_t chunks_bytes, shelf_cap;
    uint64_t shelf_read; // so far, as the journal counts
    // the open chunk
    struct ct_journal_open open;
    uint8_t *streams; // one behind the other
    size_t stream_at[CT_STREAMS + 1];
    // the rings
    uint8_t **records; // of each ring
    size_t ring_count, ring_cap;
    struct ct_journal_record *pending; // in the order of time
    size_t pending_count, pending_cap;
    struct ct_journal_loss *losses; // that no record tells of
    size_t loss_count, loss_cap;
    uint64_t torn;    // events that were being published
    uint64_t damaged; // rings that hold something else than records
    // of the fold
    uint64_t folded;    // events that it brought
    uint64_t append_at; // where its chunks go in the file; 0 = behind the end
    int mends;          // a chunk at the end of the file that is not whole is the open one
};

// Reads the journal of a trace. 1: it was read; 0: there is none; -1: it cannot be used, the error says why.
int ct_journal_read_trace(struct ct_journal_contents *j, const char *trace, struct ct_error *error);
// The same of one that is open. The source is taken over.
int ct_journal_read_source(struct ct_journal_contents *j, struct ct_error *error);
// Makes chunks of what the trace does not have, to stand behind its end (`bytes`, from malloc; NULL if there
// is nothing); takes the shelf. `index` has the chunks that were found, in any order; those that an interrupted seal left behind
// are taken out. 0, or -1: the journal is another trace's.
int ct_journal_to_chunks(struct ct_journal_contents *j, struct ct_index *index, uint8_t **bytes, size_t *size,
                    struct ct_error *error);
void ct_journal_read_close(struct ct_journal_contents *j);

#endif
