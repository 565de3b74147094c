// SPDX-License-Identifier: Apache-2.0
// The rows of one table as text, a line each.
#include <inttypes.h>

#include "base/json.h"
#include "export/tables.h"

struct lines {
    struct ct_json json; // of CSV only its output
    struct ct_table table;
};

static struct lines lines_of(const struct ct_export *x) {
    return (struct lines){.json = {.out = x->out}, .table = ct_tables_get(x->table)};
}

// ---- CSV ----------------------------------------------------------------------------------------
// As RFC 4180 has it, with lines that end in a single newline, and a header. What is not known is
// an empty field.

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

static void put_field(FILE *out, const struct ct_cell *cell, enum ct_cell_type type) {
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

static void write_csv_row(void *user, enum ct_export_table table, const struct ct_cell *cells) {
    const struct lines *l = user;
    (void)table;
    for (unsigned i = 0; i < l->table.count; i++) {
        if (i)
            putc_unlocked(',', l->json.out);
        put_field(l->json.out, &cells[i], l->table.columns[i].type);
    }
    putc_unlocked('\n', l->json.out);
}

int ct_export_write_csv(struct ct_export *x, struct ct_error *error) {
    struct lines l = lines_of(x);
    (void)error;
    for (unsigned i = 0; i < l.table.count; i++)
        fprintf(x->out, "%s%s", i ? "," : "", l.table.columns[i].name);
    putc('\n', x->out);
    ct_tables_write(x, 1U << x->table, write_csv_row, &l);
    return 0;
}

// ---- JSON ---------------------------------------------------------------------------------------
// An object a line. Each has all keys; what is not known is null.

static void put_value(struct ct_json *j, const char *key, const struct ct_cell *cell,
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

static void write_json_row(void *user, enum ct_export_table table, const struct ct_cell *cells) {
    struct lines *l = user;
    struct ct_json *j = &l->json;
    (void)table;
    ct_json_open(j, NULL, '{');
    for (unsigned i = 0; i < l->table.count; i++)
        put_value(j, l->table.columns[i].name, &cells[i], l->table.columns[i].type);
    ct_json_close(j, '}');
    ct_json_end_line(j);
}

int ct_export_write_ndjson(struct ct_export *x, struct ct_error *error) {
    struct lines l = lines_of(x);
    (void)error;
    ct_tables_write(x, 1U << x->table, write_json_row, &l);
    return 0;
}
