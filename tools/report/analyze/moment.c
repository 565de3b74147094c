// SPDX-License-Identifier: Apache-2.0
// The moment is found by a scan, and its state by another replay: only the end of a trace shows
// which moment matters.
#include "analyze/moment.h"

static uint64_t end_of(const struct ct_scan *s, const struct ct_trace *t) {
    return s->request.to_ns < t->t_last_ns ? s->request.to_ns : t->t_last_ns;
}

struct ct_moment ct_moment_find(const struct ct_scan *s, const struct ct_trace *t,
                                enum ct_moment_kind kind, int device, const struct ct_instant *at) {
    const struct ct_oom_event *crossing = ct_scan_find_crossing(s);
    const struct ct_device_scan *d = device >= 0 ? &s->device[device] : NULL;
    const uint64_t end = end_of(s, t);
    if (kind == CT_MOMENT_TIME)
        return (struct ct_moment){kind, -1, at->event, at->t_ns < end ? at->t_ns : end};
    if (kind == CT_MOMENT_OOM && crossing)
        return (struct ct_moment){kind, crossing->device, crossing->event, crossing->t_ns};
    if (kind != CT_MOMENT_END && d && d->peak_known)
        return (struct ct_moment){CT_MOMENT_PEAK, device, d->peak_event, d->peak_t_ns};
    return (struct ct_moment){CT_MOMENT_END, -1, UINT64_MAX, end};
}

// Where a replay ends.
struct bound {
    uint64_t event; // the first one after it
    uint64_t t_ns;  // of the last ones
};

static void replay(const struct bound *b, struct ct_replay *r, struct ct_sharing *sharing,
                   struct ct_listeners *listeners, struct ct_trace *t) {
    const struct ct_event *e;
    uint64_t number = 0;
    r->last_wanted = b->event ? b->event - 1 : 0; // a gap after the moment ends the replay
    r->last_wanted_ns = b->t_ns;
    ct_trace_rewind(t);
    while ((e = ct_replay_next(r, t, &number)) && number < b->event && e->t_ns <= b->t_ns) {
        if (listeners)
            (void)ct_listeners_before(listeners, e, number);
        if (e->op == CT_OP_EXPORT)
            ct_sharing_note_export(sharing, &r->live, e);
        ct_replay_apply(r, e, number);
    }
    ct_replay_stop(r);
}

void ct_moment_replay(const struct ct_moment *m, struct ct_replay *r, struct ct_sharing *sharing,
                      struct ct_listeners *listeners, struct ct_trace *t) {
    const uint64_t end = m->event == UINT64_MAX ? m->event : m->event + 1;
    if (listeners)
        listeners->replay = r;
    replay(&(struct bound){end, m->t_ns}, r, sharing, listeners, t);
}

void ct_moment_read_before(struct ct_live_totals *to, struct ct_trace *t, uint64_t event,
                           int device) {
    struct ct_replay r;
    struct ct_sharing sharing = {0};
    ct_replay_init(&r, NULL, NULL);
    r.tiles = 1;
    replay(&(struct bound){event, UINT64_MAX}, &r, &sharing, NULL, t);
    ct_live_at_read(to, &r, device, CT_ROWS_BY_BLOCK);
    ct_replay_free(&r);
    ct_sharing_free(&sharing);
}

// Whether the state after the scan is that of the moment.
static int is_after(const struct ct_moment *m, const struct ct_scan *s) {
    return m->event == UINT64_MAX && !s->exceeded && s->latest_ns <= m->t_ns;
}

const struct ct_replay *ct_moment_find_state(const struct ct_moment *m, const struct ct_scan *s,
                                             struct ct_trace *t, struct ct_replay *r) {
    struct ct_sharing sharing = {0};
    if (m->kind == CT_MOMENT_PEAK)
        return NULL;
    if (is_after(m, s))
        return &s->end;
    ct_replay_init(r, NULL, NULL);
    r->tiles = 1;
    ct_moment_replay(m, r, &sharing, NULL, t);
    ct_sharing_free(&sharing);
    return r;
}

const char *ct_moment_kind_name(enum ct_moment_kind kind) {
    static const char *const names[] = {"oom", "peak", "end", "time"};
    return names[kind];
}
