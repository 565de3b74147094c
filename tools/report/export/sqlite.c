// SPDX-License-Identifier: Apache-2.0
// All tables as a database. It is built in the new file's place without a journal: nobody sees the
// file before it is complete.
#include "export/tables.h"

static int fail_without(struct ct_error *error, const char *why) {
    return ct_error_set(error, CT_EXIT_OUTPUT, "export --format=sqlite: %s", why);
}

#ifndef CT_HAS_SQLITE

int ct_export_write_sqlite(struct ct_export *x, struct ct_error *error) {
    (void)x;
    return fail_without(error, "this cutrace-report was built without SQLite (libsqlite3-dev)");
}

#else

#include <sqlite3.h>
#include <sys/stat.h>

#define APPLICATION_ID "1129599555" // "CTRC"
enum { SCHEMA_VERSION = 1 };

struct database {
    sqlite3 *db;
    sqlite3_stmt *insert[CT_TABLES];
    int rc; // of the first call that failed
};

static void run(struct database *d, const char *sql) {
    if (d->rc == SQLITE_OK)
        d->rc = sqlite3_exec(d->db, sql, NULL, NULL, NULL);
}

// Runs a statement that is too long for one line: parts, ended by NULL.
static void run_text(struct database *d, char *sql) {
    run(d, sql ? sql : "");
    sqlite3_free(sql);
}

// The help of the table and of each column stands in the schema.
static void create_table(struct database *d, enum ct_export_table number) {
    static const char *const types[] = {"INTEGER", "TEXT", "TEXT", "INTEGER"};
    const struct ct_table t = ct_tables_get(number);
    sqlite3_str *create = sqlite3_str_new(d->db), *insert = sqlite3_str_new(d->db);
    sqlite3_str_appendf(create, "CREATE TABLE %s ( -- %s\n", t.name, t.help);
    sqlite3_str_appendf(insert, "INSERT INTO %s VALUES (", t.name);
    for (unsigned i = 0; i < t.count; i++) {
        const struct ct_table_column *c = &t.columns[i];
        sqlite3_str_appendf(create, "    \"%w\" %s%s -- %s\n", c->name, types[c->type],
                            i + 1 < t.count ? "," : "", c->help);
        sqlite3_str_appendall(insert, i ? ", ?" : "?");
    }
    sqlite3_str_appendall(create, ")");
    sqlite3_str_appendall(insert, ")");
    run_text(d, sqlite3_str_finish(create));
    char *sql = sqlite3_str_finish(insert);
    if (d->rc == SQLITE_OK)
        d->rc = sqlite3_prepare_v2(d->db, sql ? sql : "", -1, &d->insert[number], NULL);
    sqlite3_free(sql);
}

static void create_all(struct database *d) {
    run(d, "PRAGMA journal_mode = OFF");
    run(d, "PRAGMA synchronous = OFF");
    run(d, "PRAGMA application_id = " APPLICATION_ID);
    run_text(d, sqlite3_mprintf("PRAGMA user_version = %d", SCHEMA_VERSION));
    run(d, "BEGIN");
    for (unsigned i = 0; i < CT_TABLES; i++)
        create_table(d, (enum ct_export_table)i);
}

static void create_views(struct database *d) {
    static const char *const statements[] = {
#define CT_SQL_INDEX(name, on) "CREATE INDEX " #name " ON " on,
#define CT_SQL_VIEW(name, help, select) "CREATE VIEW " #name " AS -- " help "\n" select,
#include "export/sqlite_views.def"
    };
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++)
        run(d, statements[i]);
    run(d, "COMMIT");
}

// Numbers that SQLite's integers cannot hold become the largest one.
static sqlite3_int64 get_integer(const struct ct_cell *cell) {
    const uint64_t most = INT64_MAX;
    const sqlite3_int64 value = (sqlite3_int64)(cell->number < most ? cell->number : most);
    return cell->is_negative ? -value : value;
}

static int bind(sqlite3_stmt *s, int at, const struct ct_cell *cell, enum ct_cell_type type) {
    char address[24];
    if (!cell->known)
        return sqlite3_bind_null(s, at);
    if (type == CT_CELL_TEXT)
        return sqlite3_bind_text(s, at, cell->text, -1, SQLITE_TRANSIENT);
    if (type != CT_CELL_ADDRESS)
        return sqlite3_bind_int64(s, at, get_integer(cell));
    (void)snprintf(address, sizeof address, "0x%llx", (unsigned long long)cell->number);
    return sqlite3_bind_text(s, at, address, -1, SQLITE_TRANSIENT);
}

static void insert_row(void *user, enum ct_export_table number, const struct ct_cell *cells) {
    struct database *d = user;
    const struct ct_table t = ct_tables_get(number);
    for (unsigned i = 0; i < t.count && d->rc == SQLITE_OK; i++)
        d->rc = bind(d->insert[number], (int)i + 1, &cells[i], t.columns[i].type);
    if (d->rc != SQLITE_OK)
        return;
    if (sqlite3_step(d->insert[number]) != SQLITE_DONE)
        d->rc = sqlite3_errcode(d->db);
    else
        d->rc = sqlite3_reset(d->insert[number]);
}

int ct_export_write_sqlite(struct ct_export *x, struct ct_error *error) {
    struct database d = {.rc = SQLITE_OK};
    struct stat st;
    if (x->file->in_place)
        return fail_without(error, "a database needs a regular file; name one with --output");
    d.rc = sqlite3_open_v2(x->file->part, &d.db, SQLITE_OPEN_READWRITE, NULL);
    create_all(&d);
    ct_tables_write(x, (1U << CT_TABLES) - 1, insert_row, &d);
    create_views(&d);
    for (unsigned i = 0; i < CT_TABLES; i++)
        sqlite3_finalize(d.insert[i]);
    if (d.rc != SQLITE_OK)
        (void)ct_error_set(error, CT_EXIT_OUTPUT, "%.400s: cannot be written: %s", x->file->path,
                           sqlite3_errstr(d.rc));
    if (sqlite3_close(d.db) != SQLITE_OK && d.rc == SQLITE_OK)
        d.rc = ct_error_set(error, CT_EXIT_OUTPUT, "%.400s: cannot be written", x->file->path);
    if (d.rc == SQLITE_OK && fstat(x->file->fd, &st) == 0)
        x->file->bytes = (uint64_t)st.st_size;
    return d.rc == SQLITE_OK ? 0 : -1;
}

#endif
