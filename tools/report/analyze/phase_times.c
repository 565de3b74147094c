// SPDX-License-Identifier: Apache-2.0
// One pass over the events; a trace whose stacks name no phase is read twice.
#include "analyze/phase_times.h"

#include "base/heap.h"

// ---- stretches ----------------------------------------------------------------------------------

static int is_same(const struct ct_phase_at *a, const struct ct_phase_at *b) {
    return a->phase == b->phase && a->framework == b->framework;
}

static void end_stretch(struct ct_phase_times *p, uint64_t t_ns) {
    if (!p->current)
        return;
    struct ct_phase_time *now = &p->list[p->current - 1];
    now->duration_ns += t_ns - now->end_ns; // (begun there)
    now->end_ns = t_ns;
    now->kept_bytes += now->live_bytes;
    now->live_bytes = now->resumed_bytes = 0;
}

static void add_taken(struct ct_map *to, const struct ct_map *from) {
    for (size_t i = 0; i < from->capacity; i++)
        if (from->used[i])
            *ct_map_add(to, from->entries[i].key) += from->entries[i].value;
}

static void merge(struct ct_phase_time *to, struct ct_phase_time *from) {
    to->stretches += from->stretches;
    to->end_ns = from->end_ns;
    to->duration_ns += from->duration_ns;
    to->events += from->events;
    to->taken_bytes += from->taken_bytes;
    to->taken_count += from->taken_count;
    to->kept_bytes += from->kept_bytes;
    to->given_back_bytes += from->given_back_bytes;
    to->given_back_count += from->given_back_count;
    to->peak_bytes = from->peak_bytes > to->peak_bytes ? from->peak_bytes : to->peak_bytes;
    to->rise_bytes = from->rise_bytes > to->rise_bytes ? from->rise_bytes : to->rise_bytes;
    add_taken(&to->taken, &from->taken);
    ct_map_free(&from->taken);
}

// The position of a phase, + 1; 0: it is new.
static size_t find(const struct ct_phase_times *p, const struct ct_phase_at *at, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (is_same(&p->list[i].at, at))
            return i + 1;
    return 0;
}

// Sums the stretches of each phase: then there are no more rows than phases.
static void sum_by_phase(struct ct_phase_times *p) {
    size_t n = 0;
    for (size_t i = 0; i < p->count; i++) {
        const size_t same = find(p, &p->list[i].at, n);
        if (same)
            merge(&p->list[same - 1], &p->list[i]);
        else
            p->list[n++] = p->list[i];
    }
    p->count = n;
    p->summed = 1;
}

static void note_peak(const struct ct_phase_times *p, struct ct_phase_time *now) {
    const uint64_t bytes = p->tracked_bytes;
    if (bytes > now->peak_bytes)
        now->peak_bytes = bytes;
    if (bytes > now->begin_bytes && bytes - now->begin_bytes > now->rise_bytes)
        now->rise_bytes = bytes - now->begin_bytes;
}

static void begin_stretch(struct ct_phase_times *p, const struct ct_phase_at *at, uint64_t t_ns) {
    if (p->current && is_same(&p->list[p->current - 1].at, at))
        return;
    end_stretch(p, t_ns);
    if (p->count == CT_PHASE_STRETCHES)
        sum_by_phase(p);
    p->current = p->summed ? find(p, at, p->count) : 0;
    if (!p->current) {
        p->list = ct_heap_resize(p->list, p->count + 1, sizeof *p->list);
        p->list[p->count++] = (struct ct_phase_time){.at = *at, .begin_ns = t_ns};
        p->current = p->count;
    }
    struct ct_phase_time *now = &p->list[p->current - 1];
    now->stretches++;
    now->end_ns = t_ns;
    now->first_event = p->event;
    now->begin_bytes = p->tracked_bytes;
    note_peak(p, now);
}

// ---- what is taken and given back ---------------------------------------------------------------

static int is_wanted(const struct ct_phase_times *p, int device) {
    return p->request.device < 0 || p->request.device == ct_device_to_index(device);
}

// Whether an old object that is freed is one that slept, and woke up in the present stretch.
static int takes_resumed(struct ct_phase_time *now, const struct ct_object *o) {
    if (!o->resumed || now->resumed_bytes < o->bytes)
        return 0;
    now->resumed_bytes -= o->bytes;
    return 1;
}

// Counts an object that is allocated (sign +1) or freed. `times` is -1 for one that was counted, or
// will be, and should not.
static void count(struct ct_phase_times *p, enum ct_holding_kind kind, const struct ct_object *o,
                  int sign, int times) {
    if (!p->current || !is_wanted(p, o->device))
        return;
    struct ct_phase_time *now = &p->list[p->current - 1];
    const uint64_t bytes = times < 0 ? 0 - o->bytes : o->bytes, one = (uint64_t)(int64_t)times;
    if (sign > 0) {
        now->taken_bytes += bytes;
        now->taken_count += one;
        *ct_map_add(&now->taken, (uint64_t)kind << 32 | o->stack) += bytes;
    } else {
        now->given_back_bytes += bytes;
        now->given_back_count += one;
    }
    if (sign > 0)
        now->live_bytes += bytes;
    else if (ct_object_event(o) >= now->first_event || takes_resumed(now, o))
        now->live_bytes -= bytes;
    if (sign > 0 && ct_object_event(o) < now->first_event)
        now->resumed_bytes += bytes;
}

// Memory of segments is counted by the blocks in it.
static void live_changed(void *user, const struct ct_object *o, int sign) {
    struct ct_phase_times *p = user;
    if (!(o->kind == CT_KIND_HANDLE && o->segment))
        count(p, CT_HOLDING_ALLOCATION, o, sign, +1);
}

static void block_changed(void *user, const struct ct_object *o, int sign) {
    count(user, CT_HOLDING_BLOCK, o, sign, +1);
}

// A VMM object turns out to resume a reservation: it is its first owner's.
static void owner_changed(void *user, const struct ct_object *o, uint32_t by) {
    struct ct_phase_times *p = user;
    if (!p->current || !is_wanted(p, o->device) || o->segment)
        return;
    struct ct_map *taken = &p->list[p->current - 1].taken;
    *ct_map_add(taken, (uint64_t)CT_HOLDING_ALLOCATION << 32 | by) -= o->bytes;
    *ct_map_add(taken, (uint64_t)CT_HOLDING_ALLOCATION << 32 | o->stack) += o->bytes;
}

// An allocation turns out to be a segment: it does not count as taken. One that is none any more is
// about to be freed, and does not count as given back.
static void segment_changed(void *user, const struct ct_object *o, int sign) {
    struct ct_phase_times *p = user;
    if (!ct_object_is_counted(&p->replay.live, o) || !p->current)
        return;
    if (sign < 0 || ct_object_event(o) >= p->list[p->current - 1].first_event)
        count(p, CT_HOLDING_ALLOCATION, o, sign, -1);
}

static void note_tracked(struct ct_phase_times *p, int device) {
    if (p->request.device >= 0 && p->request.device != device)
        return;
    const uint64_t tracked = ct_live_tracked(&p->replay.live.device[device]);
    p->tracked_bytes += tracked - p->tracked[device];
    p->tracked[device] = tracked;
}

static void note_all_tracked(struct ct_phase_times *p) {
    for (int d = 0; d < CT_MAX_DEVICES; d++)
        if (p->replay.readings.device[d].seen || p->tracked[d])
            note_tracked(p, d);
    note_tracked(p, CT_MAX_DEVICES);
}

// ---- the pass -----------------------------------------------------------------------------------

// Events of the recorder's own say nothing of what the program does.
static int is_of_program(const struct ct_event *e) {
    return !(CT_HAS(e, flags) && e->flags & CT_FLAG_NVML);
}

// Finds the stretch of an event by the frames of its stack; without any it stays the same.
static void follow_frames(struct ct_phase_times *p, const struct ct_event *e) {
    const struct ct_phase_at at = ct_phase_follow_event(&p->follow, e);
    const int has_python =
        CT_HAS(e, stack) && e->stack && ct_phases_has_python(p->request.phases, e->stack);
    if (!is_of_program(e))
        return;
    if (!at.inferred && (at.phase != CT_PHASE_UNKNOWN || has_python))
        begin_stretch(p, &at, e->t_ns);
    else if (!p->current)
        begin_stretch(p, &p->follow.last, e->t_ns);
}

// Finds the stretch of an event by what the program does.
static void follow_use(struct ct_phase_times *p, const struct ct_event *e) {
    const struct ct_phase_at idle = {.phase = CT_PHASE_IDLE, .inferred = 1};
    struct ct_phase_at at = {.phase = CT_PHASE_STARTUP, .inferred = 1};
    if (!is_of_program(e))
        return;
    if (e->t_ns >= p->started_ns)
        at.phase = CT_PHASE_STEADY;
    if (p->current && e->t_ns - p->last_ns >= p->idle_ns)
        begin_stretch(p, &idle, p->last_ns);
    begin_stretch(p, &at, e->t_ns);
    p->last_ns = e->t_ns;
}

static void follow(struct ct_phase_times *p, const struct ct_event *e) {
    if (!p->current) // what was live before the range
        note_all_tracked(p);
    if (p->by_frames)
        follow_frames(p, e);
    else
        follow_use(p, e);
    if (p->current)
        p->list[p->current - 1].events++;
}

static void begin_replay(struct ct_phase_times *p, struct ct_trace *t) {
    ct_replay_init(&p->replay, live_changed, p);
    p->replay.tiles = 1;
    p->replay.live.owner_changed = owner_changed;
    p->replay.watch = (struct ct_segment_watch){block_changed, segment_changed, p};
    memset(p->tracked, 0, sizeof p->tracked);
    p->tracked_bytes = 0;
    ct_trace_rewind(t);
}

// Reads the next event of the range; before it, those up to it are applied. NULL: there is none.
static const struct ct_event *read_event(struct ct_phase_times *p, struct ct_trace *t) {
    const struct ct_event *e;
    const size_t current = p->current;
    p->current = 0; // what checkpoints restore, and what was before, is not counted
    while ((e = ct_replay_next(&p->replay, t, &p->event)) && e->t_ns < p->request.from_ns) {
        (void)ct_phase_follow_event(&p->follow, e); // the phase in which the range begins
        ct_replay_apply(&p->replay, e, p->event);
    }
    p->current = current;
    return e && e->t_ns <= p->request.to_ns ? e : NULL;
}

static void apply(struct ct_phase_times *p, const struct ct_event *e) {
    ct_replay_apply(&p->replay, e, p->event);
    note_all_tracked(p);
    if (p->current)
        note_peak(p, &p->list[p->current - 1]);
}

static void end_replay(struct ct_phase_times *p, uint64_t last_ns) {
    end_stretch(p, last_ns);
    ct_replay_stop(&p->replay);
    ct_replay_free(&p->replay);
}

// ---- without frames -----------------------------------------------------------------------------

// The highest values of tracked memory so far, each at least a 64th higher than the one before: so
// few that all of them are kept.
struct heights {
    struct {
        uint64_t t_ns, bytes;
    } at[3000];
    size_t count;
    uint64_t peak;
};

static void note_height(struct heights *h, uint64_t bytes, uint64_t t_ns) {
    const size_t most = sizeof h->at / sizeof *h->at;
    const uint64_t before = h->count ? h->at[h->count - 1].bytes : 0;
    h->peak = bytes > h->peak ? bytes : h->peak;
    if (bytes <= before + before / 64 || h->count == most)
        return;
    h->at[h->count].t_ns = t_ns;
    h->at[h->count++].bytes = bytes;
}

// The start-up ends where nine tenths of the peak are reached first; a pause is idle if it is at
// least a second and a twentieth of the run.
static void find_start_up(struct ct_phase_times *p, struct ct_trace *t) {
    enum { IDLE_NS = 1000000000, IDLE_PART = 20 };
    struct heights *h = ct_heap_alloc_zeroed(1, sizeof *h);
    const struct ct_event *e;
    uint64_t first_ns = 0, last_ns = 0;
    begin_replay(p, t);
    while ((e = read_event(p, t))) {
        apply(p, e);
        first_ns = first_ns ? first_ns : e->t_ns;
        last_ns = e->t_ns;
        note_height(h, p->tracked_bytes, e->t_ns);
    }
    end_replay(p, last_ns);
    p->idle_ns = (last_ns - first_ns) / IDLE_PART;
    if (p->idle_ns < IDLE_NS)
        p->idle_ns = IDLE_NS;
    p->started_ns = UINT64_MAX;
    for (size_t i = h->count; i-- > 0 && h->at[i].bytes >= h->peak - h->peak / 10;)
        p->started_ns = h->at[i].t_ns;
    free(h);
}

// ---- interface ----------------------------------------------------------------------------------

void ct_phase_times_run(struct ct_phase_times *p, struct ct_trace *t,
                        const struct ct_phase_times_request *request) {
    const struct ct_event *e;
    uint64_t last_ns = 0;
    *p = (struct ct_phase_times){.request = *request, .follow = {.phases = request->phases}};
    p->by_frames = ct_phases_has_any(request->phases);
    if (!p->by_frames)
        find_start_up(p, t);
    begin_replay(p, t);
    while ((e = read_event(p, t))) {
        follow(p, e);
        apply(p, e);
        last_ns = e->t_ns;
        if (e->op == CT_OP_LOST)
            p->lost += CT_HAS(e, count) ? e->count : 1;
    }
    end_replay(p, last_ns);
}

static int compare_holdings(const void *a, const void *b) {
    const struct ct_holding *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return x->stack < y->stack ? -1 : x->stack > y->stack;
}

struct ct_holding *ct_phase_time_list(const struct ct_phase_time *time, size_t *count) {
    struct ct_holding *list = ct_heap_alloc_zeroed(time->taken.count + 1, sizeof *list);
    size_t n = 0;
    for (size_t i = 0; i < time->taken.capacity; i++) {
        const struct ct_map_entry *entry = &time->taken.entries[i];
        if (time->taken.used[i] && entry->value && entry->value <= INT64_MAX)
            list[n++] = (struct ct_holding){.kind = (enum ct_holding_kind)(entry->key >> 32),
                                            .stack = (uint32_t)entry->key,
                                            .bytes = entry->value,
                                            .count = 1};
    }
    qsort(list, n, sizeof *list, compare_holdings);
    *count = n;
    return list;
}

void ct_phase_times_free(struct ct_phase_times *p) {
    for (size_t i = 0; i < p->count; i++)
        ct_map_free(&p->list[i].taken);
    free(p->list);
    ct_phase_follow_free(&p->follow);
    *p = (struct ct_phase_times){0};
}
