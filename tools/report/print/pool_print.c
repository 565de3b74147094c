// SPDX-License-Identifier: Apache-2.0
// Formats the figures of PyTorch's pool.
#include "print/pool_print.h"

#include "print/label.h"
#include "replay/torch_segments.h"

// ---- text ---------------------------------------------------------------------------------------

static struct ct_human_text at_most(int is_bound, struct ct_human_text s) {
    return is_bound ? ct_human_format("at most %.31s", s.text) : s;
}

struct ct_human_text ct_pool_text_largest(const struct ct_view *v, uint64_t bytes) {
    return at_most(bytes && ct_torch_settings_limit_reuse(v->trace), ct_label_size(v, bytes));
}

struct ct_human_text ct_pool_text_fragmentation(const struct ct_torch_pool_totals *f) {
    const uint64_t scattered = f->free.bytes - f->free.largest;
    const unsigned __int128 rounded = (unsigned __int128)scattered * 100 + f->free.bytes / 2;
    const unsigned n = f->free.bytes ? (unsigned)(rounded / f->free.bytes) : 0;
    if (n == 0 && scattered)
        return ct_human_format("<0.01");
    if (n == 100)
        return ct_human_format(">0.99"); // (the largest free block is one of them)
    return ct_human_format("%u.%02u", n / 100, n % 100);
}

struct ct_human_text ct_pool_text_retries(const struct ct_view *v,
                                          const struct ct_pool_growth_counts *g) {
    return at_most(g->retries && ct_torch_settings_hide_retries(v->trace),
                   ct_human_count(g->retries));
}

// Begins the line of the pool, or its next clause.
static void begin_clause(struct ct_view *v, unsigned *clauses) {
    fputs((*clauses)++ ? "; " : "PyTorch's pool: ", v->out);
}

// What sleeps is memory for PyTorch, and none of the device.
static void print_asleep(struct ct_view *v, const struct ct_torch_pool_totals *f,
                         unsigned *clauses) {
    if (!f->asleep_bytes && !f->asleep_segment_bytes)
        return;
    begin_clause(v, clauses);
    fprintf(v->out,
            "%s of its segments sleep (unmapped), with %s in blocks: no memory of the device",
            ct_label_size(v, f->asleep_segment_bytes).text, ct_label_size(v, f->asleep_bytes).text);
}

static void print_unreconciled(struct ct_view *v, const struct ct_torch_pool_totals *f,
                               unsigned *clauses) {
    if (!f->unreconciled)
        return;
    begin_clause(v, clauses);
    if (f->unreconciled > 0)
        fprintf(v->out, "no call was seen for %s of it",
                ct_label_size(v, (uint64_t)f->unreconciled).text);
    else
        fprintf(v->out, "its segments have %s more than it reports",
                ct_label_size(v, 0 - (uint64_t)f->unreconciled).text);
}

void ct_pool_text_print_summary(struct ct_view *v, const struct ct_torch_pool_totals *f,
                                const struct ct_pool_growth_counts *g) {
    const char *without = ct_torch_settings_without_blocks(v->trace);
    unsigned clauses = 0;
    const uint64_t grown = g->grown[CT_GROWTH_FRAGMENTED], ooms = g->ooms[CT_GROWTH_FRAGMENTED];
    if (!f->known) {
        if (without)
            fprintf(v->out, "PyTorch has no blocks: %s\n", without);
        return;
    }
    if (grown) {
        begin_clause(v, &clauses);
        fputs("fragmentation made it grow ", v->out);
        if (grown == 1)
            fputs("once", v->out);
        else
            fprintf(v->out, "%s times", ct_human_count(grown).text);
    }
    if (ooms) {
        begin_clause(v, &clauses);
        fprintf(v->out, "%s failed in it for fragmentation",
                ct_human_counted(ooms, "request").text);
    }
    if (g->retries) {
        begin_clause(v, &clauses);
        fprintf(v->out, "%s retr%s", ct_pool_text_retries(v, g).text,
                g->retries == 1 ? "y" : "ies");
    }
    print_asleep(v, f, &clauses);
    print_unreconciled(v, f, &clauses);
    if (clauses)
        fputs(grown || ooms ? " (see frag)\n" : "\n", v->out);
}

// ---- JSON ---------------------------------------------------------------------------------------
// Writes the figures of PyTorch's pool; JSON.md documents each key.

void ct_pool_json_add_module(struct ct_json *j, const struct ct_definitions *n, uint32_t module) {
    if (module)
        ct_json_bytes(j, "module", n->strings[module].at, n->strings[module].length);
    else
        ct_json_null(j, "module");
}

void ct_pool_json_add_segments(struct ct_json *j, const struct ct_torch_pool_totals *f, int bound) {
    ct_json_number(j, "segments", f->segments);
    ct_json_number(j, "segment_bytes", f->segment_bytes);
    ct_json_number(j, "free_bytes", f->free.bytes);
    ct_json_number(j, "largest_free_bytes", f->free.largest);
    ct_json_bool(j, "largest_free_is_bound", bound);
    ct_json_number(j, "free_blocks", f->free.ranges);
}

void ct_pool_json_add_asleep(struct ct_json *j, const struct ct_torch_pool_totals *f) {
    ct_json_number(j, "asleep_bytes", f->asleep_bytes);
    ct_json_number(j, "asleep_segment_bytes", f->asleep_segment_bytes);
}

void ct_pool_json_add_figures(struct ct_json *j, const struct ct_torch_pool_totals *f, int bound) {
    ct_json_number_or_null(j, "reserved_bytes", f->reported, f->reserved);
    ct_json_number_or_null(j, "allocated_bytes", f->reported, f->allocated);
    ct_pool_json_add_segments(j, f, bound);
    ct_json_ratio(j, "external_fragmentation", f->free.bytes - f->free.largest, f->free.bytes);
    ct_pool_json_add_asleep(j, f);
    ct_json_null(j, "internal_bytes"); // the hook does not carry what was requested
    ct_json_signed_or_null(j, "unreconciled_bytes", f->reported, f->unreconciled);
}

void ct_pool_json_add_pool(struct ct_json *j, const char *key, const struct ct_torch_pool_totals *f,
                           int bound) {
    if (!ct_json_open_or_null(j, key, f->known, '{'))
        return;
    ct_pool_json_add_figures(j, f, bound);
    ct_json_close(j, '}');
}

static void add_causes(struct ct_json *j, const char *key, const uint64_t n[CT_GROWTH_CAUSES],
                       int known) {
    if (!ct_json_open_or_null(j, key, known, '{'))
        return;
    for (int k = 0; k < CT_GROWTH_CAUSES; k++)
        ct_json_number(j, ct_pool_growth_cause_name((enum ct_growth_cause)k), n[k]);
    ct_json_close(j, '}');
}

void ct_pool_json_add_without_blocks(struct ct_json *j, const struct ct_trace *t) {
    ct_json_text_or_null(j, "without_blocks", ct_torch_settings_without_blocks(t));
}

void ct_pool_json_add_growths(struct ct_json *j, const struct ct_view *v,
                              const struct ct_pool_growth_counts *g, int known) {
    add_causes(j, "growth_causes", g->grown, known);
    add_causes(j, "oom_causes", g->ooms, known);
    ct_json_number_or_null(j, "retries", known, g->retries);
    ct_json_bool(j, "retries_is_bound", ct_torch_settings_hide_retries(v->trace));
}

void ct_pool_json_add_other_streams(struct ct_json *j, const struct ct_other_streams *o) {
    if (!ct_json_open_or_null(j, "other_streams", o->known, '{'))
        return;
    ct_json_number(j, "free_bytes", o->free.bytes);
    ct_json_number(j, "free_blocks", o->free.ranges);
    ct_json_number(j, "largest_free_bytes", o->free.largest);
    ct_json_number(j, "unknown_free_bytes", o->unknown);
    ct_json_close(j, '}');
}

void ct_pool_json_add_curve(struct ct_json *j, const struct ct_pool_curve *c, int device,
                            int bound) {
    ct_json_open(j, "fragmentation", '[');
    for (unsigned i = 0; c->devices[device] && i < c->points; i++) {
        const struct ct_pool_curve_point *p = &c->devices[device][i];
        if (!p->figures.known)
            continue;
        ct_json_open(j, NULL, '{');
        ct_json_number(j, "t_ns", p->t_ns);
        ct_pool_json_add_figures(j, &p->figures, bound);
        ct_json_number_or_null(j, "worst_t_ns", p->worst.known, p->worst_ns);
        ct_pool_json_add_pool(j, "worst", &p->worst, bound);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
}
