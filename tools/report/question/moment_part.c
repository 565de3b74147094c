// SPDX-License-Identifier: Apache-2.0
#include "question/moment_part.h"

#include "analyze/live_at.h"
#include "question/pass.h"

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
