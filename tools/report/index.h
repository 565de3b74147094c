// SPDX-License-Identifier: Apache-2.0
// Where the chunks of a trace lie, in the order of their numbers, read from their prefixes alone.
#ifndef CT_INDEX_H
#define CT_INDEX_H

#include <cutrace/format.h>

#include "source.h"

struct ct_indexed {
    struct ct_chunk head; // checksum verified
    uint64_t offset;      // of the prefix
    uint64_t body;        // offset of the zstd frame
    int bad;              // the body turned out to be unreadable
    int partial;          // some of its events turned out to be malformed; those before them count
};

struct ct_damage {
    uint64_t offset, bytes; // bytes 0: up to where is not known
    const char *what;
};

struct ct_index {
    struct ct_indexed *chunks;
    size_t count, capacity;
    struct ct_damage *damage; // in the order of finding
    size_t damages, damage_capacity;
    uint64_t foreign; // valid chunks of another trace, ignored
    uint64_t missing; // numbers between the first and the last chunk that no chunk has
    uint64_t trace_id;
    int cut; // the file ends inside a chunk or a frame
};

// 0, or -1: no readable chunk, or one that a newer version wrote.
int ct_index_read(struct ct_index *index, const struct ct_source *source, struct ct_error *error);
void ct_index_damage(struct ct_index *index, uint64_t offset, uint64_t bytes, const char *what);
void ct_index_free(struct ct_index *index);

#endif
