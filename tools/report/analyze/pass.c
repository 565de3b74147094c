// SPDX-License-Identifier: Apache-2.0
#include "analyze/pass.h"

#include <stdlib.h>

#include "base/heap.h"

// ---- listeners ----------------------------------------------------------------------------------

void ct_listeners_add(struct ct_listeners *l, const struct ct_listener *listener) {
    CT_HEAP_GROW(l->list, l->count, l->room);
    l->list[l->count++] = (struct ct_listeners_member){.of = *listener};
    l->any_before |= listener->before != NULL;
    if (!listener->objects_self)
        l->list[l->count - 1].of.objects_self = listener->self;
}

static void end(const struct ct_listeners *l, struct ct_listeners_member *m) {
    m->has_ended = 1;
    if (m->of.end)
        m->of.end(m->of.self, l->replay);
}

int ct_listeners_before(struct ct_listeners *l, const struct ct_event *e, uint64_t number) {
    int goes_on = 0;
    for (struct ct_listeners_member *m = l->list; m < l->list + l->count; m++) {
        if (m->has_ended)
            continue;
        if (!m->of.before || m->of.before(m->of.self, l->replay, e, number))
            goes_on = 1;
        else
            end(l, m);
    }
    return goes_on;
}

void ct_listeners_after(const struct ct_listeners *l, const struct ct_event *e, uint64_t number) {
    for (const struct ct_listeners_member *m = l->list; m < l->list + l->count; m++)
        if (!m->has_ended && m->of.after)
            m->of.after(m->of.self, l->replay, e, number);
}

int ct_listeners_before_gap(struct ct_listeners *l, uint64_t number, uint64_t next_ns) {
    int goes_on = 0;
    for (struct ct_listeners_member *m = l->list; m < l->list + l->count; m++) {
        if (m->has_ended)
            continue;
        if (!m->of.before_gap || m->of.before_gap(m->of.self, l->replay, number, next_ns))
            goes_on = 1;
        else
            end(l, m);
    }
    return goes_on;
}

void ct_listeners_end(struct ct_listeners *l) {
    for (struct ct_listeners_member *m = l->list; m < l->list + l->count; m++)
        if (!m->has_ended)
            end(l, m);
}

void ct_listeners_free(struct ct_listeners *l) {
    free(l->list);
    *l = (struct ct_listeners){0};
}

// ---- a pass -------------------------------------------------------------------------------------

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

static int before_gap(void *user, uint64_t number, uint64_t next_ns) {
    return ct_listeners_before_gap(user, number, next_ns);
}

void ct_pass_init(struct ct_pass *p) {
    p->listeners = (struct ct_listeners){.replay = &p->replay};
    ct_replay_init(&p->replay, live_changed, &p->listeners);
    p->replay.tiles = 1;
    p->replay.live.owner_changed = owner_changed;
    p->replay.before_gap = before_gap;
    p->replay.gap_user = &p->listeners;
    p->replay.watch = (struct ct_segment_watch){block_changed, segment_changed, &p->listeners};
}

static int needs_readings(const struct ct_listeners *l) {
    for (const struct ct_listeners_member *m = l->list; m < l->list + l->count; m++)
        if (!m->of.needs_no_readings)
            return 1;
    return 0;
}

void ct_pass_run(struct ct_pass *p, struct ct_trace *t) {
    const struct ct_event *e;
    uint64_t number;
    if (!p->listeners.count)
        return;
    p->replay.has_no_readings = !needs_readings(&p->listeners);
    ct_trace_rewind(t);
    while ((e = ct_replay_next(&p->replay, t, &number)) &&
           ct_listeners_before(&p->listeners, e, number)) {
        ct_replay_apply(&p->replay, e, number);
        ct_listeners_after(&p->listeners, e, number);
    }
    ct_replay_stop(&p->replay);
    ct_listeners_end(&p->listeners);
}

void ct_pass_free(struct ct_pass *p) {
    ct_listeners_free(&p->listeners);
    ct_replay_free(&p->replay);
}
