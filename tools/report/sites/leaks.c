// SPDX-License-Identifier: Apache-2.0
// Two passes: the first finds what is live at the moment and where the start-up ends, the second
// (site_growth.h) what each call site held since then.
#include "sites/leaks.h"

#include "analyze/coarse_history.h"
#include "analyze/start_up.h"
#include "base/heap.h"
#include "question/pass.h"

#define HOUR UINT64_C(3600000000000)

enum {
    PARTS = CT_SITE_HISTORY_PARTS,
    LOOP_LEAST = 16,      // allocations of one size
    LOOP_OTHERS_PART = 8, // of what they took is what others may have kept meanwhile
};

// ---- the time that is judged -------------------------------------------------------------------

static void set_window(struct ct_leaks *l, const struct ct_start_up *u, const struct ct_trace *t,
                       const struct ct_leaks_request *q) {
    const uint64_t start_up = ct_start_up_end(u);
    const uint64_t first = ct_coarse_history_start(t);
    l->is_start_up_known = start_up != 0;
    l->from_ns = q->from_ns > first ? q->from_ns : first;
    if (start_up > l->from_ns)
        l->from_ns = start_up;
    l->to_ns = q->moment->t_ns;
    l->shortest_ns =
        l->is_start_up_known ? CT_LEAKS_SHORTEST_NS : CT_LEAKS_SHORTEST_WITHOUT_PHASES_NS;
    l->ends_in_oom = l->is_start_up_known && q->moment->kind == CT_MOMENT_OOM;
}

// ---- the state at the moment -------------------------------------------------------------------

struct ct_leaks_finder {
    struct ct_leaks *leaks;
    struct ct_leaks_request request;
    struct ct_trace *trace;
    // What the first pass finds.
    struct ct_start_up start_up;
    struct ct_untracked_curve untracked;
    uint64_t failed_bytes; // that the moment's OOM asked for; 0: not known
    struct ct_live_totals now;
    // The second pass.
    struct ct_site_growth_request growth_request;
    struct ct_site_growth_pass *growth;
    struct ct_site_histories histories;
};

static int before_event(void *self, const struct ct_replay *r, const struct ct_event *e,
                        uint64_t number) {
    struct ct_leaks_finder *f = self;
    (void)r;
    (void)number;
    ct_start_up_note_event(&f->start_up, e);
    return 1;
}

static void after_event(void *self, const struct ct_replay *r, const struct ct_event *e,
                        uint64_t number) {
    struct ct_leaks_finder *f = self;
    const struct ct_moment *m = f->request.moment;
    ct_untracked_curve_note(&f->untracked, r, f->request.device, e);
    if (m->kind == CT_MOMENT_OOM && number == m->event && CT_HAS(e, bytes))
        f->failed_bytes = e->bytes;
}

static void read_moment(struct ct_leaks *l, struct ct_live_totals *now, const struct ct_replay *r,
                        const struct ct_leaks_request *q) {
    ct_live_at_read(now, r, q->device, q->rows);
    l->rows = now->rows;
    l->live_bytes = now->bytes;
    l->free_known = now->split.used_known;
    l->free_bytes = now->split.free;
    l->idle_bytes = ct_live_at_find_idle(r, q->device).bytes;
}

static void read_pool(struct ct_leaks *l, const struct ct_replay *r, int device) {
    const struct ct_torch_pool_totals p = ct_torch_pool_totals(&r->pool, &r->live, device);
    if (!p.known)
        return;
    l->pool.reserved = p.segment_bytes;
    l->pool.filled = p.segment_bytes - p.free.bytes;
}

static void end_first_pass(void *self, const struct ct_replay *r) {
    struct ct_leaks_finder *f = self;
    ct_start_up_note_live(&f->start_up, &r->live);
    read_moment(f->leaks, &f->now, r, &f->request);
    read_pool(f->leaks, r, f->request.device);
}

// ---- what overwritten events held --------------------------------------------------------------

// A cell of the coarse history, with what of all that is live at the moment was live then.
struct past_cell {
    uint64_t begin_ns, end_ns, least, last, live_at_begin, live_at_end;
};

struct past {
    struct past_cell *cells; // in the order of time
    size_t count;
};

static int compare_times(const void *a, const void *b) {
    const struct ct_site_birth *x = a, *y = b;
    return x->t_ns < y->t_ns ? -1 : x->t_ns > y->t_ns;
}

static struct ct_site_birth *list_births(const struct ct_site_histories *h, size_t *count) {
    struct ct_site_birth *all = NULL;
    size_t n = 0;
    for (size_t i = 0; i < h->count; i++)
        n += h->list[i].birth_count;
    all = ct_heap_alloc_zeroed(n, sizeof *all);
    n = 0;
    for (size_t i = 0; i < h->count; i++)
        for (size_t b = 0; b < h->list[i].birth_count; b++)
            all[n++] = h->list[i].births[b];
    qsort(all, n, sizeof *all, compare_times);
    *count = n;
    return all;
}

static void read_past(struct past *p, const struct ct_trace *t, const struct ct_site_histories *h,
                      int device) {
    const struct ct_history *of = t->history;
    size_t n, at = 0;
    uint64_t live = 0;
    *p = (struct past){0};
    if (!ct_coarse_history_exists(t))
        return;
    struct ct_site_birth *births = list_births(h, &n);
    p->cells = ct_heap_alloc_zeroed(of->cells, sizeof *p->cells);
    for (uint32_t i = 0; i < of->cells; i++) {
        const struct ct_history_cell *c = &of->cell[i];
        if ((int)c->device != device || !(c->known >> CT_QUANTITY_ALLOCATED & 1))
            continue;
        struct past_cell *to = &p->cells[p->count++];
        to->begin_ns = of->start_ns + c->bucket * of->width_ns;
        to->end_ns = to->begin_ns + of->width_ns;
        to->least = c->curve[CT_QUANTITY_ALLOCATED].min;
        to->last = c->curve[CT_QUANTITY_ALLOCATED].last;
        for (; at < n && births[at].t_ns < to->begin_ns; at++)
            live += births[at].bytes;
        to->live_at_begin = live;
        for (; at < n && births[at].t_ns < to->end_ns; at++)
            live += births[at].bytes;
        to->live_at_end = live;
    }
    free(births);
}

static uint64_t subtract(uint64_t a, uint64_t b) {
    return a > b ? a - b : 0;
}

enum past_verdict { PAST_UNKNOWN, PAST_ALLOWS, PAST_REFUTES };

// Allows a growth if less than half of what is kept can have replaced what the device held when it
// began. Refutes it if the device had held as much before, and had given it back by then.
static enum past_verdict judge_past(const struct past *p, const struct ct_growth_shape *s,
                                    uint64_t from_ns) {
    const struct past_cell *then = NULL;
    uint64_t given_back = 0;
    for (size_t i = 0; i < p->count && p->cells[i].begin_ns <= s->since_ns; i++) {
        const struct past_cell *c = then = &p->cells[i];
        const uint64_t more = subtract(c->least, c->live_at_end);
        if (c->begin_ns >= from_ns && c->end_ns <= s->since_ns && more > given_back)
            given_back = more;
    }
    if (!then)
        return PAST_UNKNOWN;
    const uint64_t held = then->end_ns <= s->since_ns ? subtract(then->last, then->live_at_end)
                                                      : subtract(then->least, then->live_at_begin);
    if (given_back > held + s->kept_bytes / 2)
        return PAST_REFUTES;
    return held <= s->kept_bytes / 2 ? PAST_ALLOWS : PAST_UNKNOWN;
}

// ---- call sites --------------------------------------------------------------------------------

struct judge {
    struct ct_leaks *leaks;
    const struct ct_site_histories *histories;
    const struct ct_start_up *start_up;
    struct past past;
    struct ct_growth_limits limits;
    uint64_t first_ns; // of the events of the range
    uint64_t failed_bytes;
};

// Whether there was work between one step and the next: what is kept by one request that does not
// end, or by a program that fills a device, is no leak yet.
static int is_by_turns(const struct judge *f, const struct ct_site_history *h) {
    unsigned turns = 0;
    size_t before = 0;
    for (size_t i = 0; i < h->birth_count && turns < CT_GROWTH_LEAST_STEPS; i++) {
        const size_t work = ct_start_up_find_work(f->start_up, h->births[i].t_ns);
        turns += h->births[i].t_ns >= f->limits.from_ns && work != before;
        before = work;
    }
    return turns == CT_GROWTH_LEAST_STEPS;
}

// What is live of all call sites since a time.
static uint64_t sum_kept_since(const struct ct_site_histories *h, uint64_t t_ns) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < h->count; i++)
        for (size_t b = 0; b < h->list[i].birth_count; b++)
            bytes += h->list[i].births[b].t_ns >= t_ns ? h->list[i].births[b].bytes : 0;
    return bytes;
}

// Whether a call site asked for the same size again and again, gave none back, and the request that
// failed is one more; hardly anything else was kept meanwhile. Tensors of a model have several
// sizes, and a cache in layers of one size is allocated in a small part of the time.
static int is_loop(const struct judge *f, const struct ct_site_history *h) {
    if (f->leaks->is_start_up_known || !f->failed_bytes || h->given_back ||
        h->birth_count < LOOP_LEAST)
        return 0;
    for (size_t i = 0; i < h->birth_count; i++)
        if (h->births[i].bytes != f->failed_bytes || h->births[i].count != 1)
            return 0;
    const uint64_t first = h->births[0].t_ns, time = h->births[h->birth_count - 1].t_ns - first,
                   bytes = h->birth_count * f->failed_bytes;
    return first >= f->limits.from_ns && time >= (f->limits.to_ns - f->limits.from_ns) / 2 &&
           sum_kept_since(f->histories, first) - bytes <= bytes / LOOP_OTHERS_PART;
}

static void find_shape(const struct judge *f, struct ct_leak *k) {
    const struct ct_site_history *h = &f->histories->list[k->group];
    struct ct_growth_limits limits = f->limits;
    if (f->leaks->ends_in_oom && is_by_turns(f, h))
        limits.least_ns = 0;
    ct_growth_shape_find(&k->shape, h, &f->histories->window, &limits);
    if (k->shape.kind == CT_GROWTH_KIND_UNTOLD && is_loop(f, h)) {
        limits.least_ns = 0;
        ct_growth_shape_find(&k->shape, h, &f->histories->window, &limits);
        k->is_loop = ct_growth_kind_is_leak(k->shape.kind);
        k->shape.confidence /= 2;
    }
    if (!k->shape.is_older_than_known)
        return;
    const enum past_verdict past = judge_past(&f->past, &k->shape, f->limits.from_ns);
    k->past = CT_LEAK_PAST_COARSE;
    if (past == PAST_REFUTES)
        k->shape.kind = CT_GROWTH_KIND_UNTOLD;
    if (past != PAST_UNKNOWN)
        return;
    k->past = CT_LEAK_PAST_EXACT;
    limits.from_ns = f->limits.exact_from_ns;
    ct_growth_shape_find(&k->shape, h, &f->histories->window, &limits);
}

static void count_live(const struct judge *f, struct ct_leak *k) {
    const struct ct_site_history *h = &f->histories->list[k->group];
    const struct ct_site_growth *g = &f->leaks->groups.list[k->group].growth;
    uint64_t half = 0, all = 0;
    for (size_t i = 0; i < h->birth_count; i++) {
        const struct ct_site_birth *b = &h->births[i];
        all += b->t_ns ? b->count : 0;
        if (b->t_ns < f->first_ns)
            continue;
        k->never_freed_count += b->count;
        k->never_freed_bytes += b->bytes;
    }
    for (size_t i = 0; i < h->birth_count && 2 * half < all; i++) {
        half += h->births[i].t_ns ? h->births[i].count : 0;
        k->median_ns = h->births[i].t_ns;
    }
    if (k->never_freed_count > g->taken_count)
        k->never_freed_count = g->taken_count;
    if (k->never_freed_bytes > g->taken_bytes)
        k->never_freed_bytes = g->taken_bytes;
}

static void add(struct ct_leak **list, size_t *count, const struct judge *f, struct ct_leak *k) {
    count_live(f, k);
    *list = ct_heap_resize(*list, *count + 1, sizeof **list);
    (*list)[(*count)++] = *k;
}

static void judge_site(const struct judge *f, size_t group) {
    struct ct_leaks *l = f->leaks;
    struct ct_leak k = {.group = group};
    if (l->groups.list[group].kind == CT_HOLDING_IDLE)
        return;
    find_shape(f, &k);
    if (ct_growth_kind_is_leak(k.shape.kind))
        add(&l->growing, &l->growing_count, f, &k);
    else if (k.shape.kind == CT_GROWTH_KIND_SATURATING)
        add(&l->filled, &l->filled_count, f, &k);
    else if (k.shape.kind == CT_GROWTH_KIND_UNTOLD) {
        add(&l->untold, &l->untold_count, f, &k);
        l->untold_bytes += l->groups.list[group].bytes;
    }
}

static int compare_rates(const void *a, const void *b) {
    const struct ct_leak *x = a, *y = b;
    const uint64_t p = ct_growth_shape_in(&x->shape, HOUR), q = ct_growth_shape_in(&y->shape, HOUR);
    if (p != q)
        return p > q ? -1 : 1;
    return x->group < y->group ? -1 : x->group > y->group;
}

static int compare_groups(const void *a, const void *b) { // which are sorted by their bytes
    const struct ct_leak *x = a, *y = b;
    return x->group < y->group ? -1 : x->group > y->group;
}

static void judge_sites(const struct judge *f) {
    struct ct_leaks *l = f->leaks;
    for (size_t i = 0; i < l->groups.count; i++)
        judge_site(f, i);
    if (l->growing_count)
        qsort(l->growing, l->growing_count, sizeof *l->growing, compare_rates);
    if (l->untold_count)
        qsort(l->untold, l->untold_count, sizeof *l->untold, compare_rates);
    if (l->filled_count)
        qsort(l->filled, l->filled_count, sizeof *l->filled, compare_groups);
}

// ---- PyTorch's pool ----------------------------------------------------------------------------

// The pool grows without need if the most that blocks fill of it rises by less than a quarter of
// what is reserved more.
static void judge_pool(const struct judge *f) {
    struct ct_leaks_pool *p = &f->leaks->pool;
    const struct ct_pool_history *h = &f->histories->pool;
    const struct ct_least_stretch *window = &f->histories->window;
    struct ct_growth_limits limits = f->limits;
    if (limits.exact_from_ns > limits.from_ns)
        limits.from_ns = limits.exact_from_ns;
    ct_growth_shape_find_reserved(&p->shape, h, window, &limits);
    if (!ct_growth_kind_is_leak(p->shape.kind))
        return;
    const unsigned first = ct_least_stretch_part(window, limits.from_ns),
                   since = ct_least_stretch_part(window, p->shape.since_ns);
    for (unsigned i = first; i < PARTS; i++) {
        uint64_t *most = i <= since ? &p->most_before : &p->most_since;
        *most = h->most_filled[i] > *most ? h->most_filled[i] : *most;
    }
    p->is_fragmenting = subtract(p->most_since, p->most_before) <= p->shape.kept_bytes / 4;
}

// ---- interface ---------------------------------------------------------------------------------

uint64_t ct_leaks_bytes_per_hour(const struct ct_leaks *l) {
    uint64_t per_hour = 0;
    for (size_t i = 0; i < l->growing_count; i++)
        per_hour += ct_growth_shape_in(&l->growing[i].shape, HOUR);
    if (l->pool.is_fragmenting)
        per_hour += ct_growth_shape_in(&l->pool.shape, HOUR);
    if (ct_growth_kind_is_leak(l->untracked.shape.kind))
        per_hour += ct_growth_shape_in(&l->untracked.shape, HOUR);
    return per_hour;
}

static void find_full(struct ct_leaks *l) {
    const struct ct_growth_shape all = {.grown_bytes = ct_leaks_bytes_per_hour(l),
                                        .grown_ns = HOUR};
    l->full_known = ct_leaks_full_in(l, &all, &l->full_in_ns);
}

static void judge_all(struct ct_leaks_finder *f) {
    struct ct_leaks *l = f->leaks;
    const struct ct_site_histories *h = &f->histories;
    const struct ct_leaks_request *q = &f->request;
    struct judge j = {.leaks = l, .histories = h, .start_up = &f->start_up};
    j.failed_bytes = f->failed_bytes;
    j.limits = (struct ct_growth_limits){.from_ns = l->from_ns,
                                         .to_ns = l->to_ns,
                                         .least_ns = l->shortest_ns,
                                         .exact_from_ns = h->exact_from_ns,
                                         .lost = h->lost};
    j.first_ns = q->from_ns > f->trace->t_first_ns ? q->from_ns : f->trace->t_first_ns;
    read_past(&j.past, f->trace, h, q->device);
    judge_sites(&j);
    judge_pool(&j);
    ct_untracked_growth_find(&l->untracked, &f->untracked, &j.limits);
    free(j.past.cells);
    l->exact_from_ns = h->exact_from_ns;
    find_full(l);
}

struct ct_leaks_finder *ct_leaks_join_first(struct ct_listeners *to, struct ct_leaks *l,
                                            struct ct_trace *t, const struct ct_leaks_request *q) {
    struct ct_leaks_finder *f = ct_heap_alloc_zeroed(1, sizeof *f);
    const struct ct_listener a = {.self = f,
                                  .end_event = q->moment->event + 1,
                                  .end_ns = q->moment->t_ns + 1,
                                  .before = before_event,
                                  .after = after_event,
                                  .end = end_first_pass};
    *l = (struct ct_leaks){0};
    f->leaks = l;
    f->request = *q;
    f->trace = t;
    f->start_up.phases = q->phases;
    ct_untracked_curve_begin(&f->untracked, t, q->device);
    ct_listeners_add(to, &a);
    return f;
}

void ct_leaks_join_second(struct ct_listeners *to, struct ct_leaks_finder *f,
                          struct ct_call_sites *s) {
    struct ct_leaks *l = f->leaks;
    set_window(l, &f->start_up, f->trace, &f->request);
    if (!f->request.labels_are_set)
        ct_site_groups_refine(s, f->now.holdings, f->now.holding_count);
    ct_site_groups_build(&l->groups, s, f->now.holdings, f->now.holding_count);
    ct_site_histories_init(&f->histories, l->from_ns, l->to_ns);
    f->growth_request = (struct ct_site_growth_request){.moment = f->request.moment,
                                                        .from_ns = f->request.from_ns,
                                                        .device = f->request.device,
                                                        .rows = f->now.rows,
                                                        .histories = &f->histories};
    f->growth = ct_site_growth_join(to, &l->groups, s, f->trace, &f->growth_request);
    ct_live_at_free(&f->now);
}

void ct_leaks_finish(struct ct_leaks_finder *f) {
    (void)ct_site_growth_finish(f->growth);
    judge_all(f);
    ct_start_up_free(&f->start_up);
    ct_untracked_curve_free(&f->untracked);
    ct_site_histories_free(&f->histories);
    free(f);
}

void ct_leaks_find(struct ct_leaks *l, struct ct_call_sites *s, struct ct_trace *t,
                   const struct ct_leaks_request *q) {
    struct ct_pass first, second;
    ct_pass_init(&first, NULL);
    struct ct_leaks_finder *f = ct_leaks_join_first(&first.listeners, l, t, q);
    ct_pass_run(&first, t);
    ct_pass_free(&first);
    ct_pass_init(&second, NULL);
    ct_leaks_join_second(&second.listeners, f, s);
    ct_pass_run(&second, t);
    ct_pass_free(&second);
    ct_leaks_finish(f);
}

size_t ct_leaks_count(const struct ct_leaks *l) {
    return l->growing_count + (size_t)l->pool.is_fragmenting +
           (size_t)ct_growth_kind_is_leak(l->untracked.shape.kind);
}

int ct_leaks_is_too_short(const struct ct_leaks *l) {
    return !l->growing_count && (l->to_ns < l->from_ns || l->to_ns - l->from_ns < l->shortest_ns);
}

int ct_leaks_full_in(const struct ct_leaks *l, const struct ct_growth_shape *s, uint64_t *ns) {
    if (!l->free_known || !s->grown_bytes || !s->grown_ns)
        return 0;
    const unsigned __int128 time = (unsigned __int128)l->free_bytes * s->grown_ns / s->grown_bytes;
    *ns = time > UINT64_MAX ? UINT64_MAX : (uint64_t)time;
    return 1;
}

void ct_leaks_free(struct ct_leaks *l) {
    ct_site_groups_free(&l->groups);
    free(l->growing);
    free(l->filled);
    free(l->untold);
    *l = (struct ct_leaks){0};
}
