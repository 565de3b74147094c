// SPDX-License-Identifier: Apache-2.0
// CSV as RFC 4180 has it, with lines that end in a single newline: a header, then the rows of one
// table. What is not known is an empty field.
#include <inttypes.h>

#include "export/tables.h"

struct csv {
    FILE *out;
    struct ct_table table;
};

// A text that a spreadsheet would take for a formula gets an apostrophe before it, as OWASP says.
static void put_text(FILE *out, const char *text) {
    const int is_formula = strchr("=+-@", *text) != NULL;
    if (!is_formula && !text[strcspn(text, ",\"")]) {
        fputs(text, out);
        return;
    }
    fputs(is_formula ? "\"'" : "\"", out);
    for (; *text; text++) {
        if (*text == '"')
            putc_unlocked('"', out);
        putc_unlocked(*text, out);
    }
    putc_unlocked('"', out);
}

// Without printf, which took a quarter of the time of a table.
static void put_number(FILE *out, uint64_t n) {
    char digits[20], *at = digits + sizeof digits;
    do
        *--at = (char)('0' + n % 10);
    while (n /= 10);
    fwrite_unlocked(at, 1, (size_t)(digits + sizeof digits - at), out);
}

static void put_cell(FILE *out, const struct ct_cell *cell, enum ct_cell_type type) {
    if (!cell->known)
        return;
    if (type == CT_CELL_TEXT) {
        put_text(out, cell->text);
    } else if (type == CT_CELL_ADDRESS) {
        fprintf(out, "0x%" PRIx64, cell->number);
    } else {
        if (cell->is_negative)
            putc_unlocked('-', out);
        put_number(out, cell->number);
    }
}

static void write_row(void *user, enum ct_export_table table, const struct ct_cell *cells) {
    const struct csv *c = user;
    (void)table;
    for (unsigned i = 0; i < c->table.count; i++) {
        if (i)
            putc_unlocked(',', c->out);
        put_cell(c->out, &cells[i], c->table.columns[i].type);
    }
    putc_unlocked('\n', c->out);
}

int ct_export_write_csv(struct ct_export *x, struct ct_error *error) {
    struct csv c = {x->out, ct_tables_get(x->table)};
    (void)error;
    for (unsigned i = 0; i < c.table.count; i++)
        fprintf(c.out, "%s%s", i ? "," : "", c.table.columns[i].name);
    putc('\n', c.out);
    ct_tables_write(x, 1U << x->table, write_row, &c);
    return 0;
}
