// SPDX-License-Identifier: Apache-2.0
// Sums by call site. After an inexact checkpoint (checkpoint.h), a reader knows of the older
// allocations only how many there are for each call site and how large they are together. A free of
// such an allocation describes it.
#ifndef CUTRACE_SITE_SUMS_H
#define CUTRACE_SITE_SUMS_H

#include <cutrace/model/objects.h>

// The key of a sum. Allocations from pools have sums of their own.
static inline uint64_t ct_site_sum_key(int device, unsigned space, uint32_t stack, int async) {
    return stack | (uint64_t)(device + 1) << 32 | (uint64_t)space << 40 | (uint64_t)async << 60;
}

// Adds to an event that frees the object what a reader needs that has it in a sum only.
static inline void ct_site_sum_describe(const struct ct_live *l, const struct ct_object *o,
                                        struct ct_event *e) {
    const struct ct_traits *traits = ct_live_traits(l, o);
    CT_SET(e, bytes, o->bytes);
    if (o->stack)
        CT_SET(e, stack, o->stack);
    if (o->device != CT_NO_DEVICE)
        CT_SET(e, device, (int)o->device);
    if (traits->space)
        CT_SET(e, space, traits->space);
    if (traits->flags & CT_FLAG_ASYNC)
        CT_SET(e, pool, ct_live_pool_key(o, ct_live_traits(l, o)));
}

// The sum that contains the freed allocation, if the event describes it; else NULL.
static inline struct ct_object *ct_site_sum_find(const struct ct_live *l,
                                                 const struct ct_event *e) {
    if (!l->of_kind[CT_KIND_SITE_SUM] || !CT_HAS(e, bytes))
        return NULL;
    const int device = CT_HAS(e, device) ? ct_device_or_none(e->device) : CT_NO_DEVICE;
    const unsigned space = (uint16_t)(CT_HAS(e, space) ? e->space : CT_SPACE_UNKNOWN);
    // Without a sum for its stack, the allocation is in the sum of the call sites that had no room.
    for (int without = 0; without < 2; without++) {
        const uint32_t stack = CT_HAS(e, stack) && !without ? e->stack : 0;
        struct ct_object *o = ct_live_find(l, CT_KIND_SITE_SUM,
                                           ct_site_sum_key(device, space, stack, CT_HAS(e, pool)));
        if (o && o->bytes >= e->bytes && ct_live_traits(l, o)->link)
            return o;
    }
    return NULL;
}

// Subtracts the freed allocation from its sum.
static inline void ct_site_sum_subtract(struct ct_live *l, struct ct_object *sum,
                                        const struct ct_event *e) {
    struct ct_object *pool = CT_HAS(e, pool) ? ct_live_find(l, CT_KIND_POOL, e->pool) : NULL;
    struct ct_object one = *sum;
    one.kind = CT_KIND_ARRAY; // a single allocation that has no address
    one.bytes = e->bytes;
    ct_object_count(l, &one, one.kind, ct_live_traits(l, &one), -1);
    CT_ASSERT(sum->bytes >= e->bytes && ct_live_traits(l, sum)->link);
    sum->bytes -= e->bytes;
    if (!--ct_live_traits(l, sum)->link)
        ct_object_remove(l, sum);
    if (pool && pool->bytes >= e->bytes && CT_HAS(e, space) && e->space == CT_SPACE_DEVICE) {
        ct_live_pool_count(l, pool, -1);
        pool->bytes -= e->bytes;
        ct_live_pool_count(l, pool, +1);
    }
}

#endif
