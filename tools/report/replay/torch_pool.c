// SPDX-License-Identifier: Apache-2.0
// Keeps regions, and the free ranges in those that are segments, while live.h tells what comes and goes.
//
// A trace may be damaged or begin in the middle. So a block may come before the memory that it lies in, or stay behind when
// that goes: its range is then outside, until memory comes there.
#include "replay/torch_pool.h"

#include "base/heap.h"

enum ct_torch_pool_class ct_torch_pool_region_class(const struct ct_torch_region *r) {
    return r->piece == CT_TORCH_POOL_SMALL_SEGMENT ? CT_TORCH_POOL_SMALL : CT_TORCH_POOL_LARGE;
}

static struct ct_range_tree *free_of(struct ct_torch_pool *p, const struct ct_torch_region *r) {
    return &p->device[r->device].free[ct_torch_pool_region_class(r)];
}

// What a region counts for, before (-1) and after (+1) a change of it.
static void count(struct ct_torch_pool *p, const struct ct_torch_region *r, int sign) {
    struct ct_torch_pool_device *d = &p->device[r->device];
    const uint64_t one = (uint64_t)(int64_t)sign;
    if (!r->held || !r->bytes)
        return;
    d->segments += one;
    d->segment_bytes += one * r->bytes;
    if (!r->foreign)
        d->own_bytes += one * r->bytes;
    if (r->free == r->bytes) {
        d->idle_segments += one;
        d->idle_bytes += one * r->bytes;
    } else if (r->free) {
        d->pinned_segments += one;
        d->pinned_bytes += one * r->free;
    }
}

// ---- regions --------------------------------------------------------------------------------------

static uint32_t new_region(struct ct_torch_pool *p, uint64_t start, uint64_t bytes) {
    uint32_t at = p->free_region;
    if (at != CT_TORCH_POOL_NO_REGION) {
        p->free_region = p->regions[at].next_free;
    } else {
        CT_HEAP_GROW(p->regions, p->region_count, p->region_room);
        at = p->region_count++;
    }
    p->regions[at] = (struct ct_torch_region){.start = start, .bytes = bytes};
    ct_range_tree_insert_marked(&p->memory, start, start + bytes, at);
    return at;
}

static void end_region(struct ct_torch_pool *p, uint32_t at) {
    ct_range_tree_erase(&p->memory, p->regions[at].start);
    p->regions[at] = (struct ct_torch_region){.next_free = p->free_region};
    p->free_region = at;
}

// Gives the region another range.
static void resize(struct ct_torch_pool *p, uint32_t at, uint64_t start, uint64_t bytes) {
    struct ct_torch_region *r = &p->regions[at];
    ct_range_tree_erase(&p->memory, r->start);
    r->start = start;
    r->bytes = bytes;
    ct_range_tree_insert_marked(&p->memory, start, start + bytes, at);
}

// The region that holds the address, or CT_TORCH_POOL_NO_REGION; `*behind` is where the next one begins then.
static uint32_t region_at(struct ct_torch_pool *p, uint64_t address, uint64_t *behind) {
    struct ct_tree_range found;
    uint32_t *near = &p->near[(address >> 23) % (sizeof p->near / sizeof *p->near)];
    *behind = UINT64_MAX;
    if (*near < p->region_count && address - p->regions[*near].start < p->regions[*near].bytes)
        return *near;
    if (!ct_range_tree_find(&p->memory, address, &found))
        return CT_TORCH_POOL_NO_REGION;
    if (found.start <= address)
        return *near = found.mark;
    *behind = found.start;
    return CT_TORCH_POOL_NO_REGION;
}

const struct ct_torch_region *ct_torch_pool_find_segment(const struct ct_torch_pool *p, uint64_t address) {
    struct ct_tree_range found;
    return ct_range_tree_find(&p->memory, address, &found) && found.start <= address &&
                   p->regions[found.mark].held
               ? &p->regions[found.mark]
               : NULL;
}

void ct_torch_pool_prefetch(const struct ct_torch_pool *p, uint64_t address, int stage) {
    const uint32_t near = p->near[(address >> 23) % (sizeof p->near / sizeof *p->near)];
    const struct ct_torch_region *r = near < p->region_count ? &p->regions[near] : NULL;
    if (r && r->held && address - r->start < r->bytes)
        ct_range_tree_prefetch(&p->device[r->device].free[ct_torch_pool_region_class(r)], address, stage);
}

static uint64_t reservation_of(const struct ct_torch_pool *p, uint64_t address) {
    struct ct_tree_range found;
    return ct_range_tree_find(&p->reserved, address, &found) && found.start <= address ? found.start
                                                                                    : 0;
}

// ---- free ranges ------------------------------------------------------------------------------------

static void make_free(struct ct_torch_pool *p, struct ct_torch_region *r, uint64_t start, uint64_t end) {
    r->free += ct_range_tree_add(free_of(p, r), start, end, r->start, r->start + r->bytes);
}

// What a block takes or gives back of a segment changes nothing but what is free there, and mostly some of it is before and
// after.
static void set_free(struct ct_torch_pool *p, struct ct_torch_region *r, uint64_t bytes) {
    if (r->free && bytes && r->free != r->bytes && bytes != r->bytes) {
        p->device[r->device].pinned_bytes += bytes - r->free;
        r->free = bytes;
        return;
    }
    count(p, r, -1);
    r->free = bytes;
    count(p, r, +1);
}

static uint64_t free_within(const struct ct_range_tree *s, uint64_t start, uint64_t end) {
    uint64_t bytes = 0;
    struct ct_tree_range at;
    for (uint64_t from = start; from < end && ct_range_tree_find(s, from, &at) && at.start < end;) {
        const uint64_t behind = at.start + at.bytes < end ? at.start + at.bytes : end;
        bytes += behind - (at.start > from ? at.start : from);
        from = behind;
    }
    return bytes;
}

// It belongs to another device than it was put to: a mapping does not tell its own.
static void rehome(struct ct_torch_pool *p, struct ct_torch_region *r, unsigned device) {
    struct ct_range_tree *from = free_of(p, r);
    const uint64_t end = r->start + r->bytes;
    struct ct_tree_range at;
    count(p, r, -1);
    r->device = (uint8_t)device;
    for (uint64_t next = r->start; ct_range_tree_find(from, next, &at) && at.start < end;) {
        next = at.start + at.bytes;
        (void)ct_range_tree_remove(from, at.start, next);
        (void)ct_range_tree_add(free_of(p, r), at.start, next, r->start, end);
    }
    p->device[device].seen = 1;
    count(p, r, +1);
}

static void hold(struct ct_torch_pool *p, struct ct_torch_region *r, unsigned device) {
    if (r->held) {
        if (r->device == CT_MAX_DEVICES && device != CT_MAX_DEVICES)
            rehome(p, r, device);
        return;
    }
    r->held = 1;
    r->device = (uint8_t)device;
    p->device[device].seen |= device != CT_MAX_DEVICES;
    make_free(p, r, r->start, r->start + r->bytes);
    count(p, r, +1);
}

// Blocks that were there before their memory.
static void adopt(struct ct_torch_pool *p, uint32_t at, uint64_t start, uint64_t end) {
    struct ct_tree_range lost;
    for (unsigned d = 0; d < CT_DEVICES; d++)
        while (p->device[d].outside.count && ct_range_tree_find(&p->device[d].outside, start, &lost) &&
               lost.start < end) {
            const uint64_t from = lost.start > start ? lost.start : start;
            const uint64_t to = lost.start + lost.bytes < end ? lost.start + lost.bytes : end;
            struct ct_torch_region *r = &p->regions[at];
            hold(p, r, d);
            set_free(p, r, r->free - ct_range_tree_remove(free_of(p, r), from, to));
            (void)ct_range_tree_remove(&p->device[d].outside, from, to);
        }
}

// The free ranges of [start, end) go with their memory; what blocks have of it is outside from now on. Returns the free bytes.
static uint64_t abandon(struct ct_torch_pool *p, const struct ct_torch_region *r, uint64_t start,
                        uint64_t end) {
    struct ct_range_tree *s = free_of(p, r), *outside = &p->device[r->device].outside;
    uint64_t bytes = 0;
    struct ct_tree_range at;
    for (uint64_t from = start; from < end;) {
        const int any = ct_range_tree_find(s, from, &at) && at.start < end;
        const uint64_t used_to = !any ? end : at.start > from ? at.start : from;
        (void)ct_range_tree_add(outside, from, used_to, 0, UINT64_MAX);
        if (!any)
            break;
        const uint64_t to = at.start + at.bytes < end ? at.start + at.bytes : end;
        bytes += ct_range_tree_remove(s, used_to, to);
        from = to;
    }
    return bytes;
}

// ---- memory comes and goes ----------------------------------------------------------------------------

static void describe(const struct ct_torch_pool *p, struct ct_torch_region *r, const struct ct_object *o,
                     const struct ct_traits *from) {
    r->piece = o->bytes;
    r->t_ns = o->t_ns;
    r->event = ct_object_event(o);
    r->stack = o->stack;
    r->api = from->api;
    r->device = (uint8_t)ct_device_to_index(o->device);
    r->async = (from->flags & CT_FLAG_ASYNC) != 0;
    r->foreign = o->stack < p->foreign_count && p->foreign[o->stack];
}

static void allocation_comes(struct ct_torch_pool *p, const struct ct_object *o,
                             const struct ct_traits *from) {
    uint64_t behind;
    if (from->space == CT_SPACE_HOST || !o->bytes || o->key > UINT64_MAX - o->bytes ||
        region_at(p, o->key, &behind) != CT_TORCH_POOL_NO_REGION || behind - o->key < o->bytes)
        return; // (two things at one place: the end of the first was missed)
    const uint32_t at = new_region(p, o->key, o->bytes);
    describe(p, &p->regions[at], o, from);
    adopt(p, at, o->key, o->key + o->bytes);
}

static void allocation_goes(struct ct_torch_pool *p, const struct ct_object *o) {
    uint64_t behind;
    const uint32_t at = region_at(p, o->key, &behind);
    struct ct_torch_region *r = at != CT_TORCH_POOL_NO_REGION ? &p->regions[at] : NULL;
    if (!r || r->maps || r->start != o->key)
        return;
    count(p, r, -1);
    if (r->held)
        (void)abandon(p, r, r->start, r->start + r->bytes);
    end_region(p, at);
}

// The region that ends (or, with `begins`, begins) at an address and belongs to the reservation.
static uint32_t neighbour(struct ct_torch_pool *p, uint64_t address, int begins, uint64_t reservation) {
    uint64_t behind;
    const uint32_t at = region_at(p, begins ? address : address - 1, &behind);
    return at != CT_TORCH_POOL_NO_REGION && p->regions[at].maps && p->regions[at].reservation == reservation
               ? at
               : CT_TORCH_POOL_NO_REGION;
}

// Two regions that touch become one, the first.
static void join(struct ct_torch_pool *p, uint32_t first, uint32_t second) {
    struct ct_torch_region *a = &p->regions[first], *b = &p->regions[second];
    if (a->held)
        hold(p, b, a->device);
    if (b->held)
        hold(p, a, b->device);
    count(p, a, -1);
    count(p, b, -1);
    const struct ct_torch_region gone = *b;
    const uint64_t border = gone.start;
    if (gone.held) // its free ranges may lie with those of another class or device
        (void)abandon(p, &gone, gone.start, gone.start + gone.bytes);
    end_region(p, second);
    resize(p, first, a->start, a->bytes + gone.bytes);
    a->maps += gone.maps;
    if (a->held)
        make_free(p, a, border, border + gone.bytes);
    count(p, a, +1);
    adopt(p, first, border, border + gone.bytes);
}

static void mapping_comes(struct ct_torch_pool *p, const struct ct_object *o,
                          const struct ct_traits *from) {
    uint64_t behind;
    if (!o->bytes || o->key > UINT64_MAX - o->bytes ||
        region_at(p, o->key, &behind) != CT_TORCH_POOL_NO_REGION || behind - o->key < o->bytes)
        return;
    const uint64_t reservation = reservation_of(p, o->key), end = o->key + o->bytes;
    const uint32_t left = o->key ? neighbour(p, o->key, 0, reservation) : CT_TORCH_POOL_NO_REGION;
    uint32_t at = left;
    if (at != CT_TORCH_POOL_NO_REGION) {
        struct ct_torch_region *r = &p->regions[at];
        count(p, r, -1);
        resize(p, at, r->start, r->bytes + o->bytes);
        r->maps++;
        if (r->held)
            make_free(p, r, o->key, end);
        count(p, r, +1);
    } else {
        at = new_region(p, o->key, o->bytes);
        describe(p, &p->regions[at], o, from);
        p->regions[at].maps = 1;
        p->regions[at].reservation = reservation;
    }
    adopt(p, at, o->key, end);
    const uint32_t right = neighbour(p, end, 1, reservation);
    if (right != CT_TORCH_POOL_NO_REGION)
        join(p, at, right);
}

static void mapping_goes(struct ct_torch_pool *p, const struct ct_object *o) {
    uint64_t behind;
    const uint32_t at = region_at(p, o->key, &behind);
    struct ct_torch_region *r = at != CT_TORCH_POOL_NO_REGION ? &p->regions[at] : NULL;
    if (!r || !r->maps || !o->bytes || r->start + r->bytes - o->key < o->bytes)
        return;
    const uint64_t end = o->key + o->bytes, old_end = r->start + r->bytes;
    count(p, r, -1);
    if (r->held)
        r->free -= abandon(p, r, o->key, end);
    r->maps -= r->maps > 1;
    if (o->key == r->start && end == old_end) {
        end_region(p, at);
        return;
    }
    if (o->key == r->start) {
        resize(p, at, end, old_end - end);
    } else {
        resize(p, at, r->start, o->key - r->start);
    }
    if (p->regions[at].start < o->key &&
        end < old_end) { // a hole: what lies behind it is a region of its own
        const struct ct_torch_region whole = *r;
        const uint32_t tail = new_region(p, end, old_end - end);
        struct ct_torch_region *t = &p->regions[tail];
        const uint64_t start = t->start, bytes = t->bytes;
        *t = whole;
        t->start = start;
        t->bytes = bytes;
        t->free = whole.held ? free_within(free_of(p, t), start, old_end) : 0;
        r = &p->regions[at];
        r->free -= t->free;
        count(p, t, +1);
    }
    count(p, &p->regions[at], +1);
}

static void block_comes(struct ct_torch_pool *p, const struct ct_object *o) {
    const int device = ct_device_to_index(o->device);
    const uint64_t end = o->key > UINT64_MAX - o->bytes ? UINT64_MAX : o->key + o->bytes;
    p->device[device].seen = 1;
    for (uint64_t from = o->key, behind; from < end;) {
        const uint32_t at = region_at(p, from, &behind);
        struct ct_torch_region *r = at != CT_TORCH_POOL_NO_REGION ? &p->regions[at] : NULL;
        const uint64_t limit = r ? r->start + r->bytes : behind, to = limit < end ? limit : end;
        if (r) {
            hold(p, r, device);
            set_free(p, r, r->free - ct_range_tree_remove(free_of(p, r), from, to));
        } else {
            (void)ct_range_tree_add(&p->device[device].outside, from, to, 0, UINT64_MAX);
        }
        from = to;
    }
}

static void block_goes(struct ct_torch_pool *p, const struct ct_object *o) {
    const int device = ct_device_to_index(o->device);
    const uint64_t end = o->key > UINT64_MAX - o->bytes ? UINT64_MAX : o->key + o->bytes;
    for (uint64_t from = o->key, behind; from < end;) {
        const uint32_t at = region_at(p, from, &behind);
        struct ct_torch_region *r = at != CT_TORCH_POOL_NO_REGION ? &p->regions[at] : NULL;
        const uint64_t limit = r ? r->start + r->bytes : behind, to = limit < end ? limit : end;
        if (r && r->held) {
            set_free(p, r,
                     r->free +
                         ct_range_tree_add(free_of(p, r), from, to, r->start, r->start + r->bytes));
        } else {
            (void)ct_range_tree_remove(&p->device[device].outside, from, to);
        }
        from = to;
    }
}

// ---- from live.h -----------------------------------------------------------------------------------------

static void tiled(void *user, const struct ct_object *o, const struct ct_traits *from, int sign) {
    struct ct_torch_pool *p = user;
    const uint64_t end = o->key > UINT64_MAX - o->bytes ? UINT64_MAX : o->key + o->bytes;
    struct ct_tree_range there;
    switch (o->kind) {
    case CT_KIND_BLOCK:
        (sign > 0 ? block_comes : block_goes)(p, o);
        break;
    case CT_KIND_ADDRESS:
        if (sign > 0)
            allocation_comes(p, o, from);
        else
            allocation_goes(p, o);
        break;
    case CT_KIND_MAPPING:
        if (sign > 0)
            mapping_comes(p, o, from);
        else
            mapping_goes(p, o);
        break;
    case CT_KIND_RESERVED:
        if (sign < 0)
            ct_range_tree_erase(&p->reserved, o->key);
        else if (o->bytes && !(ct_range_tree_find(&p->reserved, o->key, &there) && there.start < end))
            ct_range_tree_insert_marked(&p->reserved, o->key, end, 0);
        break;
    default:
        break;
    }
}

void ct_torch_pool_begin(struct ct_torch_pool *p, struct ct_live *l, const uint8_t *foreign, size_t count) {
    // Reservations first: they say which mappings belong together.
    static const uint8_t order[] = {CT_KIND_RESERVED, CT_KIND_ADDRESS, CT_KIND_MAPPING};
    ct_torch_pool_free(p);
    p->on = 1;
    p->foreign = foreign;
    p->foreign_count = foreign ? count : 0;
    p->free_region = CT_TORCH_POOL_NO_REGION;
    for (unsigned k = 0; k < sizeof order; k++)
        for (uint32_t i = 0, left = l->of_kind[order[k]]; left && i < ct_live_slot_count(l); i++) {
            const struct ct_object *o = ct_live_object_at(l, i);
            if (!o || o->kind != order[k])
                continue;
            tiled(p, o, ct_live_traits(l, o), +1);
            left--;
        }
    l->region_changed = tiled;
    l->region_user = p;
}

void ct_torch_pool_reported(struct ct_torch_pool *p, const struct ct_live *l, int device) {
    const int d = ct_device_to_index(device);
    p->device[d].seen = 1;
    p->device[d].unreconciled =
        (int64_t)(l->device[d].reported_reserved - p->device[d].segment_bytes);
    p->device[d].own_stated = p->device[d].own_bytes;
}

void ct_torch_pool_restore_segment(struct ct_torch_pool *p, uint64_t address, int device) {
    uint64_t behind;
    const uint32_t at = region_at(p, address, &behind);
    if (at != CT_TORCH_POOL_NO_REGION)
        hold(p, &p->regions[at], ct_device_to_index(device));
}

void ct_torch_pool_assign_devices(struct ct_torch_pool *p, const struct ct_live *l) {
    uint64_t behind;
    for (uint32_t i = 0, left = l->of_kind[CT_KIND_MAPPING]; left && i < ct_live_slot_count(l); i++) {
        const struct ct_object *o = ct_live_object_at(l, i);
        if (!o || o->kind != CT_KIND_MAPPING)
            continue;
        left--;
        const uint32_t at = region_at(p, o->key, &behind);
        const struct ct_object *handle =
            ct_live_find(l, CT_KIND_HANDLE, ct_live_traits(l, o)->link);
        if (at != CT_TORCH_POOL_NO_REGION && p->regions[at].held && handle)
            hold(p, &p->regions[at], ct_device_to_index(handle->device));
    }
}

void ct_torch_pool_free(struct ct_torch_pool *p) {
    ct_range_tree_clear(&p->memory);
    ct_range_tree_clear(&p->reserved);
    for (unsigned d = 0; d < CT_DEVICES; d++) {
        ct_range_tree_clear(&p->device[d].outside);
        for (unsigned c = 0; c < CT_TORCH_POOL_CLASSES; c++)
            ct_range_tree_clear(&p->device[d].free[c]);
    }
    free(p->regions);
    memset(p, 0, sizeof *p);
}

// PyTorch states its total with blocks; empty_cache() gives segments back without one.
static uint64_t reserved_now(uint64_t stated, const struct ct_torch_pool_device *d) {
    const uint64_t gone = d->own_stated > d->own_bytes ? d->own_stated - d->own_bytes : 0;
    const uint64_t come = d->own_bytes > d->own_stated ? d->own_bytes - d->own_stated : 0;
    return stated + come > gone ? stated + come - gone : 0;
}

struct ct_torch_pool_totals ct_torch_pool_totals(const struct ct_torch_pool *p, const struct ct_live *l, int device) {
    const struct ct_torch_pool_device *d = &p->device[device];
    const struct ct_live_device *live = &l->device[device];
    struct ct_torch_pool_totals f = {.known = p->on && d->seen};
    if (!f.known)
        return f;
    f.stated = live->reported;
    f.allocated = live->reported_allocated;
    f.reserved = reserved_now(live->reported_reserved, d);
    f.unreconciled = d->unreconciled;
    f.blocks = live->blocks;
    f.block_bytes = live->block_bytes;
    f.segments = d->segments;
    f.segment_bytes = d->segment_bytes;
    f.idle_segments = d->idle_segments;
    f.idle_bytes = d->idle_bytes;
    f.held_open_segments = d->pinned_segments;
    f.held_open_bytes = d->pinned_bytes;
    f.outside_bytes = d->outside.bytes;
    for (unsigned c = 0; c < CT_TORCH_POOL_CLASSES; c++) {
        const struct ct_free_blocks of = {d->free[c].count, d->free[c].bytes, d->free[c].largest};
        f.of_class[c] = of;
        f.free.ranges += of.ranges;
        f.free.bytes += of.bytes;
        f.free.largest = of.largest > f.free.largest ? of.largest : f.free.largest;
    }
    return f;
}
