// SPDX-License-Identifier: Apache-2.0
// Turns the figures of call sites into the cells of a table.
#include "print/site_table.h"

#include <inttypes.h>

#include "print/label.h"
#include "print/resumed.h"
#include "print/table.h"
#include "sites/site_totals.h"

enum { HELD, COUNT, END, TAKEN, GIVEN_BACK, SINCE, GROWTH, ROSE, COLUMNS };

#define SECOND UINT64_C(1000000000)

struct row {
    struct ct_human_text cell[COLUMNS];
};

struct table {
    const struct ct_site_table *of;
    struct row *rows;
    size_t shown, n; // call sites that are shown; rows, with that of the rest
};

static struct ct_human_text text_of(const char *text) {
    struct ct_human_text s;
    (void)snprintf(s.text, sizeof s.text, "%s", text);
    return s;
}

// ---- growth -------------------------------------------------------------------------------------

// Growth is shown in a time that is not much longer than the stretch it was measured in.
static uint64_t find_unit(const struct ct_growth_stretch *s) {
    const uint64_t length = s->to_ns - s->from_ns;
    if (length < 120 * SECOND)
        return SECOND;
    return length < 7200 * SECOND ? 60 * SECOND : 3600 * SECOND;
}

static const char *name_unit(uint64_t unit) {
    if (unit == SECOND)
        return "growth/s";
    return unit == 60 * SECOND ? "growth/min" : "growth/h";
}

static struct ct_human_text format_growth(const struct ct_view *v,
                                          const struct ct_growth_stretch *s, int64_t bytes) {
    struct ct_human_text t;
    if (!bytes)
        return text_of("0");
    const int64_t growth = ct_site_growth_in(s, bytes, find_unit(s));
    const uint64_t size = growth < 0 ? 0 - (uint64_t)growth : (uint64_t)growth;
    if (!size)
        return text_of(bytes < 0 ? "> -1 B" : "< 1 B");
    (void)snprintf(t.text, sizeof t.text, "%c%.30s", growth < 0 ? '-' : '+',
                   ct_label_size(v, size).text);
    return t;
}

// ---- cells --------------------------------------------------------------------------------------

static void fill_growth(const struct ct_view *v, const struct table *t, struct row *r,
                        const struct ct_site_group *g) {
    const struct ct_site_growth *w = &g->growth;
    r->cell[TAKEN] = ct_label_size(v, w->taken_bytes);
    r->cell[GIVEN_BACK] = ct_label_size(v, w->given_back_bytes);
    if (w->oldest_ns)
        r->cell[SINCE] = ct_label_time(v, w->oldest_ns);
    if (!t->of->stretch->known)
        return;
    r->cell[GROWTH] = format_growth(v, t->of->stretch, w->bytes_of_growth);
    (void)snprintf(r->cell[ROSE].text, sizeof r->cell[ROSE].text, "%u/%d", w->rises,
                   CT_SITE_GROWTH_PARTS - 1);
}

static void fill_row(const struct ct_view *v, const struct table *t, struct row *r,
                     const struct ct_site_group *g) {
    for (unsigned c = 0; c < COLUMNS; c++)
        r->cell[c] = text_of("-");
    r->cell[COUNT] = ct_human_count(g->count);
    r->cell[END] = ct_label_size(v, g->more[CT_SITE_END_BYTES]);
    if (g->kind != CT_HOLDING_IDLE) // nobody allocates that
        fill_growth(v, t, r, g);
}

// The row of what is not shown.
static void fill_rest(const struct ct_view *v, const struct table *t, struct row *r) {
    uint64_t count = 0, end = 0, taken = 0, given_back = 0;
    for (size_t i = t->shown; i < t->of->groups->count; i++) {
        const struct ct_site_group *g = &t->of->groups->list[i];
        count += g->count;
        end += g->more[CT_SITE_END_BYTES];
        taken += g->growth.taken_bytes;
        given_back += g->growth.given_back_bytes;
    }
    for (unsigned c = 0; c < COLUMNS; c++)
        r->cell[c] = text_of("");
    r->cell[COUNT] = ct_human_count(count);
    r->cell[END] = ct_label_size(v, end);
    r->cell[TAKEN] = ct_label_size(v, taken);
    r->cell[GIVEN_BACK] = ct_label_size(v, given_back);
}

// What is held adds up to the whole, as it is shown.
static void fill_held(const struct ct_view *v, const struct table *t) {
    const size_t n = t->n;
    uint64_t *bytes = ct_heap_alloc_zeroed(n, sizeof *bytes);
    struct ct_human_text *sizes = ct_heap_resize(NULL, n, sizeof *sizes);
    for (size_t i = 0; i < t->of->groups->count; i++)
        bytes[i < t->shown ? i : t->shown] += t->of->groups->list[i].bytes;
    ct_human_bytes_of_parts(sizes, bytes, n, t->of->whole, v->options->units, t->shown);
    for (size_t i = 0; i < n; i++)
        t->rows[i].cell[HELD] = sizes[i];
    free(bytes);
    free(sizes);
}

static void fill(const struct ct_view *v, struct table *t) {
    const struct ct_site_groups *g = t->of->groups;
    t->shown = g->count <= t->of->rows ? g->count : t->of->rows;
    t->n = t->shown + (g->count > t->shown);
    t->rows = ct_heap_resize(NULL, t->n, sizeof *t->rows);
    for (size_t i = 0; i < t->shown; i++)
        fill_row(v, t, &t->rows[i], &g->list[i]);
    if (g->count > t->shown)
        fill_rest(v, t, &t->rows[t->n - 1]);
    fill_held(v, t);
}

// ---- the table ----------------------------------------------------------------------------------

// Says what the columns of growth mean, or why they are empty.
static void print_stretch(struct ct_view *v, const struct ct_growth_stretch *s) {
    fputs(v->terminal->dim, v->out);
    if (!s->known)
        fputs("growth: not known, the time up to there is shorter than 0.2 s", v->out);
    else
        fprintf(v->out,
                "growth: of the least held, over %d parts of %s to %s; rose: in how many steps",
                CT_SITE_GROWTH_PARTS, ct_label_time(v, s->from_ns).text,
                ct_label_time(v, s->to_ns).text);
    fprintf(v->out, "%s\n", v->terminal->reset);
}

static void add_row(struct ct_table *shown, const struct row *r, int at_end, const char *site) {
    ct_table_begin_row(shown);
    for (unsigned c = 0; c < COLUMNS; c++)
        if (c != END || at_end)
            ct_table_add_cell(shown, r->cell[c].text);
    ct_table_add_cell(shown, site);
}

static void print_rows(struct ct_view *v, const struct table *t, struct ct_table *shown) {
    const struct ct_site_groups *g = t->of->groups;
    char rest[100], label[1600];
    for (size_t i = 0; i < t->shown; i++) {
        ct_resumed_label(v, &g->list[i], label, sizeof label);
        add_row(shown, &t->rows[i], t->of->at_end, label);
    }
    if (t->n > t->shown) {
        (void)snprintf(rest, sizeof rest, "%zu more; --top %zu shows all", g->count - t->shown,
                       g->count);
        add_row(shown, &t->rows[t->shown], t->of->at_end, rest);
    }
    ct_table_print(v, shown);
}

void ct_site_table_print(struct ct_view *v, const struct ct_site_table *of) {
    const struct ct_growth_stretch *s = of->stretch;
    // The first to be left out has the highest rank.
    const struct ct_table_column all[] = {
        {.head = of->held},
        {.head = "count", .rank = 5},
        {.head = "at end", .rank = 7},
        {.head = "taken", .rank = 3},
        {.head = "given back", .rank = 4},
        {.head = "since", .rank = 2},
        {.head = s->known ? name_unit(find_unit(s)) : "growth", .rank = 1},
        {.head = "rose", .rank = 6},
        {.head = "call site", .kind = CT_TABLE_LABEL},
    };
    struct ct_table_column columns[COLUMNS + 1];
    struct table t = {.of = of};
    struct ct_table shown;
    size_t n = 0;
    for (unsigned c = 0; c <= COLUMNS; c++)
        if (c != END || of->at_end)
            columns[n++] = all[c];
    fill(v, &t);
    ct_table_init(&shown, columns, n, 0);
    print_rows(v, &t, &shown);
    ct_table_free(&shown);
    print_stretch(v, s);
    free(t.rows);
}
