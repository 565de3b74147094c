// SPDX-License-Identifier: Apache-2.0
// Walking the calling thread's native stack by unwind rules. See walk.h.
#include "stack/walk.h"

#include <errno.h>

#include <cutrace/format/assert.h>

#include "stack/own_code.h"
#include "stack/unwind.h"

// Nothing is remembered of a walk whose list of inputs is full (stack_cache.h).
static void add_input(struct ct_walk *w, const struct ct_walk_frame *f, uintptr_t address,
                      uint64_t value) {
    if (w->inputs < CT_WALK_INPUTS)
        w->input[w->inputs++] = (struct ct_walk_input){address - f->base, value};
}

// Whether `address` may belong to the frame or to one above it.
static inline int is_above(const struct ct_walk_frame *f, uintptr_t address) {
    return address >= f->sp && address < f->end;
}

static __attribute__((noinline)) unsigned learn_rule(struct ct_ring *ring, struct ct_walk *w,
                                                     uintptr_t pc) {
    const int saved = errno;
    const unsigned rule = ct_unwind_enter(ring) ? CT_RULE_OTHER : ct_rule_learn(pc);
    ct_unwind_leave(ring);
    w->learned = 1;
    errno = saved;
    return rule;
}

_Static_assert((int)CT_RULE_OTHER - CT_RULE_END == CT_WALK_OTHER &&
                   (int)CT_RULE_LOST - CT_RULE_END == CT_WALK_LOST &&
                   (int)CT_RULE_END - CT_RULE_END == CT_WALK_OUTERMOST,
               "a rule that ends the walk is its result");

static inline int step(struct ct_ring *ring, struct ct_walk *w, _Atomic uint64_t *rules,
                       struct ct_walk_frame *f) {
    unsigned rule = ct_rule_find(rules, f->pc);
    uintptr_t cfa;
    if (__builtin_expect(rule == CT_RULE_NONE, 0))
        rule = learn_rule(ring, w, f->pc);
    if (__builtin_expect(CT_RULE_IS_RSP(rule), 1)) {
        cfa = f->sp + CT_RULE_SIZE(rule);
        if (CT_RULE_RBP(rule))
            f->rbp_at = cfa - CT_RULE_RBP(rule) * 8;
    } else {
        if (rule <= CT_RULE_END)
            return (int)rule - CT_RULE_END;
        if (f->rbp_at) {
            f->rbp = ct_walk_load(f->rbp_at);
            add_input(w, f, f->rbp_at, f->rbp);
        }
        if (!is_above(f, f->rbp))
            return CT_WALK_OTHER;
        uintptr_t saved_at = f->rbp;
        cfa = f->rbp + 16;
        if (CT_RULE_IS_RBP(rule)) {
            cfa = f->rbp + CT_RULE_SIZE(rule);
            saved_at = cfa - 16;
        } else if (rule != CT_RULE_FRAME) {
            const uintptr_t at = f->rbp - (rule - CT_RULE_ALIGNED) * 8;
            if (!is_above(f, at))
                return CT_WALK_OTHER;
            cfa = ct_walk_load(at);
            add_input(w, f, at, cfa);
        }
        f->rbp_at = saved_at;
    }
    if (!is_above(f, cfa - 8))
        return CT_WALK_OTHER;
    f->sp = cfa;
    f->pc = ct_walk_load(cfa - 8);
    return CT_WALK_STEPPED;
}

int ct_walk_step(struct ct_ring *ring, struct ct_walk *walk, struct ct_walk_frame *f) {
    return step(ring, walk, atomic_load(&ct_rule_table), f);
}

#define MOST_OWN_FRAMES 32u // frames of this library in one stack

int ct_walk_stack(struct ct_ring *ring, struct ct_walk *w, const struct ct_walk_frame *from,
                  uintptr_t end) {
    struct ct_walk_frame f = *from;
    _Atomic uint64_t *const rules = atomic_load_explicit(&ct_rule_table, memory_order_relaxed);
    const size_t most = ct_walk_depth();
    int rc = CT_WALK_STEPPED;
    f.end = end;
    w->n = w->inputs = 0;
    w->end = 0;
    if (__builtin_expect(!rules, 0))
        return -1;
    const int in_call_back = ct_own_code_in_call_back;
    for (unsigned own = 0; rc > 0 && own < MOST_OWN_FRAMES;) {
        const uint32_t offset = (uint32_t)(f.sp - 8 - f.base);
        w->offset[w->n] = offset;
        if (__builtin_expect(ct_own_code_has(f.pc) || ct_walk_is_no_code(f.pc) || w->n == most ||
                                 (in_call_back && !w->n && ct_own_code_is_passed(f.pc)),
                             0)) {
            if (offset) // the first return address is part of every shape
                add_input(w, &f, f.sp - 8, f.pc);
            own++;
            if (ct_walk_is_no_code(f.pc))
                return 0;
            if (w->n == most && !ct_own_code_has(f.pc)) {
                w->end = ct_frame_word_end(CT_STACK_DEEPER);
                return 0;
            }
        } else {
            w->frame[w->n++] = f.pc;
        }
        rc = step(ring, w, rules, &f);
    }
    CT_ASSERT(w->n <= most && most < CT_WALK_FRAMES);
    // The last frame is the thread's outermost one: nothing says how large it is.
    w->offset[w->n] = w->n ? w->offset[w->n - 1] : 0;
    if (rc == CT_WALK_LOST)
        w->end = ct_frame_word_end(CT_STACK_LOST);
    return rc && rc != CT_WALK_LOST ? -1 : 0;
}
