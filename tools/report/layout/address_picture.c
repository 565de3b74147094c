// SPDX-License-Identifier: Apache-2.0
// The owner of most of a row is found without a list of all of them: one visit votes (Boyer and
// Moore, "MJRTY", 1981, weighted by bytes), a second one counts what the winner has.
#include "layout/address_picture.h"

struct ct_address_cell {
    uint64_t there, used;   // bytes of driver memory; of them, of blocks and other allocations
    uint64_t votes, winner; // a call site
    uint64_t of_winner;
};

// Memory of one owner.
struct span {
    uint64_t start, bytes;
    int is_there, is_used; // driver memory; a block, or an allocation that is no segment
    uint32_t site;
};

static uint64_t end_of_row(const struct ct_address_range *r, unsigned row) {
    return r->start + (uint64_t)((unsigned __int128)r->bytes * (row + 1) / r->rows);
}

static void vote(struct ct_address_cell *c, uint32_t site, uint64_t bytes) {
    if (c->votes && c->winner == site) {
        c->votes += bytes;
    } else if (c->votes >= bytes) {
        c->votes -= bytes;
    } else {
        c->votes = bytes - c->votes;
        c->winner = site;
    }
}

static void fill(struct ct_address_cell *c, const struct span *s, uint64_t bytes, int counts) {
    if (counts) {
        c->of_winner += s->is_used && c->winner == s->site ? bytes : 0;
        return;
    }
    c->there += s->is_there ? bytes : 0;
    c->used += s->is_used ? bytes : 0;
    if (s->is_used)
        vote(c, s->site, bytes);
}

static void add_span(struct ct_address_picture *p, const struct span *s, int counts) {
    const struct ct_address_range *r = ct_address_axis_find(p->axis, s->start);
    if (!r || !s->bytes)
        return;
    const uint64_t end = s->start + s->bytes, last = r->start + r->bytes;
    unsigned row = (unsigned)((unsigned __int128)(s->start - r->start) * r->rows / r->bytes);
    for (uint64_t at = s->start; at < end && at < last && row < r->rows; row++) {
        const uint64_t to = end_of_row(r, row) < end ? end_of_row(r, row) : end;
        if (to > at)
            fill(&p->cells[r->first_row + row], s, to - at, counts);
        at = to > at ? to : at;
    }
}

// What an object is in the picture. Returns 0: nothing.
static int make_span(struct ct_held_now *h, const struct ct_object *o, struct span *s) {
    const struct ct_live *l = &h->replay->live;
    const struct ct_object *owner = o;
    *s = (struct span){.start = o->key, .bytes = o->bytes};
    if (o->kind == CT_KIND_BLOCK) {
        s->is_used = 1;
        s->site = (uint32_t)ct_held_now_position(h, CT_HOLDING_BLOCK, o->stack);
        return o->segment && ct_device_to_index(o->device) == h->device;
    }
    if (o->kind == CT_KIND_MAPPING)
        owner = ct_live_find(l, CT_KIND_HANDLE, ct_live_traits(l, o)->link);
    else if (o->kind != CT_KIND_ADDRESS)
        return 0;
    if (!owner || ct_device_to_index(owner->device) != h->device || !ct_object_is_counted(l, owner))
        return 0;
    s->is_there = 1;
    s->is_used = !ct_torch_pool_find_segment(&h->replay->pool, o->key);
    if (s->is_used)
        s->site = (uint32_t)ct_held_now_position(h, CT_HOLDING_ALLOCATION, owner->stack);
    return 1;
}

static void visit(struct ct_address_picture *p, struct ct_held_now *h, int counts) {
    const struct ct_live *l = &h->replay->live;
    struct span s;
    for (uint32_t i = 0; i < ct_live_slot_count(l); i++) {
        const struct ct_object *o = ct_live_object_at(l, i);
        if (o && make_span(h, o, &s))
            add_span(p, &s, counts);
    }
}

static uint32_t owner_of(const struct ct_address_cell *c) {
    const uint64_t idle = c->there > c->used ? c->there - c->used : 0;
    if (!c->there && !c->used)
        return CT_ADDRESS_NOTHING;
    if (!c->used)
        return CT_ADDRESS_IDLE;
    const uint32_t owner =
        c->of_winner * 2 > c->used ? CT_ADDRESS_SITES + (uint32_t)c->winner : CT_ADDRESS_MANY;
    return idle >= c->used ? owner | CT_ADDRESS_MOSTLY_IDLE : owner;
}

void ct_address_picture_init(struct ct_address_picture *p, const struct ct_address_axis *axis) {
    p->axis = axis;
    p->cells = ct_heap_alloc_zeroed(CT_ADDRESS_ROWS, sizeof *p->cells);
}

void ct_address_picture_read(struct ct_address_picture *p, struct ct_held_now *h,
                             uint32_t *owners) {
    memset(p->cells, 0, CT_ADDRESS_ROWS * sizeof *p->cells);
    visit(p, h, 0);
    visit(p, h, 1);
    for (unsigned row = 0; row < p->axis->rows; row++)
        owners[row] = owner_of(&p->cells[row]);
}

static int compare_sizes(const void *a, const void *b) {
    const struct ct_address_block *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return x->start < y->start ? -1 : x->start > y->start;
}

static int compare_starts(const void *a, const void *b) {
    const struct ct_address_block *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

size_t ct_address_picture_list(struct ct_held_now *h, size_t most, struct ct_address_block **list,
                               size_t *all) {
    const struct ct_live *l = &h->replay->live;
    size_t count = 0, room = 0;
    struct span s;
    *list = NULL;
    for (uint32_t i = 0; i < ct_live_slot_count(l); i++) {
        const struct ct_object *o = ct_live_object_at(l, i);
        if (!o || !make_span(h, o, &s) || !s.is_used || !s.bytes)
            continue;
        CT_HEAP_GROW(*list, count, room);
        (*list)[count++] = (struct ct_address_block){s.start, s.bytes, o->t_ns, s.site};
    }
    *all = count;
    if (count > most) {
        qsort(*list, count, sizeof **list, compare_sizes);
        count = most;
        *list = ct_heap_resize(*list, count, sizeof **list);
    }
    if (count)
        qsort(*list, count, sizeof **list, compare_starts);
    return count;
}

void ct_address_picture_free(struct ct_address_picture *p) {
    free(p->cells);
    p->cells = NULL;
}
