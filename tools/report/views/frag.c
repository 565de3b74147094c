// SPDX-License-Identifier: Apache-2.0
// frag: memory that was free but could not be used. Between the driver's allocations it is inferred
// from their addresses; inside PyTorch's segments it is known (frag_pool.c).
#include "views/steps.h"

#include <inttypes.h>

#include "analyze/live_at.h"
#include "layout/address_layout.h"
#include "print/document.h"
#include "print/label.h"
#include "print/pool_print.h"
#include "print/print.h"
#include "print/table.h"
#include "print/trace_state.h"
#include "question/pass.h"
#include "replay/torch_segments.h"
#include "views/frag_parts.h"
#include "views/views.h"

enum { TEXT_SAMPLES = 12, JSON_SAMPLES = 64, TEXT_REQUESTS = 3, JSON_REQUESTS = 100 };

struct sample {
    int is_known; // what was live then
    uint64_t t_ns, live_bytes;
    struct ct_address_layout layout;
    struct ct_breakdown split;
};

struct samples {
    struct sample *list; // count of them for each device, by its index
    unsigned count;
    unsigned at; // the next sample of the pass
    size_t most; // requests that are named of a device
    struct ct_frag_requests requests[CT_DEVICES];
    uint64_t obstruction; // the event of the next request; UINT64_MAX: none is left
    uint64_t from_ns, to_ns;
    const struct ct_frag_shown *shown;
};

// What the view shows: of the pass that others may share, and of the moment.
struct ct_frag_shown {
    const struct ct_view *view;
    const struct ct_scan *scan;
    struct samples text, json; // those that are wanted have a count
    struct ct_moment moment;   // of everything but samples, requests and curve
    struct ct_replay at_moment;
    struct ct_sharing sharing_at_moment;
    const struct ct_replay *state;         // at the moment: that, or the end of the pass
    struct ct_shared shared[CT_DEVICES];   // at the moment
    int has_program_pools;                 // an event says so
    struct ct_program_pools program_pools; // at the moment
};

static void take_samples(struct samples *h, const struct ct_replay *r, unsigned at, uint64_t t_ns) {
    const struct ct_trace *t = h->shown->view->trace;
    struct ct_trace_gap gap;
    const int is_known = !ct_trace_find_gap(t, t_ns, &gap) || !ct_trace_is_ever_known(t);
    for (int d = 0; d < CT_DEVICES; d++) {
        struct sample *to = &h->list[(unsigned)d * h->count + at];
        to->t_ns = t_ns;
        to->is_known = is_known;
        to->live_bytes = r->live.device[d].live_bytes;
        if (r->live.device[d].live_allocations)
            to->layout = ct_address_layout_measure(r, d, ct_capacity_find(t, r, d).bytes);
        to->split = ct_replay_split(r, d);
    }
}

static uint64_t find_obstructions(struct samples *h, const struct ct_replay *r, uint64_t number) {
    uint64_t next = UINT64_MAX;
    for (int d = 0; d < CT_DEVICES; d++) {
        const uint64_t of_device = ct_frag_pool_find_obstructions(&h->requests[d], r, number);
        next = of_device < next ? of_device : next;
    }
    return next;
}

static uint64_t instant_of(const struct samples *h, uint64_t from, uint64_t to, unsigned i) {
    const uint64_t span = to > from ? to - from : 0;
    return from + (uint64_t)((unsigned __int128)span * (i + 1) / h->count);
}

static void begin_samples(struct samples *h, const struct ct_frag_shown *f, unsigned count,
                          size_t requests) {
    const struct ct_view *v = f->view;
    const struct ct_trace *t = v->trace;
    h->shown = f;
    h->count = count;
    h->most = requests;
    h->from_ns = v->from_ns > t->t_first_ns ? v->from_ns : t->t_first_ns;
    h->to_ns = v->to_ns < t->t_last_ns ? v->to_ns : t->t_last_ns;
    h->list = ct_heap_alloc_zeroed((size_t)CT_DEVICES * count, sizeof *h->list);
}

// Samples the state at `count` instants, evenly spread over the range; the last one is its end.
static void take_samples_before(struct samples *h, const struct ct_replay *r, uint64_t t_ns) {
    for (; h->at < h->count; h->at++) {
        const uint64_t instant = instant_of(h, h->from_ns, h->to_ns, h->at);
        if (t_ns <= instant)
            return;
        take_samples(h, r, h->at, instant);
    }
}

static void look_for(struct samples *h, const struct ct_replay *r, const struct ct_event *e,
                     uint64_t number) {
    take_samples_before(h, r, e->t_ns);
    if (r->pool.on && number >= h->obstruction)
        h->obstruction = find_obstructions(h, r, number);
}

static void look_at(struct ct_frag_shown *f, const struct ct_replay *r, const struct ct_event *e,
                    uint64_t number) {
    look_for(&f->text, r, e, number);
    look_for(&f->json, r, e, number);
}

static int before_gap(void *self, const struct ct_replay *r, uint64_t number, uint64_t next_ns) {
    struct ct_frag_shown *f = self;
    (void)number;
    take_samples_before(&f->text, r, next_ns);
    take_samples_before(&f->json, r, next_ns);
    return 1;
}

static int before_event(void *self, const struct ct_replay *r, const struct ct_event *e,
                        uint64_t number) {
    struct ct_frag_shown *f = self;
    f->has_program_pools |= ct_program_pools_has(e);
    look_at(f, r, e, number);
    return 1;
}

static void end_pass(void *self, const struct ct_replay *r) {
    struct ct_frag_shown *f = self;
    take_samples_before(&f->text, r, UINT64_MAX);
    take_samples_before(&f->json, r, UINT64_MAX);
    f->state = r;
}

struct ct_frag_shown *ct_frag_begin(const struct ct_view *v, const struct ct_scan *s,
                                    unsigned forms) {
    struct ct_frag_shown *f = ct_heap_alloc_zeroed(1, sizeof *f);
    f->view = v;
    f->scan = s;
    f->text.obstruction = f->json.obstruction = UINT64_MAX;
    if (forms & CT_FRAG_TEXT)
        begin_samples(&f->text, f, TEXT_SAMPLES, v->options->top ? v->options->top : TEXT_REQUESTS);
    if (forms & CT_FRAG_JSON)
        begin_samples(&f->json, f, JSON_SAMPLES, JSON_REQUESTS);
    return f;
}

struct ct_listener ct_frag_listener(struct ct_frag_shown *f) {
    return (struct ct_listener){.self = f,
                                .end_ns = f->view->to_ns + 1,
                                .before = before_event,
                                .end = end_pass,
                                .before_gap = before_gap};
}

static void choose_requests(struct samples *h) {
    const struct ct_scan *s = h->shown->scan;
    for (int d = 0; d < CT_DEVICES; d++)
        if (ct_frag_pool_choose_requests(&h->requests[d], &s->growths, d, h->most))
            h->obstruction = 0;
}

void ct_frag_read_scan(struct ct_frag_shown *f) {
    if (f->text.count)
        choose_requests(&f->text);
    if (f->json.count)
        choose_requests(&f->json);
}

static int is_any_left(const struct ct_frag_shown *f) {
    return f->text.obstruction != UINT64_MAX || f->json.obstruction != UINT64_MAX;
}

static int before_request(void *self, const struct ct_replay *r, const struct ct_event *e,
                          uint64_t number) {
    struct ct_frag_shown *f = self;
    look_at(f, r, e, number);
    return is_any_left(f);
}

// Reads the trace up to the last request whose obstruction is not known yet.
static void find_obstructions_left(struct ct_frag_shown *f) {
    const struct ct_listener requests = {.self = f, .before = before_request};
    if (is_any_left(f))
        ct_pass_run_one(NULL, f->view->trace, &requests);
}

static void find_moment(struct ct_frag_shown *f) {
    const struct ct_view *v = f->view;
    const struct ct_listener requests = {.self = f, .before = before_request};
    f->moment = ct_view_scan_find_moment(v, f->scan, CT_MOMENT_OOM);
    if (f->moment.kind == CT_MOMENT_END) {
        ct_sharing_sum(&f->scan->sharing, &f->state->live, f->shared);
        return;
    }
    ct_question_moment(&f->at_moment, &f->moment, v->trace, &f->sharing_at_moment, &requests);
    f->state = &f->at_moment;
    ct_sharing_sum(&f->sharing_at_moment, &f->at_moment.live, f->shared);
}

void ct_frag_go_to_moment(struct ct_frag_shown *f) {
    find_moment(f);
    find_obstructions_left(f);
    if (f->has_program_pools)
        ct_program_pools_read(&f->program_pools, f->view->trace, &f->moment, &f->state->live);
}

static void free_samples(struct samples *h) {
    for (int d = 0; d < CT_DEVICES; d++)
        free(h->requests[d].list);
    free(h->list);
}

void ct_frag_free(struct ct_frag_shown *f) {
    free_samples(&f->text);
    free_samples(&f->json);
    ct_replay_free(&f->at_moment);
    ct_sharing_free(&f->sharing_at_moment);
    ct_program_pools_free(&f->program_pools);
    free(f);
}

// Returns the last call of an incident that failed although the device had enough free memory, or
// NULL.
static const struct ct_oom_event *find_despite_free(const struct ct_scan *s, size_t incident,
                                                    int device) {
    return ct_oom_reason_find_call(&s->incidents, incident, device, CT_OOM_REASON_ENOUGH_FREE);
}

// Counts the incidents of a device with a call that failed for a reason.
static size_t count_incidents(const struct ct_scan *s, int device, enum ct_oom_reason_kind kind) {
    size_t n = 0;
    for (size_t k = 0; k < s->incidents.count; k++)
        n += ct_oom_reason_find_call(&s->incidents, k, device, kind) != NULL;
    return n;
}

// ---- text ---------------------------------------------------------------------------------------

// Prints " at the OOM, +5.944 s" after a device (-1: after something of no device).
static void print_moment(struct ct_view *v, const struct ct_moment *m, int device) {
    static const char *const words[] = {" at the OOM", " at the peak", " at the end", ""};
    fputs(words[m->kind], v->out);
    if (m->device >= 0 && m->device != device)
        fprintf(v->out, " of %s", ct_label_device(m->device).text);
    fprintf(v->out, "%s %s%s", m->kind == CT_MOMENT_TIME ? " at" : ",",
            ct_label_time(v, m->t_ns).text, ct_trace_state_doubt(v, m->t_ns).text);
}

void ct_frag_print_layout(struct ct_view *v, const struct ct_address_layout *f) {
    const uint64_t small = f->small_blocks << 21;
    ct_print_row(v, "address gaps", f->gap_bytes, "in %s between %s, largest %s (inferred)\n",
                 ct_human_counted(f->gaps, "gap").text,
                 ct_human_counted(f->ranges, "live range").text, ct_label_size(v, f->gap_max).text);
    ct_print_row(v, "rounding", f->rounding_bytes,
                 "of large allocations up to multiples of 2 MiB (inferred)\n");
    ct_print_row(v, "small blocks", small > f->small_bytes ? small - f->small_bytes : 0,
                 "unused in %s of 2 MiB with %s of small allocations (inferred)\n",
                 ct_human_counted(f->small_blocks, "block").text,
                 ct_label_size(v, f->small_bytes).text);
}

static void print_mempools(struct ct_view *v, const struct ct_live_totals *m) {
    for (size_t i = 0; i < m->pool_count; i++) {
        const struct ct_mempool_usage *p = &m->pools[i];
        if (!p->reserved) // not sampled, or not known
            continue;
        ct_print_row(v, ct_human_format("pool 0x%" PRIx64, p->pool).text,
                     p->reserved > p->used ? p->reserved - p->used : 0,
                     "reserved but unused (%s of %s used)\n", ct_label_size(v, p->used).text,
                     ct_label_size(v, p->reserved).text);
    }
}

// Prints memory of this process that others may have opened, and memory of others that is open
// here.
static void print_shared(struct ct_view *v, const struct ct_frag_shown *f, int device) {
    const struct ct_shared m = f->shared[device];
    if (m.exported)
        ct_print_row(v, "shared", m.exported_bytes, "in %s exported for other processes\n",
                     ct_human_counted(m.exported, "allocation").text);
    if (m.opened)
        fprintf(v->out,
                "  opened           %12s  " CT_WRAP_HANG "in %s of other processes, by CUDA IPC\n",
                "-", ct_human_counted(m.opened, "allocation").text);
    if (m.imported)
        ct_print_row(v, "imported", m.imported_bytes, "mapped of %s from other processes\n",
                     ct_human_counted(m.imported, "handle").text);
}

static int has_shared(const struct ct_shared *m) {
    return m->exported || m->opened || m->imported;
}

// Prints what is shared on devices that this process does not use: memory of other processes. A
// call may also tell no device.
static void print_shared_elsewhere(struct ct_view *v, const struct ct_frag_shown *f) {
    for (int d = 0; d < CT_DEVICES; d++) {
        if (f->scan->device[d].seen || !has_shared(&f->shared[d]))
            continue;
        if (d == CT_MAX_DEVICES)
            fprintf(v->out, "%son an unknown device%s\n", v->terminal->bold, v->terminal->reset);
        else
            fprintf(v->out, "%s%s%s, where this process has memory of others only\n",
                    v->terminal->bold, ct_label_device_in_full(v, d, f->state).text,
                    v->terminal->reset);
        print_shared(v, f, d);
    }
}

static void print_host(struct ct_view *v, const struct ct_frag_shown *f) {
    size_t n;
    char name[100];
    struct ct_host_memory *list = ct_host_memory_list(&v->trace->definitions, &f->state->live, &n);
    if (n) {
        fprintf(v->out, "%spage-locked host memory", v->terminal->bold);
        print_moment(v, &f->moment, -1);
        fprintf(v->out, "%s\n", v->terminal->reset);
    }
    for (size_t i = 0; i < n; i++) {
        if (list[i].module)
            ct_call_sites_base_name(&v->trace->definitions, list[i].module, name, sizeof name);
        ct_print_row(v, list[i].registered ? "registered" : "allocated", list[i].bytes,
                     "in %s by %s\n", ct_human_counted(list[i].ranges, "range").text,
                     list[i].module ? name : "-");
    }
    free(list);
}

static void print_program_pools(struct ct_view *v, const struct ct_frag_shown *f) {
    if (!f->program_pools.count)
        return;
    fprintf(v->out, "%spools of the program", v->terminal->bold);
    print_moment(v, &f->moment, -1);
    fprintf(v->out, "%s\n", v->terminal->reset);
    ct_frag_program_print(v, &f->program_pools);
}

static void print_ooms(struct ct_view *v, const struct ct_scan *s, int device) {
    const size_t n = count_incidents(s, device, CT_OOM_REASON_ENOUGH_FREE);
    const size_t unknown = count_incidents(s, device, CT_OOM_REASON_UNKNOWN);
    const size_t unsized = count_incidents(s, device, CT_OOM_REASON_SIZE_UNKNOWN);
    const unsigned most = v->options->top ? v->options->top : 5;
    size_t shown = 0;
    if (unknown)
        fprintf(v->out,
                "  driver           %zu OOM%s, where the device's free memory is not known\n",
                unknown, ct_human_plural(unknown));
    if (unsized)
        fprintf(v->out,
                "  driver           %zu OOM%s, where the size of the request is not known\n",
                unsized, ct_human_plural(unsized));
    if (!n)
        return;
    fprintf(
        v->out,
        "  %sdriver           %zu OOM%s although the device had enough free memory in total:%s\n",
        v->terminal->red, n, ct_human_plural(n), v->terminal->reset);
    for (size_t k = s->incidents.count; k-- > 0 && shown < most;) {
        const struct ct_oom_event *o = find_despite_free(s, k, device);
        if (!o)
            continue;
        shown++;
        fprintf(v->out, "    %s event %" PRIu64 ": requested %s, free %s\n",
                ct_label_time(v, o->t_ns).text, o->event, ct_label_size(v, o->bytes).text,
                ct_label_size(v, o->reading_known ? o->free : o->split.free).text);
    }
}

static const struct ct_table_column columns[] = {
    {.head = "sampled at", .kind = CT_TABLE_LEFT},
    {.head = "allocated"},
    {.head = "gaps", .rank = 1},
    {.head = "number", .rank = 4},
    {.head = "largest", .rank = 3},
    {.head = "free (about)", .rank = 2},
};

static void print_samples(struct ct_view *v, const struct sample *samples, unsigned n) {
    struct ct_table t;
    ct_table_init(&t, columns, sizeof columns / sizeof *columns, 2);
    for (const struct sample *p = samples; p < samples + n; p++) {
        if (!p->is_known)
            ct_table_add_row(&t, ct_label_time(v, p->t_ns).text, "-", "-", "-", "-", "-", NULL);
        else
            ct_table_add_row(
                &t, ct_label_time(v, p->t_ns).text, ct_label_size(v, p->live_bytes).text,
                ct_label_size(v, p->layout.gap_bytes).text, ct_human_count(p->layout.gaps).text,
                ct_label_size(v, p->layout.gap_max).text,
                p->split.used_known ? ct_label_size(v, p->split.free).text : "-", NULL);
    }
    ct_table_merge_equal(&t);
    ct_table_print(v, &t);
}

static void print_device(struct ct_view *v, const struct ct_scan *s, const struct samples *h,
                         int d) {
    const struct sample *samples = &h->list[(unsigned)d * h->count];
    struct ct_live_totals now;
    const struct ct_replay *state = h->shown->state;
    const struct ct_address_layout layout =
        ct_address_layout_measure(state, d, ct_capacity_find(v->trace, state, d).bytes);
    ct_live_at_read(&now, state, d, CT_ROWS_BY_SEGMENT);
    fprintf(v->out, "%s%s", v->terminal->bold, ct_label_device_in_full(v, d, state).text);
    print_moment(v, &h->shown->moment, d);
    fprintf(v->out, "%s: %s in %s\n", v->terminal->reset, ct_label_size(v, now.bytes).text,
            ct_human_counted(now.count, "allocation").text);
    ct_frag_conclusion_print(v, s, d);
    ct_frag_print_layout(v, &layout);
    print_mempools(v, &now);
    print_shared(v, h->shown, d);
    print_ooms(v, s, d);
    ct_frag_pool_print(v, s, state, &h->requests[d], d, h->shown->moment.t_ns);
    print_samples(v, samples, h->count);
    ct_live_at_free(&now);
}

// ---- JSON ---------------------------------------------------------------------------------------

void ct_frag_add_layout(struct ct_json *j, const struct ct_address_layout *f) {
    const uint64_t small = f->small_blocks << 21;
    ct_json_number(j, "ranges", f->ranges);
    ct_json_number(j, "range_bytes", f->range_bytes);
    ct_json_number(j, "gaps", f->gaps);
    ct_json_number(j, "gap_bytes", f->gap_bytes);
    ct_json_number(j, "gap_max_bytes", f->gap_max);
    ct_json_number(j, "rounding_bytes", f->rounding_bytes);
    ct_json_number(j, "small_blocks", f->small_blocks);
    ct_json_number(j, "small_live_bytes", f->small_bytes);
    ct_json_number(j, "small_unused_bytes", small > f->small_bytes ? small - f->small_bytes : 0);
}

// What is shared on devices that this process does not use; the unknown one is apart.
static void add_shared_elsewhere(struct ct_json *j, const struct ct_frag_shown *f) {
    ct_json_open(j, "shared_elsewhere", '[');
    for (int d = 0; d < CT_MAX_DEVICES; d++) {
        if (f->scan->device[d].seen || !has_shared(&f->shared[d]))
            continue;
        ct_json_open(j, NULL, '{');
        ct_document_add_device(j, "ordinal", d);
        ct_document_add_shared(j, "shared", &f->shared[d]);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
}

static void add_host(struct ct_view *v, struct ct_json *j, const struct ct_frag_shown *f) {
    const struct ct_definitions *names = &v->trace->definitions;
    size_t n;
    struct ct_host_memory *list = ct_host_memory_list(names, &f->state->live, &n);
    ct_json_open(j, "host", '[');
    for (size_t i = 0; i < n; i++) {
        ct_json_open(j, NULL, '{');
        ct_json_text(j, "kind", list[i].registered ? "registered" : "allocated");
        ct_pool_json_add_module(j, names, list[i].module);
        ct_json_number(j, "ranges", list[i].ranges);
        ct_json_number(j, "bytes", list[i].bytes);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
    free(list);
}

static void add_mempools(struct ct_json *j, const struct ct_live_totals *t) {
    ct_json_open(j, "pools", '[');
    for (size_t i = 0; i < t->pool_count; i++) {
        const struct ct_mempool_usage *p = &t->pools[i];
        ct_json_open(j, NULL, '{');
        ct_json_hex(j, "pool", p->pool);
        ct_json_number(j, "used_bytes", p->used);
        ct_json_number_or_null(j, "reserved_bytes", p->reserved != 0, p->reserved);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
}

static void add_history(struct ct_json *j, const struct samples *h, int d) {
    ct_json_open(j, "history", '[');
    for (unsigned i = 0; i < h->count; i++) {
        const struct sample *p = &h->list[(unsigned)d * h->count + i];
        if (!p->is_known)
            continue;
        ct_json_open(j, NULL, '{');
        ct_json_number(j, "t_ns", p->t_ns);
        ct_json_number(j, "live_bytes", p->live_bytes);
        ct_json_number_or_null(j, "free_bytes", p->split.used_known, p->split.free);
        ct_frag_add_layout(j, &p->layout);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
}

static void add_despite_free(struct ct_view *v, struct ct_json *j, const struct ct_scan *s, int d) {
    size_t left = ct_document_most_ooms(v);
    ct_json_open(j, "ooms_despite_free", '[');
    for (size_t k = 0; k < s->incidents.count && left; k++) {
        const struct ct_oom_event *o = find_despite_free(s, k, d);
        if (!o)
            continue;
        ct_document_add_oom(j, v, NULL, o, 0, &s->growths);
        left--;
    }
    ct_json_close(j, ']');
}

static void add_device(struct ct_view *v, struct ct_json *j, const struct ct_scan *s,
                       const struct samples *h, int d) {
    struct ct_live_totals now;
    const struct ct_replay *state = h->shown->state;
    const struct ct_address_layout layout =
        ct_address_layout_measure(state, d, ct_capacity_find(v->trace, state, d).bytes);
    ct_live_at_read(&now, state, d, CT_ROWS_BY_SEGMENT);
    ct_json_open(j, NULL, '{');
    ct_document_add_device(j, "ordinal", d);
    ct_json_number(j, "live_bytes", now.bytes);
    ct_json_number(j, "live_allocations", now.count);
    ct_json_open(j, "address_layout", '{');
    ct_frag_add_layout(j, &layout);
    ct_json_close(j, '}');
    add_mempools(j, &now);
    ct_document_add_shared(j, "shared", &h->shown->shared[d]);
    add_despite_free(v, j, s, d);
    ct_json_number(j, "ooms_free_unknown", count_incidents(s, d, CT_OOM_REASON_UNKNOWN));
    ct_json_number(j, "ooms_size_unknown", count_incidents(s, d, CT_OOM_REASON_SIZE_UNKNOWN));
    add_history(j, h, d);
    ct_frag_pool_add_json(v, j, s, state, &h->requests[d], d);
    ct_json_close(j, '}');
    ct_live_at_free(&now);
}

static void print_text(struct ct_view *v, const struct ct_scan *s, const struct samples *h) {
    const char *without_blocks = ct_torch_settings_without_blocks(v->trace);
    int any = 0;
    for (int d = 0; d < CT_DEVICES; d++) {
        any |= s->device[d].seen;
        if (s->device[d].seen)
            print_device(v, s, h, d);
    }
    if (!any)
        ct_trace_state_print_unallocated(v, s->lost);
    print_shared_elsewhere(v, h->shown);
    print_host(v, h->shown);
    print_program_pools(v, h->shown);
    if (without_blocks)
        fprintf(v->out, "PyTorch has no blocks: %s\n", without_blocks);
}

static void print_json(struct ct_view *v, const struct ct_scan *s, const struct samples *h) {
    struct ct_json json = {.out = v->out}, *j = &json;
    ct_document_begin(j, v);
    ct_document_add_trace(j, v, s);
    ct_document_add_moment(j, v->trace, &h->shown->moment);
    ct_pool_json_add_without_blocks(j, v->trace);
    ct_json_open(j, "devices", '[');
    for (int d = 0; d < CT_DEVICES; d++)
        if (s->device[d].seen)
            add_device(v, j, s, h, d);
    ct_json_close(j, ']');
    ct_document_add_shared(j, "shared", &h->shown->shared[CT_MAX_DEVICES]);
    add_shared_elsewhere(j, h->shown);
    add_host(v, j, h->shown);
    ct_frag_program_add_json(v, j, &h->shown->program_pools);
    ct_document_end(j);
}

void ct_frag_print(const struct ct_frag_shown *f, struct ct_view *v) {
    if (v->options->json)
        print_json(v, f->scan, &f->json);
    else
        print_text(v, f->scan, &f->text);
}

int ct_view_frag(struct ct_view *v) {
    struct ct_scan s;
    struct ct_scan_request request = ct_view_scan_request_pools(v);
    struct ct_frag_shown *f = ct_frag_begin(v, &s, v->options->json ? CT_FRAG_JSON : CT_FRAG_TEXT);
    const struct ct_listener samples = ct_frag_listener(f);
    request.capacity = 0;
    ct_view_scan_run(v, &s, &request, &samples);
    ct_frag_read_scan(f);
    ct_frag_go_to_moment(f);
    ct_frag_print(f, v);
    ct_frag_free(f);
    ct_scan_free(&s);
    return CT_EXIT_OK;
}
