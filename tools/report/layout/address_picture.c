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

// (Of row -1: the start of the range.)
static uint64_t end_of_row(const struct ct_address_range *r, unsigned row) {
    return r->start + (uint64_t)((unsigned __int128)r->bytes * (row + 1u) / r->rows);
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

// ---- layers -------------------------------------------------------------------------------------
// Driver memory and what is used of it lie over each other. Within a layer an address has one
// owner: a row that a span has filled is passed over from then on, so that a trace whose spans
// overlap costs no more than one whose spans do not.

enum layer { THERE, USED, OF_WINNER }; // the last: what the winners have of USED

struct ct_address_layer {
    uint16_t next[CT_ADDRESS_ROWS + 1]; // a row, or a later one if that is full
};

static void clear(struct ct_address_layer *l) {
    for (unsigned row = 0; row <= CT_ADDRESS_ROWS; row++)
        l->next[row] = (uint16_t)row;
}

// The first row from this one on that is not full.
static unsigned find_open(struct ct_address_layer *l, unsigned row) {
    while (l->next[row] != row)
        row = l->next[row] = l->next[l->next[row]];
    return row;
}

static void fill(struct ct_address_cell *c, enum layer layer, uint32_t site, uint64_t bytes) {
    if (layer == THERE) {
        c->there += bytes;
    } else if (layer == USED) {
        c->used += bytes;
        vote(c, site, bytes);
    } else if (c->winner == site) {
        c->of_winner += bytes;
    }
}

static void add_span(struct ct_address_picture *p, enum layer layer, const struct span *s) {
    const struct ct_address_range *r = ct_address_axis_find(p->axis, s->start);
    struct ct_address_layer *l = &p->layers[layer];
    if (!r || !s->bytes)
        return;
    const uint64_t end = s->start + s->bytes;
    unsigned row =
        r->first_row + (unsigned)((unsigned __int128)(s->start - r->start) * r->rows / r->bytes);
    while ((row = find_open(l, row)) < r->first_row + r->rows) {
        const uint64_t begins = end_of_row(r, row - r->first_row - 1),
                       ends = end_of_row(r, row - r->first_row);
        const uint64_t from = begins > s->start ? begins : s->start, to = ends < end ? ends : end;
        if (from >= end)
            return;
        if (to > from)
            fill(&p->cells[row], layer, s->site, to - from);
        if (from == begins && to == ends)
            l->next[row] = (uint16_t)(row + 1);
        row++;
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
        if (!o || !make_span(h, o, &s))
            continue;
        if (s.is_there && !counts)
            add_span(p, THERE, &s);
        if (s.is_used)
            add_span(p, counts ? OF_WINNER : USED, &s);
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
    p->layers = ct_heap_alloc_zeroed(OF_WINNER + 1, sizeof *p->layers);
}

void ct_address_picture_read(struct ct_address_picture *p, struct ct_held_now *h,
                             uint32_t *owners) {
    memset(p->cells, 0, CT_ADDRESS_ROWS * sizeof *p->cells);
    for (unsigned layer = THERE; layer <= OF_WINNER; layer++)
        clear(&p->layers[layer]);
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
    free(p->layers);
    p->cells = NULL;
    p->layers = NULL;
}
