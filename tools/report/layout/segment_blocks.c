// SPDX-License-Identifier: Apache-2.0
// Looks up the segment of each live block.
#include "layout/segment_blocks.h"

const struct ct_object *ct_segment_blocks_next(const struct ct_replay *r, int device,
                                               uint32_t *slot,
                                               const struct ct_torch_region **segment) {
    while (*slot < ct_live_slot_count(&r->live)) {
        const struct ct_object *o = ct_live_object_at(&r->live, (*slot)++);
        if (!o || o->kind != CT_KIND_BLOCK || ct_device_to_index(o->device) != device)
            continue;
        *segment = ct_torch_pool_find_segment(&r->pool, o->key);
        if (*segment)
            return o;
    }
    return NULL;
}

uint64_t ct_segment_blocks_older(uint64_t a, uint64_t b) {
    return !a || b < a ? b : a;
}
