// SPDX-License-Identifier: Apache-2.0
#include "views/explain.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/heap.h"
#include "base/utf8.h"
#include "diagnose/snapshot_verdicts.h"
#include "print/document.h"
#include "print/label.h"
#include "print/table.h"
#include "print/verdict.h"

#define MAX_BYTES (UINT64_C(4) << 30) // of a file

static const char adds[] =
    "what the device has outside of PyTorch's allocator: contexts, CUDA graphs, libraries, other "
    "processes; and the time before the history";

// Settings of the allocator that are shown, as PyTorch names them.
static const char *const settings[] = {"PYTORCH_CUDA_ALLOC_CONF", "expandable_segments",
                                       "max_split_size", "garbage_collection_threshold",
                                       "trace_alloc_overflowed"};

// ---- the frame of what is no trace --------------------------------------------------------------

static const char record[] = "cutrace run -- COMMAND"; // that records a trace

void ct_explain_begin_json(struct ct_json *j, const char *path, const struct ct_verdicts *l) {
    ct_json_open(j, NULL, '{');
    ct_json_text(j, "schema", "cutrace.explain/2");
    ct_json_text(j, "file", path);
    ct_verdicts_add_json(j, l, NULL);
}

void ct_explain_end_json(struct ct_json *j, const char *would_add) {
    ct_json_text(j, "trace_would_add", would_add);
    ct_json_text(j, "record", record);
    ct_document_end(j);
}

void ct_explain_print_adds(struct ct_view *v, const char *would_add) {
    fprintf(v->out, "a trace would add: " CT_WRAP_HANG "%s\n", would_add);
    fprintf(v->out, "to record one:     %s, then cutrace-report TRACE\n", record);
}

// ---- text ---------------------------------------------------------------------------------------

static void print_value(FILE *out, const struct ct_pickle_value *value) {
    switch (value->type) {
    case CT_PICKLE_IS_BOOL:
        fputs(value->number ? "True" : "False", out);
        break;
    case CT_PICKLE_IS_NUMBER:
        fprintf(out, "%" PRId64, value->number);
        break;
    case CT_PICKLE_IS_REAL:
        fprintf(out, "%g", value->real);
        break;
    case CT_PICKLE_IS_TEXT:
        ct_utf8_print_sanitized(out, value->text, value->length < 200 ? value->length : 200);
        break;
    default:
        putc('-', out);
    }
}

static const struct ct_pickle_value *find_setting(const struct ct_snapshot *s, size_t i) {
    const struct ct_pickle_value *value = ct_pickle_find(&s->document, s->settings, settings[i]);
    return value && value->type == CT_PICKLE_IS_TEXT && !value->length ? NULL : value;
}

static void print_settings(struct ct_view *v, const struct ct_snapshot *s) {
    int is_first = 1;
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        const struct ct_pickle_value *value = find_setting(s, i);
        if (!value)
            continue;
        fprintf(v->out, is_first ? "  settings  " CT_WRAP_HANG "%s " : ", %s ", settings[i]);
        print_value(v->out, value);
        is_first = 0;
    }
    if (!is_first)
        putc('\n', v->out);
}

static void print_sites(struct ct_view *v, const struct ct_snapshot_case *c) {
    enum { MOST = 8 };
    static const struct ct_table_column columns[] = {{"size", 0, CT_TABLE_RIGHT},
                                                     {"share", 1, CT_TABLE_RIGHT},
                                                     {"blocks", 2, CT_TABLE_RIGHT},
                                                     {"call site", 0, CT_TABLE_LABEL}};
    struct ct_table t;
    if (!c->groups.count)
        return;
    ct_table_init(&t, columns, sizeof columns / sizeof *columns, 2);
    for (size_t i = 0; i < c->groups.count && i < MOST; i++) {
        const struct ct_site_group *g = &c->groups.list[i];
        ct_table_add_row(&t, ct_label_size(v, g->bytes).text,
                         ct_human_percent(g->bytes, c->pool.allocated + c->pool.pending).text,
                         ct_human_count(g->count).text, g->label, NULL);
    }
    ct_table_print(v, &t);
    if (c->groups.count > MOST)
        fprintf(v->out, "  and %s more call sites\n", ct_human_count(c->groups.count - MOST).text);
}

static void print_pool(struct ct_view *v, const struct ct_snapshot_case *c) {
    const struct ct_snapshot_pool *p = &c->pool;
    if (c->device < 0)
        return;
    fprintf(v->out,
            "  pool      " CT_WRAP_HANG
            "%s, %s: %s in %s; %s in blocks, %s idle in %s, the largest of %s%s\n",
            ct_label_device(c->device).text, ct_snapshot_case_name_moment(c).text,
            ct_label_size(v, p->reserved).text, ct_human_counted(p->segments, "segment").text,
            ct_label_size(v, p->allocated + p->pending).text, ct_label_size(v, p->free.bytes).text,
            ct_human_counted(p->free.ranges, "free block").text,
            ct_label_size(v, p->free.largest).text,
            p->is_exact ? "" : " (blocks that were freed since: by their sizes as asked for)");
}

static void print_text(struct ct_view *v, const struct ct_snapshot_case *c,
                       const struct ct_verdicts *l) {
    ct_verdicts_print(v, l, 3);
    fprintf(v->out,
            "torch only: " CT_WRAP_HANG "from a memory snapshot of PyTorch with %s entr%s of "
            "history, %s of them out of memory; nothing outside of its allocator is in it, and no "
            "trace was read\n",
            ct_human_count(c->entries).text, c->entries == 1 ? "y" : "ies",
            ct_human_count(c->ooms).text);
    print_pool(v, c);
    print_settings(v, c->snapshot);
    print_sites(v, c);
    ct_explain_print_adds(v, adds);
}

// ---- JSON ---------------------------------------------------------------------------------------

static void add_free(struct ct_json *j, const char *key, const struct ct_snapshot_free *f) {
    ct_json_open(j, key, '{');
    ct_json_number(j, "bytes", f->bytes);
    ct_json_number(j, "blocks", f->ranges);
    ct_json_number(j, "largest_bytes", f->largest);
    ct_json_close(j, '}');
}

static void add_pool(struct ct_json *j, const char *key, const struct ct_snapshot_pool *p) {
    ct_json_open(j, key, '{');
    ct_json_number(j, "reserved_bytes", p->reserved);
    ct_json_number(j, "segments", p->segments);
    ct_json_number(j, "allocated_bytes", p->allocated);
    ct_json_number(j, "pending_bytes", p->pending);
    ct_json_number(j, "requested_bytes", p->requested);
    add_free(j, "free", &p->free);
    ct_json_number(j, "undone_entries", p->undone);
    ct_json_bool(j, "is_exact", p->is_exact);
    ct_json_close(j, '}');
}

static void add_oom(struct ct_json *j, const struct ct_snapshot_case *c) {
    const struct ct_snapshot_entry *o = c->oom;
    if (!ct_json_open_or_null(j, "oom", o != NULL, '{'))
        return;
    ct_json_number(j, "ordinal", (uint64_t)c->device);
    ct_json_number(j, "entry", c->at);
    ct_json_number_or_null(j, "time_us", o->time_us != 0, o->time_us);
    ct_json_number(j, "asked_bytes", o->bytes);
    ct_json_number_or_null(j, "free_bytes", o->free_known, o->address);
    ct_json_text(j, "phase", ct_phase_name(c->phase.phase));
    ct_json_text(j, "component", ct_component_name(c->component));
    ct_call_sites_json_stack(j, c->sites, "stack", o->stack);
    add_pool(j, "pool", &c->pool);
    add_free(j, "usable", &c->pool.usable);
    ct_json_close(j, '}');
}

static void add_peak(struct ct_json *j, const struct ct_snapshot_case *c) {
    if (!ct_json_open_or_null(j, "peak", !c->oom && c->device >= 0, '{'))
        return;
    ct_json_number(j, "ordinal", (uint64_t)c->device);
    ct_json_number(j, "entry", c->at);
    add_pool(j, "pool", &c->pool);
    ct_json_close(j, '}');
}

static void add_devices(struct ct_json *j, const struct ct_snapshot_case *c) {
    ct_json_open(j, "devices", '[');
    for (int d = 0; d < CT_SNAPSHOT_DEVICES; d++) {
        struct ct_snapshot_pool p;
        ct_snapshot_pool_find(&p, c->snapshot, d, SIZE_MAX, NULL);
        if (p.segments || c->snapshot->history[d].count) {
            ct_json_open(j, NULL, '{');
            ct_json_number(j, "ordinal", (uint64_t)d);
            ct_json_number(j, "entries", c->snapshot->history[d].count);
            ct_json_number(j, "ooms", c->snapshot->history[d].ooms);
            add_pool(j, "end", &p);
            ct_json_close(j, '}');
        }
        ct_snapshot_pool_free(&p);
    }
    ct_json_close(j, ']');
}

static void add_sites(struct ct_json *j, const struct ct_snapshot_case *c) {
    ct_json_open(j, "sites", '[');
    for (size_t i = 0; i < c->groups.count; i++) {
        const struct ct_site_group *g = &c->groups.list[i];
        const struct ct_phase_at at = ct_phases_find(c->phases, g->stack);
        ct_json_open(j, NULL, '{');
        ct_json_number(j, "bytes", g->bytes);
        ct_json_number(j, "count", g->count);
        ct_json_text(j, "site", g->label);
        ct_json_text(j, "phase", ct_phase_name(at.phase));
        ct_json_text(j, "component",
                     ct_component_name(ct_phases_find_component(c->phases, g->stack)));
        ct_call_sites_json_stack(j, c->sites, "stack", g->stack);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
}

static void add_settings(struct ct_json *j, const struct ct_snapshot *s) {
    ct_json_open(j, "settings", '{');
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        char text[64];
        const struct ct_pickle_value *value = find_setting(s, i);
        if (!value)
            continue;
        if (value->type == CT_PICKLE_IS_TEXT) {
            ct_json_bytes(j, settings[i], value->text, value->length);
            continue;
        }
        FILE *out = fmemopen(text, sizeof text, "w");
        if (!out)
            continue;
        print_value(out, value);
        fclose(out);
        ct_json_text(j, settings[i], text);
    }
    ct_json_close(j, '}');
}

static void print_json(const struct ct_view *v, const char *path, const struct ct_snapshot_case *c,
                       const struct ct_verdicts *l) {
    struct ct_json json = {.out = v->out}, *j = &json;
    ct_explain_begin_json(j, path, l);
    ct_json_null(j, "log");
    ct_json_open(j, "snapshot", '{');
    ct_json_number(j, "file_bytes", c->snapshot->size);
    ct_json_bool(j, "by_cutrace", c->snapshot->by_cutrace);
    ct_json_number(j, "entries", c->entries);
    ct_json_number(j, "ooms", c->ooms);
    add_settings(j, c->snapshot);
    add_devices(j, c);
    add_oom(j, c);
    add_peak(j, c);
    add_sites(j, c);
    ct_json_close(j, '}');
    ct_explain_end_json(j, adds);
}

// ---- the whole ----------------------------------------------------------------------------------

// All bytes of a stream of which `n` were read ahead; NULL with the error set.
static uint8_t *read_all(const char *path, const char *ahead, size_t n, FILE *in, size_t *size,
                         struct ct_error *error) {
    size_t room = 1 << 20, got;
    uint8_t *bytes = ct_heap_resize(NULL, room, 1);
    memcpy(bytes, ahead, n);
    while ((got = fread(bytes + n, 1, room - n, in)) > 0 && n + got <= MAX_BYTES) {
        n += got;
        if (n == room)
            bytes = ct_heap_resize(bytes, room *= 2, 1);
    }
    if (ferror(in))
        (void)ct_error_set(error, CT_EXIT_BAD_TRACE, "%.400s: %s", path, strerror(errno));
    else if (got)
        (void)ct_error_set(error, CT_EXIT_BAD_TRACE,
                           "%.400s: a snapshot of more than 4 GiB; record it with a smaller "
                           "max_entries",
                           path);
    *size = n;
    if (!ferror(in) && !got)
        return bytes;
    free(bytes);
    return NULL;
}

static void explain(struct ct_view *v, const char *path, struct ct_snapshot *s) {
    struct ct_call_sites sites;
    struct ct_phases phases;
    struct ct_snapshot_case c;
    struct ct_verdicts l = {0};
    ct_call_sites_init(&sites, &s->definitions);
    ct_phases_init(&phases, &s->definitions, NULL);
    ct_snapshot_case_make(&c, s, &sites, &phases);
    ct_snapshot_verdicts_find(&c, &l);
    v->out = v->options->json ? stdout : ct_terminal_open_text(v->terminal, stdout);
    if (v->options->json)
        print_json(v, path, &c, &l);
    else
        print_text(v, &c, &l);
    ct_verdicts_free(&l);
    ct_snapshot_case_free(&c);
    ct_phases_free(&phases);
    ct_call_sites_free(&sites);
}

int ct_explain_snapshot(struct ct_view *v, const char *path, const char *ahead, size_t n, FILE *in,
                        struct ct_error *error) {
    struct ct_snapshot s;
    size_t size;
    uint8_t *bytes = read_all(path, ahead, n, in, &size, error);
    if (!bytes)
        return -1;
    const int status = ct_snapshot_read(&s, path, bytes, size, error);
    if (!status)
        explain(v, path, &s);
    ct_snapshot_free(&s);
    return status;
}
