// SPDX-License-Identifier: Apache-2.0
#include "analyze/joint_pass.h"

#include <stdlib.h>

#include "base/heap.h"
#include "base/workers.h"

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

static void apply(struct ct_joint_pass *p, const struct ct_event *e, uint64_t number) {
    ct_replay_apply(&p->replay, e, number);
    call_behind(p, e, number);
}

// ---- in parts -----------------------------------------------------------------------------------

struct part_pass {
    struct ct_joint_pass pass;
    struct ct_part *part;
    int wanted_all; // of what it read, but for what lies after the last event that is wanted
};

static int has_ended(const struct ct_joint_pass *p) {
    int any = 0;
    for (const struct ct_joint_member *m = p->list; m < p->list + p->count; m++)
        any |= m->has_ended;
    return any;
}

static void read_part(void *user, size_t i) {
    struct part_pass *p = (struct part_pass *)user + i;
    const struct ct_part *last = p->part->of->list + p->part->of->count - 1;
    uint64_t number;
    const struct ct_event *e = ct_part_first(p->part, &p->pass.replay, &number);
    int goes_on = e && call_before(&p->pass, e, number);
    p->wanted_all = goes_on;
    while (goes_on) {
        apply(&p->pass, e, number);
        e = ct_part_next(p->part, &p->pass.replay, &number);
        goes_on = e && call_before(&p->pass, e, number);
    }
    if (p->part != last && has_ended(&p->pass))
        p->wanted_all = 0;
    ct_part_end(p->part, &p->pass.replay);
}

static struct part_pass *begin_parts(const struct ct_joint_pass *p, struct ct_parts *parts) {
    struct part_pass *list = ct_heap_alloc_zeroed(parts->count, sizeof *list);
    for (size_t i = 0; i < parts->count; i++) {
        struct ct_joint_pass *own = &list[i].pass;
        list[i].part = &parts->list[i];
        ct_joint_pass_init(own);
        for (const struct ct_joint_member *m = p->list; m < p->list + p->count; m++) {
            struct ct_joint_analysis a =
                m->of.division->begin(m->of.self, list[i].part, &own->replay);
            a.division = m->of.division;
            ct_joint_pass_add(own, &a);
        }
    }
    return list;
}

// Adds all parts to the first one. Returns 0 if the trace has to be read as a whole.
static int append_parts(const struct ct_joint_pass *p, const struct ct_parts *parts,
                        const struct part_pass *list) {
    if (!ct_parts_are_proved(parts))
        return 0;
    for (size_t i = 0; i < parts->count; i++)
        if (!list[i].wanted_all)
            return 0;
    for (size_t i = 1; i < parts->count; i++)
        for (size_t m = 0; m < p->count; m++)
            if (!p->list[m].of.division->append(list[0].pass.list[m].of.self,
                                                list[i].pass.list[m].of.self))
                return 0;
    return ct_part_set_exact_times(&parts->list[parts->count - 1]);
}

static void free_parts(struct part_pass *list, size_t count) {
    for (size_t i = 0; i < count; i++) {
        struct ct_joint_pass *own = &list[i].pass;
        for (struct ct_joint_member *m = own->list; m < own->list + own->count; m++)
            m->of.division->free(m->of.self);
        ct_joint_pass_free(own);
    }
    free(list);
}

static int are_all_divided(const struct ct_joint_pass *p) {
    for (const struct ct_joint_member *m = p->list; m < p->list + p->count; m++)
        if (!m->of.division)
            return 0;
    return 1;
}

static int end_together(const struct ct_joint_pass *p) {
    const struct ct_joint_division *first = p->list->of.division;
    for (const struct ct_joint_member *m = p->list; m < p->list + p->count; m++)
        if (m->of.division->last_event != first->last_event ||
            m->of.division->last_ns != first->last_ns)
            return 0;
    return 1;
}

// Returns 0 if the trace has to be read as a whole.
static int run_in_parts(struct ct_joint_pass *p, const struct ct_trace *t) {
    struct ct_parts parts;
    if (!are_all_divided(p) || !end_together(p))
        return 0;
    const struct ct_parts_request request = {.last_event = p->list->of.division->last_event,
                                             .last_ns = p->list->of.division->last_ns,
                                             .before_event = UINT64_MAX};
    ct_parts_begin(&parts, t, &request);
    if (!parts.count)
        return 0;
    struct part_pass *list = begin_parts(p, &parts);
    ct_workers_run(parts.count, read_part, list);
    const int is_proved = append_parts(p, &parts, list);
    for (size_t m = 0; m < p->count && is_proved; m++) {
        p->list[m].of.division->take(p->list[m].of.self, list[0].pass.list[m].of.self);
        end(&p->list[m], &list[parts.count - 1].pass.replay);
    }
    free_parts(list, parts.count);
    ct_parts_end(&parts, is_proved);
    return is_proved;
}

// ---- interface ----------------------------------------------------------------------------------

void ct_joint_pass_run(struct ct_joint_pass *p, struct ct_trace *t) {
    const struct ct_event *e;
    uint64_t number;
    if (!p->count || run_in_parts(p, t))
        return;
    p->replay.has_no_readings = are_all_divided(p);
    ct_trace_rewind(t);
    while ((e = ct_replay_next(&p->replay, t, &number)) && call_before(p, e, number))
        apply(p, e, number);
    ct_replay_stop(&p->replay);
    for (struct ct_joint_member *m = p->list; m < p->list + p->count; m++)
        if (!m->has_ended)
            end(m, &p->replay);
}

void ct_joint_pass_free(struct ct_joint_pass *p) {
    free(p->list);
    ct_replay_free(&p->replay);
}
