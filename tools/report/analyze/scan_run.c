// SPDX-License-Identifier: Apache-2.0
// A scan of a whole trace, or of its parts side by side (replay/parts.h). Each part is scanned as
// if it were the whole trace, from its checkpoint on. What it has found when its own events begin
// is thrown away, but for the state. SEEK.md says what proves that the sum is that of a scan from
// the start.
#include "analyze/scan_steps.h"

#include "base/workers.h"
#include "read/recorder_notes.h"

struct part_scan {
    struct ct_scan *scan; // the last one: the caller's
    struct ct_part *part;
    struct ct_seam seam;           // of all but the first one
    struct ct_phase_follow phases; // at the seam
    void *notes;                   // at the seam, or NULL: `applied_user`
    int has_exact_times;
    int has_context_events; // of its own
};

struct scan_parts {
    struct ct_parts parts;
    atomic_int is_unsound; // a part is: the others need not go on
    const struct ct_scan_request *request;
    struct part_scan *list;
};

// ---- one part -----------------------------------------------------------------------------------

static void begin_own(struct part_scan *p, const struct ct_event *e) {
    struct ct_scan *s = p->scan;
    ct_part_begin(p->part, &s->end, e);
    ct_scan_begin_part(s, e->t_ns);
    ct_seam_take(&p->seam, &s->end, p->part->warm_ns, e->t_ns);
    p->phases = ct_phase_follow_copy(&s->follow);
}

// Whether the call of an event began before the part's checkpoint: then readings from before that
// would be needed, too.
static int began_before(const struct ct_event *e, uint64_t t_ns) {
    return CT_HAS(e, duration_ns) && (e->t_ns < t_ns || e->duration_ns > e->t_ns - t_ns);
}

static int is_about_contexts(const struct ct_event *e) {
    return e->op == CT_OP_CONTEXT_CREATE || e->op == CT_OP_CONTEXT_DESTROY;
}

// Returns whether what the part finds can still be used.
static int take(struct part_scan *p, const struct ct_event *e, uint64_t number, int is_last) {
    struct ct_scan *s = p->scan;
    if (s->is_warming_up && number >= p->part->from_event)
        begin_own(p, e);
    if (s->part && !s->is_warming_up) {
        s->is_unsound |= began_before(e, p->seam.warm_ns);
        p->has_context_events |= is_about_contexts(e);
    }
    if (!s->is_unsound)
        ct_scan_take(s, &p->part->trace, e, number);
    s->is_unsound |= s->failures && !is_last && !s->is_warming_up; // it may be repeated later
    return !s->is_unsound;
}

static void scan_part(void *user, size_t i) {
    struct scan_parts *x = user;
    struct part_scan *p = &x->list[i];
    struct ct_scan *s = p->scan;
    uint64_t number;
    ct_scan_expect(s);
    const struct ct_event *e = ct_part_first(p->part, &s->end, &number);
    if (s->part)
        ct_scan_expect(s); // the checkpoint was restored before the first event
    while (e && !atomic_load_explicit(&x->is_unsound, memory_order_relaxed) &&
           take(p, e, number, i + 1 == x->parts.count)) {
        ct_scan_expect(s);
        e = ct_part_next(p->part, &s->end, &number);
    }
    s->is_unsound |= s->is_warming_up; // no event of its own
    if (s->is_unsound)
        atomic_store(&x->is_unsound, 1);
    ct_part_end(p->part, &s->end);
}

static void set_exact_times(void *user, size_t i) {
    struct part_scan *p = &((struct scan_parts *)user)->list[i];
    p->has_exact_times = ct_part_set_exact_times(p->part);
}

// ---- all of them --------------------------------------------------------------------------------

static void begin_parts(struct scan_parts *x, struct ct_scan *last) {
    const struct ct_scan_request *q = x->request;
    const size_t count = x->parts.count;
    x->list = ct_heap_alloc_zeroed(count, sizeof *x->list);
    for (size_t i = 0; i < count; i++) {
        struct part_scan *p = &x->list[i];
        p->part = &x->parts.list[i];
        p->scan = i + 1 < count ? ct_heap_alloc_zeroed(1, sizeof *p->scan) : last;
        ct_scan_begin(p->scan, x->parts.trace, q);
        if (!i)
            continue;
        p->scan->part = p->part;
        p->scan->is_warming_up = 1;
        p->scan->known_event = x->parts.known_event;
        p->scan->requests.is_part = p->scan->follow.is_part = 1;
        if (!q->applied)
            continue;
        p->notes = q->division->begin(q->applied_user);
        p->scan->request.applied_user = p->notes;
    }
}

// Adds all parts to the last one. Returns 0 if the trace has to be read as a whole.
static int join_parts(struct scan_parts *x) {
    if (atomic_load(&x->is_unsound) || !ct_parts_are_proved(&x->parts))
        return 0;
    ct_workers_run(x->parts.count, set_exact_times, x);
    for (size_t i = 1; i < x->parts.count; i++) {
        struct part_scan *p = &x->list[i], *before = p - 1;
        if (!p->has_exact_times || !ct_seam_fits(&p->seam, &before->scan->end) ||
            !ct_phase_follow_prepend(&p->scan->follow, &p->phases, &before->scan->follow) ||
            !ct_part_set_exact_rest(p->part))
            return 0;
        if (p->has_context_events && !ct_seam_has_contexts(&p->seam, &before->scan->end))
            return 0;
        ct_scan_end_part(before->scan, p->scan, p->seam.t_ns);
        if (!ct_scan_prepend(p->scan, before->scan, &p->seam) ||
            (p->notes && !x->request->division->append(x->request->applied_user, p->notes)))
            return 0;
    }
    return 1;
}

static void free_parts(struct scan_parts *x) {
    for (size_t i = 0; i < x->parts.count; i++) {
        struct part_scan *p = &x->list[i];
        ct_phase_follow_free(&p->phases);
        if (p->notes)
            x->request->division->free(p->notes);
        if (i + 1 == x->parts.count)
            break;
        ct_scan_free(p->scan);
        free(p->scan);
    }
    free(x->list);
}

// ---- whether there are parts --------------------------------------------------------------------

// The first failed request by the recorder's notes: what becomes of it is in all events after it.
// 0: no part can be told from the one before, because memory is shared. (What is noted is a claim;
// the parts find out.)
static uint64_t find_last_begin(struct ct_trace *t) {
    struct ct_recorder_notes *n = ct_heap_alloc_zeroed(1, sizeof *n);
    ct_recorder_notes_read(n, t, NULL);
    uint64_t last = n->failed ? n->failed_event[0] : UINT64_MAX;
    if (n->ops[CT_OP_EXPORT])
        last = 0;
    ct_recorder_notes_free(n);
    free(n);
    return last;
}

static int can_be_divided(const struct ct_trace *t, const struct ct_scan_request *q) {
    return !q->capacity && !q->end_event && q->to_ns >= t->t_last_ns &&
           (!q->applied || q->division) && ct_parts_are_possible(t);
}

// Returns 0, and does nothing to `s`, if the trace has to be read as a whole.
static int run_in_parts(struct ct_scan *s, struct ct_trace *t,
                        const struct ct_scan_request *request) {
    struct scan_parts x = {.request = request};
    if (!can_be_divided(t, request))
        return 0;
    if (request->phases)
        (void)ct_phases_has_any(request->phases); // the parts only read them
    const struct ct_parts_request wanted = {.last_event = UINT64_MAX,
                                            .last_ns = UINT64_MAX,
                                            .before_event = find_last_begin(t),
                                            .warm_up = 1};
    ct_parts_begin(&x.parts, t, &wanted);
    if (!x.parts.count)
        return 0;
    begin_parts(&x, s);
    ct_workers_run(x.parts.count, scan_part, &x);
    const int is_proved = join_parts(&x);
    free_parts(&x);
    ct_parts_end(&x.parts, is_proved);
    if (is_proved) {
        s->part = NULL;
        s->end.spare = NULL;
        ct_scan_end(s, t);
        return 1;
    }
    ct_scan_free(s);
    if (request->applied)
        request->division->begin_again(request->applied_user);
    return 0;
}

void ct_scan_run(struct ct_scan *s, struct ct_trace *t, const struct ct_scan_request *request) {
    const struct ct_event *e;
    uint64_t number;
    if (run_in_parts(s, t, request))
        return;
    ct_scan_begin(s, t, request);
    ct_trace_rewind(t);
    while (!s->exceeded) { // what comes later would not have happened
        ct_scan_expect(s);
        e = ct_replay_next(&s->end, t, &number);
        if (!e || ct_scan_is_behind(request, e, number))
            break;
        ct_scan_take(s, t, e, number);
    }
    ct_replay_stop(&s->end);
    ct_scan_end(s, t);
}
