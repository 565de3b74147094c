// SPDX-License-Identifier: Apache-2.0
// Where the chunks of a trace lie, in the order of their numbers, read from their prefixes alone.
#ifndef CT_INDEX_H
#define CT_INDEX_H

#include <cutrace/format/format.h>

#include "read/source.h"

struct ct_index_chunk {
    struct ct_chunk head; // checksum verified
    uint64_t offset;      // of the prefix
    uint64_t body;        // offset of the zstd frame
    int bad;              // the body turned out to be unreadable
    int partial;          // some of its events turned out to be malformed; those before them count
    int gap;              // chunks are missing before it,
    int overwritten;      // because the file is a ring that went round: no loss
    // as the trace finds it
    int has_checkpoint, checkpoint; // it has one, with these flags (CT_CHECKPOINT_*)
    int reset, restores,
        completes; // the state begins anew; its checkpoint is a part of it; the last one
};

struct ct_damage {
    uint64_t offset, bytes; // bytes 0: up to where is not known
    const char *what;
};

struct ct_index {
    struct ct_index_chunk *chunks;
    size_t count, capacity;
    struct ct_damage *damage; // in the order of finding
    size_t damages, damage_capacity;
    uint64_t foreign; // valid chunks of another trace, ignored
    uint64_t missing; // numbers between the first and the last chunk that no chunk has
    uint64_t trace_id;
    int mended; // what the file is cut in came from elsewhere
    int round; // newer chunks lie before older ones, or there is free space: a ring that may have gone round
    int cut;             // the file ends inside a chunk or a frame,
    uint64_t cut_at;     // which begins here
    uint16_t newest;     // highest version above ours that a valid prefix names
    uint16_t suspicious; // the same, of a prefix whose checksum does not fit
    uint64_t newest_at;
};

// Adds the chunks that lie in [from, to) of a source, which is what a file is made of or a part of that.
void ct_index_scan(struct ct_index *index, const struct ct_source *source, uint64_t from,
                   uint64_t to);
// Id of the trace that the chunks are of, most of them at least; there is one.
uint64_t ct_index_trace_id(const struct ct_index *index);
// The file is not cut after all: what it ends with came from elsewhere.
void ct_index_forgive_cut(struct ct_index *index);
// Puts the chunks in order. 0, or -1: no readable chunk, or one that a newer version wrote.
int ct_index_sort(struct ct_index *index, const struct ct_source *source, struct ct_error *error);
// Time of the first event at or behind the beginning of chunk i (UINT64_MAX: there is none), of the last one at or
// before its end (0: none).
uint64_t ct_index_first_ns(const struct ct_index *index, size_t i);
uint64_t ct_index_last_ns(const struct ct_index *index, size_t i);
void ct_index_damage(struct ct_index *index, uint64_t offset, uint64_t bytes, const char *what);
void ct_index_free(struct ct_index *index);

#endif
