// SPDX-License-Identifier: Apache-2.0
#include "analyze/program_pools.h"

#include <stdlib.h>

#include "base/hash.h"
#include "base/heap.h"
#include "base/search.h"

int ct_program_pools_has(const struct ct_event *e) {
    return e->op >= CT_OP_SUBALLOC && e->op <= CT_OP_SUBNAME;
}

// ---- sub-allocations ----------------------------------------------------------------------------

static struct ct_program_pool *pool_at(struct ct_program_pools *p, uint32_t number) {
    return &p->list[number - 1];
}

static int is_live(const struct ct_program_pools *p, const struct ct_program_region *r) {
    return r->pool && r->generation == p->list[r->pool - 1].generation;
}

static size_t home_of(const struct ct_program_pools *p, uint64_t ptr) {
    return ct_hash_mix(ptr) & (p->capacity - 1);
}

// The region at an address, or the place where it would be.
static struct ct_program_region *find(const struct ct_program_pools *p, uint64_t ptr) {
    size_t i = home_of(p, ptr);
    while (p->regions[i].pool && p->regions[i].ptr != ptr)
        i = (i + 1) & (p->capacity - 1);
    return &p->regions[i];
}

// Empties a place; what lies after it moves up, so that every search still finds it.
static void erase(struct ct_program_pools *p, struct ct_program_region *r) {
    size_t hole = (size_t)(r - p->regions), i = hole;
    for (;;) {
        i = (i + 1) & (p->capacity - 1);
        if (!p->regions[i].pool)
            break;
        const size_t home = home_of(p, p->regions[i].ptr);
        if (((i - home) & (p->capacity - 1)) < ((i - hole) & (p->capacity - 1)))
            continue;
        p->regions[hole] = p->regions[i];
        hole = i;
    }
    p->regions[hole].pool = 0;
    p->used--;
}

// Makes room for one more: drops what earlier generations left, then doubles. Returns 0 at the
// bound.
static int make_room(struct ct_program_pools *p) {
    const struct ct_program_pools old = *p;
    if (p->live >= CT_PROGRAM_POOL_REGIONS)
        return 0;
    if (p->used * 2 < p->capacity)
        return 1;
    if (!p->capacity)
        p->capacity = 64;
    else if (p->live * 4 >= p->capacity)
        p->capacity *= 2;
    p->regions = ct_heap_alloc_zeroed(p->capacity, sizeof *p->regions);
    p->used = p->live;
    for (size_t i = 0; i < old.capacity; i++)
        if (is_live(p, &old.regions[i]))
            *find(p, old.regions[i].ptr) = old.regions[i];
    free(old.regions);
    return 1;
}

// ---- pools --------------------------------------------------------------------------------------

static int is_of(const struct ct_program_pool *q, const struct ct_event *e) {
    if (q->is_rest || q->has_handle != (CT_HAS(e, handle) != 0))
        return 0;
    if (q->has_handle)
        return q->handle == e->handle;
    return q->text == CT_GET(e, text) && q->domain == CT_GET(e, domain);
}

// The number of an event's pool; 0: it is not known.
static uint32_t find_pool(const struct ct_program_pools *p, const struct ct_event *e) {
    for (uint32_t i = p->count; i > 0; i--)
        if (is_of(&p->list[i - 1], e))
            return i;
    return 0;
}

static uint32_t get_pool(struct ct_program_pools *p, const struct ct_event *e) {
    const uint32_t known = find_pool(p, e);
    if (known)
        return known;
    if (p->count == CT_PROGRAM_POOLS)
        return p->count;
    struct ct_program_pool *q = &p->list[p->count++];
    q->text = CT_GET(e, text);
    q->domain = CT_GET(e, domain);
    q->has_handle = CT_HAS(e, handle) != 0;
    q->handle = q->has_handle ? e->handle : 0;
    q->is_rest = p->count == CT_PROGRAM_POOLS;
    return p->count;
}

static void take_back(struct ct_program_pools *p, struct ct_program_region *r) {
    struct ct_program_pool *q = pool_at(p, r->pool);
    q->live_bytes -= r->bytes;
    q->live_count--;
    q->taken_back_count++;
    p->live--;
    erase(p, r);
}

static void take_back_all(struct ct_program_pools *p, struct ct_program_pool *q) {
    p->live -= q->live_count;
    q->taken_back_count += q->live_count;
    q->live_bytes = q->live_count = 0;
    q->generation++;
}

// Bytes that no address space has; a sum of them could wrap.
static uint64_t bytes_of(const struct ct_event *e) {
    const uint64_t most = UINT64_C(1) << 43;
    const uint64_t bytes = CT_GET(e, bytes);
    return bytes < most ? bytes : most;
}

static void hand_out(struct ct_program_pools *p, const struct ct_event *e) {
    const int is_resize = !CT_HAS(e, handle) && !CT_HAS(e, text);
    struct ct_program_region *r = p->capacity ? find(p, e->ptr) : NULL;
    uint32_t number = 0;
    if (r && is_live(p, r)) {
        number = is_resize ? r->pool : 0;
        p->replaced_count += !is_resize;
        take_back(p, r);
    }
    if (!number)
        number = get_pool(p, e);
    if (!make_room(p)) {
        p->left_out_count++;
        return;
    }
    struct ct_program_pool *q = pool_at(p, number);
    r = find(p, e->ptr);
    p->used += !r->pool;
    *r = (struct ct_program_region){e->ptr, bytes_of(e), number, q->generation};
    q->live_bytes += r->bytes;
    q->live_count++;
    p->live++;
    q->handed_out_count++;
    if (q->live_bytes > q->peak_bytes) {
        q->peak_bytes = q->live_bytes;
        q->peak_t_ns = e->t_ns;
    }
}

static void apply_free(struct ct_program_pools *p, const struct ct_event *e) {
    struct ct_program_region *r = p->capacity && CT_HAS(e, ptr) ? find(p, e->ptr) : NULL;
    const uint32_t number = CT_HAS(e, ptr) ? 0 : find_pool(p, e);
    if (r && is_live(p, r))
        take_back(p, r);
    else if (number && !pool_at(p, number)->is_rest)
        take_back_all(p, pool_at(p, number));
    else
        p->unknown_count++;
}

// A handle that is used again is another pool with the same row: it takes back what it had.
static void apply_pool(struct ct_program_pools *p, const struct ct_event *e) {
    const uint32_t number = CT_HAS(e, ptr) ? get_pool(p, e) : find_pool(p, e);
    struct ct_program_pool *q = number ? pool_at(p, number) : NULL;
    if (!q || q->is_rest)
        return;
    take_back_all(p, q);
    q->start = CT_GET(e, ptr);
    q->bytes = CT_HAS(e, ptr) ? bytes_of(e) : 0;
    if (CT_HAS(e, text))
        q->text = e->text;
}

void ct_program_pools_apply(struct ct_program_pools *p, const struct ct_event *e) {
    if (e->op == CT_OP_SUBALLOC && CT_HAS(e, ptr))
        hand_out(p, e);
    else if (e->op == CT_OP_SUBFREE)
        apply_free(p, e);
    else if (e->op == CT_OP_SUBPOOL)
        apply_pool(p, e);
}

// ---- the memory of the pools --------------------------------------------------------------------

struct piece {
    uint64_t start, bytes;
    uint32_t pool;    // that lies in it, position + 1
    uint32_t is_many; // several do
};

struct pieces {
    struct piece *list;
    size_t count, room;
};

static int compare(const void *a, const void *b) {
    const struct piece *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static void list_pieces(struct pieces *to, const struct ct_live *l, int blocks) {
    for (uint32_t i = 0; i < ct_live_slot_count(l); i++) {
        const struct ct_object *o = ct_live_object_at(l, i);
        if (!o || (blocks ? o->kind != CT_KIND_BLOCK
                          : o->kind != CT_KIND_ADDRESS && o->kind != CT_KIND_MAPPING))
            continue;
        CT_HEAP_GROW(to->list, to->count, to->room);
        to->list[to->count++] = (struct piece){o->key, o->bytes, 0, 0};
    }
    if (to->count)
        qsort(to->list, to->count, sizeof *to->list, compare);
}

static int lies_in(const struct ct_program_region *r, uint64_t start, uint64_t bytes) {
    return r->ptr >= start && r->ptr - start <= bytes && r->bytes <= bytes - (r->ptr - start);
}

static struct piece *find_piece(const struct pieces *p, const struct ct_program_region *r) {
    const size_t n = CT_COUNT_UP_TO(p->list, p->count, start, r->ptr);
    struct piece *found = n ? &p->list[n - 1] : NULL;
    return found && lies_in(r, found->start, found->bytes) ? found : NULL;
}

// A region of a pool that has not said what it hands out from.
static void note_piece(struct ct_program_pools *p, const struct pieces in[2],
                       const struct ct_program_region *r) {
    struct ct_program_pool *q = pool_at(p, r->pool);
    struct piece *found = find_piece(&in[0], r);
    if (!found)
        found = find_piece(&in[1], r);
    if (!found) {
        q->memory_known = 0;
    } else if (!found->pool) {
        found->pool = r->pool;
        q->memory_bytes += found->bytes;
        q->memory_count++;
    } else if (found->pool != r->pool) {
        found->is_many = 1;
        q->memory_known = 0;
    }
}

static void note_region(struct ct_program_pools *p, const struct pieces in[2],
                        const struct ct_program_region *r) {
    struct ct_program_pool *q = pool_at(p, r->pool);
    if (!q->bytes)
        note_piece(p, in, r);
    else if (!lies_in(r, q->start, q->bytes))
        q->memory_known = 0;
}

static void find_memory(struct ct_program_pools *p, const struct ct_live *l) {
    struct pieces in[2] = {{0}}; // blocks first: they lie in the other ones
    list_pieces(&in[0], l, 1);
    list_pieces(&in[1], l, 0);
    for (uint32_t i = 0; i < p->count; i++) {
        struct ct_program_pool *q = &p->list[i];
        // (what the trace lacks may lie in the same memory)
        q->memory_known = p->complete && !q->is_rest && (q->bytes || q->live_count);
        q->memory_bytes = q->bytes;
        q->memory_count = q->bytes != 0;
    }
    for (size_t i = 0; i < p->capacity; i++)
        if (is_live(p, &p->regions[i]))
            note_region(p, in, &p->regions[i]);
    for (unsigned k = 0; k < 2; k++)
        for (size_t i = 0; i < in[k].count; i++)
            if (in[k].list[i].is_many)
                pool_at(p, in[k].list[i].pool)->memory_known = 0;
    for (uint32_t i = 0; i < p->count; i++) // regions that overlap are no use of memory
        p->list[i].memory_known &= p->list[i].memory_bytes >= p->list[i].live_bytes;
    free(in[0].list);
    free(in[1].list);
}

// ---- the trace ----------------------------------------------------------------------------------

static int is_complete(const struct ct_program_pools *p, const struct ct_trace *t, uint64_t lost) {
    uint64_t skipped = 0;
    (void)ct_definitions_info_number(&t->definitions, "annotations.skipped", &skipped);
    return !t->overwritten_events && !t->missing_events && !t->index.missing && !t->index.damages &&
           !lost && !skipped && !p->left_out_count && p->count < CT_PROGRAM_POOLS;
}

void ct_program_pools_read(struct ct_program_pools *p, struct ct_trace *t,
                           const struct ct_moment *m, const struct ct_live *state) {
    struct ct_event e;
    uint64_t number, lost = 0;
    *p = (struct ct_program_pools){.count = 0};
    ct_trace_rewind(t);
    while (ct_trace_next(t, &e, &number) && number <= m->event && e.t_ns <= m->t_ns) {
        if (ct_program_pools_has(&e))
            ct_program_pools_apply(p, &e);
        lost += e.op == CT_OP_LOST;
    }
    p->complete = is_complete(p, t, lost);
    find_memory(p, state);
}

void ct_program_pools_free(struct ct_program_pools *p) {
    free(p->regions);
    p->regions = NULL;
}
