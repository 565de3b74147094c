// SPDX-License-Identifier: Apache-2.0
#include "layout/notable_moments.h"

#include <stdlib.h>

#include "base/heap.h"

// Failed allocations whose neighbourhood is shown event by event, and how many events of it.
enum { MOST_FAILURES = 4, BEFORE_FAILURE = 400, BEHIND_FAILURE = 100 };

struct extreme {
    int known;
    uint64_t event, value;
};

enum { LOW, HIGH, LOW_BLOCKS, HIGH_BLOCKS, EXTREMES };

struct part {
    int known;
    uint64_t first, last;
    struct extreme of[EXTREMES];
};

struct window {
    uint64_t from, to; // events
};

// A state after an event.
struct state {
    int known;
    uint64_t event, t_ns, live, blocks;
    uint32_t thread;
};

struct ct_notable_pass {
    const struct ct_scan *scan;
    int device;
    uint64_t from_ns, to_ns;
    const struct ct_replay *replay;
    uint64_t resets; // of it, so far
    struct ct_notable_moments *found;
    size_t room;
    struct part *parts;
    struct window windows[MOST_FAILURES];
    unsigned window_count;
    uint64_t live, blocks; // at the moment that was added last
    struct state pending;  // after an allocation whose block may be the next event
};

static void add(struct ct_notable_pass *p, uint64_t event) {
    CT_HEAP_GROW(p->found->events, p->found->count, p->room);
    p->found->events[p->found->count++] = event;
}

static int compare(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

// ---- failed allocations ------------------------------------------------------------------------

static void add_window(struct ct_notable_pass *p, uint64_t event) {
    if (p->window_count == MOST_FAILURES)
        return;
    p->windows[p->window_count++] =
        (struct window){event > BEFORE_FAILURE ? event - BEFORE_FAILURE : 0,
                        event < UINT64_MAX - BEHIND_FAILURE ? event + BEHIND_FAILURE : UINT64_MAX};
}

static void add_failure(struct ct_notable_pass *p, size_t incident) {
    const uint64_t event = ct_incidents_head(&p->scan->incidents, incident)->event;
    add(p, event);
    add_window(p, event);
    p->found->failures[p->found->failure_count++] = incident;
}

static void add_failures(struct ct_notable_pass *p) {
    const struct ct_incidents *n = &p->scan->incidents;
    const struct ct_oom_event *crossing = ct_scan_find_crossing(p->scan);
    for (size_t k = 0; k < n->count; k++) // (with a budget, the crossing is no incident)
        if (ct_incidents_head(n, k) == crossing && crossing->device == p->device)
            add_failure(p, k);
    for (size_t k = n->count; k-- > 0 && p->found->failure_count < CT_NOTABLE_FAILURES;) {
        const struct ct_oom_event *head = ct_incidents_head(n, k);
        if (head->device == p->device && head != crossing)
            add_failure(p, k);
    }
    qsort(p->found->failures, p->found->failure_count, sizeof *p->found->failures, compare);
}

static int is_near_failure(const struct ct_notable_pass *p, uint64_t event) {
    for (unsigned i = 0; i < p->window_count; i++)
        if (event >= p->windows[i].from && event <= p->windows[i].to)
            return 1;
    return 0;
}

// ---- parts of the time -------------------------------------------------------------------------

static struct part *find_part(struct ct_notable_pass *p, uint64_t t_ns) {
    const uint64_t span = p->to_ns > p->from_ns ? p->to_ns - p->from_ns + 1 : 1;
    const uint64_t in = t_ns > p->from_ns ? t_ns - p->from_ns : 0;
    const uint64_t at = (uint64_t)((unsigned __int128)in * CT_NOTABLE_PARTS / span);
    return &p->parts[at < CT_NOTABLE_PARTS ? at : CT_NOTABLE_PARTS - 1];
}

static void note_low(struct extreme *x, uint64_t value, uint64_t event) {
    if (!x->known || value < x->value)
        *x = (struct extreme){1, event, value};
}

static void note_high(struct extreme *x, uint64_t value, uint64_t event) {
    if (!x->known || value > x->value)
        *x = (struct extreme){1, event, value};
}

static void note_state(struct ct_notable_pass *p, const struct state *s) {
    struct part *part = find_part(p, s->t_ns);
    if (!part->known)
        part->first = s->event;
    part->known = 1;
    part->last = s->event;
    note_low(&part->of[LOW], s->live, s->event);
    note_high(&part->of[HIGH], s->live, s->event);
    note_low(&part->of[LOW_BLOCKS], s->blocks, s->event);
    note_high(&part->of[HIGH_BLOCKS], s->blocks, s->event);
    if (is_near_failure(p, s->event) && (s->live != p->live || s->blocks != p->blocks)) {
        add(p, s->event);
        p->live = s->live;
        p->blocks = s->blocks;
    }
}

static int allocates(const struct ct_event *e) {
    return e->op == CT_OP_ALLOC || e->op == CT_OP_CREATE || e->op == CT_OP_MAP;
}

// PyTorch takes memory for a block: between the two events it seems to be of no pool. The state
// after the block stands for both.
static void note(struct ct_notable_pass *p, const struct ct_event *e, uint64_t number) {
    const struct ct_live_device *d = &p->replay->live.device[p->device];
    const uint32_t thread = CT_GET(e, thread);
    const struct state now = {1, number, e->t_ns, d->live_bytes, d->block_bytes, thread};
    const struct state *before = &p->pending;
    if (before->known && !(before->thread == thread && before->live == now.live &&
                           (ct_op_is_block(e->op) || e->op == CT_OP_MAP)))
        note_state(p, before);
    p->pending.known = 0;
    if (allocates(e) && p->replay->live.has_blocks)
        p->pending = now;
    else
        note_state(p, &now);
}

static void add_parts(struct ct_notable_pass *p) {
    for (unsigned i = 0; i < CT_NOTABLE_PARTS; i++) {
        const struct part *part = &p->parts[i];
        p->found->last[i] = part->known ? part->last : UINT64_MAX;
        if (!part->known)
            continue;
        add(p, part->first);
        add(p, part->last);
        for (unsigned k = 0; k < EXTREMES; k++)
            add(p, part->of[k].event);
    }
}

static void add_marks(struct ct_notable_pass *p) {
    for (unsigned i = 0; i < CT_PROGRAM_MARKS; i++)
        if (p->found->marks.part[i].count)
            add(p, p->found->marks.part[i].event);
}

// ---- addresses ---------------------------------------------------------------------------------

static void live_changed(void *user, const struct ct_object *o, int sign) {
    struct ct_notable_pass *p = user;
    if (sign > 0 && o->kind == CT_KIND_ADDRESS && ct_device_to_index(o->device) == p->device)
        ct_address_axis_add(&p->found->axis, o->key, o->bytes);
}

static void note_mapping(struct ct_notable_pass *p, const struct ct_event *e) {
    if (e->op == CT_OP_MAP && CT_HAS(e, ptr) && CT_HAS(e, bytes) &&
        ct_event_device_index(e) == p->device && !(CT_HAS(e, result) && e->result))
        ct_address_axis_add(&p->found->axis, e->ptr, e->bytes);
}

// What a checkpoint has restored.
static void note_restored_mappings(struct ct_notable_pass *p) {
    const struct ct_live *l = &p->replay->live;
    for (uint32_t i = 0; i < ct_live_slot_count(l); i++) {
        const struct ct_object *o = ct_live_object_at(l, i);
        if (o && o->kind == CT_KIND_MAPPING)
            ct_address_axis_add(&p->found->axis, o->key, o->bytes);
    }
}

// ---- the pass ----------------------------------------------------------------------------------

static int before_event(void *self, const struct ct_replay *r, const struct ct_event *e,
                        uint64_t number) {
    struct ct_notable_pass *p = self;
    (void)e;
    (void)number;
    if (r->resets != p->resets)
        note_restored_mappings(p);
    p->resets = r->resets;
    return 1;
}

static void after_event(void *self, const struct ct_replay *r, const struct ct_event *e,
                        uint64_t number) {
    struct ct_notable_pass *p = self;
    (void)r;
    note_mapping(p, e);
    ct_program_marks_note(&p->found->marks, e, number);
    if (e->t_ns >= p->from_ns)
        note(p, e, number);
}

static void sort(struct ct_notable_moments *m) {
    size_t n = 0;
    if (m->count)
        qsort(m->events, m->count, sizeof *m->events, compare);
    for (size_t i = 0; i < m->count; i++)
        if (!n || m->events[n - 1] != m->events[i])
            m->events[n++] = m->events[i];
    m->count = n;
}

static void end_pass(void *self, const struct ct_replay *r) {
    struct ct_notable_pass *p = self;
    struct ct_notable_moments *m = p->found;
    if (p->pending.known)
        note_state(p, &p->pending);
    m->slots = ct_live_slot_count(&r->live);
    add_parts(p);
    add_marks(p);
    sort(m);
    ct_address_axis_finish(&m->axis);
    free(p->parts);
    free(p);
}

void ct_notable_moments_join(struct ct_listeners *to, struct ct_notable_moments *m,
                             const struct ct_trace *t, const struct ct_scan *s, int device) {
    struct ct_notable_pass *p = ct_heap_alloc_zeroed(1, sizeof *p);
    *m = (struct ct_notable_moments){0};
    *p = (struct ct_notable_pass){.scan = s, .device = device, .found = m, .replay = to->replay};
    p->from_ns = s->request.from_ns > t->t_first_ns ? s->request.from_ns : t->t_first_ns;
    p->to_ns = s->request.to_ns < t->t_last_ns ? s->request.to_ns : t->t_last_ns;
    ct_program_marks_init(&m->marks, &t->definitions, p->from_ns, p->to_ns);
    p->parts = ct_heap_alloc_zeroed(CT_NOTABLE_PARTS, sizeof *p->parts);
    add_failures(p);
    if (s->device[device].peak_known)
        add(p, s->device[device].peak_event);
    const struct ct_listener a = {.self = p,
                                  .end_ns = p->to_ns + 1,
                                  .before = before_event,
                                  .after = after_event,
                                  .end = end_pass,
                                  .live_changed = live_changed};
    ct_listeners_add(to, &a);
}

void ct_notable_moments_free(struct ct_notable_moments *m) {
    free(m->events);
    ct_address_axis_free(&m->axis);
    *m = (struct ct_notable_moments){0};
}
