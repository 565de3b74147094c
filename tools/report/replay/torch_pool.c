// SPDX-License-Identifier: Apache-2.0
// Tracks regions, and the free blocks in those that are segments, as live.h reports objects that
// are created and destroyed.
//
// A trace may be damaged or begin in the middle. So a block may be allocated before the memory that
// it is in, or outlive it: its range is then "outside", until memory is allocated there. Where the
// memory was unmapped and its reservation remains, it is asleep instead (segment_members.h).
#include "replay/torch_pool.h"

#include <cutrace/format/assert.h>
#include <cutrace/model/live.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"

enum ct_torch_pool_class ct_torch_pool_region_class(const struct ct_torch_region *r) {
    return r->piece == CT_TORCH_POOL_SMALL_SEGMENT ? CT_TORCH_POOL_SMALL : CT_TORCH_POOL_LARGE;
}

static struct ct_range_tree *free_tree(struct ct_torch_pool *p, const struct ct_torch_region *r) {
    return &p->device[r->device].free[ct_torch_pool_region_class(r)];
}

// Takes a region out of the totals of its device before a change (-1), puts it back after it (+1).
static void count_region(struct ct_torch_pool *p, const struct ct_torch_region *r, int sign) {
    struct ct_torch_pool_device *d = &p->device[r->device];
    const uint64_t one = (uint64_t)(int64_t)sign;
    if (!r->held || !r->bytes)
        return;
    d->segments += one;
    d->segment_bytes += one * r->bytes;
    if (!r->foreign)
        d->own_bytes += one * r->bytes;
    CT_ASSERT(r->free <= r->bytes);
    if (r->free == r->bytes) {
        d->idle_segments += one;
        d->idle_bytes += one * r->bytes;
    } else if (r->free) {
        d->held_open_segments += one;
        d->held_open_bytes += one * r->free;
    }
}

// ---- regions ------------------------------------------------------------------------------------

static uint32_t add_region(struct ct_torch_pool *p, uint64_t start, uint64_t bytes) {
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

static void remove_region(struct ct_torch_pool *p, uint32_t at) {
    ct_range_tree_erase(&p->memory, p->regions[at].start);
    p->regions[at] = (struct ct_torch_region){.next_free = p->free_region};
    p->free_region = at;
}

static void resize_region(struct ct_torch_pool *p, uint32_t at, uint64_t start, uint64_t bytes) {
    struct ct_torch_region *r = &p->regions[at];
    ct_range_tree_erase(&p->memory, r->start);
    r->start = start;
    r->bytes = bytes;
    ct_range_tree_insert_marked(&p->memory, start, start + bytes, at);
}

// The place that keeps which region held an address near this one last.
static unsigned recent_place(const struct ct_torch_pool *p, uint64_t address) {
    return (unsigned)((address >> 23) % (sizeof p->recent / sizeof *p->recent));
}

static int region_holds(const struct ct_torch_pool *p, uint32_t at, uint64_t address) {
    return at < p->region_count && address - p->regions[at].start < p->regions[at].bytes;
}

// Finds the region that holds an address. If there is none, returns CT_TORCH_POOL_NO_REGION, and in
// `next` the start of the first region after it.
static uint32_t find_region(struct ct_torch_pool *p, uint64_t address, uint64_t *next) {
    struct ct_tree_range found;
    uint32_t *recent = &p->recent[recent_place(p, address)];
    *next = UINT64_MAX;
    if (region_holds(p, *recent, address))
        return *recent;
    if (!ct_range_tree_find(&p->memory, address, &found))
        return CT_TORCH_POOL_NO_REGION;
    if (found.start <= address)
        return *recent = found.mark;
    *next = found.start;
    return CT_TORCH_POOL_NO_REGION;
}

const struct ct_torch_region *ct_torch_pool_find_segment(const struct ct_torch_pool *p,
                                                         uint64_t address) {
    const uint32_t recent = p->recent[recent_place(p, address)];
    struct ct_tree_range found;
    if (region_holds(p, recent, address))
        return p->regions[recent].held ? &p->regions[recent] : NULL;
    if (!ct_range_tree_find(&p->memory, address, &found) || found.start > address)
        return NULL;
    return p->regions[found.mark].held ? &p->regions[found.mark] : NULL;
}

// Whether all of a block lies in regions, and whether it is older than their memory.
static enum ct_block_place find_place(void *user, const struct ct_object *o) {
    struct ct_torch_pool *p = user;
    const uint64_t end = o->key > UINT64_MAX - o->bytes ? UINT64_MAX : o->key + o->bytes;
    enum ct_block_place place = o->bytes ? CT_BLOCK_INSIDE : CT_BLOCK_OUTSIDE;
    for (uint64_t from = o->key, next; from < end;) {
        const uint32_t at = find_region(p, from, &next);
        if (at == CT_TORCH_POOL_NO_REGION)
            return CT_BLOCK_OUTSIDE;
        if (p->regions[at].maps && p->regions[at].t_ns > o->t_ns) {
            place = CT_BLOCK_RESUMED;
            if (p->resumers)
                ct_resumers_note(p->resumers, CT_RESUMED_BLOCK, o->stack, p->regions[at].stack);
        }
        from = p->regions[at].start + p->regions[at].bytes;
    }
    return place;
}

void ct_torch_pool_prefetch(const struct ct_torch_pool *p, uint64_t address, int stage) {
    const uint32_t recent = p->recent[recent_place(p, address)];
    const struct ct_torch_region *r = region_holds(p, recent, address) ? &p->regions[recent] : NULL;
    if (r && r->held)
        ct_range_tree_prefetch(&p->device[r->device].free[ct_torch_pool_region_class(r)], address,
                               stage);
}

// The start of the reservation that an address is in, 0 if there is none.
static uint64_t find_reservation(const struct ct_torch_pool *p, uint64_t address) {
    struct ct_tree_range found;
    const int any = ct_range_tree_find(&p->reserved, address, &found);
    return any && found.start <= address ? found.start : 0;
}

// ---- free blocks --------------------------------------------------------------------------------

static void add_free_block(struct ct_torch_pool *p, struct ct_torch_region *r, uint64_t start,
                           uint64_t end) {
    r->free += ct_range_tree_add(free_tree(p, r), start, end, r->start, r->start + r->bytes);
}

// Sets the free bytes of a segment after a block was allocated or freed. Fast path: it was held
// open and still is.
static void set_free_bytes(struct ct_torch_pool *p, struct ct_torch_region *r, uint64_t bytes) {
    if (r->free && bytes && r->free != r->bytes && bytes != r->bytes) {
        p->device[r->device].held_open_bytes += bytes - r->free;
        r->free = bytes;
        return;
    }
    count_region(p, r, -1);
    r->free = bytes;
    count_region(p, r, +1);
}

static uint64_t sum_free_bytes(const struct ct_range_tree *s, uint64_t start, uint64_t end) {
    uint64_t bytes = 0;
    struct ct_tree_range at;
    for (uint64_t from = start; from < end && ct_range_tree_find(s, from, &at) && at.start < end;) {
        const uint64_t next = at.start + at.bytes < end ? at.start + at.bytes : end;
        bytes += next - (at.start > from ? at.start : from);
        from = next;
    }
    return bytes;
}

// Moves a segment to its device, which was not known: a mapping does not have it.
static void set_device(struct ct_torch_pool *p, struct ct_torch_region *r, unsigned device) {
    struct ct_range_tree *from = free_tree(p, r);
    const uint64_t end = r->start + r->bytes;
    struct ct_tree_range at;
    count_region(p, r, -1);
    r->device = (uint8_t)device;
    for (uint64_t next = r->start; ct_range_tree_find(from, next, &at) && at.start < end;) {
        next = at.start + at.bytes;
        (void)ct_range_tree_remove(from, at.start, next);
        (void)ct_range_tree_add(free_tree(p, r), at.start, next, r->start, end);
    }
    p->device[device].seen = 1;
    count_region(p, r, +1);
}

// Makes a region a segment: a block is in it.
static void make_segment(struct ct_torch_pool *p, struct ct_torch_region *r, unsigned device) {
    if (r->held) {
        if (r->device == CT_MAX_DEVICES && device != CT_MAX_DEVICES)
            set_device(p, r, device);
        return;
    }
    r->held = 1;
    r->device = (uint8_t)device;
    p->device[device].seen |= device != CT_MAX_DEVICES;
    add_free_block(p, r, r->start, r->start + r->bytes);
    count_region(p, r, +1);
    if (r->maps)
        ct_segment_members_add_mappings(&p->members, r->start, r->start + r->bytes);
    else
        ct_segment_members_add_allocation(&p->members, r->start);
}

// Moves blocks that are older than their memory into a region: those "outside", and those asleep.
static void adopt_blocks(struct ct_torch_pool *p, uint32_t at, uint64_t start, uint64_t end) {
    for (unsigned d = 0; d < CT_DEVICES; d++) {
        uint64_t from = start, to = end;
        for (; ct_lost_blocks_find(&p->device[d].lost, &from, &to); from = start, to = end) {
            struct ct_torch_region *r = &p->regions[at];
            make_segment(p, r, d);
            set_free_bytes(p, r, r->free - ct_range_tree_remove(free_tree(p, r), from, to));
            ct_lost_blocks_remove(&p->device[d].lost, from, to);
            ct_segment_members_move_blocks(&p->members, from, to, find_place, p);
        }
    }
}

static void lose_blocks(struct ct_torch_pool *p, unsigned device, uint64_t start, uint64_t end) {
    ct_lost_blocks_add(&p->device[device].lost, &p->reserved, p->members.live, start, end);
}

// The memory of [start, end) was freed: removes its free blocks; its other blocks are "outside" or
// asleep from now on. Returns the free bytes.
static uint64_t abandon_blocks(struct ct_torch_pool *p, const struct ct_torch_region *r,
                               uint64_t start, uint64_t end) {
    struct ct_range_tree *s = free_tree(p, r);
    uint64_t bytes = 0;
    struct ct_tree_range at;
    for (uint64_t from = start; from < end;) {
        const int any = ct_range_tree_find(s, from, &at) && at.start < end;
        uint64_t used_to = end;
        if (any)
            used_to = at.start > from ? at.start : from;
        lose_blocks(p, r->device, from, used_to);
        ct_segment_members_move_blocks(&p->members, from, used_to, NULL, NULL);
        if (!any)
            break;
        const uint64_t to = at.start + at.bytes < end ? at.start + at.bytes : end;
        bytes += ct_range_tree_remove(s, used_to, to);
        from = to;
    }
    return bytes;
}

// ---- memory of the driver -----------------------------------------------------------------------

static void describe_region(const struct ct_torch_pool *p, struct ct_torch_region *r,
                            const struct ct_object *o, const struct ct_traits *from) {
    r->piece = o->bytes;
    r->t_ns = o->t_ns;
    r->event = ct_object_event(o);
    r->stack = o->stack;
    r->api = from->api;
    r->device = (uint8_t)ct_device_to_index(o->device);
    r->async = (from->flags & CT_FLAG_ASYNC) != 0;
    r->foreign = o->stack < p->foreign_count && p->foreign[o->stack];
}

static void add_allocation(struct ct_torch_pool *p, const struct ct_object *o,
                           const struct ct_traits *from) {
    uint64_t next;
    if (from->space == CT_SPACE_HOST || !o->bytes || o->key > UINT64_MAX - o->bytes ||
        find_region(p, o->key, &next) != CT_TORCH_POOL_NO_REGION || next - o->key < o->bytes)
        return; // overlaps another region, whose free is missing in the trace
    const uint32_t at = add_region(p, o->key, o->bytes);
    describe_region(p, &p->regions[at], o, from);
    adopt_blocks(p, at, o->key, o->key + o->bytes);
}

static void remove_allocation(struct ct_torch_pool *p, const struct ct_object *o) {
    uint64_t next;
    const uint32_t at = find_region(p, o->key, &next);
    struct ct_torch_region *r = at != CT_TORCH_POOL_NO_REGION ? &p->regions[at] : NULL;
    if (!r || r->maps || r->start != o->key)
        return;
    count_region(p, r, -1);
    if (r->held) {
        (void)abandon_blocks(p, r, r->start, r->start + r->bytes);
        ct_segment_members_drop_allocation(&p->members, o);
    }
    remove_region(p, at);
}

// Finds the region of mappings in a reservation that ends at an address, or (`begins`) begins
// there.
static uint32_t find_neighbour(struct ct_torch_pool *p, uint64_t address, int begins,
                               uint64_t reservation) {
    uint64_t next;
    const uint32_t at = find_region(p, begins ? address : address - 1, &next);
    return at != CT_TORCH_POOL_NO_REGION && p->regions[at].maps &&
                   p->regions[at].reservation == reservation
               ? at
               : CT_TORCH_POOL_NO_REGION;
}

// Merges a region with the one after it.
static void merge_regions(struct ct_torch_pool *p, uint32_t first, uint32_t second) {
    struct ct_torch_region *a = &p->regions[first], *b = &p->regions[second];
    if (a->held)
        make_segment(p, b, a->device);
    if (b->held)
        make_segment(p, a, b->device);
    count_region(p, a, -1);
    count_region(p, b, -1);
    const struct ct_torch_region gone = *b;
    const uint64_t border = gone.start;
    if (gone.held) // its free blocks may be in the tree of another class or device
        (void)abandon_blocks(p, &gone, gone.start, gone.start + gone.bytes);
    remove_region(p, second);
    resize_region(p, first, a->start, a->bytes + gone.bytes);
    a->maps += gone.maps;
    if (a->held)
        add_free_block(p, a, border, border + gone.bytes);
    count_region(p, a, +1);
    adopt_blocks(p, first, border, border + gone.bytes);
}

static void add_mapping(struct ct_torch_pool *p, const struct ct_object *o,
                        const struct ct_traits *from) {
    uint64_t next;
    if (!o->bytes || o->key > UINT64_MAX - o->bytes ||
        find_region(p, o->key, &next) != CT_TORCH_POOL_NO_REGION || next - o->key < o->bytes)
        return;
    const uint64_t reservation = find_reservation(p, o->key), end = o->key + o->bytes;
    const uint32_t left =
        o->key ? find_neighbour(p, o->key, 0, reservation) : CT_TORCH_POOL_NO_REGION;
    uint32_t at = left;
    if (at != CT_TORCH_POOL_NO_REGION) {
        struct ct_torch_region *r = &p->regions[at];
        count_region(p, r, -1);
        resize_region(p, at, r->start, r->bytes + o->bytes);
        r->maps++;
        if (r->held)
            add_free_block(p, r, o->key, end);
        count_region(p, r, +1);
    } else {
        at = add_region(p, o->key, o->bytes);
        describe_region(p, &p->regions[at], o, from);
        p->regions[at].maps = 1;
        p->regions[at].reservation = reservation;
    }
    const struct ct_object *sleeper = ct_live_find(p->members.live, CT_KIND_RESERVED, o->key);
    if (sleeper && sleeper->holds_segment) // a segment wakes up, also one without a block
        make_segment(p, &p->regions[at], ct_device_to_index(sleeper->device));
    adopt_blocks(p, at, o->key, end);
    const uint32_t right = find_neighbour(p, end, 1, reservation);
    if (right != CT_TORCH_POOL_NO_REGION)
        merge_regions(p, at, right);
}

// A mapping in the middle of a region was unmapped: the part after it, [start, end), becomes a
// region of its own.
static void split_tail(struct ct_torch_pool *p, uint32_t at, uint64_t start, uint64_t end) {
    const struct ct_torch_region whole = p->regions[at];
    const uint32_t tail = add_region(p, start, end - start);
    struct ct_torch_region *t = &p->regions[tail];
    *t = whole;
    t->start = start;
    t->bytes = end - start;
    t->free = whole.held ? sum_free_bytes(free_tree(p, t), start, end) : 0;
    p->regions[at].free -= t->free;
    count_region(p, t, +1);
}

static void remove_mapping(struct ct_torch_pool *p, const struct ct_object *o) {
    uint64_t next;
    const uint32_t at = find_region(p, o->key, &next);
    struct ct_torch_region *r = at != CT_TORCH_POOL_NO_REGION ? &p->regions[at] : NULL;
    if (!r || !r->maps || !o->bytes || r->start + r->bytes - o->key < o->bytes)
        return;
    const uint64_t end = o->key + o->bytes, old_end = r->start + r->bytes;
    count_region(p, r, -1);
    if (r->held)
        r->free -= abandon_blocks(p, r, o->key, end);
    r->maps -= r->maps > 1;
    if (o->key == r->start && end == old_end) {
        remove_region(p, at);
        return;
    }
    if (o->key == r->start)
        resize_region(p, at, end, old_end - end);
    else
        resize_region(p, at, r->start, o->key - r->start);
    if (p->regions[at].start < o->key && end < old_end)
        split_tail(p, at, end, old_end);
    count_region(p, &p->regions[at], +1);
}

static void end_mapping(struct ct_torch_pool *p, const struct ct_object *o,
                        const struct ct_traits *from) {
    remove_mapping(p, o);
    ct_segment_members_drop_mapping(&p->members, from->link);
}

static void add_block(struct ct_torch_pool *p, struct ct_object *o) {
    const int device = ct_device_to_index(o->device);
    int inside = o->bytes != 0;
    const uint64_t end = o->key > UINT64_MAX - o->bytes ? UINT64_MAX : o->key + o->bytes;
    p->device[device].seen = 1;
    for (uint64_t from = o->key, next; from < end;) {
        const uint32_t at = find_region(p, from, &next);
        struct ct_torch_region *r = at != CT_TORCH_POOL_NO_REGION ? &p->regions[at] : NULL;
        const uint64_t limit = r ? r->start + r->bytes : next, to = limit < end ? limit : end;
        if (r) {
            make_segment(p, r, device);
            set_free_bytes(p, r, r->free - ct_range_tree_remove(free_tree(p, r), from, to));
        } else {
            lose_blocks(p, (unsigned)device, from, to);
            inside = 0;
        }
        from = to;
    }
    ct_segment_members_set_block(&p->members, o, inside ? CT_BLOCK_INSIDE : CT_BLOCK_OUTSIDE);
}

static void remove_block(struct ct_torch_pool *p, struct ct_object *o) {
    ct_segment_members_set_block(&p->members, o, CT_BLOCK_OUTSIDE);
    const int device = ct_device_to_index(o->device);
    const uint64_t end = o->key > UINT64_MAX - o->bytes ? UINT64_MAX : o->key + o->bytes;
    for (uint64_t from = o->key, next; from < end;) {
        const uint32_t at = find_region(p, from, &next);
        struct ct_torch_region *r = at != CT_TORCH_POOL_NO_REGION ? &p->regions[at] : NULL;
        const uint64_t limit = r ? r->start + r->bytes : next, to = limit < end ? limit : end;
        if (r && r->held) {
            set_free_bytes(p, r,
                           r->free + ct_range_tree_add(free_tree(p, r), from, to, r->start,
                                                       r->start + r->bytes));
        } else {
            ct_lost_blocks_remove(&p->device[device].lost, from, to);
        }
        from = to;
    }
}

// ---- events of live.h ---------------------------------------------------------------------------

static void apply_object(void *user, struct ct_object *o, const struct ct_traits *from, int sign) {
    struct ct_torch_pool *p = user;
    const uint64_t end = o->key > UINT64_MAX - o->bytes ? UINT64_MAX : o->key + o->bytes;
    struct ct_tree_range there;
    switch (o->kind) {
    case CT_KIND_BLOCK:
        if (sign > 0)
            add_block(p, o);
        else
            remove_block(p, o);
        break;
    case CT_KIND_ADDRESS:
        if (sign > 0)
            add_allocation(p, o, from);
        else
            remove_allocation(p, o);
        break;
    case CT_KIND_MAPPING:
        if (sign > 0)
            add_mapping(p, o, from);
        else
            end_mapping(p, o, from);
        break;
    case CT_KIND_RESERVED:
        if (sign < 0) {
            ct_range_tree_erase(&p->reserved, o->key);
            for (unsigned d = 0; d < CT_DEVICES; d++)
                ct_lost_blocks_end_sleep(&p->device[d].lost, o->key, end);
        } else if (o->bytes &&
                   !(ct_range_tree_find(&p->reserved, o->key, &there) && there.start < end)) {
            ct_range_tree_insert_marked(&p->reserved, o->key, end, 0);
        }
        break;
    default:
        break;
    }
}

void ct_torch_pool_begin(struct ct_torch_pool *p, struct ct_live *l, const uint8_t *foreign,
                         size_t count, const struct ct_segment_watch *watch) {
    // Reservations first: they say which mappings belong together.
    static const uint8_t order[] = {CT_KIND_RESERVED, CT_KIND_ADDRESS, CT_KIND_MAPPING};
    ct_torch_pool_free(p);
    p->on = 1;
    p->members = (struct ct_segment_members){.live = l, .watch = *watch};
    p->foreign = foreign;
    p->foreign_count = foreign ? count : 0;
    p->free_region = CT_TORCH_POOL_NO_REGION;
    for (unsigned k = 0; k < sizeof order; k++) {
        struct ct_live_walk w = ct_live_walk_kind(l, order[k]);
        for (struct ct_object *o; (o = ct_live_walk_next(l, &w));)
            apply_object(p, o, ct_live_traits(l, o), +1);
    }
    l->region_changed = apply_object;
    l->region_user = p;
}

void ct_torch_pool_reported(struct ct_torch_pool *p, const struct ct_live *l, int device) {
    const int d = ct_device_to_index(device);
    p->device[d].seen = 1;
    p->device[d].unreconciled =
        (int64_t)(l->device[d].reported_reserved - p->device[d].segment_bytes -
                  l->device[d].asleep_segment_bytes);
    p->device[d].own_reported = p->device[d].own_bytes;
}

void ct_torch_pool_note_mapping(struct ct_torch_pool *p, uint64_t address) {
    uint64_t next;
    const uint32_t at = find_region(p, address, &next);
    if (at != CT_TORCH_POOL_NO_REGION && p->regions[at].held)
        ct_segment_members_add_mappings(&p->members, address, address + 1);
}

int ct_torch_pool_is_segment(const struct ct_torch_pool *p, const struct ct_object *o) {
    if (!p->on || o->kind != CT_KIND_ADDRESS)
        return p->on && o->kind == CT_KIND_HANDLE && o->segment;
    const struct ct_torch_region *r = ct_torch_pool_find_segment(p, o->key);
    return r && !r->maps && r->start == o->key;
}

void ct_torch_pool_forget(struct ct_torch_pool *p) {
    const struct ct_live *l = p->members.live;
    for (uint32_t i = 0; p->on && i < ct_live_slot_count(l); i++) {
        struct ct_object *o = ct_live_object_at(l, i);
        if (o && o->kind == CT_KIND_BLOCK)
            ct_segment_members_set_block(&p->members, o, CT_BLOCK_OUTSIDE);
        else if (o && ct_torch_pool_is_segment(p, o))
            ct_segment_members_drop_allocation(&p->members, o);
    }
}

void ct_torch_pool_restore_segment(struct ct_torch_pool *p, uint64_t address, int device) {
    uint64_t next;
    const uint32_t at = find_region(p, address, &next);
    if (at != CT_TORCH_POOL_NO_REGION)
        make_segment(p, &p->regions[at], ct_device_to_index(device));
}

void ct_torch_pool_assign_devices(struct ct_torch_pool *p, const struct ct_live *l) {
    uint64_t next;
    struct ct_live_walk w = ct_live_walk_kind(l, CT_KIND_MAPPING);
    for (const struct ct_object *o; (o = ct_live_walk_next(l, &w));) {
        const uint32_t at = find_region(p, o->key, &next);
        const struct ct_object *handle =
            ct_live_find(l, CT_KIND_HANDLE, ct_live_traits(l, o)->link);
        if (at == CT_TORCH_POOL_NO_REGION || !p->regions[at].held || !handle)
            continue;
        make_segment(p, &p->regions[at], ct_device_to_index(handle->device));
        ct_segment_members_add_mappings(&p->members, o->key, o->key + 1);
    }
}

void ct_torch_pool_free(struct ct_torch_pool *p) {
    ct_range_tree_clear(&p->memory);
    ct_range_tree_clear(&p->reserved);
    for (unsigned d = 0; d < CT_DEVICES; d++) {
        ct_lost_blocks_clear(&p->device[d].lost);
        for (unsigned c = 0; c < CT_TORCH_POOL_CLASSES; c++)
            ct_range_tree_clear(&p->device[d].free[c]);
    }
    free(p->regions);
    memset(p, 0, sizeof *p);
}
