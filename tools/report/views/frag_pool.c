// SPDX-License-Identifier: Apache-2.0
// Shows how PyTorch's pools develop, which call sites hold segments open, and which requests
// fragmentation obstructed.
#include "views/frag_parts.h"

#include <inttypes.h>

#include "layout/segment_blocks.h"
#include "print/label.h"
#include "print/pool_print.h"
#include "print/print.h"
#include "print/table.h"
#include "replay/torch_segments.h"

enum { TEXT_POINTS = 12, TEXT_WORST = 3, TEXT_HOLDERS = 5, JSON_SEGMENTS = 64 };

int ct_frag_pool_choose_requests(struct ct_frag_requests *q, const struct ct_pool_growths *g,
                                 int device, size_t most) {
    int any = 0;
    struct ct_pool_growth *worst = ct_pool_growth_pick_worst(g, device, most, &q->count);
    q->list = ct_heap_alloc_zeroed(q->count, sizeof *q->list);
    q->done = 0;
    for (size_t i = 0; i < q->count; i++) {
        q->list[i].request = worst[i];
        any |= worst[i].cause == CT_GROWTH_FRAGMENTED;
    }
    free(worst);
    return any;
}

// Requests of one device overlap only if their threads do: the first one to call the driver need
// not be the first one served.
uint64_t ct_frag_pool_find_obstructions(struct ct_frag_requests *q, const struct ct_replay *r,
                                        uint64_t number) {
    for (; q->done < q->count; q->done++) {
        struct ct_frag_request *n = &q->list[q->done];
        if (n->request.cause != CT_GROWTH_FRAGMENTED)
            continue;
        if (n->request.before_event > number)
            return n->request.before_event;
        n->obstruction = ct_obstruction_find(
            r, n->request.device, (enum ct_torch_pool_class)n->request.class, n->request.requested);
    }
    return UINT64_MAX;
}

// ---- text ---------------------------------------------------------------------------------------

static struct ct_human_text age_of(uint64_t now, uint64_t then) {
    return then && now > then ? ct_human_seconds(now - then) : (struct ct_human_text){"-"};
}

static const char *get_module(const struct ct_view *v, uint32_t module, char *to, size_t size) {
    ct_call_sites_base_name(&v->trace->definitions, module, to, size);
    return to;
}

static void print_segment_kinds(struct ct_view *v, const struct ct_replay *now, int device) {
    size_t n;
    char name[100];
    struct ct_torch_segments *list = ct_torch_segments_by_kind(v->trace, &now->pool, device, &n);
    for (size_t i = 0; i < n; i++) {
        const struct ct_torch_segments *o = &list[i];
        fprintf(v->out, "%s %s %s%s%s%s", i ? "," : "", ct_human_count(o->segments).text,
                ct_torch_segments_kind_name(o->kind),
                o->foreign ? " of a MemPool's allocator in " : "",
                o->foreign ? get_module(v, o->module, name, sizeof name) : "", "");
    }
    free(list);
}

static void print_class(struct ct_view *v, const char *class, const struct ct_free_blocks *f) {
    fprintf(v->out, "    %s requests %12s  " CT_WRAP_HANG "in %s, largest %s\n", class,
            ct_label_size(v, f->bytes).text, ct_human_counted(f->ranges, "free block").text,
            ct_pool_text_largest(v, f->largest).text);
}

static void print_lost_blocks(struct ct_view *v, const struct ct_torch_pool_totals *f) {
    if (f->asleep_segment_bytes || f->asleep_bytes)
        ct_print_row(v, "asleep", f->asleep_segment_bytes,
                     "of segments, unmapped: no memory of the device; %s in blocks\n",
                     ct_label_size(v, f->asleep_bytes).text);
    if (f->outside_bytes)
        ct_print_row(v, "outside", f->outside_bytes,
                     "of blocks in memory without a recorded call\n");
}

// PyTorch's own count has blocks that the trace does not have.
static void print_reported(struct ct_view *v, const struct ct_torch_pool_totals *f) {
    if (f->reported && f->allocated != f->block_bytes) {
        ct_print_row(v, "PyTorch", f->reserved,
                     "reserved; %s of it in blocks, as PyTorch counts; %s in %s of the trace\n",
                     ct_label_size(v, f->allocated).text, ct_label_size(v, f->block_bytes).text,
                     ct_human_counted(f->blocks, "block").text);
        return;
    }
    fprintf(v->out, "  PyTorch          %12s  " CT_WRAP_HANG "reserved; %s of it in %s\n",
            f->reported ? ct_label_size(v, f->reserved).text : "-",
            f->reported ? ct_label_size(v, f->allocated).text : "-",
            ct_human_counted(f->blocks, "block").text);
}

static void print_segments(struct ct_view *v, const struct ct_replay *now, int device,
                           const struct ct_torch_pool_totals *f) {
    ct_print_row(v, "segments", f->segment_bytes, "in %s%s",
                 ct_human_counted(f->segments, "segment").text, f->segments ? ":" : "");
    print_segment_kinds(v, now, device);
    putc('\n', v->out);
}

static void print_unreconciled(struct ct_view *v, const struct ct_torch_pool_totals *f) {
    if (f->unreconciled > 0)
        ct_print_row(v, "unreconciled", (uint64_t)f->unreconciled,
                     "reserved by PyTorch without a recorded call to the driver\n");
    else if (f->unreconciled < 0)
        ct_print_row(v, "unreconciled", 0 - (uint64_t)f->unreconciled,
                     "of segments that PyTorch does not count as reserved\n");
}

static void print_free(struct ct_view *v, const struct ct_torch_pool_totals *f) {
    ct_print_row(v, "free inside", f->free.bytes, "in %s, largest %s; external fragmentation %s\n",
                 ct_human_counted(f->free.ranges, "free block").text,
                 ct_pool_text_largest(v, f->free.largest).text, ct_pool_text_fragmentation(f).text);
    print_class(v, "small", &f->of_class[CT_TORCH_POOL_SMALL]);
    print_class(v, "large", &f->of_class[CT_TORCH_POOL_LARGE]);
    ct_print_row(v, "idle", f->idle_bytes, "in %s without blocks: could be freed\n",
                 ct_human_counted(f->idle_segments, "segment").text);
    ct_print_row(v, "held open", f->held_open_bytes, "free in %s that blocks hold open\n",
                 ct_human_counted(f->held_open_segments, "segment").text);
    if (ct_torch_settings_limit_reuse(v->trace))
        fputs(
            "  \"at most\" is an upper bound: a free block may belong to another stream or pool\n",
            v->out);
}

static const struct ct_table_column holder_columns[] = {
    {.head = "free"},
    {.head = "segments", .rank = 2},
    {.head = "in blocks", .rank = 3},
    {.head = "exclusive", .rank = 4},
    {.head = "oldest", .rank = 1},
    {.head = "held by", .kind = CT_TABLE_LABEL},
};

static void add_holder(struct ct_view *v, struct ct_table *t, const struct ct_segment_holder *by,
                       uint64_t now) {
    char label[400];
    ct_call_sites_label(v->sites, by->stack, label, sizeof label);
    ct_table_add_row(t, ct_label_size(v, by->free_bytes).text, ct_human_count(by->segments).text,
                     ct_label_size(v, by->block_bytes).text,
                     ct_label_size(v, by->exclusive_bytes).text, age_of(now, by->oldest_ns).text,
                     label, NULL);
}

static void print_holders(struct ct_view *v, const struct ct_held_segments *h, uint64_t now) {
    const size_t rows = v->options->top ? v->options->top : TEXT_HOLDERS;
    struct ct_table t;
    if (!h->holder_count)
        return;
    ct_table_init(&t, holder_columns, sizeof holder_columns / sizeof *holder_columns, 4);
    for (size_t i = 0; i < h->holder_count && i < rows; i++)
        add_holder(v, &t, &h->holders[i], now);
    ct_table_print(v, &t);
    if (h->holder_count > rows)
        fprintf(v->out, "    %zu more\n", h->holder_count - rows);
}

static void print_held(struct ct_view *v, const struct ct_replay *now, int device, uint64_t t_ns) {
    struct ct_held_segments held;
    ct_held_segments_find(&held, v->sites, now, device);
    print_holders(v, &held, t_ns);
    ct_held_segments_free(&held);
}

void ct_frag_pool_print_state(struct ct_view *v, const struct ct_replay *now, int device,
                              uint64_t t_ns) {
    const struct ct_torch_pool_totals f = ct_torch_pool_totals(&now->pool, &now->live, device);
    if (!f.known)
        return;
    print_segments(v, now, device, &f);
    print_lost_blocks(v, &f);
    print_free(v, &f);
    print_held(v, now, device, t_ns);
}

static void print_obstruction(struct ct_view *v, const struct ct_frag_request *n) {
    const struct ct_obstruction *w = &n->obstruction;
    char label[400];
    if (!w->known) {
        fputs("      no segment is large enough\n", v->out);
        return;
    }
    fprintf(v->out,
            "      in the way at 0x%" PRIx64 ": " CT_WRAP_HANG "%s in %s, the oldest %s old",
            w->start, ct_label_size(v, w->block_bytes).text,
            ct_human_counted(w->blocks, "block").text, age_of(n->request.t_ns, w->oldest_ns).text);
    if (w->largest_count) {
        fputs("; largest: ", v->out);
        ct_call_sites_label(v->sites, w->largest[0].stack, label, sizeof label);
        ct_print_name(v, label);
    }
    putc('\n', v->out);
}

static void print_request(struct ct_view *v, const struct ct_frag_request *n) {
    const struct ct_pool_growth *g = &n->request;
    char label[400];
    ct_call_sites_label(v->sites, g->stack, label, sizeof label);
    fprintf(v->out, "    %s event %" PRIu64 ": " CT_WRAP_HANG "%s %s",
            ct_label_time(v, g->t_ns).text, g->event, ct_label_size(v, g->requested).text,
            g->oom ? "OOM" : "requested");
    if (!g->oom)
        fprintf(v->out, ", grew by %s", ct_label_size(v, g->obtained).text);
    fprintf(v->out, "; before it, %s was free for %s requests, largest %s; ",
            ct_label_size(v, g->free.bytes).text,
            g->class == CT_TORCH_POOL_SMALL ? "small" : "large",
            ct_pool_text_largest(v, g->free.largest).text);
    ct_print_name(v, label);
    putc('\n', v->out);
    if (g->others.free.bytes)
        fprintf(v->out,
                "      other streams when it failed: " CT_WRAP_HANG
                "%s was free, largest %s, which no request of this stream gets\n",
                ct_label_size(v, g->others.free.bytes).text,
                ct_label_size(v, g->others.free.largest).text);
    if (g->cause == CT_GROWTH_FRAGMENTED)
        print_obstruction(v, n);
}

static void print_causes(struct ct_view *v, const char *what, const uint64_t n[CT_GROWTH_CAUSES]) {
    const uint64_t all =
        n[CT_GROWTH_NOT_ENOUGH_FREE] + n[CT_GROWTH_FRAGMENTED] + n[CT_GROWTH_FIT_UNUSED];
    fprintf(
        v->out,
        "  %-16s %12s  " CT_WRAP_HANG
        "time%s: %s with too little free, %s with enough free but in pieces, %s with a large enough "
        "block unused\n",
        what, ct_human_count(all).text, ct_human_plural(all),
        ct_human_count(n[CT_GROWTH_NOT_ENOUGH_FREE]).text,
        ct_human_count(n[CT_GROWTH_FRAGMENTED]).text, ct_human_count(n[CT_GROWTH_FIT_UNUSED]).text);
}

static void print_requests(struct ct_view *v, const struct ct_scan *s,
                           const struct ct_frag_requests *q, int device) {
    const struct ct_pool_growth_counts *c = &s->growths.device[device];
    print_causes(v, "pool grew", c->grown);
    if (c->ooms[CT_GROWTH_NOT_ENOUGH_FREE] || c->ooms[CT_GROWTH_FRAGMENTED] ||
        c->ooms[CT_GROWTH_FIT_UNUSED])
        print_causes(v, "pool OOM", c->ooms);
    if (c->retries)
        fprintf(v->out,
                "  pool retries     %12s  " CT_WRAP_HANG
                "request%s for which PyTorch freed its cached segments\n",
                ct_pool_text_retries(v, c).text, ct_human_plural(c->retries));
    for (size_t i = 0; i < q->count; i++)
        print_request(v, &q->list[i]);
}

// The columns of a table over time. `bound`: what is free can be less than what is shown.
struct point_columns {
    struct ct_table_column list[7];
};

static struct point_columns columns_of(int bound) {
    return (struct point_columns){{
        {.head = "pool sampled at", .kind = CT_TABLE_LEFT},
        {.head = "reserved", .rank = 2},
        {.head = "in blocks", .rank = 3},
        {.head = "free inside"},
        {.head = "number", .rank = 5},
        {.head = bound ? "largest <=" : "largest", .rank = 4},
        {.head = "ext.", .rank = 6},
    }};
}

static void add_point(struct ct_view *v, struct ct_table *t, uint64_t t_ns,
                      const struct ct_torch_pool_totals *f) {
    ct_table_add_row(
        t, ct_label_time(v, t_ns).text, f->reported ? ct_label_size(v, f->reserved).text : "-",
        f->reported ? ct_label_size(v, f->allocated).text : "-",
        ct_label_size(v, f->free.bytes).text, ct_human_count(f->free.ranges).text,
        ct_label_size(v, f->free.largest).text, ct_pool_text_fragmentation(f).text, NULL);
}

static int compare_scatter(const void *a, const void *b) {
    const struct ct_pool_curve_point *x = *(const struct ct_pool_curve_point *const *)a,
                                     *y = *(const struct ct_pool_curve_point *const *)b;
    const uint64_t of_x = x->worst.free.bytes - x->worst.free.largest,
                   of_y = y->worst.free.bytes - y->worst.free.largest;
    if (of_x != of_y)
        return of_x > of_y ? -1 : 1;
    return x->worst_ns < y->worst_ns ? -1 : x->worst_ns > y->worst_ns;
}

// Lists the worst states of a curve, the most scattered bytes first, without those that only
// continue the instant before.
static unsigned list_worst(const struct ct_pool_curve *c, int device,
                           const struct ct_pool_curve_point **worst) {
    unsigned n = 0;
    for (unsigned i = 0; i < c->points; i++) {
        const struct ct_pool_curve_point *p = &c->devices[device][i];
        if (p->worst.known && p->worst.free.bytes > p->worst.free.largest &&
            !(i && p->worst_ns == p[-1].t_ns))
            worst[n++] = p;
    }
    if (n)
        qsort(worst, n, sizeof *worst, compare_scatter);
    return n;
}

static void add_worst(struct ct_view *v, struct ct_table *t, const struct ct_pool_curve *c,
                      int device) {
    const struct ct_pool_curve_point **worst = ct_heap_alloc_zeroed(c->points, sizeof *worst);
    const unsigned n = list_worst(c, device, worst);
    if (n) {
        ct_table_add_row(t, "worst moments", NULL);
    }
    for (unsigned i = 0; i < n && i < TEXT_WORST; i++)
        add_point(v, t, worst[i]->worst_ns, &worst[i]->worst);
    free(worst);
}

static void print_curve(struct ct_view *v, const struct ct_pool_curve *c, int device) {
    const unsigned step = c->points / TEXT_POINTS ? c->points / TEXT_POINTS : 1;
    const struct point_columns columns = columns_of(ct_torch_settings_limit_reuse(v->trace));
    struct ct_table t;
    ct_table_init(&t, columns.list, sizeof columns.list / sizeof *columns.list, 2);
    for (unsigned i = step - 1; i < c->points; i += step)
        if (c->devices[device][i].figures.known)
            add_point(v, &t, c->devices[device][i].t_ns, &c->devices[device][i].figures);
    ct_table_merge_equal(&t);
    add_worst(v, &t, c, device);
    ct_table_print(v, &t);
}

void ct_frag_pool_print(struct ct_view *v, const struct ct_scan *s, const struct ct_replay *now,
                        const struct ct_frag_requests *q, int device, uint64_t t_ns) {
    const struct ct_torch_pool_totals f = ct_torch_pool_totals(&now->pool, &now->live, device);
    if (f.known) {
        print_reported(v, &f);
        print_segments(v, now, device, &f);
        print_unreconciled(v, &f);
        print_lost_blocks(v, &f);
        print_free(v, &f);
        print_held(v, now, device, t_ns);
    }
    if (!s->device[device].pool_at_end.known)
        return;
    print_requests(v, s, q, device);
    if (s->curve.devices[device])
        print_curve(v, &s->curve, device);
}

// ---- JSON ---------------------------------------------------------------------------------------

static void add_class(struct ct_json *j, const char *key, const struct ct_free_blocks *f) {
    ct_json_open(j, key, '{');
    ct_json_number(j, "free_bytes", f->bytes);
    ct_json_number(j, "free_blocks", f->ranges);
    ct_json_number(j, "largest_free_bytes", f->largest);
    ct_json_close(j, '}');
}

static void add_segment_kinds(struct ct_view *v, struct ct_json *j, const struct ct_replay *now,
                              int device) {
    const struct ct_definitions *names = &v->trace->definitions;
    size_t n;
    struct ct_torch_segments *list = ct_torch_segments_by_kind(v->trace, &now->pool, device, &n);
    ct_json_open(j, "segment_kinds", '[');
    for (size_t i = 0; i < n; i++) {
        ct_json_open(j, NULL, '{');
        ct_json_text(j, "kind", ct_torch_segments_kind_name(list[i].kind));
        ct_pool_json_add_module(j, names, list[i].module);
        ct_json_bool(j, "custom_allocator", list[i].foreign);
        ct_json_number(j, "segments", list[i].segments);
        ct_json_number(j, "bytes", list[i].bytes);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
    free(list);
}

static void add_site(struct ct_view *v, struct ct_json *j, uint32_t stack) {
    char label[400];
    ct_call_sites_label(v->sites, stack, label, sizeof label);
    ct_json_text(j, "site", label);
    ct_call_sites_json_stack(j, v->sites, "stack", stack);
}

static void add_held_segments(struct ct_view *v, struct ct_json *j, const struct ct_replay *now,
                              int device) {
    struct ct_held_segments h;
    ct_held_segments_find(&h, v->sites, now, device);
    ct_json_open(j, "held_segments", '[');
    for (size_t i = 0; i < h.segment_count && i < JSON_SEGMENTS; i++) {
        const struct ct_held_segment *g = &h.segments[i];
        ct_json_open(j, NULL, '{');
        ct_json_hex(j, "ptr", g->start);
        ct_json_number(j, "bytes", g->bytes);
        ct_json_number(j, "free_bytes", g->free);
        ct_json_number(j, "blocks", g->blocks);
        ct_json_number(j, "block_bytes", g->block_bytes);
        ct_json_number_or_null(j, "oldest_t_ns", g->oldest_ns != 0, g->oldest_ns);
        add_site(v, j, g->stack);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
    ct_json_open(j, "held_by", '[');
    for (size_t i = 0; i < h.holder_count; i++) {
        const struct ct_segment_holder *by = &h.holders[i];
        ct_json_open(j, NULL, '{');
        ct_json_number(j, "blocks", by->blocks);
        ct_json_number(j, "block_bytes", by->block_bytes);
        ct_json_number_or_null(j, "oldest_t_ns", by->oldest_ns != 0, by->oldest_ns);
        ct_json_number(j, "segments", by->segments);
        ct_json_number(j, "free_bytes", by->free_bytes);
        ct_json_number(j, "exclusive_bytes", by->exclusive_bytes);
        add_site(v, j, by->stack);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
    ct_held_segments_free(&h);
}

static void add_obstruction(struct ct_view *v, struct ct_json *j, const struct ct_obstruction *w) {
    if (!ct_json_open_or_null(j, "in_the_way", w->known, '{'))
        return;
    ct_json_hex(j, "ptr", w->start);
    ct_json_number(j, "bytes", w->bytes);
    ct_json_number(j, "blocks", w->blocks);
    ct_json_number(j, "block_bytes", w->block_bytes);
    ct_json_number_or_null(j, "oldest_t_ns", w->oldest_ns != 0, w->oldest_ns);
    ct_json_open(j, "largest", '[');
    for (unsigned i = 0; i < w->largest_count; i++) {
        const struct ct_obstructing_block *b = &w->largest[i];
        ct_json_open(j, NULL, '{');
        ct_json_hex(j, "ptr", b->start);
        ct_json_number(j, "bytes", b->bytes);
        ct_json_number(j, "event", b->event);
        ct_json_number(j, "t_ns", b->t_ns);
        add_site(v, j, b->stack);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
    ct_json_close(j, '}');
}

static void add_requests(struct ct_view *v, struct ct_json *j, const struct ct_frag_requests *q,
                         int bound) {
    ct_json_open(j, "requests", '[');
    for (size_t i = 0; i < q->count; i++) {
        const struct ct_pool_growth *g = &q->list[i].request;
        ct_json_open(j, NULL, '{');
        ct_json_number(j, "event", g->event);
        ct_json_number(j, "t_ns", g->t_ns);
        ct_json_number_or_null(j, "tid", g->thread != 0,
                               v->trace->definitions.threads[g->thread].tid);
        ct_json_text(j, "outcome", g->oom ? "oom" : "grown");
        ct_json_text(j, "cause", ct_pool_growth_cause_name((enum ct_growth_cause)g->cause));
        ct_json_text(j, "class", g->class == CT_TORCH_POOL_SMALL ? "small" : "large");
        ct_json_number(j, "requested_bytes", g->requested);
        ct_json_number_or_null(j, "obtained_bytes", !g->oom, g->obtained);
        ct_json_bool(j, "driver_oom", g->driver_failed);
        ct_json_number(j, "free_bytes", g->free.bytes);
        ct_json_number(j, "free_blocks", g->free.ranges);
        ct_json_number(j, "largest_free_bytes", g->free.largest);
        ct_json_bool(j, "largest_free_is_bound", bound);
        ct_pool_json_add_other_streams(j, &g->others);
        add_obstruction(v, j, &q->list[i].obstruction);
        add_site(v, j, g->stack);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
}

static void add_blocks(struct ct_view *v, struct ct_json *j, const struct ct_replay *now,
                       int device, const struct ct_torch_pool_totals *f) {
    ct_json_number(j, "blocks", f->blocks);
    ct_json_number(j, "block_bytes", f->block_bytes);
    ct_json_number(j, "outside_segments_bytes", f->outside_bytes);
    ct_json_number(j, "idle_segments", f->idle_segments);
    ct_json_number(j, "idle_bytes", f->idle_bytes);
    ct_json_number(j, "held_segment_count", f->held_open_segments);
    ct_json_number(j, "held_free_bytes", f->held_open_bytes);
    add_class(j, "small", &f->of_class[CT_TORCH_POOL_SMALL]);
    add_class(j, "large", &f->of_class[CT_TORCH_POOL_LARGE]);
    add_segment_kinds(v, j, now, device);
    add_held_segments(v, j, now, device);
}

static void add_pool(struct ct_view *v, struct ct_json *j, const struct ct_replay *now,
                     int device) {
    const struct ct_torch_pool_totals figures =
        ct_torch_pool_totals(&now->pool, &now->live, device);
    const struct ct_torch_pool_totals *f = &figures;
    const int bound = ct_torch_settings_limit_reuse(v->trace);
    if (!ct_json_open_or_null(j, "pool", f->known, '{'))
        return;
    ct_pool_json_add_figures(j, f, bound);
    add_blocks(v, j, now, device, f);
    ct_json_close(j, '}');
}

void ct_frag_pool_add_state(struct ct_view *v, struct ct_json *j, const struct ct_replay *now,
                            int device) {
    const struct ct_torch_pool_totals f = ct_torch_pool_totals(&now->pool, &now->live, device);
    if (!ct_json_open_or_null(j, "pool", f.known, '{'))
        return;
    ct_pool_json_add_segments(j, &f, ct_torch_settings_limit_reuse(v->trace));
    ct_pool_json_add_asleep(j, &f);
    add_blocks(v, j, now, device, &f);
    ct_json_close(j, '}');
}

void ct_frag_pool_add_json(struct ct_view *v, struct ct_json *j, const struct ct_scan *s,
                           const struct ct_replay *now, const struct ct_frag_requests *q,
                           int device) {
    const int bound = ct_torch_settings_limit_reuse(v->trace);
    add_pool(v, j, now, device);
    ct_pool_json_add_growths(j, v, &s->growths.device[device], s->device[device].pool_at_end.known);
    add_requests(v, j, q, bound);
    ct_pool_json_add_curve(j, &s->curve, device, bound);
}
