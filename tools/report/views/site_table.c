// SPDX-License-Identifier: Apache-2.0
// All cells are written first, so that each column is as wide as its widest cell.
#include "views/site_table.h"

#include <inttypes.h>

#include "analyze/site_totals.h"
#include "views/print.h"

enum { HELD, COUNT, END, TAKEN, GIVEN_BACK, SINCE, GROWTH, ROSE, COLUMNS };

// The first to be left out comes first.
static const unsigned char expendable[] = {END, ROSE, COUNT, GIVEN_BACK, TAKEN, SINCE, GROWTH};

enum { ROOM_FOR_SITE = 40, GAP = 2 };

#define SECOND UINT64_C(1000000000)

struct row {
    struct ct_human_text cell[COLUMNS];
};

struct table {
    const struct ct_site_table *of;
    struct row *rows; // the first one has the headings
    size_t shown, n;  // call sites that are shown; rows, with that of the rest
    size_t width[COLUMNS];
    int hidden[COLUMNS];
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

static void fill_headings(struct table *t) {
    static const char *const names[COLUMNS] = {"",           "count", "at end", "taken",
                                               "given back", "since", "",       "rose"};
    const struct ct_growth_stretch *s = t->of->stretch;
    for (unsigned c = 0; c < COLUMNS; c++)
        t->rows[0].cell[c] = text_of(names[c]);
    t->rows[0].cell[HELD] = text_of(t->of->held);
    t->rows[0].cell[GROWTH] = text_of(s->known ? name_unit(find_unit(s)) : "growth");
}

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
    const size_t n = t->n - 1;
    uint64_t *bytes = ct_heap_alloc_zeroed(n, sizeof *bytes);
    struct ct_human_text *sizes = ct_heap_resize(NULL, n, sizeof *sizes);
    for (size_t i = 0; i < t->of->groups->count; i++)
        bytes[i < t->shown ? i : t->shown] += t->of->groups->list[i].bytes;
    ct_human_bytes_of_parts(sizes, bytes, n, t->of->whole, v->options->units, t->shown);
    for (size_t i = 0; i < n; i++)
        t->rows[i + 1].cell[HELD] = sizes[i];
    free(bytes);
    free(sizes);
}

static void fill(const struct ct_view *v, struct table *t) {
    const struct ct_site_groups *g = t->of->groups;
    t->shown = g->count <= t->of->rows ? g->count : t->of->rows;
    t->n = 1 + t->shown + (g->count > t->shown);
    t->rows = ct_heap_resize(NULL, t->n, sizeof *t->rows);
    fill_headings(t);
    for (size_t i = 0; i < t->shown; i++)
        fill_row(v, t, &t->rows[i + 1], &g->list[i]);
    if (g->count > t->shown)
        fill_rest(v, t, &t->rows[t->n - 1]);
    fill_held(v, t);
}

// ---- columns ------------------------------------------------------------------------------------

static size_t measure(const struct table *t) {
    size_t width = 0;
    for (unsigned c = 0; c < COLUMNS; c++)
        width += t->hidden[c] ? 0 : t->width[c] + GAP;
    return width;
}

static void choose_columns(const struct ct_view *v, struct table *t) {
    for (size_t i = 0; i < t->n; i++)
        for (unsigned c = 0; c < COLUMNS; c++) {
            const size_t n = strlen(t->rows[i].cell[c].text);
            t->width[c] = n > t->width[c] ? n : t->width[c];
        }
    t->hidden[END] = !t->of->at_end;
    for (unsigned i = 0; i < sizeof expendable && v->terminal->is_terminal; i++)
        if (measure(t) + ROOM_FOR_SITE > v->terminal->width)
            t->hidden[expendable[i]] = 1;
}

static void print_cells(struct ct_view *v, const struct table *t, const struct row *r) {
    for (unsigned c = 0; c < COLUMNS; c++)
        if (!t->hidden[c])
            fprintf(v->out, "%*s%*s", (int)t->width[c], r->cell[c].text, GAP, "");
}

// Says what the columns of growth mean, or why they are empty.
static void print_stretch(struct ct_view *v, const struct table *t) {
    const struct ct_growth_stretch *s = t->of->stretch;
    if (t->hidden[GROWTH])
        return;
    fputs(v->terminal->dim, v->out);
    if (!s->known)
        fputs("growth: not known, the time up to there is shorter than 0.2 s", v->out);
    else
        fprintf(v->out, "growth: of the least held, over %d parts of %s to %s%s",
                CT_SITE_GROWTH_PARTS, ct_label_time(v, s->from_ns).text,
                ct_label_time(v, s->to_ns).text,
                t->hidden[ROSE] ? "" : "; rose: in how many steps");
    fprintf(v->out, "%s\n", v->terminal->reset);
}

void ct_site_table_print(struct ct_view *v, const struct ct_site_table *of) {
    struct table t = {.of = of};
    const size_t count = of->groups->count;
    fill(v, &t);
    choose_columns(v, &t);
    fputs(v->terminal->dim, v->out);
    print_cells(v, &t, &t.rows[0]);
    fprintf(v->out, "call site%s\n", v->terminal->reset);
    for (size_t i = 1; i < t.n; i++) {
        print_cells(v, &t, &t.rows[i]);
        if (i <= t.shown)
            ct_print_label(v, of->groups->list[i - 1].label, measure(&t));
        else
            fprintf(v->out, "%zu more call sites; --top %zu shows all", count - t.shown, count);
        putc('\n', v->out);
    }
    print_stretch(v, &t);
    free(t.rows);
}
