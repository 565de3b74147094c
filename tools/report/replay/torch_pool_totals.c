// SPDX-License-Identifier: Apache-2.0
// The figures of a pool, from what torch_pool.c keeps.
#include "replay/torch_pool.h"

// PyTorch reports its total with each block. empty_cache() frees segments without one, so that
// segments since then are added or subtracted here.
static uint64_t adjust_reserved(uint64_t reported, const struct ct_torch_pool_device *d) {
    const uint64_t freed = d->own_reported > d->own_bytes ? d->own_reported - d->own_bytes : 0;
    const uint64_t added = d->own_bytes > d->own_reported ? d->own_bytes - d->own_reported : 0;
    return reported + added > freed ? reported + added - freed : 0;
}

struct ct_torch_pool_totals ct_torch_pool_totals(const struct ct_torch_pool *p,
                                                 const struct ct_live *l, int device) {
    const struct ct_torch_pool_device *d = &p->device[device];
    const struct ct_live_device *live = &l->device[device];
    struct ct_torch_pool_totals f = {.known = p->on && d->seen};
    if (!f.known)
        return f;
    f.reported = live->reported;
    f.allocated = live->reported_allocated;
    f.reserved = adjust_reserved(live->reported_reserved, d);
    f.unreconciled = d->unreconciled;
    f.blocks = live->blocks;
    f.block_bytes = live->block_bytes;
    f.segments = d->segments;
    f.segment_bytes = d->segment_bytes;
    f.idle_segments = d->idle_segments;
    f.idle_bytes = d->idle_bytes;
    f.held_open_segments = d->held_open_segments;
    f.held_open_bytes = d->held_open_bytes;
    f.outside_bytes = d->lost.outside.bytes;
    f.asleep_bytes = d->lost.asleep.bytes;
    f.asleep_segment_bytes = live->asleep_segment_bytes;
    for (unsigned c = 0; c < CT_TORCH_POOL_CLASSES; c++) {
        const struct ct_free_blocks of = {d->free[c].count, d->free[c].bytes, d->free[c].largest};
        f.of_class[c] = of;
        f.free.ranges += of.ranges;
        f.free.bytes += of.bytes;
        f.free.largest = of.largest > f.free.largest ? of.largest : f.free.largest;
    }
    return f;
}
