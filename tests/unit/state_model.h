// SPDX-License-Identifier: Apache-2.0
// For the tests of the state: random events, and the live objects by the plainest means (an array,
// and sums computed anew each time).
#ifndef STATE_MODEL_H
#define STATE_MODEL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <cutrace/model/live.h>
#include <cutrace/model/readings.h>

// ---- memory that counts -------------------------------------------------------------------------

struct memory {
    size_t bytes, peak, refuse_above;
    unsigned times; // that something was taken
};

static inline void *memory_resize(void *user, void *old, size_t old_bytes, size_t new_bytes) {
    struct memory *m = user;
    if (!new_bytes) {
        free(old);
        m->bytes -= old_bytes;
        return NULL;
    }
    if (old || (m->refuse_above && m->bytes + new_bytes > m->refuse_above))
        return NULL;
    void *p = aligned_alloc(64, (new_bytes + 63) / 64 * 64);
    memset(p, 0xA5, new_bytes); // not zeroed, and ASan sees what lies behind
    m->bytes += new_bytes;
    m->times++;
    m->peak = m->bytes > m->peak ? m->bytes : m->peak;
    return p;
}

// ---- random events ------------------------------------------------------------------------------

static inline uint64_t random_next(uint64_t *seed) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed * UINT64_C(0x2545F4914F6CDD1D) >> 16;
}

static inline uint64_t random_below(uint64_t *seed, uint64_t n) {
    return random_next(seed) % n;
}

struct events {
    uint64_t seed, t_ns;
    unsigned keys; // how many addresses, handles, ... there are
};

static inline uint32_t random_op(uint64_t *seed) {
    static const uint8_t often[] = {CT_OP_ALLOC,         CT_OP_ALLOC,         CT_OP_ALLOC,
                                    CT_OP_ALLOC,         CT_OP_FREE,          CT_OP_FREE,
                                    CT_OP_FREE,          CT_OP_CREATE,        CT_OP_CREATE,
                                    CT_OP_RELEASE,       CT_OP_MAP,           CT_OP_MAP,
                                    CT_OP_UNMAP,         CT_OP_RETAIN,        CT_OP_POOL_SAMPLE,
                                    CT_OP_MEMORY_SAMPLE, CT_OP_MEMORY_SAMPLE, CT_OP_CONTEXT_CREATE,
                                    CT_OP_BLOCK_ALLOC,   CT_OP_BLOCK_ALLOC,   CT_OP_BLOCK_FREE};
    const uint64_t pick = random_below(seed, sizeof often + 12);
    return pick < sizeof often ? often[pick] : (uint32_t)random_below(seed, CT_OPS_END + 2);
}

#define MAYBE(chance, member, value)           \
    do {                                       \
        if (random_below(seed, 16) < (chance)) \
            CT_SET(e, member, value);          \
    } while (0)

static inline void random_event(struct events *from, struct ct_event *e) {
    static const uint32_t flags[] = {CT_FLAG_ASYNC,    CT_FLAG_ASYNC,     CT_FLAG_FOREIGN,
                                     CT_FLAG_DEFERRED, CT_FLAG_MULTICAST, CT_FLAG_NVML,
                                     CT_FLAG_NVML,     CT_FLAG_RUNTIME};
    uint64_t *seed = &from->seed;
    memset(e, 0, sizeof *e);
    CT_SET(e, op, random_op(seed));
    CT_SET(e, t_ns, from->t_ns += random_below(seed, 1000));
    MAYBE(13, ptr, 4096 * random_below(seed, from->keys));
    MAYBE(10, handle, random_below(seed, from->keys / 2 + 1));
    // Mappings do not overlap: the driver does not allow it.
    MAYBE(14, bytes, random_below(seed, e->op == CT_OP_MAP ? 3 : 8) * 2048);
    MAYBE(14, device, (int32_t)random_below(seed, 4) - (random_below(seed, 40) ? 0 : 70));
    MAYBE(2, device, 300);
    MAYBE(10, context, random_below(seed, 4));
    MAYBE(6, pool, random_below(seed, 5));
    MAYBE(12, stack, (uint32_t)random_below(seed, 9));
    MAYBE(12, thread, (uint32_t)random_below(seed, 3));
    MAYBE(12, api, (uint32_t)random_below(seed, 5));
    MAYBE(12, space, (uint32_t)random_below(seed, 4));
    MAYBE(8, flags, flags[random_below(seed, 8)] | flags[random_below(seed, 8)]);
    MAYBE(10, reserved_bytes, random_below(seed, 100) * 1024);
    MAYBE(10, allocated_bytes, random_below(seed, 100) * 1024);
    MAYBE(8, free_bytes, random_below(seed, 1000) * 4096);
    MAYBE(12, total_bytes, random_below(seed, 1000) * 4096);
    MAYBE(8, free_before_bytes, random_below(seed, 1000) * 4096);
    MAYBE(8, process_bytes, random_below(seed, 1000) * 512);
    MAYBE(8, result, random_below(seed, 4) ? 0 : 2);
    MAYBE(4, count, random_below(seed, 10));
}

// ---- the plain state ----------------------------------------------------------------------------

struct plain_object {
    unsigned kind;
    uint64_t key, bytes, context, link, event, t_ns;
    uint32_t stack, api, thread, flags, space, refs, maps;
    int device, segment, resumed, holds;
};

enum { PLAIN_MOST = 4096 };

struct plain {
    struct plain_object object[PLAIN_MOST];
    size_t n;
    uint64_t unknown_frees, replaced, unknown_blocks;
    struct {
        uint64_t known, allocated, reserved;
    } stated[CT_MAX_DEVICES + 1];
};

static inline struct plain_object *plain_find(struct plain *p, unsigned kind, uint64_t key) {
    for (size_t i = 0; i < p->n; i++)
        if (p->object[i].kind == kind && p->object[i].key == key)
            return &p->object[i];
    return NULL;
}

static inline int plain_device(const struct ct_event *e) {
    return CT_HAS(e, device) && e->device >= 0 && e->device < CT_MAX_DEVICES ? e->device : -1;
}

static inline void plain_hear_of_pool(struct plain *p, uint64_t pool, int device) {
    if (!plain_find(p, CT_KIND_POOL, pool))
        p->object[p->n++] =
            (struct plain_object){.kind = CT_KIND_POOL, .key = pool, .device = device};
}

static inline int plain_drawn_from(const struct plain_object *o, uint64_t *pool) {
    *pool = o->link ? o->link : (uint64_t)(o->device + 1);
    return o->kind == CT_KIND_ADDRESS && o->flags & CT_FLAG_ASYNC && o->space == CT_SPACE_DEVICE;
}

static inline void plain_remove(struct plain *p, struct plain_object *o) {
    *o = p->object[--p->n];
}

static inline struct plain_object *plain_add(struct plain *p, unsigned kind, uint64_t key,
                                             const struct ct_event *e, uint64_t number) {
    struct plain_object *o = plain_find(p, kind, key);
    uint64_t pool;
    if (o) {
        p->replaced++;
        plain_remove(p, o);
    }
    assert_true(p->n + 2 < PLAIN_MOST);
    o = &p->object[p->n++];
    *o = (struct plain_object){
        .kind = kind, .key = key, .event = number, .t_ns = e->t_ns, .device = plain_device(e)};
#define TAKE(member) o->member = CT_HAS(e, member) ? e->member : 0
    TAKE(bytes);
    TAKE(context);
    TAKE(stack);
    TAKE(api);
    TAKE(thread);
    TAKE(flags);
    TAKE(space);
#undef TAKE
    o->link = (kind == CT_KIND_ADDRESS || kind == CT_KIND_BLOCK) && CT_HAS(e, pool) ? e->pool : 0;
    if (plain_drawn_from(o, &pool))
        plain_hear_of_pool(p, pool, o->device);
    return o;
}

static inline void plain_settle(struct plain *p, uint64_t handle) {
    struct plain_object *o = plain_find(p, CT_KIND_HANDLE, handle);
    if (o && !o->refs && !o->maps)
        plain_remove(p, o);
}

// A mapping is known to be a segment: what fills its reservation may sleep.
static inline void plain_know(struct plain *p, struct plain_object *mapping, int device) {
    struct plain_object *r = plain_find(p, CT_KIND_RESERVED, mapping->key);
    mapping->segment = 1;
    mapping->device = device;
    if (r && r->bytes == mapping->bytes) {
        r->holds = 1;
        r->device = device;
    }
}

static inline void plain_unmap(struct plain *p, struct plain_object *mapping) {
    const uint64_t handle = mapping->link;
    plain_remove(p, mapping);
    struct plain_object *o = plain_find(p, CT_KIND_HANDLE, handle);
    if (o && o->maps)
        o->maps--;
    plain_settle(p, handle);
}

static inline void plain_free(struct plain *p, const struct ct_event *e) {
    static const unsigned order[] = {CT_KIND_ADDRESS, CT_KIND_GRAPH, CT_KIND_MAPPING};
    struct plain_object *o = NULL;
    if (CT_HAS(e, handle) && e->handle)
        o = plain_find(p, CT_KIND_ARRAY, e->handle);
    else
        for (unsigned i = 0; CT_HAS(e, ptr) && e->ptr && !o && i < 3; i++)
            o = plain_find(p, order[i], e->ptr);
    if (!o)
        p->unknown_frees += CT_HAS(e, ptr) && e->ptr;
    else if (o->kind == CT_KIND_MAPPING)
        plain_unmap(p, o);
    else
        plain_remove(p, o);
}

static inline void plain_refer(struct plain *p, unsigned kind, uint64_t key,
                               const struct ct_event *e, uint64_t number) {
    struct plain_object *o = plain_find(p, kind, key);
    if (o && (o->refs || o->maps))
        o->refs++;
    else
        plain_add(p, kind, key, e, number)->refs = 1;
}

static inline void plain_unrefer(struct plain *p, unsigned kind, uint64_t key) {
    struct plain_object *o = plain_find(p, kind, key);
    if (!o)
        return;
    o->refs -= o->refs != 0;
    if (!o->refs && !o->maps)
        plain_remove(p, o);
}

// A mapping at the start of a reservation: the first memory there owns it, what fills it later is a
// resumption.
static inline void plain_own(struct plain *p, const struct plain_object *mapping,
                             struct plain_object *memory) {
    struct plain_object *r = plain_find(p, CT_KIND_RESERVED, mapping->key);
    if (r && !r->segment) {
        r->segment = 1;
        r->stack = mapping->stack;
        r->t_ns = mapping->t_ns;
    } else if (r && memory && r->bytes == mapping->bytes && memory->space != CT_SPACE_HOST &&
               !(memory->flags & (CT_FLAG_FOREIGN | CT_FLAG_MULTICAST | CT_FLAG_DEFERRED))) {
        memory->stack = r->stack;
        memory->resumed = 1;
    }
}

static inline void plain_map(struct plain *p, const struct ct_event *e, uint64_t number) {
    struct plain_object *o = plain_find(p, CT_KIND_MAPPING, e->ptr);
    if (o) {
        plain_unmap(p, o);
        p->replaced++;
    }
    o = plain_add(p, CT_KIND_MAPPING, e->ptr, e, number);
    o->link = CT_HAS(e, handle) ? e->handle : 0;
    struct plain_object *memory = plain_find(p, CT_KIND_HANDLE, o->link);
    plain_own(p, o, memory && !memory->maps++ ? memory : NULL);
    const struct plain_object *r = plain_find(p, CT_KIND_RESERVED, e->ptr);
    if (r && r->holds)
        plain_know(p, o, r->device);
}

// All mappings that begin in the range; which of two goes first makes no difference.
static inline void plain_unmap_range(struct plain *p, uint64_t start, uint64_t bytes) {
    for (size_t i = 0; i < p->n; i++)
        if (p->object[i].kind == CT_KIND_MAPPING && p->object[i].key - start < bytes) {
            plain_unmap(p, &p->object[i]);
            i = (size_t)-1;
        }
}

static inline void plain_end_context(struct plain *p, uint64_t context) {
    for (size_t i = 0; i < p->n; i++) {
        const struct plain_object *o = &p->object[i];
        if (o->context == context && !(o->flags & CT_FLAG_ASYNC) &&
            (o->kind == CT_KIND_ADDRESS || o->kind == CT_KIND_ARRAY ||
             o->kind == CT_KIND_REGISTERED))
            plain_remove(p, &p->object[i--]);
    }
}

static inline void plain_erase(struct plain *p, unsigned kind, uint64_t key) {
    struct plain_object *o = plain_find(p, kind, key);
    if (o)
        plain_remove(p, o);
}

static inline void plain_pool(struct plain *p, const struct ct_event *e) {
    struct plain_object *o;
    if (!CT_HAS(e, pool))
        return;
    if (e->op == CT_OP_POOL_SAMPLE)
        plain_hear_of_pool(p, e->pool, plain_device(e));
    o = plain_find(p, CT_KIND_POOL, e->pool);
    if (o && e->op == CT_OP_POOL_DESTROY)
        o->link = 0;
    else if (o && CT_HAS(e, reserved_bytes))
        o->link = e->reserved_bytes;
}

// What holds a block begins where the block does, or at a multiple of 2 MiB in it or in the page
// where it begins.
static inline void plain_hold(struct plain *p, uint64_t start, uint64_t bytes, int device) {
    const uint64_t page = UINT64_C(2) << 20;
    for (size_t i = 0; i < p->n; i++) {
        struct plain_object *o = &p->object[i];
        if ((o->kind != CT_KIND_ADDRESS && o->kind != CT_KIND_MAPPING) ||
            o->space == CT_SPACE_HOST || o->space == CT_SPACE_MANAGED ||
            (o->key != start && o->key % page))
            continue;
        if (o->segment || !(o->key >= start ? o->key - start < bytes
                                            : start - o->key < page && o->key + o->bytes > start))
            continue;
        o->segment = 1;
        if (o->kind == CT_KIND_MAPPING)
            plain_know(p, o, device);
    }
}

static inline void plain_block(struct plain *p, const struct ct_event *e, uint64_t number) {
    const uint64_t ptr = CT_HAS(e, ptr) ? e->ptr : 0;
    const int device = plain_device(e);
    struct plain_object *o = plain_find(p, CT_KIND_BLOCK, ptr);
    if (e->op == CT_OP_BLOCK_ALLOC && ptr) {
        plain_add(p, CT_KIND_BLOCK, ptr, e, number);
        plain_hold(p, ptr, CT_HAS(e, bytes) && e->bytes ? e->bytes : 1, device);
    } else if (e->op == CT_OP_BLOCK_FREE) {
        p->unknown_blocks += !o;
        if (o)
            plain_remove(p, o);
    }
    if (CT_HAS(e, allocated_bytes) && CT_HAS(e, reserved_bytes)) {
        const int at = device < 0 ? CT_MAX_DEVICES : device;
        p->stated[at].known = 1;
        p->stated[at].allocated = e->allocated_bytes;
        p->stated[at].reserved = e->reserved_bytes;
    }
}

static inline void plain_apply(struct plain *p, const struct ct_event *e, uint64_t number) {
    const uint64_t ptr = CT_HAS(e, ptr) ? e->ptr : 0, handle = CT_HAS(e, handle) ? e->handle : 0;
    if (CT_HAS(e, result) && e->result)
        return;
    if (e->op == CT_OP_ALLOC && (ptr || handle))
        plain_add(p, ptr ? CT_KIND_ADDRESS : CT_KIND_ARRAY, ptr ? ptr : handle, e, number);
    else if (e->op == CT_OP_FREE)
        plain_free(p, e);
    else if ((e->op == CT_OP_CREATE || e->op == CT_OP_IMPORT) && handle)
        plain_refer(p, CT_KIND_HANDLE, handle, e, number);
    else if (e->op == CT_OP_RETAIN && plain_find(p, CT_KIND_HANDLE, handle))
        plain_find(p, CT_KIND_HANDLE, handle)->refs++;
    else if (e->op == CT_OP_RELEASE)
        plain_unrefer(p, CT_KIND_HANDLE, handle);
    else if (e->op == CT_OP_MAP && ptr && CT_HAS(e, bytes))
        plain_map(p, e, number);
    else if (e->op == CT_OP_UNMAP && ptr && CT_HAS(e, bytes))
        plain_unmap_range(p, ptr, e->bytes);
    else if (e->op == CT_OP_RESERVE && ptr)
        plain_add(p, CT_KIND_RESERVED, ptr, e, number);
    else if (e->op == CT_OP_UNRESERVE)
        plain_erase(p, CT_KIND_RESERVED, ptr);
    else if (e->op == CT_OP_REGISTER && ptr)
        plain_add(p, CT_KIND_REGISTERED, ptr, e, number);
    else if (e->op == CT_OP_UNREGISTER)
        plain_erase(p, CT_KIND_REGISTERED, ptr);
    else if (e->op == CT_OP_GRAPH_ALLOC && ptr)
        plain_add(p, CT_KIND_GRAPH, ptr, e, number);
    else if (e->op == CT_OP_IPC_OPEN && ptr)
        plain_refer(p, CT_KIND_IPC, ptr, e, number);
    else if (e->op == CT_OP_IPC_CLOSE)
        plain_unrefer(p, CT_KIND_IPC, ptr);
    else if (e->op == CT_OP_POOL_SAMPLE || e->op == CT_OP_POOL_DESTROY)
        plain_pool(p, e);
    else if (e->op == CT_OP_BLOCK_ALLOC || e->op == CT_OP_BLOCK_FREE || e->op == CT_OP_BLOCK_OOM)
        plain_block(p, e, number);
    else if (e->op == CT_OP_CONTEXT_DESTROY && CT_HAS(e, context))
        plain_end_context(p, e->context);
}

// ---- comparison ---------------------------------------------------------------------------------

// What the objects of a plain state add up to.
static inline void plain_totals(struct plain *p, struct ct_live *l) {
    memset(l, 0, sizeof *l);
    for (size_t i = 0; i < p->n; i++)
        if (p->object[i].kind == CT_KIND_POOL)
            p->object[i].bytes = 0;
    for (size_t i = 0; i < p->n; i++) {
        const struct plain_object *o = &p->object[i];
        struct ct_live_device *d = &l->device[o->device < 0 ? CT_MAX_DEVICES : o->device];
        uint64_t pool;
        if (plain_drawn_from(o, &pool))
            plain_find(p, CT_KIND_POOL, pool)->bytes += o->bytes;
        if (o->kind == CT_KIND_BLOCK) {
            d->block_bytes += o->bytes;
            d->blocks++;
        }
        if (o->holds && !plain_find(p, CT_KIND_MAPPING, o->key))
            d->asleep_segment_bytes += o->bytes;
        if (o->kind != CT_KIND_ADDRESS && o->kind != CT_KIND_ARRAY && o->kind != CT_KIND_HANDLE)
            continue;
        if (o->space == CT_SPACE_HOST) {
            l->host_bytes += o->bytes;
        } else if (!(o->flags & (CT_FLAG_FOREIGN | CT_FLAG_MULTICAST | CT_FLAG_DEFERRED))) {
            d->live_bytes += o->bytes;
            d->live_allocations++;
            d->managed_bytes += o->space == CT_SPACE_MANAGED ? o->bytes : 0;
            d->pooled_bytes +=
                o->space != CT_SPACE_MANAGED && o->flags & CT_FLAG_ASYNC ? o->bytes : 0;
        }
    }
    for (size_t i = 0; i < p->n; i++) {
        const struct plain_object *o = &p->object[i];
        if (o->kind == CT_KIND_POOL)
            l->device[o->device < 0 ? CT_MAX_DEVICES : o->device].pool_bytes +=
                o->bytes > o->link ? o->bytes : o->link;
    }
    for (size_t i = 0; i <= CT_MAX_DEVICES; i++) {
        l->device[i].reported = p->stated[i].known;
        l->device[i].reported_allocated = p->stated[i].allocated;
        l->device[i].reported_reserved = p->stated[i].reserved;
    }
}

static inline void same_totals(const struct ct_live *a, const struct ct_live *b) {
    assert_memory_equal(a->device, b->device, sizeof a->device);
    assert_int_equal(a->host_bytes, b->host_bytes);
}

static inline void same_as_plain(const struct ct_live *l, struct plain *p) {
    struct ct_live sums;
    size_t n = 0;
    plain_totals(p, &sums);
    same_totals(l, &sums);
    for (uint32_t i = 0; i < ct_live_slot_count(l); i++)
        n += ct_live_object_at(l, i) != NULL;
    assert_int_equal(n, p->n);
    for (size_t i = 0; i < p->n; i++) {
        const struct plain_object *want = &p->object[i];
        const struct ct_object *o = ct_live_find(l, want->kind, want->key);
        assert_non_null(o);
        const struct ct_traits *from = ct_live_traits(l, o);
        assert_int_equal(o->kind, want->kind);
        assert_int_equal(o->key, want->key);
        assert_int_equal(o->bytes, want->bytes);
        assert_int_equal(o->t_ns, want->t_ns);
        assert_int_equal(o->stack, want->stack);
        assert_int_equal(o->device, want->device);
        assert_int_equal(ct_object_event(o), want->event);
        assert_int_equal(o->segment, want->segment);
        assert_int_equal(o->holds_segment, want->holds);
        assert_int_equal(o->resumed, want->resumed);
        assert_int_equal(from->context, want->context);
        assert_int_equal(from->link, want->link);
        assert_int_equal(from->api, want->api);
        assert_int_equal(from->thread, want->thread);
        assert_int_equal(from->flags, want->flags);
        assert_int_equal(from->space, want->space);
        if (want->kind == CT_KIND_HANDLE || want->kind == CT_KIND_IPC) {
            assert_int_equal(from->refs, want->refs);
            assert_int_equal(from->maps, want->maps);
        }
    }
}

#endif
