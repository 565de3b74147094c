// SPDX-License-Identifier: Apache-2.0
// Formats the figures of PyTorch's pool.
#include "print/pool_text.h"

#include "print/label.h"
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
    const unsigned __int128 rounded = (unsigned __int128)scattered * 100 + f->free.bytes / 2;
    const unsigned n = f->free.bytes ? (unsigned)(rounded / f->free.bytes) : 0;
    if (n == 0 && scattered)
        (void)snprintf(s.text, sizeof s.text, "<0.01");
    else if (n == 100)
        (void)snprintf(s.text, sizeof s.text, ">0.99"); // (the largest free block is one of them)
    else
        (void)snprintf(s.text, sizeof s.text, "%u.%02u", n / 100, n % 100);
    return s;
}

struct ct_human_text ct_pool_text_retries(const struct ct_view *v,
                                          const struct ct_pool_growth_counts *g) {
    struct ct_human_text s = ct_human_count(g->retries), with;
    if (!g->retries || !ct_torch_settings_hide_retries(v->trace))
        return s;
    (void)snprintf(with.text, sizeof with.text, "at most %.31s", s.text);
    return with;
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
        fprintf(v->out, "%s request%s failed in it for fragmentation", ct_human_count(ooms).text,
                ct_human_plural(ooms));
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
