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

struct ct_phase_at ct_phase_follow_event(struct ct_phase_follow *f, const struct ct_event *e) {
    const uint32_t thread = CT_HAS(e, thread) ? e->thread : 0;
    struct ct_phase_at at = {.phase = CT_PHASE_UNKNOWN};
    if (!f->phases)
        return at;
    if (CT_HAS(e, stack) && e->stack)
        at = ct_phases_find(f->phases, e->stack);
    if (at.phase != CT_PHASE_UNKNOWN) {
        note(f, thread, &at);
        return at;
    }
    if (CT_HAS(e, stack) && ct_phases_has_python(f->phases, e->stack))
        return at;
    at = f->last;
    if (thread < f->thread_count && f->of_thread[thread].phase != CT_PHASE_UNKNOWN)
        at = f->of_thread[thread];
    at.inferred = at.phase != CT_PHASE_UNKNOWN;
    return at;
}

void ct_phase_follow_free(struct ct_phase_follow *f) {
    free(f->of_thread);
    *f = (struct ct_phase_follow){0};
}
