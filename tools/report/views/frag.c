// SPDX-License-Identifier: Apache-2.0
// frag: what was free but could not be used. Between the driver's allocations that is inferred from their addresses, inside
// PyTorch's segments it is known (view_pool.c).
#include <inttypes.h>

#include "replay/torch_settings.h"
#include "views/frag_pool.h"

enum { TEXT_SAMPLES = 12, JSON_SAMPLES = 64, TEXT_REQUESTS = 3, JSON_REQUESTS = 100 };

struct sample {
    uint64_t t_ns, live_bytes;
    struct ct_address_layout frag;
    struct ct_breakdown split;
};

struct history {
    struct sample *samples; // devices x count
    unsigned count;
    int device[CT_DEVICES]; // place of a device's samples, -1 = not seen
    int devices;
    uint64_t capacity[CT_DEVICES];
    struct ct_frag_requests requests[CT_DEVICES];
};

static void take(struct history *h, const struct ct_replay *r, unsigned at, uint64_t t_ns) {
    for (int d = 0; d < CT_DEVICES; d++) {
        if (h->device[d] < 0)
            continue;
        struct sample *to = &h->samples[(unsigned)h->device[d] * h->count + at];
        to->t_ns = t_ns;
        to->live_bytes = r->live.device[d].live_bytes;
        to->frag = ct_address_layout_measure(r, d, h->capacity[d]);
        to->split = ct_replay_split(r, d);
    }
}

static uint64_t see_requests(struct history *h, const struct ct_replay *r, uint64_t number) {
    uint64_t due = UINT64_MAX;
    for (int d = 0; d < CT_DEVICES; d++) {
        const uint64_t next = ct_frag_pool_find_obstructions(&h->requests[d], r, number);
        due = next < due ? next : due;
    }
    return due;
}

// The state at `count` instants, evenly spread over the range; the last one is its end. That is where the scan's
// replay ended, too: it begins anew, so that not two of them have to be in memory.
static void history(struct ct_view *v, struct history *h, struct ct_scan *s) {
    const struct ct_trace *t = v->trace;
    struct ct_replay *r = &s->end;
    const struct ct_event *e;
    uint64_t number;
    const uint64_t from = v->from_ns > t->t_first_ns ? v->from_ns : t->t_first_ns;
    const uint64_t to = v->to_ns < t->t_last_ns ? v->to_ns : t->t_last_ns;
    const uint64_t span = to > from ? to - from : 0;
    uint64_t due = 0;
    unsigned at = 0;
    h->devices = 0;
    for (int d = 0; d < CT_DEVICES; d++) {
        h->device[d] = s->device[d].seen ? h->devices++ : -1;
        h->capacity[d] = ct_capacity_find(t, r, d).bytes;
    }
    h->samples = ct_heap_alloc_zeroed((size_t)h->devices * h->count, sizeof *h->samples);
    ct_replay_free(r);
    ct_replay_init(r, NULL, NULL);
    r->tiles = 1;
    ct_trace_rewind(v->trace);
#define INSTANT(i) (from + (uint64_t)((unsigned __int128)span * ((i) + 1) / h->count))
    while ((e = ct_replay_next(r, v->trace, &number)) && e->t_ns <= v->to_ns) {
        for (; at < h->count && e->t_ns > INSTANT(at); at++)
            take(h, r, at, INSTANT(at));
        if (r->pool.on && number >= due)
            due = see_requests(h, r, number);
        ct_replay_apply(r, e, number);
    }
    for (; at < h->count; at++)
        take(h, r, at, INSTANT(at));
#undef INSTANT
    ct_replay_stop(r);
}

static int enough_was_free(const struct ct_refusal *r, int device) {
    return r->device == device && ct_oom_reason_find(r, 0).why == CT_OOM_REASON_ENOUGH_FREE;
}

static size_t count_enough(const struct ct_scan *s, int device) {
    size_t n = 0;
    for (size_t i = 0; i < s->refusal_count; i++)
        n += (size_t)enough_was_free(&s->refusals[i], device);
    return n;
}

// ---- text ------------------------------------------------------------------------------------------

static void put_frag(struct ct_view *v, const struct ct_address_layout *f) {
    const uint64_t small = f->small_blocks << 21;
    fprintf(v->out,
            "  address gaps     %12s  in %s gap%s between %s live range%s, largest %s (inferred)\n",
            ct_label_size(v, f->gap_bytes).text, ct_human_count(f->gaps).text, ct_human_plural(f->gaps),
            ct_human_count(f->ranges).text, ct_human_plural(f->ranges), ct_label_size(v, f->gap_max).text);
    fprintf(v->out,
            "  rounding         %12s  of large allocations up to multiples of 2 MiB (inferred)\n",
            ct_label_size(v, f->rounding_bytes).text);
    fprintf(
        v->out,
        "  small blocks     %12s  unused in %s block%s of 2 MiB with %s of small allocations (inferred)\n",
        ct_label_size(v, small > f->small_bytes ? small - f->small_bytes : 0).text,
        ct_human_count(f->small_blocks).text, ct_human_plural(f->small_blocks),
        ct_label_size(v, f->small_bytes).text);
}

static void put_pools(struct ct_view *v, const struct ct_live_totals *m) {
    for (size_t i = 0; i < m->pool_count; i++) {
        const struct ct_mempool_usage *p = &m->pools[i];
        if (!p->reserved) // never sampled, or not by a number
            continue;
        fprintf(v->out,
                "  pool 0x%-9" PRIx64 " %12s  reserved and not handed out (%s of %s handed out)\n",
                p->pool,
                ct_label_size(v, p->reserved > p->handed_out ? p->reserved - p->handed_out : 0).text,
                ct_label_size(v, p->handed_out).text, ct_label_size(v, p->reserved).text);
    }
}

// Memory of other processes that is open here, and of this one that others may have open.
static void put_shared(struct ct_view *v, const struct ct_scan *s, int device) {
    const struct ct_shared m = ct_sharing_sum(&s->sharing, &s->end.live, device);
    if (m.offered)
        fprintf(
            v->out,
            "  shared           %12s  in %s allocation%s that handles for other processes were made of\n",
            ct_label_size(v, m.offered_bytes).text, ct_human_count(m.offered).text, ct_human_plural(m.offered));
    if (m.opened)
        fprintf(v->out,
                "  of others        %12s  in %s allocation%s of other processes, opened by IPC\n",
                "-", ct_human_count(m.opened).text, ct_human_plural(m.opened));
    if (m.imported)
        fprintf(v->out, "  of others        %12s  mapped of %s handle%s from other processes\n",
                ct_label_size(v, m.imported_bytes).text, ct_human_count(m.imported).text,
                ct_human_plural(m.imported));
}

// An import does not tell the device that the memory is on.
static void put_unplaced(struct ct_view *v, const struct ct_scan *s) {
    const struct ct_shared m = ct_sharing_sum(&s->sharing, &s->end.live, CT_MAX_DEVICES);
    if (m.offered || m.opened || m.imported)
        fprintf(v->out, "%son a device that no call told%s\n", v->term->bold, v->term->reset);
    put_shared(v, s, CT_MAX_DEVICES);
}

static void put_host(struct ct_view *v, const struct ct_scan *s) {
    size_t n;
    char name[100];
    struct ct_host_memory *list = ct_host_memory_list(&v->trace->definitions, &s->end.live, &n);
    if (n)
        fprintf(v->out, "%spage-locked host memory at the end%s\n", v->term->bold, v->term->reset);
    for (size_t i = 0; i < n; i++) {
        if (list[i].module)
            ct_call_sites_base_name(&v->trace->definitions, list[i].module, name, sizeof name);
        fprintf(v->out, "  %-16s %12s  in %s piece%s by %s\n",
                list[i].registered ? "registered" : "allocated", ct_label_size(v, list[i].bytes).text,
                ct_human_count(list[i].pieces).text, ct_human_plural(list[i].pieces),
                list[i].module ? name : "-");
    }
    free(list);
}

static void put_refusals(struct ct_view *v, const struct ct_scan *s, int device) {
    size_t n = count_enough(s, device), shown = 0;
    const unsigned most = v->options->top ? v->options->top : 5;
    if (!n) {
        fputs("  refusals         none although enough was free\n", v->out);
        return;
    }
    fprintf(v->out, "  %srefusals         %zu although enough was free in total:%s\n", v->term->red,
            n, v->term->reset);
    for (size_t i = s->refusal_count; i-- > 0 && shown < most;) {
        const struct ct_refusal *r = &s->refusals[i];
        if (!enough_was_free(r, device))
            continue;
        shown++;
        fprintf(v->out, "    %s event %" PRIu64 ": asked %s, free %s\n", ct_label_time(v, r->t_ns).text,
                r->event, ct_label_size(v, r->bytes).text,
                ct_label_size(v, r->reading_known ? r->free : r->split.free).text);
    }
}

static void put_device(struct ct_view *v, const struct ct_scan *s, const struct history *h, int d) {
    const struct sample *samples = &h->samples[(unsigned)h->device[d] * h->count];
    struct ct_live_totals end;
    ct_live_at_read(&end, &s->end, d, ct_capacity_find(v->trace, &s->end, d).bytes);
    fprintf(v->out, "%s%s at the end%s: %s in %s allocation%s\n", v->term->bold,
            ct_label_device(d).text, v->term->reset, ct_label_size(v, end.bytes).text,
            ct_human_count(end.count).text, ct_human_plural(end.count));
    put_frag(v, &end.frag);
    put_pools(v, &end);
    put_shared(v, s, d);
    put_refusals(v, s, d);
    ct_frag_pool_print(v, s, &h->requests[d], d);
    fprintf(v->out, "  %sover time %12s %12s %8s %12s %12s%s\n", v->term->dim, "allocated", "gaps",
            "number", "largest", "free (about)", v->term->reset);
    for (unsigned i = 0; i < h->count; i++) {
        const struct sample *p = &samples[i];
        fprintf(v->out, "  %-9s %12s %12s %8s %12s %12s\n", ct_label_time(v, p->t_ns).text,
                ct_label_size(v, p->live_bytes).text, ct_label_size(v, p->frag.gap_bytes).text,
                ct_human_count(p->frag.gaps).text, ct_label_size(v, p->frag.gap_max).text,
                p->split.used_known ? ct_label_size(v, p->split.free).text : "-");
    }
    ct_live_at_free(&end);
}

// ---- JSON ------------------------------------------------------------------------------------------

static void json_frag(struct ct_json *j, const struct ct_address_layout *f) {
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

static void json_shared(struct ct_json *j, const struct ct_scan *s, int device) {
    const struct ct_shared m = ct_sharing_sum(&s->sharing, &s->end.live, device);
    ct_json_open(j, "shared", '{');
    ct_json_number(j, "offered", m.offered);
    ct_json_number(j, "offered_bytes", m.offered_bytes);
    ct_json_number(j, "opened", m.opened);
    ct_json_number(j, "imported", m.imported);
    ct_json_number(j, "imported_bytes", m.imported_bytes);
    ct_json_close(j, '}');
}

static void json_host(struct ct_view *v, struct ct_json *j, const struct ct_scan *s) {
    const struct ct_definitions *names = &v->trace->definitions;
    size_t n;
    struct ct_host_memory *list = ct_host_memory_list(names, &s->end.live, &n);
    ct_json_open(j, "host", '[');
    for (size_t i = 0; i < n; i++) {
        ct_json_open(j, NULL, '{');
        ct_json_text(j, "origin", list[i].registered ? "registered" : "allocated");
        ct_pool_json_add_module(j, names, list[i].module);
        ct_json_number(j, "pieces", list[i].pieces);
        ct_json_number(j, "bytes", list[i].bytes);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
    free(list);
}

static void json_device(struct ct_view *v, struct ct_json *j, const struct ct_scan *s,
                        const struct history *h, int d) {
    struct ct_live_totals end;
    ct_live_at_read(&end, &s->end, d, ct_capacity_find(v->trace, &s->end, d).bytes);
    ct_json_open(j, NULL, '{');
    ct_document_add_device(j, "ordinal", d);
    ct_json_number(j, "live_bytes", end.bytes);
    ct_json_open(j, "inferred", '{');
    json_frag(j, &end.frag);
    ct_json_close(j, '}');
    ct_json_open(j, "pools", '[');
    for (size_t i = 0; i < end.pool_count; i++) {
        const struct ct_mempool_usage *p = &end.pools[i];
        ct_json_open(j, NULL, '{');
        ct_json_hex(j, "pool", p->pool);
        ct_json_number(j, "handed_out_bytes", p->handed_out);
        ct_json_number_or_null(j, "reserved_bytes", p->reserved != 0, p->reserved);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
    json_shared(j, s, d);
    ct_json_open(j, "refused_although_free", '[');
    for (size_t i = 0; i < s->refusal_count; i++)
        if (enough_was_free(&s->refusals[i], d))
            ct_document_add_oom(j, v, NULL, &s->refusals[i], 0);
    ct_json_close(j, ']');
    ct_json_open(j, "history", '[');
    for (unsigned i = 0; i < h->count; i++) {
        const struct sample *p = &h->samples[(unsigned)h->device[d] * h->count + i];
        ct_json_open(j, NULL, '{');
        ct_json_number(j, "t_ns", p->t_ns);
        ct_json_number(j, "live_bytes", p->live_bytes);
        ct_json_number_or_null(j, "free_bytes", p->split.used_known, p->split.free);
        json_frag(j, &p->frag);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
    ct_frag_pool_add_json(v, j, s, &h->requests[d], d);
    ct_json_close(j, '}');
    ct_live_at_free(&end);
}

int ct_view_frag(struct ct_view *v) {
    struct ct_scan s;
    struct history h = {.count = v->options->json ? JSON_SAMPLES : TEXT_SAMPLES};
    struct ct_scan_request request = ct_view_scan_request_pools(v);
    struct ct_json json = {.out = v->out}, *j = &json;
    request.capacity = 0;
    ct_view_scan_run(v, &s, &request);
    const size_t named = v->options->json  ? JSON_REQUESTS
                         : v->options->top ? v->options->top
                                           : TEXT_REQUESTS;
    for (int d = 0; d < CT_DEVICES; d++)
        ct_frag_pool_choose_requests(&h.requests[d], &s.growths, d, named);
    history(v, &h, &s);
    if (v->options->json) {
        ct_document_begin(j, v);
        ct_document_add_trace(j, v, &s);
        if (ct_torch_settings_without_blocks(v->trace))
            ct_json_text(j, "without_blocks", ct_torch_settings_without_blocks(v->trace));
        else
            ct_json_null(j, "without_blocks");
        ct_json_open(j, "devices", '[');
    }
    for (int d = 0; d < CT_DEVICES; d++) {
        if (h.device[d] < 0)
            continue;
        if (v->options->json)
            json_device(v, j, &s, &h, d);
        else
            put_device(v, &s, &h, d);
    }
    if (v->options->json) {
        ct_json_close(j, ']');
        json_shared(j, &s, CT_MAX_DEVICES);
        json_host(v, j, &s);
        ct_json_close(j, '}');
        ct_json_end_line(j);
    } else {
        if (!h.devices)
            fputs("No GPU memory was allocated\n", v->out);
        if (h.device[CT_MAX_DEVICES] < 0)
            put_unplaced(v, &s);
        put_host(v, &s);
    }
    if (!v->options->json && ct_torch_settings_without_blocks(v->trace))
        fprintf(v->out, "PyTorch has no blocks: %s\n", ct_torch_settings_without_blocks(v->trace));
    for (int d = 0; d < CT_DEVICES; d++)
        free(h.requests[d].list);
    free(h.samples);
    ct_scan_free(&s);
    return CT_EXIT_OK;
}
