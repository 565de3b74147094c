// SPDX-License-Identifier: Apache-2.0
// The rows of tables.def, for any format that has tables. They are made in one or two passes over
// the trace, whatever tables are asked for.
#ifndef CT_TABLES_H
#define CT_TABLES_H

#include "export/export.h"

enum ct_export_table {
#define CT_EXPORT_TABLE(name, help) CT_TABLE_##name,
#include "export/tables.def"
    CT_TABLES
};

// The columns of all tables are numbered one after the other; CT_FIRST_ is a table's first one.
enum {
#define CT_EXPORT_TABLE(name, help) CT_FIRST_##name, CT_BEFORE_##name = CT_FIRST_##name - 1,
#define CT_EXPORT_COLUMN(table, name, type, help) CT_COLUMN_##table##_##name,
#include "export/tables.def"
    CT_CELLS
};
// The cell of a column in a row.
#define CT_CELL(cells, table, name) (&(cells)[CT_COLUMN_##table##_##name - CT_FIRST_##table])

enum ct_cell_type { CT_CELL_NUMBER, CT_CELL_ADDRESS, CT_CELL_TEXT, CT_CELL_FLAG };

struct ct_table_column {
    const char *name, *help;
    enum ct_cell_type type;
};

struct ct_table {
    const char *name, *help;
    const struct ct_table_column *columns;
    unsigned count;
};
struct ct_table ct_tables_get(enum ct_export_table table);

// A value of the column's type; texts are as ct_export_text makes them.
struct ct_cell {
    int known;
    int is_negative; // of a NUMBER: `number` is its absolute value
    uint64_t number;
    const char *text;
};

// Calls `row` for each row of the tables in the set (a bit for each). A row is valid during the
// call.
void ct_tables_write(struct ct_export *x, unsigned set,
                     void (*row)(void *user, enum ct_export_table table,
                                 const struct ct_cell *cells),
                     void *user);

#endif
