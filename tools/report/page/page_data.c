// SPDX-License-Identifier: Apache-2.0
#include "page/page.h"

#include <inttypes.h>
#include <string.h>

#include "print/document.h"
#include "print/label.h"
#include "print/trace_state.h"
#include "print/verdict.h"

// Sites that are told apart, and frames of one.
enum { MOST_SITES = 600, MOST_FRAMES = 64 };

// ---- moments -----------------------------------------------------------------------------------

// Differences are written as two's complements: a later value may be smaller.
static void put_delta(struct ct_json *j, uint64_t *before, uint64_t now) {
    ct_json_signed(j, NULL, (int64_t)(now - *before));
    *before = now;
}

static uint64_t since_start(const struct ct_view *v, uint64_t t_ns) {
    return t_ns > v->trace->start_ns ? t_ns - v->trace->start_ns : 0;
}

static int has_row(const struct ct_device_series *d, unsigned row) {
    for (size_t i = 0; i < d->count; i++)
        if (d->moments[i].bytes[row])
            return 1;
    return 0;
}

static void write_rows(struct ct_json *j, const struct ct_device_series *d) {
    ct_json_open(j, "rows", '[');
    for (unsigned row = 0; row < CT_SERIES_ROWS; row++) {
        const struct ct_series_row r = ct_device_series_row(row);
        if (!has_row(d, row))
            continue;
        ct_json_open(j, NULL, '{');
        ct_json_text(j, "key", r.key);
        ct_json_text(j, "title", r.title);
        ct_json_text(j, "group", r.group);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
}

static void write_moments(struct ct_json *j, const struct ct_view *v,
                          const struct ct_device_series *d) {
    uint64_t before = 0;
    ct_json_open(j, "t_ns", '[');
    for (size_t i = 0; i < d->count; i++)
        put_delta(j, &before, since_start(v, d->moments[i].t_ns));
    ct_json_close(j, ']');
    before = 0;
    ct_json_open(j, "event", '[');
    for (size_t i = 0; i < d->count; i++)
        put_delta(j, &before, d->moments[i].event);
    ct_json_close(j, ']');
    ct_json_open(j, "bytes", '[');
    for (unsigned row = 0; row < CT_SERIES_ROWS; row++) {
        if (!has_row(d, row))
            continue;
        before = 0;
        ct_json_open(j, NULL, '[');
        for (size_t i = 0; i < d->count; i++)
            put_delta(j, &before, d->moments[i].bytes[row]);
        ct_json_close(j, ']');
    }
    ct_json_close(j, ']');
    ct_json_open(j, "read", '[');
    for (size_t i = 0; i < d->count; i++)
        ct_json_number(j, NULL, d->moments[i].is_read != 0);
    ct_json_close(j, ']');
}

// ---- marks -------------------------------------------------------------------------------------

static void write_mark(struct ct_json *j, const struct ct_device_series *d, uint64_t event,
                       const char *kind, const char *text) {
    for (size_t i = 0; i < d->count; i++) {
        if (d->moments[i].event != event)
            continue;
        ct_json_open(j, NULL, '{');
        ct_json_number(j, "at", i);
        ct_json_text(j, "kind", kind);
        ct_json_text(j, "text", text);
        ct_json_close(j, '}');
        return;
    }
}

// Marks of the program: names of the trace, as the views write them.
static void write_program_marks(struct ct_json *j, const struct ct_device_series *d) {
    const struct ct_program_marks *m = &d->notable.marks;
    char label[160];
    for (unsigned i = 0; i < CT_PROGRAM_MARKS; i++) {
        if (!m->part[i].count)
            continue;
        ct_program_marks_label(m, &m->part[i], label, sizeof label);
        write_mark(j, d, m->part[i].event, "mark", label);
    }
}

static void write_marks(struct ct_json *j, struct ct_view *v, const struct ct_summary *s,
                        const struct ct_device_series *d) {
    const struct ct_incidents *n = &s->scan.incidents;
    const struct ct_capacity capacity = ct_capacity_find(v->trace, &s->scan.end, d->device);
    ct_json_open(j, "marks", '[');
    for (size_t i = 0; i < d->notable.failure_count; i++) {
        const struct ct_oom_event *o = ct_incidents_head(n, d->notable.failures[i]);
        char *text = ct_verdict_request(v, o, capacity.bytes);
        write_mark(j, d, o->event, o == s->crossing ? "crossing" : "oom", text);
        free(text);
    }
    if (s->scan.device[d->device].peak_known)
        write_mark(j, d, s->scan.device[d->device].peak_event, "peak", "most tracked memory");
    write_program_marks(j, d);
    if (d->count)
        write_mark(j, d, d->moments[d->count - 1].event, "end",
                   v->to_ns == UINT64_MAX ? "end of the trace" : "end of the range");
    ct_json_close(j, ']');
}

// ---- call sites --------------------------------------------------------------------------------

struct ranked {
    uint64_t most; // that it held at any moment
    uint32_t group;
};

// The sites that held the most at any moment have a number; all others are one.
struct sites {
    struct ranked *order; // those that held the most first
    uint32_t *number;     // by group
    size_t groups, count;
    uint64_t *now_bytes, *now_count; // by group, for the sum of the others
};

static int compare_most(const void *a, const void *b) {
    const struct ranked *x = a, *y = b;
    if (x->most != y->most)
        return x->most < y->most ? 1 : -1;
    return (x->group > y->group) - (x->group < y->group);
}

static void find_sites(struct sites *s, const struct ct_device_series *d) {
    s->groups = d->held.groups.count;
    s->order = ct_heap_alloc_zeroed(s->groups + 1, sizeof *s->order);
    s->number = ct_heap_alloc_zeroed(s->groups + 1, sizeof *s->number);
    s->now_bytes = ct_heap_alloc_zeroed(s->groups + 1, sizeof *s->now_bytes);
    s->now_count = ct_heap_alloc_zeroed(s->groups + 1, sizeof *s->now_count);
    for (size_t i = 0; i < s->groups; i++)
        s->order[i].group = (uint32_t)i;
    for (size_t i = 0; i < d->change_count; i++) {
        struct ranked *r = &s->order[d->changes[i].site];
        r->most = d->changes[i].bytes > r->most ? d->changes[i].bytes : r->most;
    }
    qsort(s->order, s->groups, sizeof *s->order, compare_most);
    s->count = s->groups < MOST_SITES ? s->groups : MOST_SITES;
    for (size_t i = 0; i < s->groups; i++)
        s->number[s->order[i].group] = (uint32_t)(i < s->count ? i : s->count);
}

static void free_sites(struct sites *s) {
    free(s->order);
    free(s->number);
    free(s->now_bytes);
    free(s->now_count);
}

static void write_stack(struct ct_json *j, struct ct_view *v, uint32_t stack,
                        struct ct_names *strings) {
    char label[1024];
    unsigned n = 0;
    ct_json_open(j, "stack", '[');
    for (struct ct_shown_frames a = ct_call_sites_shown_frames(v->sites, stack);
         a.node && n < MOST_FRAMES; ct_call_sites_next_frame(&a), n++) {
        ct_call_sites_shown_label(&a, label, sizeof label);
        ct_json_number(j, NULL, ct_names_add(strings, label) - UINT64_C(1));
    }
    ct_json_close(j, ']');
}

static void write_site(struct ct_json *j, struct ct_view *v, const struct ct_site_group *g,
                       struct ct_names *strings) {
    const enum ct_account_row_kind row =
        g->kind == CT_HOLDING_IDLE
            ? CT_ACCOUNT_POOL_IDLE
            : (enum ct_account_row_kind)ct_phases_find_component(v->phases, g->stack);
    ct_json_open(j, NULL, '{');
    ct_json_text(j, "kind", ct_holding_kind_name(g->kind));
    ct_json_text(j, "label", g->label);
    ct_json_text(j, "component", ct_account_row_name(row));
    write_stack(j, v, g->kind == CT_HOLDING_IDLE ? 0 : g->stack, strings);
    ct_json_close(j, '}');
}

static void write_sites(struct ct_json *j, struct ct_view *v, const struct ct_device_series *d,
                        const struct sites *s, struct ct_names *strings) {
    ct_json_open(j, "sites", '[');
    for (size_t i = 0; i < s->count; i++)
        write_site(j, v, &d->held.groups.list[s->order[i].group], strings);
    if (s->count < s->groups) {
        char label[64];
        (void)snprintf(label, sizeof label, "%zu more call sites", s->groups - s->count);
        ct_json_open(j, NULL, '{');
        ct_json_text(j, "kind", "allocation");
        ct_json_text(j, "label", label);
        ct_json_null(j, "component");
        ct_json_open(j, "stack", '[');
        ct_json_close(j, ']');
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
}

static void put_change(struct ct_json *j, uint64_t site, uint64_t bytes, uint64_t count) {
    ct_json_number(j, NULL, site);
    ct_json_number(j, NULL, bytes);
    ct_json_number(j, NULL, count);
}

static void write_changes(struct ct_json *j, const struct ct_device_series *d, struct sites *s,
                          const struct ct_series_live *live, struct ct_series_change *rest) {
    int rest_changed = 0;
    ct_json_open(j, NULL, '[');
    for (size_t k = live->first; k < live->end; k++) {
        const struct ct_series_change *c = &d->changes[k];
        if (s->number[c->site] < s->count) {
            put_change(j, s->number[c->site], c->bytes, c->count);
            continue;
        }
        rest->bytes += c->bytes - s->now_bytes[c->site];
        rest->count += c->count - s->now_count[c->site];
        s->now_bytes[c->site] = c->bytes;
        s->now_count[c->site] = c->count;
        rest_changed = 1;
    }
    if (rest_changed)
        put_change(j, s->count, rest->bytes, rest->count);
    ct_json_close(j, ']');
}

static void write_live(struct ct_json *j, const struct ct_device_series *d, struct sites *s) {
    struct ct_series_change rest = {0};
    ct_json_open(j, "live", '{');
    ct_json_open(j, "at", '[');
    for (size_t i = 0; i < d->live_count; i++)
        ct_json_number(j, NULL, d->live[i].moment);
    ct_json_close(j, ']');
    ct_json_open(j, "changes", '[');
    for (size_t i = 0; i < d->live_count; i++)
        write_changes(j, d, s, &d->live[i], &rest);
    ct_json_close(j, ']');
    ct_json_close(j, '}');
}

// ---- addresses ---------------------------------------------------------------------------------

static int64_t number_owner(const struct sites *s, uint32_t owner) {
    const uint32_t group = owner - CT_ADDRESS_SITES;
    if (owner < CT_ADDRESS_SITES)
        return owner;
    return group < s->groups ? CT_ADDRESS_SITES + (int64_t)s->number[group] : CT_ADDRESS_MANY;
}

static int64_t owner_of(const struct sites *s, uint32_t owner) {
    const int64_t number = number_owner(s, owner & ~CT_ADDRESS_MOSTLY_IDLE);
    return owner & CT_ADDRESS_MOSTLY_IDLE ? -number : number;
}

static void write_column(struct ct_json *j, const struct ct_device_series *d, const struct sites *s,
                         const uint32_t *owners) {
    const unsigned rows = d->notable.axis.rows;
    ct_json_open(j, NULL, '[');
    for (unsigned row = 0; row < rows;) {
        const int64_t owner = owner_of(s, owners[row]);
        unsigned length = 1;
        while (row + length < rows && owner_of(s, owners[row + length]) == owner)
            length++;
        ct_json_number(j, NULL, length);
        ct_json_signed(j, NULL, owner);
        row += length;
    }
    ct_json_close(j, ']');
}

static void write_blocks(struct ct_json *j, const struct ct_view *v,
                         const struct ct_device_series *d, const struct sites *s) {
    ct_json_open(j, "blocks", '[');
    for (size_t i = 0; i < d->block_count; i++) {
        const struct ct_series_blocks *b = &d->blocks[i];
        uint64_t before = b->count ? b->list[0].start : 0;
        ct_json_open(j, NULL, '{');
        ct_json_number(j, "at", b->moment);
        ct_json_number(j, "all", b->all);
        ct_json_hex(j, "start", before);
        ct_json_open(j, "list", '[');
        for (const struct ct_address_block *one = b->list; one < b->list + b->count; one++) {
            ct_json_number(j, NULL, one->start - before);
            ct_json_number(j, NULL, one->bytes);
            ct_json_number(j, NULL, one->site < s->groups ? s->number[one->site] : s->count);
            ct_json_number(j, NULL, since_start(v, one->t_ns));
            before = one->start;
        }
        ct_json_close(j, ']');
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
}

static void write_map(struct ct_json *j, const struct ct_view *v, const struct ct_device_series *d,
                      const struct sites *s) {
    const struct ct_address_axis *axis = &d->notable.axis;
    if (!ct_json_open_or_null(j, "map", axis->rows, '{'))
        return;
    ct_json_open(j, "at", '[');
    for (size_t i = 0; i < d->column_count; i++)
        ct_json_number(j, NULL, d->columns[i].moment);
    ct_json_close(j, ']');
    ct_json_open(j, "ranges", '[');
    for (size_t i = 0; i < axis->count; i++) {
        ct_json_open(j, NULL, '{');
        ct_json_hex(j, "start", axis->ranges[i].start);
        ct_json_number(j, "bytes", axis->ranges[i].bytes);
        ct_json_number(j, "first_row", axis->ranges[i].first_row);
        ct_json_number(j, "rows", axis->ranges[i].rows);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
    ct_json_number(j, "rows", axis->rows);
    ct_json_open(j, "cells", '[');
    for (size_t i = 0; i < d->column_count; i++)
        write_column(j, d, s, d->columns[i].owners);
    ct_json_close(j, ']');
    write_blocks(j, v, d, s);
    ct_json_close(j, '}');
}

// ---- a device, a trace -------------------------------------------------------------------------

static void write_device(struct ct_json *j, struct ct_view *v, const struct ct_summary *s,
                         const struct ct_device_series *d, struct ct_names *strings) {
    const struct ct_capacity capacity = ct_capacity_find(v->trace, &s->scan.end, d->device);
    struct sites sites = {0};
    find_sites(&sites, d);
    ct_json_open(j, NULL, '{');
    ct_document_add_device(j, "device", d->device);
    ct_document_add_string(j, "name", ct_capacity_device_name(v->trace, d->device));
    ct_json_number_or_null(j, "capacity", capacity.bytes != 0, capacity.bytes);
    write_rows(j, d);
    write_moments(j, v, d);
    write_marks(j, v, s, d);
    write_sites(j, v, d, &sites, strings);
    write_live(j, d, &sites);
    write_map(j, v, d, &sites);
    ct_json_close(j, '}');
    free_sites(&sites);
}

// The document that a command's --json is, as the value of a key.
static void write_document(struct ct_json *j, const struct ct_page_reading *r, const char *key,
                           enum ct_command command) {
    ct_json_key(j, key, strlen(key));
    fputs(r->json[command], j->out);
    j->comma = 1;
}

void ct_page_data_write_trace(struct ct_json *j, struct ct_view *v, const struct ct_page_reading *r,
                              const char *title, struct ct_names *strings) {
    ct_json_open(j, NULL, '{');
    ct_json_text(j, "file", v->trace->source.name);
    ct_json_text(j, "title", title);
    write_document(j, r, "summary", CT_COMMAND_summary);
    write_document(j, r, "phases", CT_COMMAND_phases);
    write_document(j, r, "leaks", CT_COMMAND_leaks);
    write_document(j, r, "frag", CT_COMMAND_frag);
    write_document(j, r, "info", CT_COMMAND_info);
    ct_json_open(j, "devices", '[');
    for (int d = 0; d < CT_DEVICES; d++)
        if (r->has_series[d])
            write_device(j, v, &r->summary, &r->series[d], strings);
    ct_json_close(j, ']');
    ct_json_close(j, '}');
}
