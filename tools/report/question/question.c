// SPDX-License-Identifier: Apache-2.0
// A moment is found by a scan, and its state by another pass: only the end of a trace shows which
// moment matters.
#include "question/question.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/live_at.h"
#include "base/heap.h"

// ---- the question of a view ---------------------------------------------------------------------

void ct_question_scan(struct ct_scan *s, struct ct_trace *t, const struct ct_scan_request *request,
                      const struct ct_listener *beside) {
    struct ct_pass pass;
    memset(s, 0, sizeof *s);
    ct_pass_init(&pass, &s->end);
    ct_scan_join(s, &pass.listeners, t, request);
    if (beside)
        ct_listeners_add(&pass.listeners, beside);
    ct_pass_run(&pass, t);
    ct_pass_free(&pass);
    ct_scan_finish(s, t);
}

// ---- moments ------------------------------------------------------------------------------------

static int note_export(void *self, const struct ct_replay *r, const struct ct_event *e,
                       uint64_t number) {
    (void)number;
    if (e->op == CT_OP_EXPORT)
        ct_sharing_note_export(self, &r->live, e);
    return 1;
}

void ct_question_moment(struct ct_replay *r, const struct ct_moment *m, struct ct_trace *t,
                        struct ct_sharing *sharing, const struct ct_listener *beside) {
    const struct ct_listener a = {.self = sharing,
                                  .end_event = m->event + 1,
                                  .end_ns = m->t_ns + 1,
                                  .before = sharing ? note_export : NULL,
                                  .leads = 1};
    struct ct_pass pass;
    ct_pass_init(&pass, r);
    ct_listeners_add(&pass.listeners, &a);
    if (beside)
        ct_listeners_add(&pass.listeners, beside);
    ct_pass_run(&pass, t);
    ct_pass_free(&pass);
}

void ct_question_before(struct ct_live_totals *to, struct ct_trace *t, uint64_t event, int device) {
    const struct ct_moment last = {CT_MOMENT_TIME, -1, event - 1, UINT64_MAX};
    struct ct_replay r;
    if (event)
        ct_question_moment(&r, &last, t, NULL, NULL);
    else
        ct_replay_init(&r);
    ct_live_at_read(to, &r, device, CT_ROWS_BY_BLOCK);
    ct_replay_free(&r);
}

// Whether the state after the scan is that of the moment.
static int is_after(const struct ct_moment *m, const struct ct_scan *s) {
    return m->event == UINT64_MAX && !s->exceeded && s->latest_ns <= m->t_ns;
}

const struct ct_replay *ct_question_state(const struct ct_moment *m, const struct ct_scan *s,
                                          struct ct_trace *t, struct ct_replay *r) {
    if (m->kind == CT_MOMENT_PEAK)
        return NULL;
    if (is_after(m, s))
        return &s->end;
    ct_question_moment(r, m, t, NULL, NULL);
    return r;
}

// ---- phases -------------------------------------------------------------------------------------

void ct_question_phases(struct ct_phase_times *p, struct ct_trace *t,
                        const struct ct_phase_times_request *request) {
    struct ct_phase_start_up *u = ct_heap_alloc_zeroed(1, sizeof *u);
    struct ct_pass pass;
    u->request = *request;
    if (ct_phase_times_need_start_up(request)) {
        const struct ct_listener start_up = ct_phase_start_up_listener(u);
        ct_pass_run_one(NULL, t, &start_up);
    }
    ct_pass_init(&pass, NULL);
    ct_phase_times_join(p, &pass.listeners, request, u);
    ct_pass_run(&pass, t);
    ct_pass_free(&pass);
    free(u);
}

// ---- a moment by a part of the trace ------------------------------------------------------------

void ct_moment_part_read(struct ct_moment_part *p, struct ct_trace *t,
                         const struct ct_moment *moment) {
    const int is_end = moment->kind == CT_MOMENT_END;
    *p = (struct ct_moment_part){.moment = *moment};
    ct_trace_part_choose(&p->part, t, moment->event, is_end ? UINT64_MAX : moment->t_ns, is_end);
    if (!p->part.unknown)
        ct_trace_part_read(&p->part, t);
    else
        ct_definitions_finish(&t->definitions);
}

static void note_event(void *self, const struct ct_replay *r, const struct ct_event *e,
                       uint64_t number) {
    struct ct_moment_part *p = self;
    (void)r;
    p->replayed += number >= p->part.point.event;
    if (number == p->moment.event)
        p->moment.t_ns = e->t_ns;
}

void ct_moment_part_replay(struct ct_moment_part *p, struct ct_trace *t) {
    // An event has a number, another moment a time.
    const int has_time = p->moment.event == UINT64_MAX && p->moment.kind != CT_MOMENT_END;
    const struct ct_listener a = {.self = p,
                                  .end_event = p->moment.event + 1,
                                  .end_ns = has_time ? p->moment.t_ns + 1 : 0,
                                  .after = note_event};
    struct ct_pass pass;
    ct_pass_init(&pass, &p->state);
    if (p->part.unknown)
        return;
    ct_listeners_add(&pass.listeners, &a);
    if (p->part.is_sought)
        ct_trace_seek(t, &p->part.point);
    else
        ct_trace_rewind(t);
    ct_pass_run_from_here(&pass, t);
    ct_pass_free(&pass);
    if (p->moment.event != UINT64_MAX && p->moment.t_ns == UINT64_MAX)
        p->part.unknown = "the event is not in the trace";
    if (!ct_trace_part_is_whole(&p->part, t))
        p->part.unknown = "a chunk before it is damaged";
}

int ct_moment_part_has(const struct ct_moment_part *p, int device) {
    const struct ct_live_device *d = &p->state.live.device[device];
    return d->live_bytes || d->live_allocations || d->blocks ||
           ct_live_at_sum_asleep(&p->state, device);
}

void ct_moment_part_free(struct ct_moment_part *p) {
    ct_replay_free(&p->state);
    *p = (struct ct_moment_part){.moment.event = 0};
}
