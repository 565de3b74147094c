// SPDX-License-Identifier: Apache-2.0
#include "analyze/phase_follow.h"

#include "base/heap.h"

static void note(struct ct_phase_follow *f, uint32_t thread, const struct ct_phase_at *at) {
    f->last = *at;
    if (thread >= f->thread_count) {
        const size_t want = f->phases->definitions->thread_count;
        if (thread >= want)
            return;
        f->of_thread = ct_heap_resize(f->of_thread, want, sizeof *f->of_thread);
        for (; f->thread_count < want; f->thread_count++)
            f->of_thread[f->thread_count] = (struct ct_phase_at){.phase = CT_PHASE_UNKNOWN};
    }
    f->of_thread[thread] = *at;
}

static const struct ct_phase_at *get_last(const struct ct_phase_follow *f, uint32_t thread) {
    return thread < f->thread_count && f->of_thread[thread].phase != CT_PHASE_UNKNOWN
               ? &f->of_thread[thread]
               : &f->last;
}

// An event whose stack names no phase, by the ranges of its thread. A range that ended leaves
// nothing known after it.
static int follow_ranges(struct ct_phase_follow *f, uint32_t thread, const struct ct_string *range,
                         struct ct_phase_at *at) {
    const int was_in_range = thread < f->thread_count && f->of_thread[thread].by_range;
    if (!range && !was_in_range)
        return 0;
    *at = (struct ct_phase_at){.phase = range ? CT_PHASE_RANGE : CT_PHASE_UNKNOWN, .by_range = 1};
    if (range)
        at->range = *range;
    note(f, thread, at);
    if (!range)
        f->of_thread[thread].by_range = f->last.by_range = 0;
    return 1;
}

// Events that only say which ranges there are begin no phase of known frames.
static int is_about_ranges(const struct ct_event *e) {
    return e->op >= CT_OP_MARK && e->op <= CT_OP_RANGE_END;
}

static int has_any(struct ct_phase_follow *f, const struct ct_event *e) {
    if (!f->has_any)
        f->has_any = f->phases && ct_phases_has_any(f->phases) ? 1 : -1;
    if (f->has_any < 0 && f->phases && (is_about_ranges(e) || (f->open && f->open->used)))
        f->has_any = 1;
    return f->has_any > 0;
}

static int is_of_node(const struct ct_phase_at *at, const struct ct_phase_of_node *m) {
    return (unsigned)at->phase == m->phase && (unsigned)at->framework == m->framework &&
           at->node == m->node && !at->by_range && !at->range.length;
}

// An event whose stack names a phase: mostly the one that its thread is in.
static void follow_frames(struct ct_phase_follow *f, uint32_t thread,
                          const struct ct_phase_of_node *m) {
    if (thread < f->thread_count && is_of_node(&f->of_thread[thread], m) && is_of_node(&f->last, m))
        return;
    const struct ct_phase_at at = {.phase = (enum ct_phase)m->phase,
                                   .framework = (enum ct_framework)m->framework,
                                   .node = m->node};
    note(f, thread, &at);
}

const struct ct_phase_at *ct_phase_follow_slow(struct ct_phase_follow *f,
                                               const struct ct_event *e) {
    static const struct ct_phase_at unknown = {.phase = CT_PHASE_UNKNOWN};
    const uint32_t thread = CT_GET(e, thread);
    struct ct_phase_at *at = &f->of_event;
    if (!has_any(f, e))
        return &unknown;
    const struct ct_string *range =
        f->open ? ct_ranges_find(f->phases->definitions, f->open, e) : NULL;
    const struct ct_phase_of_node *m =
        CT_HAS(e, stack) ? ct_phases_get_node(f->phases, e->stack) : NULL;
    if (m && m->phase != CT_PHASE_UNKNOWN) {
        follow_frames(f, thread, m);
        *at = f->last;
    } else if (is_about_ranges(e) && get_last(f, thread)->phase != CT_PHASE_UNKNOWN &&
               get_last(f, thread)->phase != CT_PHASE_RANGE) {
        *at = *get_last(f, thread);
        at->inferred = 1;
    } else if (follow_ranges(f, thread, range, at)) {
        return at;
    } else if (!m || !m->has_python) {
        *at = *get_last(f, thread);
        at->inferred = at->phase != CT_PHASE_UNKNOWN;
    } else {
        *at = unknown;
    }
    if (range)
        at->range = *range;
    return at;
}

void ct_phase_follow_free(struct ct_phase_follow *f) {
    free(f->of_thread);
    *f = (struct ct_phase_follow){0};
}
