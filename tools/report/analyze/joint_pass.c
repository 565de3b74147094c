// SPDX-License-Identifier: Apache-2.0
#include "analyze/joint_pass.h"

#include <stdlib.h>

#include "base/heap.h"

static void live_changed(void *user, const struct ct_object *o, int sign) {
    const struct ct_joint_pass *p = user;
    for (const struct ct_joint_member *m = p->list; m < p->list + p->count; m++)
        if (!m->has_ended && m->of.live_changed)
            m->of.live_changed(m->of.objects_self, o, sign);
}

static void owner_changed(void *user, const struct ct_object *o, uint32_t by) {
    const struct ct_joint_pass *p = user;
    for (const struct ct_joint_member *m = p->list; m < p->list + p->count; m++)
        if (!m->has_ended && m->of.owner_changed)
            m->of.owner_changed(m->of.objects_self, o, by);
}

static void block_changed(void *user, const struct ct_object *o, int sign) {
    const struct ct_joint_pass *p = user;
    for (const struct ct_joint_member *m = p->list; m < p->list + p->count; m++)
        if (!m->has_ended && m->of.block_changed)
            m->of.block_changed(m->of.objects_self, o, sign);
}

static void segment_changed(void *user, const struct ct_object *o, int sign) {
    const struct ct_joint_pass *p = user;
    for (const struct ct_joint_member *m = p->list; m < p->list + p->count; m++)
        if (!m->has_ended && m->of.segment_changed)
            m->of.segment_changed(m->of.objects_self, o, sign);
}

static void end(struct ct_joint_member *m, const struct ct_replay *r) {
    m->has_ended = 1;
    if (m->of.end)
        m->of.end(m->of.self, r);
}

// Returns whether an analysis goes on.
static int before_gap(void *user, uint64_t number, uint64_t next_ns) {
    struct ct_joint_pass *p = user;
    int goes_on = 0;
    for (struct ct_joint_member *m = p->list; m < p->list + p->count; m++) {
        if (m->has_ended)
            continue;
        if (!m->of.before_gap || m->of.before_gap(m->of.self, &p->replay, number, next_ns))
            goes_on = 1;
        else
            end(m, &p->replay);
    }
    return goes_on;
}

void ct_joint_pass_init(struct ct_joint_pass *p) {
    *p = (struct ct_joint_pass){.count = 0};
    ct_replay_init(&p->replay, live_changed, p);
    p->replay.tiles = 1;
    p->replay.live.owner_changed = owner_changed;
    p->replay.before_gap = before_gap;
    p->replay.gap_user = p;
    p->replay.watch = (struct ct_segment_watch){block_changed, segment_changed, p};
}

void ct_joint_pass_add(struct ct_joint_pass *p, const struct ct_joint_analysis *a) {
    CT_HEAP_GROW(p->list, p->count, p->room);
    p->list[p->count++] = (struct ct_joint_member){.of = *a};
    if (!a->objects_self)
        p->list[p->count - 1].of.objects_self = a->self;
}

// Returns whether an analysis goes on.
static int call_before(struct ct_joint_pass *p, const struct ct_event *e, uint64_t number) {
    int goes_on = 0;
    for (struct ct_joint_member *m = p->list; m < p->list + p->count; m++) {
        if (m->has_ended)
            continue;
        if (m->of.before(m->of.self, &p->replay, e, number))
            goes_on = 1;
        else
            end(m, &p->replay);
    }
    return goes_on;
}

static void call_behind(struct ct_joint_pass *p, const struct ct_event *e, uint64_t number) {
    for (const struct ct_joint_member *m = p->list; m < p->list + p->count; m++)
        if (!m->has_ended && m->of.behind)
            m->of.behind(m->of.self, &p->replay, e, number);
}

static int needs_readings(const struct ct_joint_pass *p) {
    for (const struct ct_joint_member *m = p->list; m < p->list + p->count; m++)
        if (!m->of.needs_no_readings)
            return 1;
    return 0;
}

void ct_joint_pass_run(struct ct_joint_pass *p, struct ct_trace *t) {
    const struct ct_event *e;
    uint64_t number;
    if (!p->count)
        return;
    p->replay.has_no_readings = !needs_readings(p);
    ct_trace_rewind(t);
    while ((e = ct_replay_next(&p->replay, t, &number)) && call_before(p, e, number)) {
        ct_replay_apply(&p->replay, e, number);
        call_behind(p, e, number);
    }
    ct_replay_stop(&p->replay);
    for (struct ct_joint_member *m = p->list; m < p->list + p->count; m++)
        if (!m->has_ended)
            end(m, &p->replay);
}

void ct_joint_pass_free(struct ct_joint_pass *p) {
    free(p->list);
    ct_replay_free(&p->replay);
}
