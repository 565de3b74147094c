// SPDX-License-Identifier: Apache-2.0
// Recall: a thread's cache of the stacks that it has walked, so that a known stack costs no walk. A
// stack is found by its shape: where its return addresses lie. Private to stack/; each thread has
// its own cache.
//
// Why recall gives the stack that a walk would give:
// R1. A walk by rules is a computation. Its inputs are its start (the first return address and
//     where that lies), the rules, and the words of the stack that it reads.
// R2. Each word that a walk reads is either the return address of a recorded frame, whose place is
//     in walk->offset, or an input word, whose place and value are in walk->input: a saved frame
//     pointer that a rule needs, a CFA that a rule loads, a return address in this library or
//     after the last recorded frame. If walk->input is full, some may be missing, and no shape is
//     made.
// R3. A shape is the start, the input words and the places of the return addresses. A memo is a
//     shape, the hash of the return addresses at these places, and the id of their stack.
// R4. If the start, the input words and the return addresses are equal now, and the rules are the
//     same, then by induction over its steps a walk would read the same words and give the same
//     stack. Words that it did not read do not matter, such as stale return addresses between live
//     frames.
// R5. The rules are the same until a shared object is unloaded. Then the cache is cleared
//     (ct_capture_forget_code).
// R6. Return addresses are equal if their 64-bit hashes are. Of a million stacks, two have the same
//     hash with a probability of less than 1 in 10^7. To compare the stacks themselves would load
//     them from memory each time.
// R7. Recall reads the words of a shape before it knows that they are equal, when the stack may
//     have become shorter than the shape. All words of a shape lie in the thread's own stack, which
//     stays mapped (thread_stack.h).
#ifndef CT_STACK_CACHE_H
#define CT_STACK_CACHE_H

#include <stdint.h>

#include "stack/walk.h"
#include "store/stack_hash.h"

// Numbers of entries are powers of two.
#define CT_STACK_CACHE_STARTS 1024u
#define CT_STACK_CACHE_MEMOS 2048u
#define CT_STACK_CACHE_SEEN 1024u
#define CT_STACK_CACHE_BYTES (128u << 10)

// `next` is the place of the next shape with the same hash of the start, 0 for none. After `input`
// there are uint32_t offset[frames], and zeros up to a whole step of the hash. All offsets are
// bytes from `base`.
struct ct_stack_shape {
    uint32_t next;
    uint16_t frames, inputs;
    uintptr_t base, pc;
    struct ct_walk_input input[];
};

// `shape` is the place of a shape, 0 for none; `stack` is an id.
struct ct_stack_memo {
    uint64_t hash;
    uint32_t shape;
    uint32_t stack;
};

// `shapes` is filled front to back up to `used`. A shape's place is its index there; place 0 is
// none. start[] has the places of the newest shapes by the hash of their start. All zeros but used
// = 1: an empty cache.
struct ct_stack_cache {
    uint32_t used;
    uint32_t seen[CT_STACK_CACHE_SEEN];
    uint32_t start[CT_STACK_CACHE_STARTS];
    struct ct_stack_memo memo[CT_STACK_CACHE_MEMOS];
    uint64_t shapes[CT_STACK_CACHE_BYTES / 8];
};

void ct_stack_cache_clear(struct ct_stack_cache *cache);

// Whether the stack `id` was walked before, as far as is known. A shape costs as much to make as a
// walk: it is made when a stack is walked for the second time.
int ct_stack_cache_is_second(struct ct_stack_cache *cache, uint32_t id);

// Remembers a walk from `f` that gave the stack `id`. R2: its list of inputs is not full. R7: it
// lies in the thread's own stack.
void ct_stack_cache_add(struct ct_stack_cache *cache, const struct ct_walk *walk,
                        const struct ct_walk_frame *f, uint32_t id);

// ---- recall -------------------------------------------------------------------------------------
// In the header: inline in each capture, also without link-time optimization.

static inline struct ct_stack_shape *ct_stack_cache_shape(struct ct_stack_cache *c,
                                                          uint32_t place) {
    return (struct ct_stack_shape *)(void *)&c->shapes[place];
}

static inline uint32_t *ct_stack_shape_offsets(struct ct_stack_shape *s) {
    return (uint32_t *)(void *)(s->input + s->inputs);
}

static inline uint32_t *ct_stack_cache_start(struct ct_stack_cache *c, uintptr_t pc,
                                             uintptr_t base) {
    return &c->start[((pc ^ base << 13) * UINT64_C(0x9E3779B97F4A7C15)) >> 54];
}

// The memo is this one or the next.
static inline struct ct_stack_memo *ct_stack_cache_memo(struct ct_stack_cache *c, uint64_t hash,
                                                        uint32_t shape) {
    return &c->memo[(hash ^ shape * UINT64_C(0x9E3779B97F4A7C15) >> 40) &
                    (CT_STACK_CACHE_MEMOS - 2)];
}

static inline int ct_stack_shape_starts_at(const struct ct_stack_shape *s,
                                           const struct ct_walk_frame *f) {
    return s->pc == f->pc && s->base == f->base;
}

static inline int ct_stack_shape_has_equal_inputs(const struct ct_stack_shape *s) {
    for (uint32_t i = 0; i < s->inputs; i++)
        if (ct_walk_load(s->base + s->input[i].offset) != s->input[i].value)
            return 0;
    return 1;
}

// The hash of the return addresses that lie at the shape's places now. The zeros that fill the last
// step are offsets, too: there the first return address is hashed again.
static inline uint64_t ct_stack_shape_hash(struct ct_stack_shape *s) {
    const uintptr_t base = s->base;
    const uint32_t *at = ct_stack_shape_offsets(s), *const end = at + s->frames;
    struct ct_stack_hash h = ct_stack_hash_begin(s->frames);
#define WORD(k) ct_walk_load(base + at[k])
    for (; at < end; at += CT_STACK_HASH_STEP)
        ct_stack_hash_step(&h, WORD(0), WORD(1), WORD(2), WORD(3), WORD(4), WORD(5), WORD(6),
                           WORD(7));
#undef WORD
    return ct_stack_hash_end(&h);
}

// The id of the stack that a walk from `f` would give, 0 if it is not known.
static inline uint32_t ct_stack_cache_recall(struct ct_stack_cache *c,
                                             const struct ct_walk_frame *f) {
    for (uint32_t place = *ct_stack_cache_start(c, f->pc, f->base); place;) {
        struct ct_stack_shape *const s = ct_stack_cache_shape(c, place);
        if (ct_stack_shape_starts_at(s, f) && ct_stack_shape_has_equal_inputs(s)) {
            const uint64_t hash = ct_stack_shape_hash(s);
            const struct ct_stack_memo *const m = ct_stack_cache_memo(c, hash, place);
            for (unsigned i = 0; i < 2; i++)
                if (m[i].hash == hash && m[i].shape == place)
                    return m[i].stack;
        }
        place = s->next;
    }
    return 0;
}

#endif
