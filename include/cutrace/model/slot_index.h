// SPDX-License-Identifier: Apache-2.0
// The index of a state (live_memory.h): finds the slot of an object by kind and key, and that of
// shared traits by content.
//
// Open addressing over cache lines of 12 entries. The index has 32 parts that grow one at a time,
// so neither a long pause nor memory for two whole indexes is ever needed.
#ifndef CUTRACE_SLOT_INDEX_H
#define CUTRACE_SLOT_INDEX_H

#include <cutrace/model/live_memory.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

// What keys are multiplied with: an odd number. A reader of files makes it a random one before it
// has a state: else somebody could choose keys that collide. (One for the program; the recorder's
// keys are its process's own.)
__attribute__((weak, visibility("hidden"))) uint64_t ct_slot_index_factor =
    UINT64_C(0x9E3779B97F4A7C15);

// The upper bits of a hash choose the part of the index, lower ones the home line, the lowest ones
// the tag.
CT_HOT uint64_t ct_slot_index_hash(uint64_t key, unsigned kind) {
    uint64_t h = (key ^ (uint64_t)kind << 56) * ct_slot_index_factor;
    h = (h ^ h >> 32) * UINT64_C(0xD6E8FEB86659FD93);
    return h ^ h >> 32;
}

static inline uint64_t ct_slot_index_hash_traits(const struct ct_traits *o) {
    const uint64_t a = (uint64_t)o->thread << 32 | o->api, b = (uint64_t)o->flags << 16 | o->space;
    return ct_slot_index_hash(ct_slot_index_hash(o->context ^ a, 1) ^
                                  ct_slot_index_hash(o->link ^ b << 8, 2),
                              CT_KIND_SHARED_TRAITS);
}

CT_HOT struct ct_slot_index_part *ct_slot_index_part(struct ct_live *l, uint64_t hash) {
    return &l->part[hash >> 59];
}

CT_HOT uint32_t ct_slot_index_home(const struct ct_slot_index_part *p, uint64_t hash) {
    return (uint32_t)(hash >> 8) & (p->capacity - 1);
}

CT_HOT uint8_t ct_slot_index_tag(uint64_t hash) {
    return (uint8_t)(hash | 0x80);
}

// A mask of the line's entries with that tag. Without SSE2 it may have other entries, too, above
// one that has the tag.
CT_HOT unsigned ct_slot_index_match(const struct ct_slot_index_line *line, uint8_t tag) {
#ifdef __SSE2__
    const __m128i tags = _mm_load_si128((const __m128i *)(const void *)line);
    return (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(tags, _mm_set1_epi8((char)tag))) &
           ((1u << CT_SLOT_INDEX_LINE_ENTRIES) - 1);
#else
    const uint64_t ones = UINT64_C(0x0101010101010101), gather = UINT64_C(0x0102040810204080);
    uint64_t low, high = 0;
    memcpy(&low, line->tag, 8);
    memcpy(&high, line->tag + 8, 4);
    low ^= tag * ones;
    high ^= tag * ones;
    low = (low - ones) & ~low & ones << 7;
    high = (high - ones) & ~high & (ones << 7 & UINT32_MAX);
    return (unsigned)((low >> 7) * gather >> 56 | ((high >> 7) * gather >> 56) << 8);
#endif
}

CT_HOT void ct_slot_index_insert(struct ct_slot_index_part *p, uint64_t hash, uint32_t slot) {
    for (uint32_t i = ct_slot_index_home(p, hash);; i = (i + 1) & (p->capacity - 1)) {
        struct ct_slot_index_line *line = &p->lines[i];
        const unsigned room = ct_slot_index_match(line, 0);
        if (room) {
            const int at = __builtin_ctz(room);
            line->tag[at] = ct_slot_index_tag(hash);
            line->slot[at] = slot;
            p->used++;
            return;
        }
        if (line->passed != UINT16_MAX)
            line->passed++;
    }
}

// The result of a look-up.
struct ct_found {
    union ct_slot *what;             // NULL: nothing
    struct ct_slot_index_line *line; // where the entry lies
    uint64_t hash;
    uint32_t at, slot;
};

// Removes an entry that was found.
CT_HOT void ct_slot_index_erase(struct ct_live *l, const struct ct_found *f) {
    struct ct_slot_index_part *p = ct_slot_index_part(l, f->hash);
    struct ct_slot_index_line *line = &p->lines[ct_slot_index_home(p, f->hash)];
    while (line != f->line) {
        if (line->passed != UINT16_MAX)
            line->passed--;
        line = line + 1 == p->lines + p->capacity ? p->lines : line + 1;
    }
    CT_ASSERT(line->tag[f->at] && line->slot[f->at] == f->slot && p->used);
    line->tag[f->at] = 0; // NOLINT(clang-analyzer-core.NullDereference): what was found has a line
    p->used--;
}

static inline uint64_t ct_slot_index_hash_slot(const union ct_slot *s) {
    return s->object.kind == CT_KIND_SHARED_TRAITS
               ? ct_slot_index_hash_traits(&s->traits)
               : ct_slot_index_hash(s->object.key, s->object.kind);
}

CT_COLD int ct_slot_index_grow(struct ct_live *l, struct ct_slot_index_part *p) {
    struct ct_slot_index_part next = {NULL, p->capacity ? p->capacity * 2 : 64, 0};
    if (!next.capacity)
        return -1;
    next.lines = (struct ct_slot_index_line *)l->resize(l->user, NULL, 0,
                                                        next.capacity * sizeof *next.lines);
    if (!next.lines)
        return -1;
    memset(next.lines, 0, next.capacity * sizeof *next.lines);
    for (uint32_t i = 0; i < p->capacity; i++)
        for (unsigned at = 0; at < CT_SLOT_INDEX_LINE_ENTRIES; at++)
            if (p->lines[i].tag[at]) {
                const uint32_t slot = p->lines[i].slot[at];
                ct_slot_index_insert(&next, ct_slot_index_hash_slot(ct_live_slot(l, slot)), slot);
            }
    if (p->lines)
        l->resize(l->user, p->lines, p->capacity * sizeof *p->lines, 0);
    *p = next;
    return 0;
}

// Makes room for one more entry. A part is at most three quarters full; without memory it fills up.
// Returns 0 or -1.
CT_HOT int ct_slot_index_reserve(struct ct_live *l, struct ct_slot_index_part *p) {
    if ((uint64_t)p->used + 1 <= (uint64_t)p->capacity * 9)
        return 0;
    return ct_slot_index_grow(l, p) &&
                   (uint64_t)p->used + 1 >= (uint64_t)p->capacity * CT_SLOT_INDEX_LINE_ENTRIES
               ? -1
               : 0;
}

// Finds the entry for whose slot `is` returns 1.
CT_HOT struct ct_found ct_slot_index_find(const struct ct_live *l, uint64_t hash,
                                          int (*is)(const union ct_slot *slot, const void *wanted),
                                          const void *wanted) {
    const struct ct_slot_index_part *p = &l->part[hash >> 59];
    struct ct_found f = {NULL, NULL, hash, 0, CT_NO_SLOT};
    if (!p->capacity)
        return f;
    for (uint32_t i = ct_slot_index_home(p, hash), n = 0; n < p->capacity;
         i = (i + 1) & (p->capacity - 1), n++) {
        f.line = &p->lines[i];
        for (unsigned m = ct_slot_index_match(f.line, ct_slot_index_tag(hash)); m; m &= m - 1) {
            f.at = (uint32_t)__builtin_ctz(m);
            f.slot = f.line->slot[f.at];
            f.what = ct_live_slot(l, f.slot);
            if (is(f.what, wanted))
                return f;
        }
        if (!f.line->passed)
            break;
    }
    f.what = NULL;
    return f;
}

struct ct_slot_index_key {
    uint64_t key;
    unsigned kind;
};

CT_HOT int ct_slot_index_is_object(const union ct_slot *slot, const void *wanted) {
    const struct ct_slot_index_key *w = (const struct ct_slot_index_key *)wanted;
    return slot->object.key == w->key && slot->object.kind == w->kind;
}

CT_HOT struct ct_found ct_slot_index_lookup_hashed(const struct ct_live *l, unsigned kind,
                                                   uint64_t key, uint64_t hash) {
    const struct ct_slot_index_key wanted = {key, kind};
    return ct_slot_index_find(l, hash, ct_slot_index_is_object, &wanted);
}

CT_HOT struct ct_object *ct_found_object(const struct ct_found *f) {
    return f->what ? &f->what->object : NULL;
}

CT_COLD struct ct_found ct_slot_index_lookup(const struct ct_live *l, unsigned kind, uint64_t key) {
    return ct_slot_index_lookup_hashed(l, kind, key, ct_slot_index_hash(key, kind));
}

// An object by kind and key; NULL if there is none.
static inline struct ct_object *ct_live_find(const struct ct_live *l, unsigned kind, uint64_t key) {
    const struct ct_found f = ct_slot_index_lookup(l, kind, key);
    return ct_found_object(&f);
}

CT_HOT int ct_op_is_block(uint32_t op) {
    return op - CT_OP_BLOCK_ALLOC <= CT_OP_BLOCK_FREE - CT_OP_BLOCK_ALLOC;
}

// The hash by which most events look into the index: that of their address. 0 without an address.
CT_HOT uint64_t ct_slot_index_hash_event(const struct ct_event *e) {
    return CT_HAS(e, ptr)
               ? ct_slot_index_hash(e->ptr, ct_op_is_block(e->op) ? CT_KIND_BLOCK : CT_KIND_ADDRESS)
               : 0;
}

// For a batch of events: prefetches what ct_live_apply_at reads. Call ct_slot_index_prefetch_line
// about eight events ahead, and ct_slot_index_prefetch_slots with the hash that it returned about
// four events ahead.
CT_HOT uint64_t ct_slot_index_prefetch_line(const struct ct_live *l, const struct ct_event *e) {
    const uint64_t hash = ct_slot_index_hash_event(e);
    const struct ct_slot_index_part *p = &l->part[hash >> 59];
    if (hash && p->capacity)
        __builtin_prefetch(&p->lines[ct_slot_index_home(p, hash)]);
    return hash;
}

CT_HOT void ct_slot_index_prefetch_slots(const struct ct_live *l, uint64_t hash) {
    const struct ct_slot_index_part *p = &l->part[hash >> 59];
    // gcc 12 takes a function that only prefetches for one without effects and drops its calls.
    __asm__ volatile("");
    if (!hash || !p->capacity)
        return;
    const struct ct_slot_index_line *line = &p->lines[ct_slot_index_home(p, hash)];
    for (unsigned m = ct_slot_index_match(line, ct_slot_index_tag(hash)); m; m &= m - 1) {
        const union ct_slot *slot = ct_live_slot(l, line->slot[__builtin_ctz(m)]);
        __builtin_prefetch(slot);
        __builtin_prefetch((const char *)(slot + 1) - 1); // half of the slots cross cache lines
    }
}

#endif
