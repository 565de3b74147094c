// SPDX-License-Identifier: Apache-2.0
// Sorts the live ranges of a device by address and measures what lies between them.
#include "layout/address_layout.h"

#include "analyze/live_at.h"
#include "base/heap.h"
#include "base/pair_sort.h"

#define BLOCK (UINT64_C(2) << 20)

// Lists what allocation calls returned: starts as keys, bytes as values. Mappings of VMM objects
// are left out: they can lie anywhere, so gaps between them cost nothing.
static size_t list_ranges(const struct ct_live *l, int device, struct ct_pair **ranges) {
    size_t n = 0, capacity = 0;
    *ranges = NULL;
    for (uint32_t i = 0; i < ct_live_slot_count(l); i++) {
        const struct ct_object *o = ct_live_object_at(l, i);
        if (!o || o->kind != CT_KIND_ADDRESS || ct_device_to_index(o->device) != device ||
            !ct_object_is_on_device(l, o) || !o->bytes || o->key > UINT64_MAX - o->bytes)
            continue;
        CT_HEAP_GROW(*ranges, n, capacity);
        (*ranges)[n++] = (struct ct_pair){o->key, o->bytes};
    }
    if (n)
        ct_pair_sort(*ranges, n);
    return n;
}

// Counts the blocks of a small allocation; a block that small allocations share counts once.
static void add_small(struct ct_address_layout *f, const struct ct_pair *r, uint64_t *next_block) {
    const uint64_t first = r->key / BLOCK, last = (r->key + r->value - 1) / BLOCK;
    f->small_bytes += r->value;
    for (uint64_t b = first > *next_block ? first : *next_block; b <= last; b++)
        f->small_blocks++;
    if (last + 1 > *next_block)
        *next_block = last + 1;
}

struct ct_address_layout ct_address_layout_measure(const struct ct_replay *r, int device,
                                                   uint64_t capacity) {
    struct ct_address_layout f = {0};
    struct ct_pair *ranges;
    const size_t n = list_ranges(&r->live, device, &ranges);
    const uint64_t far = capacity ? capacity : UINT64_C(1) << 40;
    uint64_t end = 0, next_block = 0;
    for (size_t i = 0; i < n; i++) {
        const struct ct_pair *at = &ranges[i];
        f.ranges++;
        f.range_bytes += at->value;
        if (i && at->key > end && at->key - end <= far) {
            const uint64_t gap = at->key - end;
            f.gaps++;
            f.gap_bytes += gap;
            f.gap_max = gap > f.gap_max ? gap : f.gap_max;
        }
        if (at->key + at->value > end)
            end = at->key + at->value;
        if (at->value < BLOCK)
            add_small(&f, at, &next_block);
        else
            f.rounding_bytes += ct_live_at_round(at->value);
    }
    free(ranges);
    return f;
}
