// SPDX-License-Identifier: Apache-2.0
// One pass over the events; where the stacks name no phase, another one before it.
#include "analyze/phase_times.h"

#include "base/heap.h"

// ---- tracked memory -----------------------------------------------------------------------------

static void note_device(struct ct_phase_tracked *t, const struct ct_replay *r, int device) {
    const uint64_t tracked = ct_live_tracked(&r->live.device[device]);
    t->bytes += tracked - t->of[device];
    t->of[device] = tracked;
}

// `device`: the wanted one, -1: all.
static void note_tracked(struct ct_phase_tracked *t, const struct ct_replay *r, int device) {
    for (int d = 0; d < CT_DEVICES; d++)
        if ((device < 0 || device == d) &&
            (d == CT_MAX_DEVICES || r->readings.device[d].seen || t->of[d]))
            note_device(t, r, d);
}

// ---- stretches ----------------------------------------------------------------------------------

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
        if (ct_phases_equal(&p->list[i].at, at))
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
    const uint64_t bytes = p->tracked.bytes;
    if (bytes > now->peak_bytes)
        now->peak_bytes = bytes;
    if (bytes > now->begin_bytes && bytes - now->begin_bytes > now->rise_bytes)
        now->rise_bytes = bytes - now->begin_bytes;
}

// The row of a stretch. Ranges beyond the first CT_PHASE_RANGES different ones share one.
static struct ct_phase_at row_of(const struct ct_phase_times *p, const struct ct_phase_at *at) {
    static const struct ct_string others = {"(other ranges)", sizeof "(other ranges)" - 1};
    struct ct_phase_at row = *at;
    if (at->phase != CT_PHASE_RANGE)
        row.range = (struct ct_string){.at = NULL};
    else if (p->summed && p->count >= CT_PHASE_RANGES && !find(p, at, p->count))
        row.range = others;
    return row;
}

static void begin_stretch(struct ct_phase_times *p, const struct ct_phase_at *event_at,
                          uint64_t t_ns) {
    const struct ct_phase_at row = row_of(p, event_at), *const at = &row;
    if (p->current && ct_phases_equal(&p->list[p->current - 1].at, at))
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
    now->begin_bytes = p->tracked.bytes;
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
    if (!ct_object_is_counted(&p->replay->live, o) || !p->current)
        return;
    if (sign < 0 || ct_object_event(o) >= p->list[p->current - 1].first_event)
        count(p, CT_HOLDING_ALLOCATION, o, sign, -1);
}

// ---- the pass -----------------------------------------------------------------------------------

// Events of the recorder's own say nothing of what the program does.
static int is_of_program(const struct ct_event *e) {
    return !(CT_HAS(e, flags) && e->flags & CT_FLAG_NVML);
}

// Finds the stretch of an event by the frames of its stack; without any it stays the same.
static void follow_frames(struct ct_phase_times *p, const struct ct_event *e) {
    const struct ct_phase_at *at = ct_phase_follow_event(&p->follow, e);
    const int has_python =
        CT_HAS(e, stack) && e->stack && ct_phases_has_python(p->request.phases, e->stack);
    if (!is_of_program(e))
        return;
    if (at->by_range || (!at->inferred && (at->phase != CT_PHASE_UNKNOWN || has_python)))
        begin_stretch(p, at, e->t_ns);
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
        note_tracked(&p->tracked, p->replay, p->request.device);
    if (p->by_frames)
        follow_frames(p, e);
    else
        follow_use(p, e);
    if (p->current)
        p->list[p->current - 1].events++;
}

// What checkpoints restore, and what was before the range, is not counted: then there is no current
// stretch.
static int before_event(void *self, const struct ct_replay *r, const struct ct_event *e,
                        uint64_t number) {
    struct ct_phase_times *p = self;
    p->follow.open = &r->live.open;
    p->is_in_range = e->t_ns >= p->request.from_ns;
    if (!p->is_in_range) {
        (void)ct_phase_follow_event(&p->follow, e); // the phase in which the range begins
        return 1;
    }
    p->event = number;
    p->current = p->paused;
    follow(p, e);
    return 1;
}

static void after_event(void *self, const struct ct_replay *r, const struct ct_event *e,
                        uint64_t number) {
    struct ct_phase_times *p = self;
    if (!p->is_in_range)
        return;
    ct_program_marks_note(&p->marks, e, number);
    note_tracked(&p->tracked, r, p->request.device);
    if (p->current)
        note_peak(p, &p->list[p->current - 1]);
    p->seen_ns = e->t_ns;
    if (e->op == CT_OP_LOST)
        p->lost += CT_HAS(e, count) ? e->count : 1;
    p->paused = p->current;
    p->current = 0;
}

// In a gap nothing is known of the phase.
static int before_gap(void *self, const struct ct_replay *r, uint64_t number, uint64_t next_ns) {
    struct ct_phase_times *p = self;
    (void)r;
    (void)number;
    (void)next_ns;
    p->current = p->paused;
    end_stretch(p, p->seen_ns);
    p->current = p->paused = 0;
    return 1;
}

static void end_pass(void *self, const struct ct_replay *r) {
    struct ct_phase_times *p = self;
    (void)r;
    p->current = p->paused;
    end_stretch(p, p->seen_ns);
    p->replay = NULL;
}

// ---- without frames -----------------------------------------------------------------------------

static void note_height(struct ct_phase_start_up *u, uint64_t bytes, uint64_t t_ns) {
    const uint64_t before = u->count ? u->heights[u->count - 1].bytes : 0;
    u->peak = bytes > u->peak ? bytes : u->peak;
    if (bytes <= before + before / 64 || u->count == CT_PHASE_HEIGHTS)
        return;
    u->heights[u->count].t_ns = t_ns;
    u->heights[u->count++].bytes = bytes;
}

void ct_phase_start_up_note(struct ct_phase_start_up *u, const struct ct_replay *r,
                            const struct ct_event *e) {
    const struct ct_phase_times_request *q = &u->request;
    if (e->t_ns < q->from_ns || e->t_ns > q->to_ns)
        return;
    note_tracked(&u->tracked, r, q->device);
    u->first_ns = u->first_ns ? u->first_ns : e->t_ns;
    u->last_ns = e->t_ns;
    note_height(u, u->tracked.bytes, e->t_ns);
}

// The start-up ends where nine tenths of the peak are reached first; a pause is idle if it is at
// least a second and a twentieth of the run.
static void use_start_up(struct ct_phase_times *p, const struct ct_phase_start_up *u) {
    enum { IDLE_NS = 1000000000, IDLE_PART = 20 };
    p->idle_ns = (u->last_ns - u->first_ns) / IDLE_PART;
    if (p->idle_ns < IDLE_NS)
        p->idle_ns = IDLE_NS;
    p->started_ns = UINT64_MAX;
    for (size_t i = u->count; i-- > 0 && u->heights[i].bytes >= u->peak - u->peak / 10;)
        p->started_ns = u->heights[i].t_ns;
}

static void note_start_up(void *self, const struct ct_replay *r, const struct ct_event *e,
                          uint64_t number) {
    (void)number;
    ct_phase_start_up_note(self, r, e);
}

struct ct_listener ct_phase_start_up_listener(struct ct_phase_start_up *u) {
    return (struct ct_listener){.self = u, .end_ns = u->request.to_ns + 1, .after = note_start_up};
}

// ---- interface ----------------------------------------------------------------------------------

int ct_phase_times_need_start_up(const struct ct_phase_times_request *request) {
    return !ct_phases_has_any(request->phases) &&
           !ct_ranges_are_heard(request->phases->definitions);
}

void ct_phase_times_join(struct ct_phase_times *p, struct ct_listeners *to,
                         const struct ct_phase_times_request *request,
                         const struct ct_phase_start_up *u) {
    const struct ct_listener a = {.self = p,
                                  .end_ns = request->to_ns + 1,
                                  .before = before_event,
                                  .after = after_event,
                                  .end = end_pass,
                                  .before_gap = before_gap,
                                  .live_changed = live_changed,
                                  .owner_changed = owner_changed,
                                  .block_changed = block_changed,
                                  .segment_changed = segment_changed};
    *p = (struct ct_phase_times){.request = *request, .follow = {.phases = request->phases}};
    p->by_frames = !ct_phase_times_need_start_up(request);
    p->replay = to->replay;
    ct_program_marks_init(&p->marks, request->phases->definitions, request->marks_from_ns,
                          request->marks_to_ns);
    if (!p->by_frames)
        use_start_up(p, u);
    ct_listeners_add(to, &a);
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
