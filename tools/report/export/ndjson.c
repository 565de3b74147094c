// SPDX-License-Identifier: Apache-2.0
// A JSON object a line: the rows of one table. Each has all keys; what is not known is null.
#include "base/json.h"
#include "export/tables.h"

struct ndjson {
    struct ct_json json;
    struct ct_table table;
};

static void put_cell(struct ct_json *j, const char *key, const struct ct_cell *cell,
                     enum ct_cell_type type) {
    if (!cell->known)
        ct_json_null(j, key);
    else if (type == CT_CELL_TEXT)
        ct_json_text(j, key, cell->text);
    else if (type == CT_CELL_ADDRESS)
        ct_json_hex(j, key, cell->number);
    else if (cell->is_negative)
        ct_json_signed(j, key, (int64_t)(0 - cell->number));
    else
        ct_json_number(j, key, cell->number);
}

static void write_row(void *user, enum ct_export_table table, const struct ct_cell *cells) {
    struct ndjson *n = user;
    struct ct_json *j = &n->json;
    (void)table;
    ct_json_open(j, NULL, '{');
    for (unsigned i = 0; i < n->table.count; i++)
        put_cell(j, n->table.columns[i].name, &cells[i], n->table.columns[i].type);
    ct_json_close(j, '}');
    ct_json_end_line(j);
}

int ct_export_write_ndjson(struct ct_export *x, struct ct_error *error) {
    struct ndjson n = {.json = {.out = x->out}, .table = ct_tables_get(x->table)};
    (void)error;
    ct_tables_write(x, 1U << x->table, write_row, &n);
    return 0;
}
