// SPDX-License-Identifier: Apache-2.0
// Where the chunks of a trace are, sorted by their seq. Reads the prefixes of chunks only.
#ifndef CT_INDEX_H
#define CT_INDEX_H

#include <cutrace/format/format.h>
#include <cutrace/model/digest_code.h>

#include "base/error.h"
#include "read/source.h"

struct ct_index_chunk {
    struct ct_chunk head;  // its checksum matches
    uint64_t rounded_ns;   // after a gap: by so much its first record's time is rounded down
    uint64_t offset;       // of the prefix
    uint64_t body;         // offset of the zstd frame
    uint32_t digest_bytes; // of the frame with its digest, right after that; 0: it has none
    int gap;               // chunks before it are missing
    int overwritten;       // they are missing because a ring file overwrote them: no loss
    // What reading the body showed:
    int bad;     // it is unreadable
    int partial; // some events are malformed, and those before them count; or lack a size
    int has_checkpoint, checkpoint; // it has one, with these flags (CT_CHECKPOINT_*)
    int reset;                      // the state starts empty here
    int restores;                   // its checkpoint is a part of the one that restores the state
    int completes;                  // it is the last part of it
    int known;                      // what is live is known during its events: no gap, or restored
    int loses;                      // it is not any more, since events before it are missing
};

// Bytes of a trace that could not be read.
struct ct_damage {
    uint64_t offset, bytes; // bytes 0: the end is not known
    const char *what;
};

struct ct_index {
    struct ct_index_chunk *chunks;
    size_t count, capacity;
    struct ct_damage *damage; // in the order of finding
    size_t damages, damage_capacity;
    uint64_t foreign; // valid chunks of another trace, ignored
    uint64_t missing; // chunks that are missing between the first and the last one
    uint64_t trace_id;
    // Gaps may come from a ring file that wrapped: chunks are out of order, or nothing is damaged.
    int wrapped;
    int cut;             // the file ends inside a chunk or a frame
    uint64_t cut_at;     // where that begins
    int cut_replaced;    // the journal has the whole chunk
    uint16_t newest;     // highest unknown version that a valid prefix names
    uint16_t suspicious; // the same of prefixes with a wrong checksum
    uint64_t newest_at;
};

// Adds the chunks in [from, to) of a source.
void ct_index_scan(struct ct_index *index, const struct ct_source *source, uint64_t from,
                   uint64_t to);
// Where a chunk and its digest end; their filler follows.
static inline uint64_t ct_index_end_of(const struct ct_index_chunk *c) {
    return c->body + c->head.body_bytes + c->digest_bytes;
}
// The id of the trace that the chunks belong to, or most of them. There is at least one chunk.
uint64_t ct_index_trace_id(const struct ct_index *index);
// The chunk in which the file is cut is in the journal: no damage.
void ct_index_forgive_cut(struct ct_index *index);
// Sorts the chunks after the last scan. 0, or -1: no chunk is readable, or a newer version wrote
// one.
int ct_index_sort(struct ct_index *index, const struct ct_source *source, struct ct_error *error);
// The time of the first event from chunk i on, UINT64_MAX if there is none. After a gap it is that
// of the record; elsewhere that of the prefix, which is exact.
uint64_t ct_index_first_ns(const struct ct_index *index, size_t i);
// The time of the last event up to the end of chunk i, 0 if there is none.
uint64_t ct_index_last_ns(const struct ct_index *index, size_t i);
void ct_index_add_damage(struct ct_index *index, uint64_t offset, uint64_t bytes, const char *what);
void ct_index_free(struct ct_index *index);

// The places in a trace from which a state can be restored: complete checkpoints.

struct ct_seek_point {
    size_t first, last; // the chunks of the checkpoint's first and last part
    uint64_t event;     // number of the first event after the checkpoint
};

struct ct_seek_points {
    struct ct_seek_point *list; // in the order of the trace
    size_t count, room;
};

// Lists the exact checkpoints that are whole and readable. The bodies must have been read once.
void ct_seek_points_find(struct ct_seek_points *p, const struct ct_index *index);
void ct_seek_points_free(struct ct_seek_points *p);

// ---- digests ------------------------------------------------------------------------------------
// The digests of chunks: read by the index alone, without decompressing anything.

// Reads the digest of a chunk. 1; 0: it has none that counts; -1: it is damaged, and `*what` says
// how.
int ct_digest_read(const struct ct_source *source, const struct ct_index_chunk *chunk,
                   struct ct_digest *digest, struct ct_digest_body *body, const char **what);

// How many chunks of a trace have one that counts. The damaged ones are added to the index.
size_t ct_digest_count(struct ct_index *index, const struct ct_source *source);

// Reads the digests alone and compares each with that of the chunk before: what is live before a
// chunk is what was live after the other. Adds to the index what is damaged. Returns how many
// chunks have a digest.
size_t ct_digest_check_chain(struct ct_index *index, const struct ct_source *source);

// Adds the damage of a digest's frame to the index.
void ct_digest_add_damage(struct ct_index *index, const struct ct_index_chunk *chunk,
                          const char *what);

#endif
