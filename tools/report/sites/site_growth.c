// SPDX-License-Identifier: Apache-2.0
// The pass counts by group, not by stack: the least that a group held is not the sum of what its
// stacks held least.
#include "sites/site_growth.h"

#include <cutrace/format/assert.h>

#include "question/pass.h"

enum { PARTS = CT_SITE_GROWTH_PARTS };

// A group while the trace is replayed.
struct series {
    uint64_t least[PARTS];
    struct ct_least_held held; // of `least`
};

struct ct_site_growth_pass {
    const struct ct_site_growth_request *request;
    struct ct_site_groups *groups;
    struct ct_site_growth *growth;         // by group
    struct series *series;                 // by group
    uint32_t *position[CT_HOLDING_STACKS]; // by stack: its group, + 1; 0: none
    size_t stacks;
    const struct ct_replay *replay;
    uint64_t resets; // of it, so far
    struct ct_call_sites *sites;
    struct ct_growth_stretch stretch;
    struct ct_site_histories *histories; // NULL: none are wanted
    const struct ct_event *event;
    uint64_t number, known_event; // the first event after the last gap
    int in_range;
};

// ---- the stretch and its parts ------------------------------------------------------------------

static struct ct_growth_stretch make_stretch(uint64_t from, uint64_t to) {
    struct ct_growth_stretch s = {.from_ns = from < to ? from + (to - from) / 2 : to, .to_ns = to};
    s.known = to - s.from_ns >= CT_GROWTH_SHORTEST_NS;
    return s;
}

// From the first known event on, or from the beginning of the range.
static struct ct_growth_stretch make_stretch_from(const struct ct_site_growth_request *q,
                                                  uint64_t t_ns) {
    return make_stretch(t_ns > q->from_ns ? t_ns : q->from_ns, q->moment->t_ns);
}

static struct ct_least_stretch divide(const struct ct_growth_stretch *s) {
    return (struct ct_least_stretch){s->from_ns, s->to_ns, PARTS};
}

static void hold(struct ct_site_growth_pass *p, uint32_t group, uint64_t bytes) {
    const struct ct_least_stretch parts = divide(&p->stretch);
    const uint64_t now = p->event ? p->event->t_ns : 0;
    ct_least_held_add(&p->series[group].held, &parts, now, bytes);
    if (p->histories)
        ct_site_histories_hold(p->histories, group, now, bytes);
}

static void note_pool(struct ct_site_growth_pass *p) {
    const struct ct_torch_pool_device *d = &p->replay->pool.device[p->request->device];
    const uint64_t filled = d->segment_bytes - d->free[0].bytes - d->free[1].bytes;
    const struct ct_pool_history *known = &p->histories->pool;
    if (p->replay->pool.on && (d->segment_bytes != known->reserved.held || filled != known->filled))
        ct_site_histories_note_pool(p->histories, p->event ? p->event->t_ns : 0, d->segment_bytes,
                                    filled);
}

// After a gap: the time before it tells nothing.
static void restart(struct ct_site_growth_pass *p, uint64_t t_ns) {
    p->stretch = make_stretch(t_ns, p->request->moment->t_ns);
    for (size_t i = 0; i < p->groups->count; i++)
        ct_least_held_restart(&p->series[i].held, 0);
    if (!p->histories)
        return;
    note_pool(p);
    ct_site_histories_restart(p->histories, t_ns);
}

// ---- changes ------------------------------------------------------------------------------------

static uint32_t find_position(const struct ct_site_growth_pass *p, enum ct_holding_kind kind,
                              uint32_t stack) {
    return stack < p->stacks && p->position[kind] ? p->position[kind][stack] : 0;
}

static void add_held(struct ct_site_growth_pass *p, enum ct_holding_kind kind,
                     const struct ct_object *o, int sign) {
    const uint32_t at = find_position(p, kind, o->stack);
    if (at)
        hold(p, at - 1, sign < 0 ? 0 - o->bytes : o->bytes);
}

static void add_taken(struct ct_site_growth_pass *p, enum ct_holding_kind kind,
                      const struct ct_object *o, int sign) {
    const uint32_t at = find_position(p, kind, o->stack);
    if (!at)
        return;
    struct ct_site_growth *g = &p->growth[at - 1];
    g->taken_bytes += sign < 0 ? 0 - o->bytes : o->bytes;
    g->taken_count += (uint64_t)(int64_t)sign;
}

static void add_given_back(struct ct_site_growth_pass *p, enum ct_holding_kind kind,
                           const struct ct_object *o, int sign) {
    const uint32_t at = find_position(p, kind, o->stack);
    const uint64_t number = ct_object_allocations(&p->replay->live, o);
    if (!at)
        return;
    struct ct_site_growth *g = &p->growth[at - 1];
    g->given_back_bytes += sign < 0 ? 0 - o->bytes : o->bytes;
    g->given_back_count += sign < 0 ? 0 - number : number;
    if (p->histories && o->kind != CT_KIND_SITE_SUM) // whose own times are not known
        ct_site_histories_give_back(p->histories, at - 1, o->t_ns, p->event->t_ns, sign);
}

// Whether an object was allocated in the range, and is not one that was restored.
static int was_taken(const struct ct_site_growth_pass *p, const struct ct_object *o) {
    return o->t_ns >= p->request->from_ns && ct_object_event(o) >= p->known_event;
}

static int is_wanted(const struct ct_site_growth_pass *p, const struct ct_object *o) {
    return ct_device_to_index(o->device) == p->request->device;
}

static void live_changed(void *user, const struct ct_object *o, int sign) {
    struct ct_site_growth_pass *p = user;
    if (!is_wanted(p, o))
        return;
    const int is_handle = o->kind == CT_KIND_HANDLE;
    add_held(p, is_handle && o->segment ? CT_HOLDING_SEGMENT : CT_HOLDING_ALLOCATION, o, sign);
    if (!p->in_range)
        return;
    if (sign > 0) // as a segment, if it turns out to be one
        add_taken(p, CT_HOLDING_ALLOCATION, o, +1);
    else if (is_handle && ct_live_traits(&p->replay->live, o)->was_segment)
        add_given_back(p, CT_HOLDING_SEGMENT, o, +1);
    else
        add_given_back(p, CT_HOLDING_ALLOCATION, o, +1);
}

// A VMM object turns out to resume a reservation: it is its first owner's, from the beginning.
static void owner_changed(void *user, const struct ct_object *o, uint32_t by) {
    struct ct_site_growth_pass *p = user;
    struct ct_object before = *o;
    const enum ct_holding_kind kind = o->segment ? CT_HOLDING_SEGMENT : CT_HOLDING_ALLOCATION;
    if (!is_wanted(p, o))
        return;
    before.stack = by;
    add_held(p, kind, &before, -1);
    add_held(p, kind, o, +1);
    if (!p->in_range || !was_taken(p, o))
        return;
    add_taken(p, kind, &before, -1);
    add_taken(p, kind, o, +1);
}

// A block joins or leaves the rows with its memory, too: only its own events count as taken and
// given back.
static void block_changed(void *user, const struct ct_object *o, int sign) {
    struct ct_site_growth_pass *p = user;
    if (!is_wanted(p, o))
        return;
    add_held(p, CT_HOLDING_BLOCK, o, sign);
    if (!p->in_range || !ct_op_is_block(p->event->op))
        return;
    if (sign > 0 && ct_object_event(o) == p->number)
        add_taken(p, CT_HOLDING_BLOCK, o, +1);
    else if (sign < 0 && CT_HAS(p->event, ptr) && p->event->ptr == o->key)
        add_given_back(p, CT_HOLDING_BLOCK, o, +1);
}

static void segment_changed(void *user, const struct ct_object *o, int sign) {
    struct ct_site_growth_pass *p = user;
    const struct ct_live *l = &p->replay->live;
    if (!is_wanted(p, o) || !ct_object_is_counted(l, o))
        return;
    add_held(p, CT_HOLDING_SEGMENT, o, sign);
    add_held(p, CT_HOLDING_ALLOCATION, o, -sign);
    if (!p->in_range)
        return;
    if (sign < 0 && o->kind != CT_KIND_HANDLE) { // it is being freed
        add_given_back(p, CT_HOLDING_SEGMENT, o, +1);
        add_given_back(p, CT_HOLDING_ALLOCATION, o, -1);
    } else if (sign > 0 && !ct_live_traits(l, o)->was_segment && was_taken(p, o)) {
        add_taken(p, CT_HOLDING_SEGMENT, o, +1);
        add_taken(p, CT_HOLDING_ALLOCATION, o, -1);
    }
}

// ---- histories ----------------------------------------------------------------------------------

static void note_event(struct ct_site_growth_pass *p) {
    if (!p->histories)
        return;
    note_pool(p);
    if (p->event->op == CT_OP_LOST)
        p->histories->lost += CT_HAS(p->event, count) ? p->event->count : 1;
}

static void read_births(struct ct_site_growth_pass *p) {
    const struct ct_live *l = &p->replay->live;
    enum ct_holding_kind kind;
    for (uint32_t i = 0; i < ct_live_slot_count(l); i++) {
        const struct ct_object *o = ct_live_object_at(l, i);
        if (!o || !ct_live_at_classify(p->replay, o, p->request->device, &kind))
            continue;
        const uint32_t at = find_position(p, kind, o->stack);
        const struct ct_site_birth b = {o->kind == CT_KIND_SITE_SUM ? 0 : o->t_ns, o->bytes,
                                        ct_object_allocations(l, o)};
        if (at)
            ct_site_histories_add_live(p->histories, at - 1, &b);
    }
    ct_site_histories_end(p->histories);
}

// ---- the pass -----------------------------------------------------------------------------------

static void find_positions(struct ct_site_growth_pass *p, struct ct_call_sites *sites) {
    const enum ct_holding_kind kinds[] = {
        CT_HOLDING_ALLOCATION,
        p->request->rows == CT_ROWS_BY_BLOCK ? CT_HOLDING_BLOCK : CT_HOLDING_SEGMENT};
    p->stacks = sites->definitions->stack_count;
    for (unsigned k = 0; k < 2; k++) {
        p->position[kinds[k]] = ct_heap_alloc_zeroed(p->stacks, sizeof **p->position);
        for (size_t i = 0; i < p->stacks; i++)
            p->position[kinds[k]][i] =
                (uint32_t)ct_site_groups_find(p->groups, sites, kinds[k], (uint32_t)i);
    }
}

// Objects that a checkpoint restores, between two events, are not taken.
static int before_event(void *self, const struct ct_replay *r, const struct ct_event *e,
                        uint64_t number) {
    struct ct_site_growth_pass *p = self;
    if (r->resets != p->resets) {
        p->known_event = number;
        restart(p, e->t_ns > p->request->from_ns ? e->t_ns : p->request->from_ns);
    }
    p->resets = r->resets;
    p->event = e;
    p->number = number;
    p->in_range = e->t_ns >= p->request->from_ns;
    return 1;
}

static void after_event(void *self, const struct ct_replay *r, const struct ct_event *e,
                        uint64_t number) {
    struct ct_site_growth_pass *p = self;
    (void)r;
    (void)e;
    (void)number;
    note_event(p);
    p->event = NULL;
    p->in_range = 0;
}

static void read_held(struct ct_site_growth_pass *p) {
    struct ct_live_totals now;
    ct_live_at_read(&now, p->replay, p->request->device, p->request->rows);
    for (size_t i = 0; i < now.holding_count; i++) {
        const struct ct_holding *h = &now.holdings[i];
        const size_t at = ct_site_groups_find(p->groups, p->sites, h->kind, h->stack);
        if (!at)
            continue;
        struct ct_site_growth *g = &p->groups->list[at - 1].growth;
        g->bytes += h->bytes;
        g->count += h->count;
        if (h->oldest_ns && (!g->oldest_ns || h->oldest_ns < g->oldest_ns))
            g->oldest_ns = h->oldest_ns;
    }
    ct_live_at_free(&now);
}

static void compare_parts(struct ct_site_growth *g, struct series *s) {
    ct_least_held_advance(&s->held, PARTS - 1);
    g->bytes_of_growth = (int64_t)(s->least[PARTS - 1] - s->least[0]);
    for (unsigned i = 1; i < PARTS; i++)
        g->rises += s->least[i] > s->least[i - 1];
}

static void end_pass(void *self, const struct ct_replay *r) {
    struct ct_site_growth_pass *p = self;
    struct ct_site_groups *g = p->groups;
    (void)r;
    for (size_t i = 0; i < g->count; i++)
        g->list[i].growth = p->growth[i];
    read_held(p);
    if (p->histories)
        read_births(p);
    for (size_t i = 0; i < g->count; i++)
        if (p->stretch.known && g->list[i].kind != CT_HOLDING_IDLE)
            compare_parts(&g->list[i].growth, &p->series[i]);
}

static void begin_counts(struct ct_site_growth_pass *p) {
    const size_t n = p->groups->count;
    p->growth = ct_heap_alloc_zeroed(n, sizeof *p->growth);
    p->series = ct_heap_alloc_zeroed(n, sizeof *p->series);
    for (size_t i = 0; i < n; i++)
        p->series[i].held.least = p->series[i].least;
    if (p->histories)
        ct_site_histories_begin(p->histories, n);
}

// ---- interface ----------------------------------------------------------------------------------

struct ct_site_growth_pass *ct_site_growth_join(struct ct_listeners *to, struct ct_site_groups *g,
                                                struct ct_call_sites *sites,
                                                const struct ct_trace *t,
                                                const struct ct_site_growth_request *request) {
    struct ct_site_growth_pass *p = ct_heap_alloc_zeroed(1, sizeof *p);
    p->request = request;
    p->groups = g;
    p->sites = sites;
    p->histories = request->histories;
    p->replay = to->replay;
    p->stretch = make_stretch_from(request, t->t_first_ns);
    begin_counts(p);
    find_positions(p, sites);
    const struct ct_listener a = {.self = p,
                                  .end_event = request->moment->event + 1,
                                  .end_ns = request->moment->t_ns + 1,
                                  .before = before_event,
                                  .after = after_event,
                                  .end = end_pass,
                                  .live_changed = live_changed,
                                  .owner_changed = owner_changed,
                                  .block_changed = block_changed,
                                  .segment_changed = segment_changed,
                                  .needs_no_readings = 1};
    ct_listeners_add(to, &a);
    return p;
}

struct ct_growth_stretch ct_site_growth_finish(struct ct_site_growth_pass *p) {
    const struct ct_growth_stretch stretch = p->stretch;
    for (unsigned kind = 0; kind < CT_HOLDING_STACKS; kind++)
        free(p->position[kind]);
    free(p->growth);
    free(p->series);
    free(p);
    return stretch;
}

struct ct_growth_stretch ct_site_growth_measure(struct ct_site_groups *g,
                                                struct ct_call_sites *sites, struct ct_trace *t,
                                                const struct ct_site_growth_request *request) {
    struct ct_pass pass;
    ct_pass_init(&pass, NULL);
    struct ct_site_growth_pass *p = ct_site_growth_join(&pass.listeners, g, sites, t, request);
    ct_pass_run(&pass, t);
    ct_pass_free(&pass);
    return ct_site_growth_finish(p);
}

int64_t ct_site_growth_in(const struct ct_growth_stretch *s, int64_t bytes, uint64_t ns) {
    const uint64_t between = (s->to_ns - s->from_ns) / PARTS * (PARTS - 1); // first to last part
    const uint64_t size = bytes < 0 ? 0 - (uint64_t)bytes : (uint64_t)bytes;
    CT_ASSERT(s->known);
    const unsigned __int128 grown = ((unsigned __int128)size * ns + between / 2) / between;
    const int64_t most = grown > INT64_MAX ? INT64_MAX : (int64_t)grown;
    return bytes < 0 ? -most : most;
}
