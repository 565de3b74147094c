// SPDX-License-Identifier: Apache-2.0
// What `summary` and `frag` tell of PyTorch's pools.
#include "views/pool_common.h"

#include <inttypes.h>

#include "replay/torch_settings.h"

struct ct_human_text ct_pool_text_largest(const struct ct_view *v, uint64_t bytes) {
    struct ct_human_text s = ct_label_size(v, bytes), with;
    if (!bytes || !ct_torch_settings_limit_reuse(v->trace))
        return s;
    (void)snprintf(with.text, sizeof with.text, "at most %.31s", s.text);
    return with;
}

struct ct_human_text ct_pool_text_fragmentation(const struct ct_torch_pool_totals *f) {
    struct ct_human_text s;
    const uint64_t scattered = f->free.bytes - f->free.largest;
    const unsigned n =
        f->free.bytes ? (unsigned)((unsigned __int128)scattered * 100 / f->free.bytes) : 0;
    (void)snprintf(s.text, sizeof s.text, "%u.%02u", n / 100, n % 100);
    return s;
}

struct ct_human_text ct_pool_text_retries(const struct ct_view *v, const struct ct_pool_growth_counts *g) {
    struct ct_human_text s = ct_human_count(g->retries), with;
    if (!g->retries || !ct_torch_settings_hide_retries(v->trace))
        return s;
    (void)snprintf(with.text, sizeof with.text, "at most %.31s", s.text);
    return with;
}

static uint64_t in_pieces(const struct ct_pool_growth_counts *g) {
    return g->grown[CT_GROWTH_FRAGMENTED] + g->refused[CT_GROWTH_FRAGMENTED];
}

unsigned ct_pool_text_summary_lines(const struct ct_view *v, const struct ct_torch_pool_totals *f,
                               const struct ct_pool_growth_counts *g) {
    return f->known ? 1 + (in_pieces(g) != 0) : ct_torch_settings_without_blocks(v->trace) != NULL;
}

void ct_pool_text_print_summary(struct ct_view *v, const struct ct_torch_pool_totals *f,
                         const struct ct_pool_growth_counts *g) {
    const char *without = ct_torch_settings_without_blocks(v->trace);
    if (!f->known) {
        if (without)
            fprintf(v->out, "PyTorch has no blocks: %s\n", without);
        return;
    }
    fprintf(v->out, "PyTorch: %s in blocks of %s reserved; %s free in %s piece%s, largest %s",
            ct_label_size(v, f->allocated).text, ct_label_size(v, f->reserved).text,
            ct_label_size(v, f->free.bytes).text, ct_human_count(f->free.ranges).text,
            ct_human_plural(f->free.ranges), ct_pool_text_largest(v, f->free.largest).text);
    if (f->unreconciled > 0)
        fprintf(v->out, "; no call was seen for %s", ct_label_size(v, (uint64_t)f->unreconciled).text);
    else if (f->unreconciled < 0)
        fprintf(v->out, "; its segments have %s more",
                ct_label_size(v, 0 - (uint64_t)f->unreconciled).text);
    if (g->retries)
        fprintf(v->out, "; %s retr%s", ct_pool_text_retries(v, g).text, g->retries == 1 ? "y" : "ies");
    putc('\n', v->out);
    if (in_pieces(g))
        fprintf(
            v->out,
            "  %s request%s found enough free, but in pieces: %s made the pool grow, %s refused (frag)\n",
            ct_human_count(in_pieces(g)).text, ct_human_plural(in_pieces(g)),
            ct_human_count(g->grown[CT_GROWTH_FRAGMENTED]).text, ct_human_count(g->refused[CT_GROWTH_FRAGMENTED]).text);
}

// ---- JSON ------------------------------------------------------------------------------------------

void ct_pool_json_add_module(struct ct_json *j, const struct ct_definitions *n, uint32_t module) {
    if (module)
        ct_json_bytes(j, "module", n->strings[module].at, n->strings[module].length);
    else
        ct_json_null(j, "module");
}

void ct_pool_json_add_figures(struct ct_json *j, const struct ct_torch_pool_totals *f, int bound) {
    ct_json_number_or_null(j, "reserved_bytes", f->reported, f->reserved);
    ct_json_number_or_null(j, "allocated_bytes", f->reported, f->allocated);
    ct_json_number(j, "free_bytes", f->free.bytes);
    ct_json_number(j, "largest_free_bytes", f->free.largest);
    ct_json_bool(j, "largest_free_is_bound", bound);
    ct_json_number(j, "free_blocks", f->free.ranges);
    ct_json_ratio(j, "external_fragmentation", f->free.bytes - f->free.largest, f->free.bytes);
    ct_json_null(j, "internal_bytes"); // the hook does not carry what was requested
    if (f->reported)
        ct_json_signed(j, "unreconciled_bytes", f->unreconciled);
    else
        ct_json_null(j, "unreconciled_bytes");
}

void ct_pool_json_add_pool(struct ct_json *j, const char *key, const struct ct_torch_pool_totals *f, int bound) {
    if (!f->known) {
        ct_json_null(j, key);
        return;
    }
    ct_json_open(j, key, '{');
    ct_pool_json_add_figures(j, f, bound);
    ct_json_close(j, '}');
}

void ct_pool_json_add_retries(struct ct_json *j, const struct ct_view *v, const struct ct_pool_growth_counts *g,
                     int known) {
    ct_json_number_or_null(j, "retries", known, g->retries);
    ct_json_bool(j, "retries_is_bound", ct_torch_settings_hide_retries(v->trace));
}

void ct_pool_json_add_curve(struct ct_json *j, const struct ct_pool_curve *c, int device, int bound) {
    ct_json_open(j, "fragmentation", '[');
    for (unsigned i = 0; c->of[device] && i < c->points; i++) {
        const struct ct_pool_curve_point *p = &c->of[device][i];
        if (!p->at.known)
            continue;
        ct_json_open(j, NULL, '{');
        ct_json_number(j, "t_ns", p->t_ns);
        ct_pool_json_add_figures(j, &p->at, bound);
        ct_json_number(j, "worst_t_ns", p->worst_ns);
        ct_pool_json_add_pool(j, "worst", &p->worst, bound);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
}
