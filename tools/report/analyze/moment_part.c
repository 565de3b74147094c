// SPDX-License-Identifier: Apache-2.0
#include "analyze/moment_part.h"

#include "analyze/live_at.h"

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

// Whether an event is after the moment: an event has a number, and another moment a time.
static int is_behind(const struct ct_moment *m, const struct ct_event *e, uint64_t number) {
    if (m->event != UINT64_MAX)
        return number > m->event;
    return m->kind != CT_MOMENT_END && e->t_ns > m->t_ns;
}

static void replay(struct ct_moment_part *p, struct ct_trace *t) {
    struct ct_moment *const m = &p->moment;
    struct ct_replay *const r = &p->state;
    const struct ct_event *e;
    uint64_t number = 0, last = UINT64_MAX;
    while ((e = ct_replay_next(r, t, &number)) && !is_behind(m, e, number)) {
        ct_replay_apply(r, e, number);
        p->replayed += number >= p->part.point.event;
        last = number;
        if (number == m->event)
            m->t_ns = e->t_ns;
    }
    ct_replay_stop(r);
    if (m->event != UINT64_MAX && last != m->event)
        p->part.unknown = "the event is not in the trace";
}

void ct_moment_part_replay(struct ct_moment_part *p, struct ct_trace *t) {
    ct_replay_init(&p->state, NULL, NULL);
    p->state.tiles = 1;
    if (p->part.unknown)
        return;
    if (p->part.is_sought)
        ct_trace_seek(t, &p->part.point);
    else
        ct_trace_rewind(t);
    replay(p, t);
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
