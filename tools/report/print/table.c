// SPDX-License-Identifier: Apache-2.0
#include "print/table.h"

#include <cutrace/format/assert.h>
#include <stdarg.h>

#include "base/heap.h"
#include "base/utf8.h"
#include "print/print.h"

enum { GAP = 2, MOST = 32, LABEL = 34 }; // of columns; of a label, what a terminal has room for

// How a table is shown: the width of each column, 0: left out.
struct layout {
    size_t width[MOST];
    size_t label; // where the labels begin
};

void ct_table_init(struct ct_table *t, const struct ct_table_column *columns, size_t column_count,
                   unsigned indent) {
    CT_ASSERT(column_count && column_count <= MOST);
    *t = (struct ct_table){.columns = columns, .column_count = column_count, .indent = indent};
}

void ct_table_begin_row(struct ct_table *t) {
    CT_HEAP_GROW(t->rows, t->count, t->capacity);
    t->rows[t->count++] = (struct ct_table_row){
        .cells = ct_heap_alloc_zeroed(t->column_count, sizeof(char *)),
    };
}

void ct_table_add_cell(struct ct_table *t, const char *text) {
    struct ct_table_row *r = &t->rows[t->count - 1];
    CT_ASSERT(r->count < t->column_count);
    r->cells[r->count++] = ct_heap_copy_text(text);
}

void ct_table_add_row(struct ct_table *t, ...) {
    va_list cells;
    ct_table_begin_row(t);
    va_start(cells, t);
    for (const char *text; (text = va_arg(cells, const char *));)
        ct_table_add_cell(t, text);
    va_end(cells);
}

static void free_row(struct ct_table_row *r) {
    for (size_t i = 0; i < r->count; i++)
        free(r->cells[i]);
    free(r->cells);
}

// ---- equal rows ---------------------------------------------------------------------------------

static int is_equal(const struct ct_table *t, const struct ct_table_row *a,
                    const struct ct_table_row *b) {
    if (a->count != t->column_count || b->count != t->column_count)
        return 0;
    for (size_t i = 1; i < a->count; i++)
        if (strcmp(a->cells[i], b->cells[i]) != 0)
            return 0;
    return 1;
}

void ct_table_merge_equal(struct ct_table *t) {
    size_t kept = 0;
    for (size_t i = 0, end; i < t->count; i = end) {
        struct ct_table_row *first = &t->rows[i];
        char range[200];
        for (end = i + 1; end < t->count && is_equal(t, first, &t->rows[end]);)
            end++;
        if (end > i + 1) {
            (void)snprintf(range, sizeof range, "%.90s to %.90s", first->cells[0],
                           t->rows[end - 1].cells[0]);
            free(first->cells[0]);
            first->cells[0] = ct_heap_copy_text(range);
        }
        for (size_t k = i + 1; k < end; k++)
            free_row(&t->rows[k]);
        t->rows[kept++] = *first;
    }
    t->count = kept;
}

// ---- layout -------------------------------------------------------------------------------------

static size_t measure(const struct ct_table *t, size_t column) {
    size_t most = ct_utf8_columns(t->columns[column].head);
    for (size_t i = 0; i < t->count; i++) {
        const struct ct_table_row *r = &t->rows[i];
        const size_t n = r->count == t->column_count ? ct_utf8_columns(r->cells[column]) : 0;
        most = n > most ? n : most;
    }
    return most;
}

// Returns the columns of the terminal that the table takes; of its labels at most LABEL.
static size_t count_columns(const struct ct_table *t, struct layout *l) {
    size_t n = t->indent;
    for (size_t i = 0; i < t->column_count; i++) {
        const int is_label = t->columns[i].kind == CT_TABLE_LABEL;
        if (is_label)
            l->label = n;
        if (l->width[i])
            n += (is_label && l->width[i] > LABEL ? LABEL : l->width[i]) + GAP;
    }
    return n - GAP;
}

// Returns the column to leave out next, or column_count.
static size_t find_dispensable(const struct ct_table *t, const struct layout *l) {
    size_t found = t->column_count;
    for (size_t i = 0; i < t->column_count; i++)
        if (l->width[i] && t->columns[i].rank &&
            (found == t->column_count || t->columns[i].rank > t->columns[found].rank))
            found = i;
    return found;
}

static struct layout lay_out(const struct ct_view *v, const struct ct_table *t) {
    struct layout l = {{0}, 0};
    for (size_t i = 0; i < t->column_count; i++)
        l.width[i] = measure(t, i);
    while (count_columns(t, &l) > v->terminal->width && v->terminal->is_terminal) {
        const size_t i = find_dispensable(t, &l);
        if (i == t->column_count)
            break;
        l.width[i] = 0;
    }
    return l;
}

// ---- text ---------------------------------------------------------------------------------------

static void print_cell(struct ct_view *v, const struct ct_table *t, const struct layout *l,
                       size_t i, const char *text) {
    const size_t columns = ct_utf8_columns(text);
    const int pad = (int)(l->width[i] > columns ? l->width[i] - columns : 0);
    const int is_last = i + 1 == t->column_count;
    if (t->columns[i].kind == CT_TABLE_LABEL)
        ct_print_label(v, text, l->label);
    else if (t->columns[i].kind == CT_TABLE_RIGHT)
        fprintf(v->out, "%*s%s", pad, "", text);
    else
        fprintf(v->out, "%s%*s", text, is_last ? 0 : pad, "");
}

static void print_row(struct ct_view *v, const struct ct_table *t, const struct layout *l,
                      const struct ct_table_row *r) {
    size_t gap = t->indent;
    fputs(CT_WRAP_ROW, v->out);
    for (size_t i = 0; i < t->column_count; i++) {
        if (!l->width[i])
            continue;
        fprintf(v->out, "%*s", (int)gap, "");
        print_cell(v, t, l, i, r ? r->cells[i] : t->columns[i].head);
        gap = GAP;
    }
}

void ct_table_print(struct ct_view *v, struct ct_table *t) {
    const struct layout l = lay_out(v, t);
    fputs(v->terminal->dim, v->out);
    print_row(v, t, &l, NULL);
    fprintf(v->out, "%s\n", v->terminal->reset);
    for (size_t i = 0; i < t->count; i++) {
        struct ct_table_row *r = &t->rows[i];
        if (r->count == t->column_count)
            print_row(v, t, &l, r);
        else
            fprintf(v->out, "%*s%s", (int)t->indent, "", r->count ? r->cells[0] : "");
        putc('\n', v->out);
        free_row(r);
    }
    free(t->rows);
    *t = (struct ct_table){0};
}
