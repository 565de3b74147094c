// SPDX-License-Identifier: Apache-2.0
// How much a trace may unfold to. Chunks are compressed, so that a few kilobytes of a stranger's
// could ask for gigabytes; what exceeds a bound is damage.
//
// Bounds grow with the bytes of the file, compressed as they are, on top of what any file may ask
// for. Real traces stay below a share of them: the densest that a recorder was made to write (one
// thread that allocates and frees the same bytes in a loop) has 2.4 events for each byte of the
// file, and definitions take 21 bytes of memory at most.
#ifndef CT_BOUNDS_H
#define CT_BOUNDS_H

#include <cutrace/format/format.h>
#include <stddef.h>
#include <stdint.h>

// Bytes of memory for all definitions together. (Arrays and tables grow by doubling, with the old
// one beside the new one: the most that is taken is less than twice this.)
static inline uint64_t ct_bounds_definition_bytes(uint64_t file_bytes) {
    return (UINT64_C(24) << 20) + file_bytes * 48;
}

// Records in all chunks together: events, corrections and objects of checkpoints.
static inline uint64_t ct_bounds_records(uint64_t file_bytes) {
    return (UINT64_C(1) << 19) + file_bytes * 32;
}

// Sizes of a trace that can be. They are added up in many places, and a stranger's trace may name
// any: so that no sum of them overflows, those that events allocate or give back are bounded
// together, each chunk's by its share, and those that are read from a device each by itself.

struct ct_size_bounds {
    uint64_t left; // what the events of the chunk may still add
};

// Before the first event of a chunk; `chunks`: of the trace.
void ct_size_bounds_begin(struct ct_size_bounds *b, size_t chunks);
// Takes sizes that cannot be out of an event.
void ct_size_bounds_take_out(const struct ct_size_bounds *b, struct ct_event *e);

// Readings beyond this have a bit set: it is more than any machine has.
#define CT_SIZE_BOUNDS_READING (UINT64_MAX << 48)

#define CT_SIZE_BOUNDS_FIELDS                                               \
    (CT_BIT(free_bytes) | CT_BIT(total_bytes) | CT_BIT(free_before_bytes) | \
     CT_BIT(process_bytes) | CT_BIT(reserved_bytes) | CT_BIT(used_bytes) |  \
     CT_BIT(allocated_bytes))

// The bits of all readings of an event (inline and without a loop: it is asked of each).
static inline uint64_t ct_size_bounds_readings(const struct ct_event *e) {
    if (!(e->present & CT_SIZE_BOUNDS_FIELDS))
        return 0;
    return CT_GET(e, free_bytes) | CT_GET(e, total_bytes) | CT_GET(e, free_before_bytes) |
           CT_GET(e, process_bytes) | CT_GET(e, reserved_bytes) | CT_GET(e, used_bytes) |
           CT_GET(e, allocated_bytes);
}

// What an event adds. The size of a call that failed is what was asked for, which may be anything;
// so may bounds that a program sets.
static inline uint64_t ct_size_bounds_added(const struct ct_event *e) {
    const int is_memory = CT_HAS(e, bytes) && !(CT_HAS(e, result) && e->result) &&
                          e->op != CT_OP_BLOCK_OOM && e->op != CT_OP_LIMIT &&
                          e->op != CT_OP_POOL_TRIM;
    return is_memory ? e->bytes : 0;
}

// Takes sizes that cannot be out of an event: they are not known. Returns 1 if it had some.
static inline int ct_size_bounds_apply(struct ct_size_bounds *b, struct ct_event *e) {
    const uint64_t added = ct_size_bounds_added(e);
    if (added <= b->left && !(ct_size_bounds_readings(e) & CT_SIZE_BOUNDS_READING)) {
        b->left -= added;
        return 0;
    }
    ct_size_bounds_take_out(b, e);
    b->left -= ct_size_bounds_added(e);
    return 1;
}

#endif
