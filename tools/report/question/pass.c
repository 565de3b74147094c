// SPDX-License-Identifier: Apache-2.0
#include "question/pass.h"

#include <stdlib.h>

// ---- listeners ----------------------------------------------------------------------------------

static void end(const struct ct_listeners *l, struct ct_listeners_member *m) {
    m->has_ended = 1;
    if (m->of.end)
        m->of.end(m->of.self, l->replay);
}

static int hears(const struct ct_listeners_member *m, uint64_t number, uint64_t t_ns) {
    return number <= m->last_event && t_ns <= m->last_ns;
}

// Returns whether the pass goes on.
static int before_event(struct ct_listeners *l, const struct ct_event *e, uint64_t number) {
    int goes_on = 0;
    for (struct ct_listeners_member *m = l->list; m < l->list + l->count; m++) {
        if (m->has_ended)
            continue;
        if (hears(m, number, e->t_ns) &&
            (!m->of.before || m->of.before(m->of.self, l->replay, e, number)))
            goes_on = 1;
        else if (end(l, m), m->of.leads)
            return 0;
    }
    return goes_on;
}

static void after_event(const struct ct_listeners *l, const struct ct_event *e, uint64_t number) {
    for (const struct ct_listeners_member *m = l->list; m < l->list + l->count; m++)
        if (!m->has_ended && m->of.after)
            m->of.after(m->of.self, l->replay, e, number);
}

static int before_gap(void *user, uint64_t number, uint64_t next_ns) {
    struct ct_listeners *l = user;
    int goes_on = 0;
    for (struct ct_listeners_member *m = l->list; m < l->list + l->count; m++) {
        if (m->has_ended)
            continue;
        if (hears(m, number, next_ns) &&
            (!m->of.before_gap || m->of.before_gap(m->of.self, l->replay, number, next_ns)))
            goes_on = 1;
        else if (end(l, m), m->of.leads)
            return 0;
    }
    return goes_on;
}

static void end_all(struct ct_listeners *l) {
    for (struct ct_listeners_member *m = l->list; m < l->list + l->count; m++)
        if (!m->has_ended)
            end(l, m);
}

static void live_changed(void *user, const struct ct_object *o, int sign) {
    const struct ct_listeners *l = user;
    for (const struct ct_listeners_member *m = l->list; m < l->list + l->count; m++)
        if (!m->has_ended && m->of.live_changed)
            m->of.live_changed(m->of.objects_self, o, sign);
}

static void owner_changed(void *user, const struct ct_object *o, uint32_t by) {
    const struct ct_listeners *l = user;
    for (const struct ct_listeners_member *m = l->list; m < l->list + l->count; m++)
        if (!m->has_ended && m->of.owner_changed)
            m->of.owner_changed(m->of.objects_self, o, by);
}

static void block_changed(void *user, const struct ct_object *o, int sign) {
    const struct ct_listeners *l = user;
    for (const struct ct_listeners_member *m = l->list; m < l->list + l->count; m++)
        if (!m->has_ended && m->of.block_changed)
            m->of.block_changed(m->of.objects_self, o, sign);
}

static void segment_changed(void *user, const struct ct_object *o, int sign) {
    const struct ct_listeners *l = user;
    for (const struct ct_listeners_member *m = l->list; m < l->list + l->count; m++)
        if (!m->has_ended && m->of.segment_changed)
            m->of.segment_changed(m->of.objects_self, o, sign);
}

// ---- a pass -------------------------------------------------------------------------------------

void ct_pass_init(struct ct_pass *p, struct ct_replay *r) {
    p->replay = r ? r : &p->own;
    p->listeners = (struct ct_listeners){.replay = p->replay};
    ct_replay_init(p->replay);
    p->replay->tiles = 1;
}

// Connects the replay with what the listeners want to hear of it, and with nothing else.
static void connect(struct ct_replay *r, struct ct_listeners *l) {
    r->before_gap = before_gap;
    r->gap_user = r->live.user = r->watch.user = l;
    r->has_no_readings = 1;
    for (const struct ct_listeners_member *m = l->list; m < l->list + l->count; m++) {
        r->has_no_readings &= m->of.needs_no_readings;
        if (m->of.live_changed)
            r->live.total_changed = live_changed;
        if (m->of.owner_changed)
            r->live.owner_changed = owner_changed;
        if (m->of.block_changed)
            r->watch.block_changed = block_changed;
        if (m->of.segment_changed)
            r->watch.segment_changed = segment_changed;
    }
}

// The replay may outlive the listeners.
static void disconnect(struct ct_replay *r) {
    r->before_gap = NULL;
    r->live.total_changed = NULL;
    r->live.owner_changed = NULL;
    r->watch = (struct ct_segment_watch){0};
    r->pool.members.watch = r->watch;
}

void ct_pass_run_from_here(struct ct_pass *p, struct ct_trace *t) {
    struct ct_replay *const r = p->replay;
    const struct ct_event *e;
    uint64_t number;
    connect(r, &p->listeners);
    while ((e = ct_replay_next(r, t, &number)) && before_event(&p->listeners, e, number)) {
        ct_replay_apply(r, e, number);
        after_event(&p->listeners, e, number);
    }
    ct_replay_stop(r);
    end_all(&p->listeners);
    disconnect(r);
}

void ct_pass_run(struct ct_pass *p, struct ct_trace *t) {
    if (!p->listeners.count)
        return;
    ct_trace_rewind(t);
    ct_pass_run_from_here(p, t);
}

void ct_pass_free(struct ct_pass *p) {
    free(p->listeners.list);
    p->listeners = (struct ct_listeners){0};
    if (p->replay == &p->own)
        ct_replay_free(&p->own);
}
