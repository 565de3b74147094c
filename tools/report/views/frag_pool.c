// SPDX-License-Identifier: Apache-2.0
// frag, of PyTorch's pools: how they develop, who pins segments, and which requests did not find room in one piece.
#include "views/frag_pool.h"

#include <inttypes.h>

#include "replay/torch_settings.h"

enum { TEXT_POINTS = 12, WORST = 3, PINNERS = 5, SEGMENTS_IN_JSON = 64 };

void ct_frag_pool_choose_requests(struct ct_frag_requests *q, const struct ct_pool_growths *g, int device,
                        size_t most) {
    struct ct_pool_growth *worst = ct_pool_growth_pick_worst(g, device, most, &q->count);
    q->list = ct_heap_alloc_zeroed(q->count, sizeof *q->list);
    q->at = 0;
    for (size_t i = 0; i < q->count; i++)
        q->list[i].request = worst[i];
    free(worst);
}

// (Of one device, requests overlap only where threads do: who asked first need not be served first.)
uint64_t ct_frag_pool_find_obstructions(struct ct_frag_requests *q, const struct ct_replay *r, uint64_t number) {
    for (size_t i = q->at; i < q->count && q->list[i].request.before_event <= number; i++) {
        struct ct_frag_request *n = &q->list[i];
        if (n->request.kind == CT_GROWTH_FRAGMENTED)
            n->way = ct_obstruction_find(r, n->request.device, (enum ct_torch_pool_class)n->request.class,
                                    n->request.requested);
        q->at = i + 1;
    }
    return q->at < q->count ? q->list[q->at].request.before_event : UINT64_MAX;
}

// ---- text ------------------------------------------------------------------------------------------

static struct ct_human_text age(uint64_t now, uint64_t then) {
    return then && now > then ? ct_human_seconds(now - then) : (struct ct_human_text){"-"};
}

static const char *module_text(const struct ct_view *v, uint32_t module, char *to, size_t size) {
    ct_call_sites_base_name(&v->trace->definitions, module, to, size);
    return to;
}

static void put_origins(struct ct_view *v, const struct ct_scan *s, int device) {
    size_t n;
    char name[100];
    struct ct_torch_segments *list = ct_torch_segments_by_kind(v->trace, &s->end.pool, device, &n);
    for (size_t i = 0; i < n; i++) {
        const struct ct_torch_segments *o = &list[i];
        fprintf(v->out, "%s %s %s%s%s%s", i ? "," : "", ct_human_count(o->segments).text,
                ct_torch_segments_kind_name(o->kind), o->foreign ? " of a MemPool's allocator in " : "",
                o->foreign ? module_text(v, o->module, name, sizeof name) : "", "");
    }
    free(list);
}

static void put_figures(struct ct_view *v, const struct ct_scan *s, int device) {
    const struct ct_torch_pool_totals *f = &s->device[device].pool_at_end;
    fprintf(v->out, "  PyTorch          %12s  reserved; %s of it in %s block%s\n",
            f->reported ? ct_label_size(v, f->reserved).text : "-",
            f->reported ? ct_label_size(v, f->allocated).text : "-", ct_human_count(f->blocks).text,
            ct_human_plural(f->blocks));
    fprintf(v->out, "  segments         %12s  in %s segment%s:", ct_label_size(v, f->segment_bytes).text,
            ct_human_count(f->segments).text, ct_human_plural(f->segments));
    put_origins(v, s, device);
    putc('\n', v->out);
    if (f->unreconciled)
        fprintf(v->out, "  unreconciled     %12s  %s\n",
                ct_label_size(v, f->unreconciled < 0 ? 0 - (uint64_t)f->unreconciled
                                               : (uint64_t)f->unreconciled)
                    .text,
                f->unreconciled < 0
                    ? "of segments that PyTorch does not count as reserved"
                    : "that PyTorch has reserved, but no call to the driver was seen for it");
    if (f->outside_bytes)
        fprintf(v->out, "  outside          %12s  of blocks in memory that is not known\n",
                ct_label_size(v, f->outside_bytes).text);
    fprintf(
        v->out, "  free inside      %12s  in %s piece%s, largest %s; external fragmentation %s\n",
        ct_label_size(v, f->free.bytes).text, ct_human_count(f->free.ranges).text, ct_human_plural(f->free.ranges),
        ct_pool_text_largest(v, f->free.largest).text, ct_pool_text_fragmentation(f).text);
    const struct ct_free_blocks *small = &f->of_class[CT_TORCH_POOL_SMALL];
    fprintf(v->out, "    small requests %12s  in %s piece%s, largest %s\n",
            ct_label_size(v, small->bytes).text, ct_human_count(small->ranges).text, ct_human_plural(small->ranges),
            ct_pool_text_largest(v, small->largest).text);
    fprintf(v->out, "  without blocks   %12s  in %s segment%s: could be given back\n",
            ct_label_size(v, f->idle_bytes).text, ct_human_count(f->idle_segments).text,
            ct_human_plural(f->idle_segments));
    fprintf(v->out, "  pinned           %12s  free in %s segment%s that blocks keep\n",
            ct_label_size(v, f->held_open_bytes).text, ct_human_count(f->held_open_segments).text,
            ct_human_plural(f->held_open_segments));
    if (ct_torch_settings_limit_reuse(v->trace))
        fputs(
            "  \"at most\": what is free for another stream or pool, or still in use on one, is in it\n",
            v->out);
}

static void put_pinners(struct ct_view *v, const struct ct_held_segments *p, uint64_t now) {
    const size_t rows = v->options->top ? v->options->top : PINNERS;
    char label[400];
    if (!p->pinner_count)
        return;
    fprintf(v->out, "  %spinned by %12s %8s %12s %12s %12s  call site%s\n", v->term->dim, "free",
            "segments", "in blocks", "alone", "oldest", v->term->reset);
    for (size_t i = 0; i < p->pinner_count && i < rows; i++) {
        const struct ct_segment_holder *by = &p->pinners[i];
        ct_call_sites_label(v->sites, by->stack, label, sizeof label);
        fprintf(v->out, "            %12s %8s %12s %12s %12s  ", ct_label_size(v, by->free_bytes).text,
                ct_human_count(by->segments).text, ct_label_size(v, by->block_bytes).text,
                ct_label_size(v, by->alone_bytes).text, age(now, by->oldest_ns).text);
        ct_print_label(v, label, 74);
        putc('\n', v->out);
    }
    if (p->pinner_count > rows)
        fprintf(v->out, "            %zu more\n", p->pinner_count - rows);
}

static void put_way(struct ct_view *v, const struct ct_frag_request *n) {
    const struct ct_obstruction *w = &n->way;
    char label[400];
    if (!w->known) {
        fputs("      no segment is as large\n", v->out);
        return;
    }
    fprintf(v->out, "      in the way at 0x%" PRIx64 ": %s in %s block%s, the oldest %s old",
            w->start, ct_label_size(v, w->block_bytes).text, ct_human_count(w->blocks).text,
            ct_human_plural(w->blocks), age(n->request.t_ns, w->oldest_ns).text);
    if (w->named_count) {
        fputs("; largest: ", v->out);
        ct_call_sites_label(v->sites, w->named[0].stack, label, sizeof label);
        ct_print_label(v, label, 80);
    }
    putc('\n', v->out);
}

static void put_request(struct ct_view *v, const struct ct_frag_request *n) {
    const struct ct_pool_growth *g = &n->request;
    char label[400];
    ct_call_sites_label(v->sites, g->stack, label, sizeof label);
    fprintf(v->out, "    %s event %" PRIu64 ": %s %s", ct_label_time(v, g->t_ns).text, g->event,
            ct_label_size(v, g->requested).text, g->refused ? "refused" : "asked");
    if (!g->refused)
        fprintf(v->out, ", grew by %s", ct_label_size(v, g->obtained).text);
    fprintf(v->out, "; %s was free, largest %s; ", ct_label_size(v, g->free.bytes).text,
            ct_pool_text_largest(v, g->free.largest).text);
    ct_print_label(v, label, 80);
    putc('\n', v->out);
    if (g->kind == CT_GROWTH_FRAGMENTED)
        put_way(v, n);
}

static void put_requests(struct ct_view *v, const struct ct_scan *s,
                         const struct ct_frag_requests *q, int device) {
    const struct ct_pool_growth_counts *c = &s->growths.device[device];
    const uint64_t grown =
        c->grown[CT_GROWTH_NOT_ENOUGH_FREE] + c->grown[CT_GROWTH_FRAGMENTED] + c->grown[CT_GROWTH_FIT_UNUSED];
    const uint64_t refused =
        c->refused[CT_GROWTH_NOT_ENOUGH_FREE] + c->refused[CT_GROWTH_FRAGMENTED] + c->refused[CT_GROWTH_FIT_UNUSED];
    fprintf(v->out,
            "  grew             %12s  time%s: %s too little free, %s enough free but in pieces, "
            "%s a large enough piece not taken\n",
            ct_human_count(grown).text, ct_human_plural(grown), ct_human_count(c->grown[CT_GROWTH_NOT_ENOUGH_FREE]).text,
            ct_human_count(c->grown[CT_GROWTH_FRAGMENTED]).text, ct_human_count(c->grown[CT_GROWTH_FIT_UNUSED]).text);
    if (refused)
        fprintf(
            v->out,
            "  refused          %12s  time%s: %s too little free, %s enough free but in pieces, "
            "%s a large enough piece not taken\n",
            ct_human_count(refused).text, ct_human_plural(refused), ct_human_count(c->refused[CT_GROWTH_NOT_ENOUGH_FREE]).text,
            ct_human_count(c->refused[CT_GROWTH_FRAGMENTED]).text,
            ct_human_count(c->refused[CT_GROWTH_FIT_UNUSED]).text);
    if (c->retries)
        fprintf(
            v->out,
            "  retries          %12s  request%s that PyTorch gave its cached segments back for\n",
            ct_pool_text_retries(v, c).text, ct_human_plural(c->retries));
    for (size_t i = 0; i < q->count; i++)
        put_request(v, &q->list[i]);
}

static void put_point(struct ct_view *v, uint64_t t_ns, const struct ct_torch_pool_totals *f) {
    fprintf(v->out, "  %-9s %12s %12s %12s %8s %20s %6s\n", ct_label_time(v, t_ns).text,
            f->reported ? ct_label_size(v, f->reserved).text : "-",
            f->reported ? ct_label_size(v, f->allocated).text : "-", ct_label_size(v, f->free.bytes).text,
            ct_human_count(f->free.ranges).text, ct_pool_text_largest(v, f->free.largest).text,
            ct_pool_text_fragmentation(f).text);
}

static int more_scattered(const void *a, const void *b) {
    const struct ct_pool_curve_point *x = *(const struct ct_pool_curve_point *const *)a,
                                *y = *(const struct ct_pool_curve_point *const *)b;
    const uint64_t of_x = x->worst.free.bytes - x->worst.free.largest,
                   of_y = y->worst.free.bytes - y->worst.free.largest;
    if (of_x != of_y)
        return of_x > of_y ? -1 : 1;
    return x->worst_ns < y->worst_ns ? -1 : x->worst_ns > y->worst_ns;
}

// The worst moments of a curve, the most scattered bytes first; without those that only go on from the instant before.
static unsigned worst_of(const struct ct_pool_curve *c, int device,
                         const struct ct_pool_curve_point **worst) {
    unsigned n = 0;
    for (unsigned i = 0; i < c->points; i++) {
        const struct ct_pool_curve_point *p = &c->of[device][i];
        if (p->worst.known && p->worst.free.bytes > p->worst.free.largest &&
            !(i && p->worst_ns == p[-1].t_ns))
            worst[n++] = p;
    }
    if (n)
        qsort(worst, n, sizeof *worst, more_scattered);
    return n;
}

static void put_curve(struct ct_view *v, const struct ct_pool_curve *c, int device) {
    const struct ct_pool_curve_point **worst = ct_heap_alloc_zeroed(c->points, sizeof *worst);
    const unsigned step = c->points / TEXT_POINTS ? c->points / TEXT_POINTS : 1;
    fprintf(v->out, "  %spool %16s %12s %12s %8s %20s %6s%s\n", v->term->dim, "reserved",
            "in blocks", "free inside", "pieces", "largest", "ext.", v->term->reset);
    for (unsigned i = step - 1; i < c->points; i += step)
        if (c->of[device][i].at.known)
            put_point(v, c->of[device][i].t_ns, &c->of[device][i].at);
    const unsigned n = worst_of(c, device, worst);
    if (n)
        fprintf(v->out, "  %sworst moments%s\n", v->term->dim, v->term->reset);
    for (unsigned i = 0; i < n && i < WORST; i++)
        put_point(v, worst[i]->worst_ns, &worst[i]->worst);
    free(worst);
}

void ct_frag_pool_print(struct ct_view *v, const struct ct_scan *s, const struct ct_frag_requests *q,
                 int device) {
    const struct ct_trace *t = v->trace;
    struct ct_held_segments pinned;
    if (!s->device[device].pool_at_end.known)
        return;
    put_figures(v, s, device);
    ct_held_segments_find(&pinned, &s->end, device);
    put_pinners(v, &pinned, v->to_ns < t->t_last_ns ? v->to_ns : t->t_last_ns);
    ct_held_segments_free(&pinned);
    put_requests(v, s, q, device);
    if (s->curve.of[device])
        put_curve(v, &s->curve, device);
}

// ---- JSON ------------------------------------------------------------------------------------------

static void json_class(struct ct_json *j, const char *key, const struct ct_free_blocks *f) {
    ct_json_open(j, key, '{');
    ct_json_number(j, "free_bytes", f->bytes);
    ct_json_number(j, "free_blocks", f->ranges);
    ct_json_number(j, "largest_free_bytes", f->largest);
    ct_json_close(j, '}');
}

static void json_origins(struct ct_view *v, struct ct_json *j, const struct ct_scan *s,
                         int device) {
    const struct ct_definitions *names = &v->trace->definitions;
    size_t n;
    struct ct_torch_segments *list = ct_torch_segments_by_kind(v->trace, &s->end.pool, device, &n);
    ct_json_open(j, "origins", '[');
    for (size_t i = 0; i < n; i++) {
        ct_json_open(j, NULL, '{');
        ct_json_text(j, "origin", ct_torch_segments_kind_name(list[i].kind));
        ct_pool_json_add_module(j, names, list[i].module);
        ct_json_bool(j, "foreign", list[i].foreign);
        ct_json_number(j, "segments", list[i].segments);
        ct_json_number(j, "bytes", list[i].bytes);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
    free(list);
}

static void json_site(struct ct_view *v, struct ct_json *j, uint32_t stack) {
    char label[400];
    ct_call_sites_label(v->sites, stack, label, sizeof label);
    ct_json_text(j, "site", label);
    ct_call_sites_json_stack(j, v->sites, "stack", stack);
}

static void json_pinned(struct ct_view *v, struct ct_json *j, const struct ct_scan *s, int device) {
    struct ct_held_segments p;
    ct_held_segments_find(&p, &s->end, device);
    ct_json_open(j, "pinned_segments", '[');
    for (size_t i = 0; i < p.segment_count && i < SEGMENTS_IN_JSON; i++) {
        const struct ct_held_segment *g = &p.segments[i];
        ct_json_open(j, NULL, '{');
        ct_json_hex(j, "ptr", g->start);
        ct_json_number(j, "bytes", g->bytes);
        ct_json_number(j, "free_bytes", g->free);
        ct_json_number(j, "blocks", g->blocks);
        ct_json_number(j, "block_bytes", g->block_bytes);
        ct_json_number_or_null(j, "oldest_t_ns", g->oldest_ns != 0, g->oldest_ns);
        json_site(v, j, g->stack);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
    ct_json_open(j, "pinned_by", '[');
    for (size_t i = 0; i < p.pinner_count; i++) {
        const struct ct_segment_holder *by = &p.pinners[i];
        ct_json_open(j, NULL, '{');
        ct_json_number(j, "blocks", by->blocks);
        ct_json_number(j, "block_bytes", by->block_bytes);
        ct_json_number_or_null(j, "oldest_t_ns", by->oldest_ns != 0, by->oldest_ns);
        ct_json_number(j, "segments", by->segments);
        ct_json_number(j, "free_bytes", by->free_bytes);
        ct_json_number(j, "alone_bytes", by->alone_bytes);
        json_site(v, j, by->stack);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
    ct_held_segments_free(&p);
}

static void json_counts(struct ct_json *j, const char *key, const uint64_t n[CT_GROWTH_CAUSES]) {
    ct_json_open(j, key, '{');
    for (int k = 0; k < CT_GROWTH_CAUSES; k++)
        ct_json_number(j, ct_pool_growth_cause_name((enum ct_growth_cause)k), n[k]);
    ct_json_close(j, '}');
}

static void json_way(struct ct_view *v, struct ct_json *j, const struct ct_obstruction *w) {
    if (!w->known) {
        ct_json_null(j, "in_the_way");
        return;
    }
    ct_json_open(j, "in_the_way", '{');
    ct_json_hex(j, "ptr", w->start);
    ct_json_number(j, "bytes", w->bytes);
    ct_json_number(j, "blocks", w->blocks);
    ct_json_number(j, "block_bytes", w->block_bytes);
    ct_json_number_or_null(j, "oldest_t_ns", w->oldest_ns != 0, w->oldest_ns);
    ct_json_open(j, "largest", '[');
    for (unsigned i = 0; i < w->named_count; i++) {
        const struct ct_obstructing_block *b = &w->named[i];
        ct_json_open(j, NULL, '{');
        ct_json_hex(j, "ptr", b->start);
        ct_json_number(j, "bytes", b->bytes);
        ct_json_number(j, "event", b->event);
        ct_json_number(j, "t_ns", b->t_ns);
        json_site(v, j, b->stack);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
    ct_json_close(j, '}');
}

static void json_requests(struct ct_view *v, struct ct_json *j, const struct ct_frag_requests *q,
                          int bound) {
    ct_json_open(j, "requests", '[');
    for (size_t i = 0; i < q->count; i++) {
        const struct ct_pool_growth *g = &q->list[i].request;
        ct_json_open(j, NULL, '{');
        ct_json_number(j, "event", g->event);
        ct_json_number(j, "t_ns", g->t_ns);
        ct_json_number_or_null(j, "tid", g->thread != 0, v->trace->definitions.threads[g->thread].tid);
        ct_json_text(j, "outcome", g->refused ? "refused" : "grown");
        ct_json_text(j, "lack", ct_pool_growth_cause_name((enum ct_growth_cause)g->kind));
        ct_json_text(j, "class", g->class == CT_TORCH_POOL_SMALL ? "small" : "large");
        ct_json_number(j, "requested_bytes", g->requested);
        ct_json_number_or_null(j, "obtained_bytes", !g->refused, g->obtained);
        ct_json_bool(j, "driver_refused", g->driver_refused);
        ct_json_number(j, "free_bytes", g->free.bytes);
        ct_json_number(j, "free_blocks", g->free.ranges);
        ct_json_number(j, "largest_free_bytes", g->free.largest);
        ct_json_bool(j, "largest_free_is_bound", bound);
        json_way(v, j, &q->list[i].way);
        json_site(v, j, g->stack);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
}

void ct_frag_pool_add_json(struct ct_view *v, struct ct_json *j, const struct ct_scan *s,
                       const struct ct_frag_requests *q, int device) {
    const struct ct_torch_pool_totals *f = &s->device[device].pool_at_end;
    const int bound = ct_torch_settings_limit_reuse(v->trace);
    if (!f->known) {
        ct_json_null(j, "pool");
        ct_pool_json_add_curve(j, &s->curve, device, bound);
        return;
    }
    ct_json_open(j, "pool", '{');
    ct_pool_json_add_figures(j, f, bound);
    ct_json_number(j, "blocks", f->blocks);
    ct_json_number(j, "block_bytes", f->block_bytes);
    ct_json_number(j, "outside_bytes", f->outside_bytes);
    ct_json_number(j, "segments", f->segments);
    ct_json_number(j, "segment_bytes", f->segment_bytes);
    ct_json_number(j, "idle_segments", f->idle_segments);
    ct_json_number(j, "idle_bytes", f->idle_bytes);
    ct_json_number(j, "pinned_segment_count", f->held_open_segments);
    ct_json_number(j, "pinned_bytes", f->held_open_bytes);
    json_class(j, "small", &f->of_class[CT_TORCH_POOL_SMALL]);
    json_class(j, "large", &f->of_class[CT_TORCH_POOL_LARGE]);
    json_origins(v, j, s, device);
    json_pinned(v, j, s, device);
    json_counts(j, "grown", s->growths.device[device].grown);
    json_counts(j, "refused", s->growths.device[device].refused);
    ct_pool_json_add_retries(j, v, &s->growths.device[device], 1);
    json_requests(v, j, q, bound);
    ct_json_close(j, '}');
    ct_pool_json_add_curve(j, &s->curve, device, bound);
}
