// SPDX-License-Identifier: Apache-2.0
// PyTorch's pool of a device by a snapshot: at its end, or just before an entry of the history, to
// which the entries after it are undone, the newest first.
#ifndef CT_SNAPSHOT_POOL_H
#define CT_SNAPSHOT_POOL_H

#include "replay/range_list.h"
#include "snapshot/snapshot.h"

// Free memory inside of segments: ranges that no block covers, none across two segments.
struct ct_snapshot_free {
    uint64_t bytes, ranges, largest;
};

// Blocks of one stack.
struct ct_snapshot_holder {
    uint32_t stack;
    uint64_t bytes, count;
    uint64_t held_open; // free bytes of the segments that they lie in
    uint64_t segment;   // the last one that was counted, from 1
};

struct ct_snapshot_pool {
    int device;
    uint64_t reserved, segments; // bytes and number
    uint64_t allocated, pending; // bytes of blocks
    uint64_t requested;          // bytes that the program asked for in allocated blocks; at the end
    struct ct_snapshot_free free;
    struct ct_snapshot_free usable;     // of it, by requests of the key
    struct ct_snapshot_holder *holders; // the most bytes first
    size_t holder_count, holder_room;
    uint64_t undone; // entries that were undone
    int is_exact;    // 0: a block was put back whose size is only known as the program asked for it
};

// How much PyTorch asks the driver for, where a request of the program has so many bytes.
uint64_t ct_snapshot_segment_bytes(uint64_t bytes);
// The pool just before entry `before` of the device's history; at the end with its count. `key`:
// whose free memory counts as usable. To be freed.
void ct_snapshot_pool_find(struct ct_snapshot_pool *p, const struct ct_snapshot *s, int device,
                           size_t before, const struct ct_snapshot_pool_key *key);
// Before which entry of a device's history its blocks were the most, the first time; the history's
// count: at the end. *bytes: how many they were, freed ones by their sizes as asked for.
size_t ct_snapshot_find_peak(const struct ct_snapshot *s, int device, uint64_t *bytes);
void ct_snapshot_pool_free(struct ct_snapshot_pool *p);

#endif
