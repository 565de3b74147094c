// SPDX-License-Identifier: Apache-2.0
// frag: what was free but could not be used. From addresses, so inferred; the physical layout is the driver's.
#include <inttypes.h>

#include "moment.h"
#include "parts.h"

enum { TEXT_SAMPLES = 12, JSON_SAMPLES = 64 };

struct sample {
    uint64_t t_ns, live_bytes;
    struct ct_frag frag;
    struct ct_split split;
};

struct history {
    struct sample *samples; // devices x count
    unsigned count;
    int device[CT_DEVICES]; // place of a device's samples, -1 = not seen
    int devices;
};

static void take(struct ct_view *v, struct history *h, const struct ct_scan *s,
                 const struct ct_replay *r, unsigned at, uint64_t t_ns) {
    for (int d = 0; d < CT_DEVICES; d++) {
        if (h->device[d] < 0)
            continue;
        struct sample *to = &h->samples[(unsigned)h->device[d] * h->count + at];
        const struct ct_capacity c = ct_capacity_of(v->trace, &s->end, d);
        to->t_ns = t_ns;
        to->live_bytes = r->live.device[d].live_bytes;
        to->frag = ct_frag_take(r, d, c.bytes);
        to->split = ct_replay_split(r, d);
    }
}

// The state at `count` instants, evenly spread over the range; the last one is its end.
static void history(struct ct_view *v, struct history *h, const struct ct_scan *s) {
    const struct ct_trace *t = v->trace;
    struct ct_replay r;
    struct ct_event e;
    uint64_t number;
    const uint64_t from = v->from_ns > t->t_first_ns ? v->from_ns : t->t_first_ns;
    const uint64_t to = v->to_ns < t->t_last_ns ? v->to_ns : t->t_last_ns;
    const uint64_t span = to > from ? to - from : 0;
    unsigned at = 0;
    h->devices = 0;
    for (int d = 0; d < CT_DEVICES; d++)
        h->device[d] = s->device[d].seen ? h->devices++ : -1;
    h->samples = ct_zeroed((size_t)h->devices * h->count, sizeof *h->samples);
    ct_replay_init(&r, NULL, NULL);
    ct_trace_rewind(v->trace);
#define INSTANT(i) (from + (uint64_t)((unsigned __int128)span * ((i) + 1) / h->count))
    while (ct_trace_next(v->trace, &e, &number) && e.t_ns <= v->to_ns) {
        for (; at < h->count && e.t_ns > INSTANT(at); at++)
            take(v, h, s, &r, at, INSTANT(at));
        ct_replay_apply(&r, &e, number);
    }
    for (; at < h->count; at++)
        take(v, h, s, &r, at, INSTANT(at));
#undef INSTANT
    ct_replay_free(&r);
}

static int enough_was_free(const struct ct_refusal *r, int device) {
    return r->device == device && ct_verdict_of(r, 0).why == CT_WHY_ENOUGH;
}

static size_t count_enough(const struct ct_scan *s, int device) {
    size_t n = 0;
    for (size_t i = 0; i < s->refusal_count; i++)
        n += (size_t)enough_was_free(&s->refusals[i], device);
    return n;
}

// ---- text ------------------------------------------------------------------------------------------

static void put_frag(struct ct_view *v, const struct ct_frag *f) {
    const uint64_t small = f->small_blocks << 21;
    fprintf(v->out,
            "  address gaps     %12s  in %s gaps between %s live ranges, largest %s (inferred)\n",
            ct_size(v, f->gap_bytes).text, ct_count(f->gaps).text, ct_count(f->ranges).text,
            ct_size(v, f->gap_max).text);
    fprintf(v->out,
            "  rounding         %12s  of large allocations up to multiples of 2 MiB (inferred)\n",
            ct_size(v, f->rounding_bytes).text);
    fprintf(
        v->out,
        "  small blocks     %12s  unused in %s blocks of 2 MiB that hold %s of small allocations (inferred)\n",
        ct_size(v, small > f->small_bytes ? small - f->small_bytes : 0).text,
        ct_count(f->small_blocks).text, ct_size(v, f->small_bytes).text);
}

static void put_pools(struct ct_view *v, const struct ct_moment *m) {
    for (size_t i = 0; i < m->pool_count; i++) {
        const struct ct_pool_now *p = &m->pools[i];
        if (!p->reserved) // never sampled, or not by a number
            continue;
        fprintf(v->out,
                "  pool 0x%-9" PRIx64 " %12s  reserved and not handed out (%s of %s handed out)\n",
                p->pool,
                ct_size(v, p->reserved > p->handed_out ? p->reserved - p->handed_out : 0).text,
                ct_size(v, p->handed_out).text, ct_size(v, p->reserved).text);
    }
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
        fprintf(v->out, "    %s event %" PRIu64 ": asked %s, free %s\n", ct_since(v, r->t_ns).text,
                r->event, ct_size(v, r->bytes).text,
                ct_size(v, r->reading_known ? r->free : r->split.free).text);
    }
}

static void put_device(struct ct_view *v, const struct ct_scan *s, const struct history *h, int d) {
    const struct sample *samples = &h->samples[(unsigned)h->device[d] * h->count];
    struct ct_moment end;
    ct_moment_take(&end, &s->end, d, ct_capacity_of(v->trace, &s->end, d).bytes);
    fprintf(v->out, "%s%s at the end%s: %s in %s allocations\n", v->term->bold,
            ct_device_text(d).text, v->term->reset, ct_size(v, end.bytes).text,
            ct_count(end.count).text);
    put_frag(v, &end.frag);
    put_pools(v, &end);
    put_refusals(v, s, d);
    fprintf(v->out, "  %sover time %12s %12s %8s %12s %12s%s\n", v->term->dim, "allocated", "gaps",
            "number", "largest", "free (about)", v->term->reset);
    for (unsigned i = 0; i < h->count; i++) {
        const struct sample *p = &samples[i];
        fprintf(v->out, "  %-9s %12s %12s %8s %12s %12s\n", ct_since(v, p->t_ns).text,
                ct_size(v, p->live_bytes).text, ct_size(v, p->frag.gap_bytes).text,
                ct_count(p->frag.gaps).text, ct_size(v, p->frag.gap_max).text,
                p->split.used_known ? ct_size(v, p->split.free).text : "-");
    }
    ct_moment_free(&end);
}

// ---- JSON ------------------------------------------------------------------------------------------

static void json_frag(struct ct_json *j, const struct ct_frag *f) {
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

static void json_device(struct ct_view *v, struct ct_json *j, const struct ct_scan *s,
                        const struct history *h, int d) {
    struct ct_moment end;
    ct_moment_take(&end, &s->end, d, ct_capacity_of(v->trace, &s->end, d).bytes);
    ct_json_open(j, NULL, '{');
    ct_json_device(j, "ordinal", d);
    ct_json_number(j, "live_bytes", end.bytes);
    ct_json_open(j, "inferred", '{');
    json_frag(j, &end.frag);
    ct_json_close(j, '}');
    ct_json_open(j, "pools", '[');
    for (size_t i = 0; i < end.pool_count; i++) {
        const struct ct_pool_now *p = &end.pools[i];
        ct_json_open(j, NULL, '{');
        ct_json_hex(j, "pool", p->pool);
        ct_json_number(j, "handed_out_bytes", p->handed_out);
        ct_json_known(j, "reserved_bytes", p->reserved != 0, p->reserved);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
    ct_json_open(j, "refused_although_free", '[');
    for (size_t i = 0; i < s->refusal_count; i++)
        if (enough_was_free(&s->refusals[i], d))
            ct_json_refusal(j, v, NULL, &s->refusals[i], 0);
    ct_json_close(j, ']');
    ct_json_open(j, "history", '[');
    for (unsigned i = 0; i < h->count; i++) {
        const struct sample *p = &h->samples[(unsigned)h->device[d] * h->count + i];
        ct_json_open(j, NULL, '{');
        ct_json_number(j, "t_ns", p->t_ns);
        ct_json_number(j, "live_bytes", p->live_bytes);
        ct_json_known(j, "free_bytes", p->split.used_known, p->split.free);
        json_frag(j, &p->frag);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
    ct_json_close(j, '}');
    ct_moment_free(&end);
}

int ct_view_frag(struct ct_view *v) {
    struct ct_scan s;
    struct history h = {.count = v->options->json ? JSON_SAMPLES : TEXT_SAMPLES};
    struct ct_scan_request request = ct_request(v);
    struct ct_json json = {.out = v->out}, *j = &json;
    request.capacity = 0;
    ct_scan_run(&s, v->trace, &request);
    history(v, &h, &s);
    if (v->options->json) {
        ct_json_head(j, v);
        ct_json_trace(j, v, &s);
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
        ct_json_close(j, '}');
        ct_json_end(j);
    } else if (!h.devices) {
        fputs("No GPU memory was allocated\n", v->out);
    }
    free(h.samples);
    ct_scan_free(&s);
    return CT_OK;
}
