// SPDX-License-Identifier: Apache-2.0
// The report's own reader and replay, so that both say the same. One pass over the events gives the
// state; what call sites held at an earlier moment takes another replay, from the last checkpoint
// before it.
#include "watch/model.h"

#include <cutrace/model/device_use.h>

#include "analyze/capacity.h"
#include "answer/summary_read.h"
#include "base/now.h"
#include "base/utf8.h"
#include "question/question.h"
#include "replay/replay.h"
#include "sites/site_groups.h"

// ---- sizes over the last minutes ----------------------------------------------------------------

// Sizes at equal distances over the last minutes before a moment, collected while a trace is
// replayed: what the process has allocated on a device, and what is used of it by all.

enum { CT_SERIES_STEP_S = 5, CT_SERIES_POINTS = 121 }; // ten minutes

struct series_of_device {
    struct ct_trend_point own[CT_SERIES_POINTS], whole[CT_SERIES_POINTS];
    size_t own_count, whole_count;
    uint64_t own_level, whole_level; // after the last event
    int whole_known;
};

struct series {
    uint64_t end_ns;  // the moment; set by the caller
    uint64_t next_ns; // the next point, 0: there was no event
    uint64_t gaps;
    int devices; // so many can have changed
    struct series_of_device device[CT_MAX_DEVICES];
};

#define STEP_NS (CT_SERIES_STEP_S * UINT64_C(1000000000))

static uint64_t find_begin(const struct series *s) {
    const uint64_t span = (CT_SERIES_POINTS - 1) * STEP_NS;
    return s->end_ns > span ? s->end_ns - span : 0;
}

static void add(struct ct_trend_point *points, size_t *count, uint64_t t_ns, uint64_t bytes) {
    if (*count < CT_SERIES_POINTS)
        points[(*count)++] = (struct ct_trend_point){t_ns, bytes};
}

// Adds the points before a time, of the state that lasted until then.
static void advance(struct series *s, uint64_t t_ns) {
    for (; s->next_ns && s->next_ns < t_ns; s->next_ns += STEP_NS)
        for (int i = 0; i < s->devices; i++) {
            struct series_of_device *d = &s->device[i];
            add(d->own, &d->own_count, s->next_ns, d->own_level);
            if (d->whole_known)
                add(d->whole, &d->whole_count, s->next_ns, d->whole_level);
        }
}

static void read_levels(struct series *s, const struct ct_replay *r) {
    for (int i = 0; i < s->devices; i++) {
        struct series_of_device *d = &s->device[i];
        const struct ct_reading *last = &r->readings.device[i].last;
        d->own_level = ct_live_tracked(&r->live.device[i]);
        d->whole_known = last->known;
        if (last->known) // (the difference may be negative, and wraps)
            d->whole_level = last->used + d->own_level - last->tracked;
    }
}

// The first event decides where the points lie: the last one is at the moment.
static void begin(struct series *s, uint64_t t_ns) {
    const uint64_t begin = find_begin(s), first = t_ns > begin ? t_ns : begin;
    s->next_ns = s->end_ns;
    if (s->end_ns > first)
        s->next_ns = s->end_ns - (s->end_ns - first) / STEP_NS * STEP_NS;
}

// Notes an event that was applied.
static void note_series(struct series *s, const struct ct_replay *r, const struct ct_event *e) {
    if (r->gaps != s->gaps) { // nothing is known of what was before
        const uint64_t end_ns = s->end_ns, gaps = r->gaps;
        *s = (struct series){.end_ns = end_ns, .gaps = gaps, .devices = CT_MAX_DEVICES};
    }
    if (!r->is_known)
        return;
    const int index = ct_event_device_index(e);
    if (index < CT_MAX_DEVICES && index >= s->devices)
        s->devices = index + 1;
    if (!s->next_ns)
        begin(s, e->t_ns);
    advance(s, e->t_ns);
    read_levels(s, r);
}

// Adds the points up to the moment.
static void finish_series(struct series *s) {
    advance(s, s->end_ns + 1);
}

// ---- the reader ---------------------------------------------------------------------------------

#define RECENT_NS UINT64_C(60000000000)
#define SETTLED_NS UINT64_C(1000000000) // PyTorch's repetition of a request takes less
#define WINDOW_NS ((CT_SERIES_POINTS - 1) * CT_SERIES_STEP_S * UINT64_C(1000000000))

struct reader {
    const struct ct_watch_reading *of;
    struct ct_watch_details *to;
    struct ct_trace trace;
    struct ct_call_sites sites;
    struct ct_phases phases;
    struct ct_phase_rules rules;
    struct ct_scan scan;
    struct series series;
    struct ct_phase_at phase;
};

// ---- the pass -----------------------------------------------------------------------------------

static int is_allocation(const struct ct_event *e) {
    return (e->op == CT_OP_ALLOC || e->op == CT_OP_CREATE || e->op == CT_OP_BLOCK_ALLOC) &&
           (!CT_HAS(e, result) || !e->result);
}

static void note_event(void *user, const struct ct_replay *r, const struct ct_event *e,
                       uint64_t number) {
    (void)number;
    struct reader *x = user;
    note_series(&x->series, r, e);
    if (e->t_ns + RECENT_NS <= x->series.end_ns)
        return;
    x->to->recent_events++;
    x->to->recent_allocations += is_allocation(e) != 0;
}

static void scan(struct reader *x) {
    const struct ct_scan_request request = {
        .to_ns = UINT64_MAX, .device = -1, .blocks = 1, .phases = &x->phases};
    ct_question_scan(&x->scan, &x->trace, &request,
                     &(struct ct_listener){.self = x, .after = note_event});
    finish_series(&x->series);
    x->phase = x->scan.follow.last;
}

static void read_moment(struct reader *x) {
    struct ct_watch_details *d = x->to;
    const struct ct_trace *t = &x->trace;
    d->start_ns = t->start_ns;
    d->t_ns = t->t_last_ns;
    d->events = t->events;
    d->lost = ct_trace_count_lost(t, x->scan.lost);
    const uint64_t known =
        x->series.end_ns - (t->t_first_ns < x->series.end_ns ? t->t_first_ns : 0);
    d->recent_ns = known < RECENT_NS ? known : RECENT_NS;
    const struct ct_string *exe = ct_definitions_info(&t->definitions, "process.exe");
    if (exe)
        ct_utf8_sanitize(d->program, sizeof d->program, exe->at, exe->length);
    const struct ct_phase_title title = ct_phases_title(&x->phase);
    if (x->phase.phase != CT_PHASE_UNKNOWN)
        d->phase = ct_heap_copy_text(title.text);
}

// ---- devices ------------------------------------------------------------------------------------

static uint64_t sum_kind(const struct ct_live_totals *t, enum ct_holding_kind kind) {
    uint64_t sum = 0;
    for (size_t i = 0; i < t->holding_count; i++)
        sum += t->holdings[i].kind == kind ? t->holdings[i].bytes : 0;
    return sum;
}

static void read_parts(struct ct_watch_device *to, const struct ct_live_totals *live) {
    const struct ct_breakdown *m = &live->split;
    uint64_t *part = to->part;
    part[CT_WATCH_TORCH_USED] =
        sum_kind(live, CT_HOLDING_BLOCK) + sum_kind(live, CT_HOLDING_SEGMENT);
    part[CT_WATCH_TORCH_IDLE] = sum_kind(live, CT_HOLDING_IDLE);
    part[CT_WATCH_MEMPOOL_IDLE] = m->pool_idle;
    const uint64_t named =
        part[CT_WATCH_TORCH_USED] + part[CT_WATCH_TORCH_IDLE] + part[CT_WATCH_MEMPOOL_IDLE];
    part[CT_WATCH_ALLOCATIONS] = m->tracked > named ? m->tracked - named : 0;
    to->tracked = m->tracked;
    to->managed = m->managed;
    to->is_read = m->used_known;
    if (!m->used_known)
        return;
    to->total = m->total;
    part[CT_WATCH_IN_FLIGHT] = m->in_flight;
    part[CT_WATCH_UNTRACKED] = m->split_known ? m->untracked : 0;
    part[CT_WATCH_UNATTRIBUTED] = m->split_known ? m->unattributed : m->unexplained;
    part[CT_WATCH_OTHERS] = m->split_known ? m->others : 0;
    part[CT_WATCH_FREE] = m->free;
}

static int is_starting(enum ct_phase phase) {
    return phase >= CT_PHASE_INIT && phase <= CT_PHASE_GRAPHS && phase != CT_PHASE_LORA_LOAD;
}

// The trends of what goes on; of a program that starts up, a line would say nothing.
static void read_trends(struct reader *x, struct ct_watch_device *to) {
    if (to->ordinal >= CT_MAX_DEVICES || !x->of->now_ns)
        return;
    const struct series_of_device *s = &x->series.device[to->ordinal];
    ct_trend_find(&to->own, s->own, s->own_count, to->capacity);
    ct_trend_find(&to->whole, s->whole, s->whole_count, to->capacity);
    if (is_starting(x->phase.phase)) {
        to->own = to->whole = (struct ct_trend){.kind = CT_TREND_STARTING};
        return;
    }
    to->has_full =
        to->is_read && ct_trend_time_to_full(&to->whole, to->part[CT_WATCH_FREE], &to->full);
}

static void read_device(struct reader *x, int index) {
    struct ct_watch_details *d = x->to;
    struct ct_live_totals live;
    d->devices = ct_heap_resize(d->devices, d->device_count + 1, sizeof *d->devices);
    struct ct_watch_device *to = &d->devices[d->device_count++];
    *to = (struct ct_watch_device){.ordinal = index};
    if (index < CT_MAX_DEVICES) {
        const struct ct_string *name = ct_capacity_device_name(&x->trace, index);
        ct_utf8_sanitize(to->name, sizeof to->name, name->at, name->length);
        to->capacity = ct_capacity_find(&x->trace, &x->scan.end, index).bytes;
    }
    ct_live_at_read(&live, &x->scan.end, index, CT_ROWS_BY_BLOCK);
    read_parts(to, &live);
    ct_live_at_free(&live);
    to->pool = ct_torch_pool_totals(&x->scan.end.pool, &x->scan.end.live, index);
    read_trends(x, to);
}

// ---- call sites ---------------------------------------------------------------------------------

static void build_before(struct reader *x, struct ct_site_groups *before) {
    const struct ct_moment since = {CT_MOMENT_TIME, -1, UINT64_MAX, x->to->since_ns};
    struct ct_replay *r = ct_heap_alloc_zeroed(1, sizeof *r);
    struct ct_live_totals live;
    ct_question_moment(r, &since, &x->trace, NULL, NULL);
    ct_live_at_read(&live, r, -1, CT_ROWS_BY_BLOCK);
    ct_site_groups_build(before, &x->sites, live.holdings, live.holding_count);
    ct_live_at_free(&live);
    ct_replay_free(r);
    free(r);
}

static void set_since(struct reader *x) {
    struct ct_watch_details *d = x->to;
    const uint64_t end = x->series.end_ns;
    d->since_ns = x->of->since_ns ? x->of->since_ns : end > WINDOW_NS ? end - WINDOW_NS : 0;
    d->since_start = d->since_ns < x->trace.t_first_ns;
    struct ct_trace_gap gap;
    if (d->since_start)
        d->since_ns = x->trace.start_ns;
    else if (ct_trace_find_gap(&x->trace, d->since_ns, &gap) && gap.known_ns != UINT64_MAX)
        d->since_ns = gap.known_ns; // what was held before is not known
}

static void add_site(struct reader *x, const struct ct_site_group *g,
                     const struct ct_site_groups *before) {
    struct ct_watch_details *d = x->to;
    const size_t at = ct_site_groups_find(before, &x->sites, g->kind, g->stack);
    const uint64_t then = at && before->list ? before->list[at - 1].bytes : 0;
    d->sites[d->site_count++] = (struct ct_watch_site){.label = ct_heap_copy_text(g->label),
                                                       .kind = ct_holding_kind_name(g->kind),
                                                       .bytes = g->bytes,
                                                       .count = g->count,
                                                       .gained = (int64_t)(g->bytes - then)};
}

static void read_sites(struct reader *x) {
    struct ct_live_totals live;
    struct ct_site_groups now = {0}, before = {0};
    set_since(x);
    ct_live_at_read(&live, &x->scan.end, -1, CT_ROWS_BY_BLOCK);
    ct_replay_release(&x->scan.end); // another replay follows
    ct_site_groups_refine(&x->sites, live.holdings, live.holding_count);
    ct_site_groups_build(&now, &x->sites, live.holdings, live.holding_count);
    if (!x->to->since_start)
        build_before(x, &before);
    x->to->all_sites = now.count;
    for (size_t i = 0; i < now.count && i < CT_WATCH_SITES; i++)
        add_site(x, &now.list[i], &before);
    ct_site_groups_free(&now);
    ct_site_groups_free(&before);
    ct_live_at_free(&live);
}

// ---- incidents ----------------------------------------------------------------------------------

static enum ct_watch_outcome find_outcome(const struct ct_incidents *n, size_t i) {
    if (n->list[i].retried)
        return CT_WATCH_RETRIED;
    return n->list[i].recovered ? CT_WATCH_RECOVERED : CT_WATCH_FAILED;
}

static void read_fresh(struct reader *x) {
    const struct ct_incidents *n = &x->scan.incidents;
    struct ct_watch_fresh *f = &x->to->fresh;
    f->next_event = x->of->fresh_from;
    for (size_t i = 0; i < n->count && !f->is_open; i++) {
        const struct ct_oom_event *first = &n->ooms[n->list[i].first];
        if (first->event < x->of->fresh_from)
            continue;
        f->is_open = x->of->now_ns && first->t_ns + SETTLED_NS > x->of->now_ns;
        if (f->is_open)
            return;
        f->count[find_outcome(n, i)]++;
        f->next_event = first->event + 1;
    }
}

static void read_incidents(struct reader *x) {
    const struct ct_incidents *n = &x->scan.incidents;
    struct ct_watch_details *d = x->to;
    d->all_incidents = n->count;
    read_fresh(x);
    for (size_t i = 0; i < n->count; i++)
        d->failed += find_outcome(n, i) == CT_WATCH_FAILED;
    for (size_t back = 0; back < n->count && back < CT_WATCH_INCIDENTS; back++) {
        const size_t i = n->count - 1 - back;
        d->incidents[d->incident_count++] =
            (struct ct_watch_incident){.head = *ct_incidents_head(n, i),
                                       .first_event = n->ooms[n->list[i].first].event,
                                       .outcome = find_outcome(n, i)};
    }
}

static int is_judged_before(const struct reader *x) {
    const struct ct_watch_details *b = x->of->before, *d = x->to;
    return b && b->verdict.summary && b->all_incidents == d->all_incidents &&
           b->failed == d->failed;
}

// The verdict that cutrace-report would begin with.
static void judge(struct reader *x) {
    const struct ct_arguments options = {
        .command = CT_COMMAND_summary, .device = -1, .color = CT_NEVER};
    struct ct_summary *s = ct_heap_alloc_zeroed(1, sizeof *s);
    // (nothing is printed, and another thread may use the locale, which ct_terminal_init sets)
    const struct ct_terminal none = {.bold = "", .red = "", .dim = "", .reset = ""};
    struct ct_view v = {.options = &options,
                        .terminal = &none,
                        .trace = &x->trace,
                        .sites = &x->sites,
                        .phases = &x->phases,
                        .out = stdout,
                        .to_ns = UINT64_MAX};
    ct_summary_read(s, &v);
    if (s->verdicts.count) {
        const struct ct_verdict *first = &s->verdicts.list[0];
        x->to->verdict =
            (struct ct_watch_verdict){ct_heap_copy_text(first->summary), first->scenario,
                                      first->confidence, ct_verdict_sureness(first)};
    }
    ct_summary_free(s);
    free(s);
}

// Only where a request failed: what else a report says needs no watching.
static void read_verdict(struct reader *x) {
    const struct ct_watch_details *b = x->of->before;
    if (!x->to->all_incidents)
        return;
    if (!is_judged_before(x)) {
        judge(x);
        return;
    }
    x->to->verdict = b->verdict;
    x->to->verdict.summary = ct_heap_copy_text(b->verdict.summary);
}

// ---- all of it ----------------------------------------------------------------------------------

static void read_all(struct reader *x) {
    const uint64_t last = x->trace.t_last_ns, now = x->of->now_ns;
    x->series.end_ns = now > last ? now : last;
    ct_call_sites_init(&x->sites, &x->trace.definitions);
    ct_phases_init(&x->phases, &x->trace.definitions, &x->rules);
    scan(x);
    read_moment(x);
    for (int i = 0; i < CT_DEVICES; i++)
        if (x->scan.device[i].seen)
            read_device(x, i);
    read_sites(x);
    read_incidents(x);
    read_verdict(x);
    ct_scan_free(&x->scan);
    ct_phases_free(&x->phases);
    ct_call_sites_free(&x->sites);
}

int ct_watch_details_read(struct ct_watch_details *d, const struct ct_watch_reading *reading,
                          struct ct_error *error) {
    struct reader *x = ct_heap_alloc_zeroed(1, sizeof *x);
    const struct ct_trace_files files = {reading->name, reading->trace, reading->journal};
    const uint64_t before = ct_now_ns(CLOCK_PROCESS_CPUTIME_ID);
    x->of = reading;
    x->to = d;
    *d = (struct ct_watch_details){0};
    int status = ct_trace_open_files(&x->trace, &files, error);
    if (!status && x->trace.index.trace_id != reading->trace_id)
        status = ct_error_set(error, CT_EXIT_BAD_TRACE, "another process has taken the file");
    if (!status)
        read_all(x);
    ct_trace_close(&x->trace);
    free(x);
    d->cost_ns = ct_now_ns(CLOCK_PROCESS_CPUTIME_ID) - before;
    return status;
}
