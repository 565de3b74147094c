// SPDX-License-Identifier: Apache-2.0
// A part begins with what a checkpoint claims, and ends where the next one begins: at the chunk in
// which its checkpoint is complete or, if it warms up, at the one after that.
#include "replay/parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "base/workers.h"
#include "replay/keyframes.h"

enum {
    LEAST_EVENTS = 1 << 18, // of a part: fewer are read as fast by one thread
    LEAST_TIMES = 4, // that a part is larger than its checkpoint: else restoring takes its time
};

// Numbers of events in a part are below that, so that objects have them in full.
#define MOST_EVENTS (UINT64_C(1) << 45)

// ---- where parts begin --------------------------------------------------------------------------

static int is_set_to(const char *value) {
    const char *set = getenv("CUTRACE_REPORT_PARTS");
    return set && strcmp(set, value) == 0;
}

// Whether a replay from the start reads the chunk's events and nothing else.
static int is_plain(const struct ct_index_chunk *c) {
    return !c->bad && !c->partial && !c->gap && !c->reset && !c->restores && !c->completes;
}

static size_t find_last_disturbance(const struct ct_index *x) {
    size_t i = x->count;
    while (i && is_plain(&x->chunks[i - 1]))
        i--;
    return i;
}

// Whether each chunk's events have higher numbers than those before it, by the prefixes: parts
// begin at a chunk, and end by a number.
static int are_numbered(const struct ct_index *x) {
    uint64_t next = 0;
    for (size_t i = 0; i < x->count; i++) {
        const struct ct_chunk *head = &x->chunks[i].head;
        if (head->first_event < next)
            return 0;
        next = head->first_event + head->events;
    }
    return 1;
}

// What is wanted of a trace.
struct range {
    const struct ct_trace *trace;
    struct ct_parts_request of;
    uint64_t *before; // each chunk: how many events lie there; the last element: in all
    uint64_t events;  // in all
};

static int is_wanted(const struct range *r, size_t chunk) {
    const struct ct_chunk *head = &r->trace->index.chunks[chunk].head;
    return head->first_event <= r->of.last_event && head->t_first_ns <= r->of.last_ns;
}

static struct range make_range(const struct ct_trace *t, const struct ct_parts_request *request) {
    const struct ct_index *x = &t->index;
    struct range r = {t, *request, ct_heap_alloc_zeroed(x->count + 1, sizeof(uint64_t)), 0};
    for (size_t i = 0; i < x->count; i++) {
        const int counts = !x->chunks[i].bad && is_wanted(&r, i);
        r.before[i + 1] = r.before[i] + (counts ? x->chunks[i].head.events : 0);
    }
    r.events = r.before[x->count];
    return r;
}

// The chunk in which the own events of a part begin; the count: it has none.
static size_t find_begin(const struct range *r, const struct ct_seek_point *point) {
    return point->last + (r->of.warm_up != 0);
}

static int can_begin_at(const struct range *r, const struct ct_seek_point *point) {
    const struct ct_index *x = &r->trace->index;
    const size_t begin = find_begin(r, point);
    return begin < x->count && x->chunks[begin].head.first_event >= point->event &&
           x->chunks[begin].head.first_event < r->of.before_event && point->event < MOST_EVENTS &&
           is_wanted(r, begin);
}

// The seek point from `from` on that is nearest to a number of events; the count: there is none.
static size_t find_nearest(const struct range *r, size_t from, uint64_t wanted) {
    const struct ct_seek_points *s = &r->trace->seek_points;
    uint64_t least = UINT64_MAX;
    size_t nearest = s->count;
    for (size_t i = from; i < s->count; i++) {
        const uint64_t at = r->before[s->list[i].last],
                       far = at > wanted ? at - wanted : wanted - at;
        if (far >= least || !can_begin_at(r, &s->list[i]))
            continue;
        least = far;
        nearest = i;
    }
    return nearest;
}

static void add(struct ct_parts *p, const struct range *r, const struct ct_seek_point *point) {
    const struct ct_index *x = &r->trace->index;
    struct ct_part *part = &p->list[p->count++];
    *part = (struct ct_part){.of = p, .point = *point, .end_event = UINT64_MAX};
    if (part == p->list)
        return;
    part->from_event = x->chunks[find_begin(r, point)].head.first_event;
    part->warm_ns = x->chunks[point->last].head.t_first_ns;
    part[-1].end_event = part->from_event;
}

static void plan(struct ct_parts *p, const struct range *r, size_t most) {
    const struct ct_seek_points *s = &r->trace->seek_points;
    const size_t disturbed = find_last_disturbance(&r->trace->index);
    size_t next = 0;
    while (next < s->count && s->list[next].first < disturbed)
        next++;
    add(p, r, &(struct ct_seek_point){0});
    for (size_t i = 1; i < most && next < s->count; i++) {
        const size_t at = find_nearest(r, next, r->events / most * i);
        if (at == s->count)
            break;
        add(p, r, &s->list[at]);
        next = at + 1;
    }
}

// A small part has ended when a thread that reads ahead for another one needs its processor.
static void note_small(struct ct_parts *p, const struct range *r) {
    for (size_t i = 0; i < p->count; i++) {
        const uint64_t begin = r->before[p->list[i].point.last],
                       end = i + 1 < p->count ? r->before[p->list[i + 1].point.last] : r->events;
        p->list[i].is_small = end < begin || end - begin < r->events / p->count / 4 * 3;
    }
}

// The first event after the place where the state last began anew. (The first part finds it, too.)
static void note_known(struct ct_parts *p, const struct ct_index *x) {
    size_t i = x->count;
    while (i && !x->chunks[i - 1].reset)
        i--;
    if (!i)
        return;
    p->known_event = x->chunks[i - 1].head.first_event;
    p->known_ns = ct_index_first_ns(x, i - 1);
}

static uint64_t measure_checkpoint(const struct ct_index *x, const struct ct_seek_point *point) {
    uint64_t bytes = 0;
    for (size_t i = point->first; i <= point->last; i++)
        bytes += x->chunks[i].checkpoint_bytes;
    return bytes;
}

// How many parts are worth their states: each restores one, and has the memory of one.
static size_t count_worth(const struct range *r, size_t workers) {
    const struct ct_trace *t = r->trace;
    uint64_t most = 1, all = 0;
    for (size_t i = 0; i < t->index.count; i++)
        all += t->index.chunks[i].bad || !is_wanted(r, i) ? 0 : t->index.chunks[i].head.raw_bytes;
    for (size_t i = 0; i < t->seek_points.count; i++) {
        const uint64_t bytes = measure_checkpoint(&t->index, &t->seek_points.list[i]);
        most = bytes > most ? bytes : most;
    }
    uint64_t worth = r->events / LEAST_EVENTS;
    if (worth > all / most / LEAST_TIMES)
        worth = all / most / LEAST_TIMES;
    return worth < workers ? (size_t)worth : workers;
}

// ---- readers ------------------------------------------------------------------------------------

static void note_progress(void *user, uint64_t done, uint64_t total) {
    struct ct_part *part = user;
    const struct ct_trace *t = part->of->trace;
    const size_t read = atomic_fetch_add(&part->of->chunks_read, 1) + 1, all = t->index.count;
    (void)done;
    t->progress(t->progress_user, read < all ? total / all * read : total, total);
}

static void divide(struct ct_parts *p, const struct range *r) {
    size_t most = ct_workers_count();
    if (!is_set_to("tell"))
        most = count_worth(r, most);
    if (most < 2)
        return;
    p->list = ct_heap_alloc_zeroed(most, sizeof *p->list);
    plan(p, r, most);
    note_small(p, r);
    note_known(p, &r->trace->index);
    if (p->count >= 2)
        return;
    free(p->list);
    *p = (struct ct_parts){.trace = r->trace};
}

// The chunk before which a part's reader ends, 0: none. It reads a little of the next part's
// events, if readings are wanted: these may have been under way at one.
static size_t find_end(const struct range *r, const struct ct_part *part) {
    const struct ct_index *x = &r->trace->index;
    const uint64_t least = r->of.warm_up ? CT_READAHEAD_EVENTS : 0;
    size_t end = part->point.last + 1;
    if (part->end_event == UINT64_MAX)
        return 0;
    while (end < x->count && x->chunks[end].head.first_event < part->end_event + least)
        end++;
    return end < x->count ? end : 0;
}

int ct_parts_are_possible(const struct ct_trace *t) {
    return ct_workers_count() > 1 && !t->end && t->exact && t->seek_points.count &&
           !is_set_to("no") && (t->events / LEAST_EVENTS > 1 || is_set_to("tell")) &&
           are_numbered(&t->index);
}

void ct_parts_begin(struct ct_parts *p, const struct ct_trace *t,
                    const struct ct_parts_request *request) {
    *p = (struct ct_parts){.trace = t};
    if (!ct_parts_are_possible(t))
        return;
    struct range r = make_range(t, request);
    divide(p, &r);
    atomic_init(&p->spare, (int)(ct_workers_count() - p->count));
    for (size_t i = 0; i < p->count; i++) {
        struct ct_part *part = &p->list[i];
        part->has_readings = request->warm_up;
        ct_trace_share(&part->trace, t);
        part->trace.end = find_end(&r, part);
        if (i)
            ct_trace_seek(&part->trace, &part->point);
        part->trace.progress = t->progress ? note_progress : NULL;
        part->trace.progress_user = part;
    }
    free(r.before);
}

void ct_parts_end(struct ct_parts *p, int are_used) {
    if (is_set_to("tell"))
        fprintf(stderr, "%s: %zu%s\n", p->list->has_readings ? "scan parts" : "parts", p->count,
                are_used ? "" : " that prove nothing");
    for (size_t i = 0; i < p->count; i++)
        ct_trace_unshare(&p->list[i].trace);
    free(p->list);
    *p = (struct ct_parts){.count = 0};
}

// ---- one part -----------------------------------------------------------------------------------

// Whether everything live is older than the part. (Hostile traces have other numbers.)
static int all_are_older(const struct ct_part *part, const struct ct_live *l) {
    for (uint32_t i = 0; i < ct_live_slot_count(l); i++) {
        const struct ct_object *o = ct_live_object_at(l, i);
        if (o && ct_object_event(o) >= part->from_event)
            return 0;
    }
    return 1;
}

const struct ct_event *ct_part_next(struct ct_part *part, struct ct_replay *r, uint64_t *number) {
    const struct ct_event *e = ct_replay_next(r, &part->trace, number);
    if (!e || *number >= part->end_event)
        return NULL;
    if (__builtin_expect(*number - part->point.event >= MOST_EVENTS || e->t_ns < part->last_ns,
                         0)) {
        part->is_sound = 0;
        return NULL;
    }
    part->last_ns = e->t_ns;
    return e;
}

void ct_part_begin(struct ct_part *part, const struct ct_replay *r, const struct ct_event *e) {
    part->is_sound = part->is_sound && all_are_older(part, &r->live);
    part->begun = ct_keyframes_digest_part(r, CT_PART_TICK_NS);
    part->first_ns = part->last_ns = e->t_ns;
}

const struct ct_event *ct_part_first(struct ct_part *part, struct ct_replay *r, uint64_t *number) {
    const struct ct_event *e;
    r->spare = part->is_small ? &part->of->none : &part->of->spare;
    r->has_no_readings = !part->has_readings;
    part->replay = r;
    part->is_sound = 1;
    if (part == part->of->list)
        return ct_part_next(part, r, number);
    while ((e = ct_replay_next(r, &part->trace, number)) && r->live.partial)
        ct_replay_apply(r, e, *number); // between the parts of the checkpoint
    part->is_sound = e && *number >= part->point.event;
    if (!part->is_sound)
        return NULL;
    part->last_ns = e->t_ns;
    if (!part->has_readings)
        ct_part_begin(part, r, e);
    return part->is_sound ? e : NULL;
}

void ct_part_end(struct ct_part *part, struct ct_replay *r) {
    ct_replay_stop(r);
    atomic_fetch_add(&part->of->spare, 1);
    part->is_sound = part->is_sound && ct_trace_was_read_alike(&part->trace);
    part->ended = ct_keyframes_digest_part(r, CT_PART_TICK_NS);
}

// ---- all of them --------------------------------------------------------------------------------

static int follows(const struct ct_part *part) {
    return part->begun == part[-1].ended && part->first_ns >= part[-1].last_ns;
}

int ct_parts_are_proved(const struct ct_parts *p) {
    for (size_t i = 0; i < p->count; i++)
        if (!p->list[i].is_sound || (i && !follows(&p->list[i])))
            return 0;
    return 1;
}

const struct ct_object *ct_part_find_origin(const struct ct_part *part, unsigned kind, uint64_t key,
                                            uint64_t event) {
    const struct ct_part *origin = part - 1;
    while (origin != part->of->list && event < origin->from_event)
        origin--;
    const struct ct_object *o = ct_live_find(&origin->replay->live, kind, key);
    return o && ct_object_event(o) == event ? o : NULL;
}

int ct_part_set_exact_times(const struct ct_part *part) {
    const struct ct_live *l = &part->replay->live;
    if (part == part->of->list)
        return 1;
    for (uint32_t i = 0; i < ct_live_slot_count(l); i++) {
        struct ct_object *o = ct_live_object_at(l, i);
        if (!o || !ct_part_inherits(part, o) || o->kind == CT_KIND_RESERVED ||
            o->kind == CT_KIND_POOL) // (these have times of what lies in them, if any)
            continue;
        const struct ct_object *origin =
            ct_part_find_origin(part, o->kind, o->key, ct_object_event(o));
        if (!origin || ct_part_earliest_ns(origin) != ct_part_earliest_ns(o))
            return 0;
        o->t_ns = origin->t_ns;
    }
    return 1;
}

static void set_exact_reservations(const struct ct_part *part) {
    const struct ct_live *l = &part->replay->live, *before = &part[-1].replay->live;
    uint32_t left = l->of_kind[CT_KIND_RESERVED] + l->of_kind[CT_KIND_POOL];
    for (uint32_t i = 0; left && i < ct_live_slot_count(l); i++) {
        struct ct_object *o = ct_live_object_at(l, i);
        if (!o || (o->kind != CT_KIND_RESERVED && o->kind != CT_KIND_POOL))
            continue;
        left--;
        const struct ct_object *origin = ct_live_find(before, o->kind, o->key);
        if (origin && ct_object_event(origin) == ct_object_event(o) &&
            ct_part_earliest_ns(origin) == ct_part_earliest_ns(o))
            o->t_ns = origin->t_ns;
    }
}

// Returns 0 if a region is not one of the part before.
static int set_exact_regions(const struct ct_part *part) {
    const struct ct_torch_pool *before = &part[-1].replay->pool, *pool = &part->replay->pool;
    struct ct_map times = {0}; // by the event that began a region
    int are_known = 1;
    for (uint32_t i = 0; i < before->region_count; i++)
        if (before->regions[i].bytes)
            *ct_map_add(&times, before->regions[i].event) = before->regions[i].t_ns;
    for (uint32_t i = 0; i < pool->region_count; i++) {
        struct ct_torch_region *region = &pool->regions[i];
        if (!region->bytes || region->event >= part->from_event)
            continue;
        const uint64_t *t_ns = ct_map_find(&times, region->event);
        are_known &= t_ns && *t_ns / CT_PART_TICK_NS == region->t_ns / CT_PART_TICK_NS;
        region->t_ns = t_ns ? *t_ns : region->t_ns;
    }
    ct_map_free(&times);
    return are_known;
}

int ct_part_set_exact_rest(const struct ct_part *part) {
    set_exact_reservations(part);
    return set_exact_regions(part);
}
