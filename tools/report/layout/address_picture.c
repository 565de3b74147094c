// SPDX-License-Identifier: Apache-2.0
// The owner of most of a row is found without a list of all of them: one visit votes (Boyer and
// Moore, "MJRTY", 1981, weighted by bytes), a second one counts what the winner has.
#include "layout/address_picture.h"

#include <stdlib.h>
#include <string.h>

#include "base/heap.h"

// ---- the axis -----------------------------------------------------------------------------------

// While ranges are added there may be more of them, so that early ones do not decide which are
// joined.
enum { MOST_WHILE_ADDING = 4096 };

static uint64_t end_of(const struct ct_address_range *r) {
    return r->start + r->bytes;
}

// The position of the first range that ends at an address or after it.
static size_t find_position(const struct ct_address_axis *a, uint64_t address) {
    size_t from = 0, to = a->count;
    while (from < to) {
        const size_t middle = from + (to - from) / 2;
        if (end_of(&a->ranges[middle]) < address)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

// Makes one range of those at the positions [from, to), with the gaps between them.
static void join(struct ct_address_axis *a, size_t from, size_t to) {
    const uint64_t end = end_of(&a->ranges[to - 1]);
    a->ranges[from].bytes = end - a->ranges[from].start;
    memmove(&a->ranges[from + 1], &a->ranges[to], (a->count - to) * sizeof *a->ranges);
    a->count -= to - from - 1;
}

static uint64_t gap_behind(const struct ct_address_axis *a, size_t i) {
    return a->ranges[i + 1].start - end_of(&a->ranges[i]);
}

static int compare(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

// Joins neighbours until at most so many ranges are left, those with the smallest gaps first.
static void thin(struct ct_address_axis *a, size_t most) {
    if (a->count <= most)
        return;
    uint64_t *gaps = ct_heap_alloc_zeroed(a->count, sizeof *gaps);
    for (size_t i = 0; i + 1 < a->count; i++)
        gaps[i] = gap_behind(a, i);
    qsort(gaps, a->count - 1, sizeof *gaps, compare);
    const uint64_t limit = gaps[a->count - most - 1];
    free(gaps);
    for (size_t i = 0; i + 1 < a->count && a->count > most;)
        if (gap_behind(a, i) <= limit)
            join(a, i, i + 2);
        else
            i++;
}

void ct_address_axis_add(struct ct_address_axis *a, uint64_t start, uint64_t bytes) {
    if (!bytes || start + bytes < start)
        return;
    const size_t at = find_position(a, start);
    if (at < a->count && a->ranges[at].start <= start && end_of(&a->ranges[at]) >= start + bytes)
        return;
    if (at == a->count || a->ranges[at].start > start + bytes) {
        CT_HEAP_GROW(a->ranges, a->count, a->room);
        memmove(&a->ranges[at + 1], &a->ranges[at], (a->count - at) * sizeof *a->ranges);
        a->ranges[at] = (struct ct_address_range){.start = start, .bytes = bytes};
        a->count++;
    } else {
        const uint64_t end = start + bytes;
        size_t to = at + 1;
        if (start < a->ranges[at].start) {
            a->ranges[at].bytes = end_of(&a->ranges[at]) - start;
            a->ranges[at].start = start;
        }
        if (end > end_of(&a->ranges[at]))
            a->ranges[at].bytes = end - a->ranges[at].start;
        while (to < a->count && a->ranges[to].start <= end_of(&a->ranges[at])) {
            if (end_of(&a->ranges[to]) > end_of(&a->ranges[at]))
                a->ranges[at].bytes = end_of(&a->ranges[to]) - a->ranges[at].start;
            to++;
        }
        join(a, at, to);
    }
    if (a->count == MOST_WHILE_ADDING)
        thin(a, MOST_WHILE_ADDING / 2);
}

void ct_address_axis_finish(struct ct_address_axis *a) {
    uint64_t all = 0;
    thin(a, CT_ADDRESS_RANGES);
    for (size_t i = 0; i < a->count; i++)
        all += a->ranges[i].bytes;
    for (size_t i = 0; i < a->count; i++) {
        struct ct_address_range *r = &a->ranges[i];
        const unsigned share =
            (unsigned)((unsigned __int128)r->bytes * (CT_ADDRESS_ROWS - a->count) / all);
        r->first_row = a->rows;
        r->rows = share + 1;
        a->rows += r->rows;
    }
}

// The range that has an address, or NULL.
static const struct ct_address_range *find_range(const struct ct_address_axis *a,
                                                 uint64_t address) {
    const size_t at = find_position(a, address + 1); // (its end is not of it)
    return at < a->count && a->ranges[at].start <= address ? &a->ranges[at] : NULL;
}

void ct_address_axis_free(struct ct_address_axis *a) {
    free(a->ranges);
    *a = (struct ct_address_axis){0};
}

// ---- the picture --------------------------------------------------------------------------------

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
    const struct ct_address_range *r = find_range(p->axis, s->start);
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
