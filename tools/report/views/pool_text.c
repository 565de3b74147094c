// SPDX-License-Identifier: Apache-2.0
// Formats the figures of PyTorch's pool.
#include "views/pool_text.h"

#include "replay/torch_settings.h"
#include "views/label.h"

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

static uint64_t count_fragmented(const struct ct_pool_growth_counts *g) {
    return g->grown[CT_GROWTH_FRAGMENTED] + g->ooms[CT_GROWTH_FRAGMENTED];
}

unsigned ct_pool_text_summary_lines(const struct ct_view *v, const struct ct_torch_pool_totals *f,
                                    const struct ct_pool_growth_counts *g) {
    if (f->known)
        return count_fragmented(g) ? 2 : 1;
    return ct_torch_settings_without_blocks(v->trace) != NULL;
}

static void print_figures(struct ct_view *v, const struct ct_torch_pool_totals *f,
                          const struct ct_pool_growth_counts *g) {
    fprintf(v->out, "PyTorch: %s in blocks of %s reserved; %s in %s free block%s, largest %s",
            ct_label_size(v, f->allocated).text, ct_label_size(v, f->reserved).text,
            ct_label_size(v, f->free.bytes).text, ct_human_count(f->free.ranges).text,
            ct_human_plural(f->free.ranges), ct_pool_text_largest(v, f->free.largest).text);
    if (f->unreconciled > 0)
        fprintf(v->out, "; no call was seen for %s",
                ct_label_size(v, (uint64_t)f->unreconciled).text);
    else if (f->unreconciled < 0)
        fprintf(v->out, "; its segments have %s more",
                ct_label_size(v, 0 - (uint64_t)f->unreconciled).text);
    if (g->retries)
        fprintf(v->out, "; %s retr%s", ct_pool_text_retries(v, g).text,
                g->retries == 1 ? "y" : "ies");
    putc('\n', v->out);
}

void ct_pool_text_print_summary(struct ct_view *v, const struct ct_torch_pool_totals *f,
                                const struct ct_pool_growth_counts *g) {
    const char *without = ct_torch_settings_without_blocks(v->trace);
    if (f->known)
        print_figures(v, f, g);
    else if (without)
        fprintf(v->out, "PyTorch has no blocks: %s\n", without);
    if (!f->known || !count_fragmented(g))
        return;
    const uint64_t grown = g->grown[CT_GROWTH_FRAGMENTED], ooms = g->ooms[CT_GROWTH_FRAGMENTED];
    fprintf(v->out, "  Fragmentation grew the pool %s time%s and caused %s OOM%s (see frag)\n",
            ct_human_count(grown).text, ct_human_plural(grown), ct_human_count(ooms).text,
            ct_human_plural(ooms));
}
