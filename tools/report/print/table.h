// SPDX-License-Identifier: Apache-2.0
// Tables whose columns are as wide as what they hold. Where a terminal is too narrow, columns are
// left out, so that a row is one line; without a terminal none is.
#ifndef CT_TABLE_H
#define CT_TABLE_H

#include "answer/view.h"

struct ct_table_column {
    const char *head;
    unsigned rank; // 0: always shown; of the others, those of the highest rank are left out first
    enum { CT_TABLE_RIGHT, CT_TABLE_LEFT, CT_TABLE_LABEL } kind; // LABEL: only the last one
};

struct ct_table {
    const struct ct_table_column *columns;
    size_t column_count;
    unsigned indent;
    struct ct_table_row {
        char **cells; // or one text for the whole row
        size_t count;
    } * rows;
    size_t count, capacity;
};

void ct_table_init(struct ct_table *t, const struct ct_table_column *columns, size_t column_count,
                   unsigned indent);
void ct_table_begin_row(struct ct_table *t);
// Adds a copy of a cell to the last row. A row with fewer cells than columns is one text, the
// first.
void ct_table_add_cell(struct ct_table *t, const char *text);
// A row of cells, ended by NULL.
void ct_table_add_row(struct ct_table *t, ...) __attribute__((sentinel));
// Makes one row of neighbours that differ only in their first cell: it has the first and the last
// of these, "A to B".
void ct_table_merge_equal(struct ct_table *t);
// Prints a table, and frees it.
void ct_table_print(struct ct_view *v, struct ct_table *t);

#endif
