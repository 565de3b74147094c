// SPDX-License-Identifier: Apache-2.0
// The digest of the objects is a sum over them, because a checkpoint restores them in another order
// than their events had.
#include "replay/keyframes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/heap.h"

enum {
    MOST = 32,          // keyframes, the newest ones
    MOST_TIMES = 65536, // exact times of a keyframe: it is not taken where there are more
    TICK_NS = 100,      // of a recorder, unless it is set
};

// ---- digest -------------------------------------------------------------------------------------

static uint64_t add_word(uint64_t h, uint64_t word) {
    return ct_hash_mix(h ^ word) + UINT64_C(0x9E3779B97F4A7C15);
}

static uint64_t digest_object(const struct ct_live *l, const struct ct_object *o,
                              uint64_t tick_ns) {
    const struct ct_traits *traits = ct_live_traits(l, o);
    const int has_refs = o->kind == CT_KIND_HANDLE || o->kind == CT_KIND_IPC;
    uint64_t h = add_word(o->kind, o->key);
    h = add_word(h, o->bytes);
    h = add_word(h, o->t_ns / tick_ns);
    h = add_word(h, (uint64_t)o->stack << 32 | (uint64_t)(uint8_t)o->device << 8 |
                        (unsigned)o->segment << 1 | o->resumed);
    h = add_word(h, ct_object_event(o));
    h = add_word(h, traits->context);
    h = add_word(h, traits->link);
    h = add_word(h, (uint64_t)traits->thread << 32 | traits->api);
    h = add_word(h, (uint64_t)traits->flags << 32 | traits->space);
    return has_refs ? add_word(h, (uint64_t)traits->refs << 32 | traits->maps) : h;
}

static uint64_t digest_live(const struct ct_live *l, uint64_t tick_ns) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < ct_live_slot_count(l); i++) {
        const struct ct_object *o = ct_live_object_at(l, i);
        if (o)
            sum += digest_object(l, o, tick_ns);
    }
    uint64_t h = add_word(sum, ct_hash_bytes(l->device, sizeof l->device));
    h = add_word(h, l->host_bytes);
    return add_word(h, (unsigned)l->partial << 1 | (unsigned)l->next_is_freed);
}

static uint64_t digest_tree(uint64_t h, const struct ct_range_tree *s) {
    struct ct_tree_range at;
    for (uint64_t from = 0; ct_range_tree_find(s, from, &at); from = at.start + at.bytes) {
        h = add_word(h, at.start);
        h = add_word(h, at.bytes);
    }
    return h;
}

static uint64_t digest_region(const struct ct_torch_region *r, uint64_t tick_ns) {
    uint64_t h = add_word(r->start, r->bytes);
    h = add_word(h, r->free);
    h = add_word(h, r->piece);
    h = add_word(h, r->reservation);
    h = add_word(h, r->t_ns / tick_ns);
    h = add_word(h, r->event);
    h = add_word(h, (uint64_t)r->stack << 32 | r->api);
    return add_word(h, (uint64_t)r->maps << 32 | (unsigned)r->device << 24 |
                           (unsigned)r->held << 16 | (unsigned)r->async << 8 | r->foreign);
}

static uint64_t digest_pool(const struct ct_torch_pool *p, uint64_t tick_ns) {
    uint64_t sum = (uint64_t)p->on;
    for (uint32_t i = 0; i < p->region_count; i++)
        if (p->regions[i].bytes)
            sum += digest_region(&p->regions[i], tick_ns);
    uint64_t h = digest_tree(sum, &p->reserved);
    for (int d = 0; d < CT_DEVICES; d++) {
        const struct ct_torch_pool_device *of = &p->device[d];
        for (unsigned c = 0; c < CT_TORCH_POOL_CLASSES; c++)
            h = digest_tree(h, &of->free[c]);
        h = digest_tree(h, &of->lost.outside);
        h = digest_tree(h, &of->lost.asleep);
        h = digest_tree(h, &of->lost.segments);
        h = add_word(h, of->own_bytes);
    }
    return h;
}

static uint64_t digest(const struct ct_replay *r, uint64_t tick_ns) {
    return add_word(digest_live(&r->live, tick_ns), digest_pool(&r->pool, tick_ns));
}

// Which VMM objects have been memory of PyTorch's: what a checkpoint restores is that only as long
// as they are mapped.
static uint64_t digest_past(const struct ct_live *l) {
    uint64_t sum = 0;
    for (uint32_t i = 0, left = l->of_kind[CT_KIND_HANDLE]; left && i < ct_live_slot_count(l);
         i++) {
        const struct ct_object *o = ct_live_object_at(l, i);
        if (!o || o->kind != CT_KIND_HANDLE)
            continue;
        left--;
        sum += ct_live_traits(l, o)->was_segment ? ct_hash_mix(o->key) : 0;
    }
    return sum;
}

uint64_t ct_keyframes_digest_part(const struct ct_replay *r, uint64_t tick_ns) {
    return add_word(digest(r, tick_ns), digest_past(&r->live));
}

// ---- times --------------------------------------------------------------------------------------

static uint64_t name_object(const struct ct_object *o) {
    return ct_object_event(o) << 8 | o->kind;
}

static int compare_times(const void *a, const void *b) {
    const uint64_t x = ((const struct ct_exact_time *)a)->object,
                   y = ((const struct ct_exact_time *)b)->object;
    return x < y ? -1 : x > y;
}

// The object that a region of PyTorch's begins with, or began with.
static struct ct_object begin_of(const struct ct_torch_region *region) {
    return (struct ct_object){.kind = region->maps ? CT_KIND_MAPPING : CT_KIND_ADDRESS,
                              .event_low = (uint32_t)region->event,
                              .event_high = (uint16_t)(region->event >> 32) & 0x3FFF,
                              .t_ns = region->t_ns};
}

static void note_time(struct ct_exact_times *t, const struct ct_object *o) {
    if (o->t_ns % TICK_NS == 0 || t->count > MOST_TIMES)
        return;
    CT_HEAP_GROW(t->list, t->count, t->room);
    t->list[t->count++] = (struct ct_exact_time){name_object(o), o->t_ns};
}

static void sort_times(struct ct_exact_times *t) {
    if (t->count)
        qsort(t->list, t->count, sizeof *t->list, compare_times);
}

// Notes the times that lie between two ticks. A time on a tick is what every checkpoint has.
static void note_times(struct ct_exact_times *t, const struct ct_replay *r) {
    for (uint32_t i = 0; i < ct_live_slot_count(&r->live); i++) {
        const struct ct_object *o = ct_live_object_at(&r->live, i);
        if (o)
            note_time(t, o);
    }
    for (uint32_t i = 0; i < r->pool.region_count; i++) {
        const struct ct_object begun = begin_of(&r->pool.regions[i]);
        if (r->pool.regions[i].bytes)
            note_time(t, &begun);
    }
}

static uint64_t find_time(const struct ct_keyframe *k, const struct ct_object *o) {
    const struct ct_exact_time wanted = {.object = name_object(o)};
    const struct ct_exact_times *t = &k->times;
    const struct ct_exact_time *found =
        t->count ? bsearch(&wanted, t->list, t->count, sizeof *t->list, compare_times) : NULL;
    return found ? found->t_ns : o->t_ns / TICK_NS * TICK_NS;
}

static void restore_times(const struct ct_keyframe *k, struct ct_replay *r) {
    for (uint32_t i = 0; i < ct_live_slot_count(&r->live); i++) {
        struct ct_object *o = ct_live_object_at(&r->live, i);
        if (o)
            o->t_ns = find_time(k, o);
    }
    for (uint32_t i = 0; i < r->pool.region_count; i++) {
        struct ct_torch_region *region = &r->pool.regions[i];
        const struct ct_object begun = begin_of(region);
        if (region->bytes)
            region->t_ns = find_time(k, &begun);
    }
}

// ---- taking -------------------------------------------------------------------------------------

static void go_to_next(struct ct_keyframes *k, const struct ct_seek_points *p) {
    k->next_event = k->next < p->count ? p->list[k->next].event : UINT64_MAX;
}

// The variable that tests set: "no" or "tell".
static int is_set_to(const char *value) {
    const char *set = getenv("CUTRACE_REPORT_SEEK");
    return set && strcmp(set, value) == 0;
}

void ct_keyframes_begin(struct ct_keyframes *k, const struct ct_trace *t) {
    *k = (struct ct_keyframes){.next_event = UINT64_MAX};
    if (is_set_to("no"))
        k->latest_ns = UINT64_MAX;
    else
        go_to_next(k, &t->seek_points);
}

static void free_keyframe(struct ct_keyframe *k) {
    if (k)
        free(k->times.list);
    free(k);
}

static void add(struct ct_keyframes *k, struct ct_keyframe *made) {
    if (!k->list)
        k->list = ct_heap_alloc_zeroed(MOST, sizeof(struct ct_keyframe *));
    if (k->count == MOST) {
        free_keyframe(k->list[0]);
        memmove(k->list, k->list + 1, --k->count * sizeof *k->list);
    }
    k->list[k->count++] = made;
}

static struct ct_keyframe *make(const struct ct_replay *r, const struct ct_seek_point *point,
                                uint64_t number, uint64_t latest_ns) {
    struct ct_keyframe *k = ct_heap_alloc_zeroed(1, sizeof *k);
    k->point = *point;
    k->event = number;
    k->latest_ns = latest_ns;
    k->digest = digest(r, TICK_NS);
    k->state = ct_small_state_copy(r);
    note_times(&k->times, r);
    sort_times(&k->times);
    if (k->times.count <= MOST_TIMES)
        return k;
    free_keyframe(k);
    return NULL;
}

void ct_keyframes_take(struct ct_keyframes *k, const struct ct_replay *r, const struct ct_trace *t,
                       uint64_t number) {
    const struct ct_seek_points *p = &t->seek_points;
    if (k->next_event == UINT64_MAX) // (a made-up trace has an event of this number)
        return;
    while (k->next < p->count && p->list[k->next].event <= number)
        k->next++;
    go_to_next(k, p);
    // A digest takes the time of some events for each object, so it is rarer than that.
    if (number - k->taken_event < ct_live_slot_count(&r->live) || ct_resumers_are_any(&r->resumers))
        return;
    k->taken_event = number;
    struct ct_keyframe *made = make(r, &p->list[k->next - 1], number, k->latest_ns);
    if (made)
        add(k, made);
}

// Gives a keyframe of a part the exact times of what the part inherits, in place of those that its
// checkpoint has.
static int complete_times(struct ct_exact_times *t, const struct ct_exact_times *inherited,
                          uint64_t from_event) {
    size_t own = 0;
    for (size_t i = 0; i < t->count; i++)
        if (t->list[i].object >> 8 >= from_event)
            t->list[own++] = t->list[i];
    t->count = own;
    for (size_t i = 0; i < inherited->count; i++) {
        CT_HEAP_GROW(t->list, t->count, t->room);
        t->list[t->count++] = inherited->list[i];
    }
    sort_times(t);
    return t->count <= MOST_TIMES;
}

void ct_keyframes_append(struct ct_keyframes *k, struct ct_keyframes *next, uint64_t from_event,
                         const struct ct_seam *seam, const struct ct_replay *before) {
    struct ct_exact_times inherited = {0};
    note_times(&inherited, before);
    for (size_t i = 0; i < next->count; i++) {
        struct ct_keyframe *n = next->list[i];
        ct_seam_complete(seam, before, &n->state.readings, &n->state.resets, &n->state.gaps);
        if (n->latest_ns < k->latest_ns)
            n->latest_ns = k->latest_ns;
        if (complete_times(&n->times, &inherited, from_event))
            add(k, n);
        else
            free_keyframe(n);
    }
    next->count = 0;
    if (next->latest_ns > k->latest_ns)
        k->latest_ns = next->latest_ns;
    free(inherited.list);
}

void ct_keyframes_forget(struct ct_keyframes *k) {
    for (size_t i = 0; i < k->count; i++)
        free_keyframe(k->list[i]);
    k->count = 0;
}

void ct_keyframes_free(struct ct_keyframes *k) {
    ct_keyframes_forget(k);
    free(k->list);
    *k = (struct ct_keyframes){0};
}

// ---- using --------------------------------------------------------------------------------------

const struct ct_keyframe *ct_keyframes_find(const struct ct_keyframes *k, uint64_t event,
                                            uint64_t t_ns) {
    for (size_t i = k->count; i-- > 0;)
        if (k->list[i]->event - 1 <= event && k->list[i]->latest_ns <= t_ns)
            return k->list[i];
    return NULL;
}

// Makes the state the keyframe's. Returns 0 if what the checkpoint restored is another one.
static int restore(const struct ct_keyframe *k, struct ct_replay *r) {
    const struct ct_small_state *s = &k->state;
    restore_times(k, r);
    if (ct_resumers_are_any(&r->resumers) || digest(r, TICK_NS) != k->digest)
        return 0;
    r->resets = s->resets;
    r->gaps = s->gaps;
    r->is_known = s->is_known;
    r->readings = s->readings;
    r->live.open = s->open;
    for (int d = 0; d < CT_DEVICES; d++) {
        r->pool.device[d].seen = s->pool[d].seen;
        r->pool.device[d].unreconciled = s->pool[d].unreconciled;
        r->pool.device[d].own_reported = s->pool[d].own_reported;
    }
    return 1;
}

const struct ct_event *ct_keyframe_seek(const struct ct_keyframe *k, struct ct_replay *r,
                                        struct ct_trace *t, uint64_t *number) {
    ct_trace_seek(t, &k->point);
    const struct ct_event *e;
    while ((e = ct_replay_next(r, t, number)) && *number < k->event) // between its parts
        ct_replay_apply(r, e, *number);
    return e && *number == k->event && restore(k, r) ? e : NULL;
}

void ct_keyframes_tell(const struct ct_event *sought, uint64_t number) {
    if (!is_set_to("tell"))
        return;
    if (sought)
        fprintf(stderr, "seek: a replay begins at event %" PRIu64 "\n", number);
    else
        fputs("seek: a replay begins at the start\n", stderr);
}
