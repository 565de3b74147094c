// SPDX-License-Identifier: Apache-2.0
// Makes rows of events, allocations, moments and definitions.
#include "export/tables.h"

#include <inttypes.h>

#include "analyze/capacity.h"
#include "analyze/phase_follow.h"
#include "export/frame_table.h"
#include "read/event_names.h"

static const struct ct_table_column columns[] = {
#define CT_EXPORT_COLUMN(table, name, type, help) {#name, help, CT_CELL_##type},
#include "export/tables.def"
};

static const struct {
    const char *name, *help;
    unsigned first;
} tables[CT_TABLES + 1] = {
#define CT_EXPORT_TABLE(name, help) {#name, help, CT_FIRST_##name},
#include "export/tables.def"
    {NULL, NULL, CT_CELLS},
};

struct ct_table ct_tables_get(enum ct_export_table table) {
    return (struct ct_table){tables[table].name, tables[table].help, columns + tables[table].first,
                             tables[table + 1].first - tables[table].first};
}

enum { TEXTS = 4 }; // names of one row that are copied

struct writer {
    struct ct_export *x;
    unsigned set;
    void (*row)(void *user, enum ct_export_table table, const struct ct_cell *cells);
    void *user;
    struct ct_cell cells[CT_CELLS];
    char trace[17];
    struct ct_phase_follow follow;
    struct ct_open_ranges open; // before the event that comes next
    int has_open;
    char texts[TEXTS][CT_EXPORT_NAME], range[CT_EXPORT_NAME];
    struct last_memory {
        uint64_t live, tracked, used, total, blocks, allocated, reserved, known; // no padding
    } last[CT_DEVICES];
};

// ---- cells --------------------------------------------------------------------------------------

static void put_number(struct writer *w, unsigned column, uint64_t value) {
    w->cells[column] = (struct ct_cell){.known = 1, .number = value};
}

static void put_signed(struct writer *w, unsigned column, int64_t value) {
    w->cells[column] =
        (struct ct_cell){.known = 1,
                         .is_negative = value < 0,
                         .number = value < 0 ? 0 - (uint64_t)value : (uint64_t)value};
}

// An empty text is an unknown one.
static void put_text(struct writer *w, unsigned column, const char *text) {
    w->cells[column] = (struct ct_cell){.known = text && *text, .text = text};
}

// A text of the trace, copied to one of the places for texts.
static void put_string(struct writer *w, unsigned column, uint32_t string, unsigned place) {
    ct_export_string(w->x, string, w->texts[place]);
    put_text(w, column, w->texts[place]);
}

static void put_utc(struct writer *w, unsigned column, uint64_t t_ns) {
    uint64_t utc_ns;
    if (ct_clocks_utc(&w->x->clocks, t_ns, &utc_ns))
        put_number(w, column, utc_ns);
}

static void put_device(struct writer *w, unsigned column, int index) {
    if (index >= 0 && index < CT_MAX_DEVICES)
        put_number(w, column, (uint64_t)index);
}

static void put_thread(struct writer *w, unsigned column, uint32_t thread) {
    if (thread)
        put_number(w, column, w->x->trace->definitions.threads[thread].tid);
}

// The columns `phase`, `component`, `stack_id` and `site` of a stack; `component` may be CT_CELLS.
static void put_stack(struct writer *w, uint32_t stack, unsigned phase, unsigned component,
                      unsigned id, unsigned site) {
    if (!stack)
        return;
    put_number(w, id, stack);
    put_text(w, site, ct_export_site(w->x, stack));
    const struct ct_phase_at at = ct_phases_find(w->x->phases, stack);
    if (at.phase)
        put_text(w, phase, ct_phase_name(at.phase));
    if (component != CT_CELLS)
        put_text(w, component, ct_component_name(ct_phases_find_component(w->x->phases, stack)));
}

static int is_asked(const struct writer *w, enum ct_export_table table) {
    return (w->set >> table & 1) != 0;
}

// Begins a row, whose first column is the trace.
static void begin_row(struct writer *w, enum ct_export_table table) {
    const unsigned first = tables[table].first;
    memset(w->cells + first, 0, (tables[table + 1].first - first) * sizeof *w->cells);
    put_text(w, first, w->trace);
}

static void end_row(struct writer *w, enum ct_export_table table) {
    w->row(w->user, table, w->cells + tables[table].first);
    w->x->entries++;
}

// ---- allocations --------------------------------------------------------------------------------

static void put_live_at(struct writer *w, const struct ct_allocation_row *row) {
    const struct ct_device_scan *d = &w->x->scan.device[ct_device_to_index(row->device)];
    const struct ct_oom_event *crossing = ct_scan_find_crossing(&w->x->scan);
    if (d->peak_known)
        put_number(w, CT_COLUMN_allocations_live_at_peak,
                   (uint64_t)ct_allocation_row_is_live_at(row, d->peak_event));
    if (crossing)
        put_number(w, CT_COLUMN_allocations_live_at_oom,
                   (uint64_t)ct_allocation_row_is_live_at(row, crossing->event));
    put_number(w, CT_COLUMN_allocations_live_at_end, row->end == CT_ROW_LIVE);
}

static void put_end(struct writer *w, const struct ct_allocation_row *row) {
    put_text(w, CT_COLUMN_allocations_end, ct_row_end_name(row->end));
    if (row->end != CT_ROW_FREED && row->end != CT_ROW_REPLACED)
        return;
    put_number(w, CT_COLUMN_allocations_end_event, row->end_event);
    put_number(w, CT_COLUMN_allocations_end_ns, row->end_t_ns);
    if (!row->is_sum)
        put_number(w, CT_COLUMN_allocations_lifetime_ns,
                   row->end_t_ns > row->t_ns ? row->end_t_ns - row->t_ns : 0);
    if (row->end_stack)
        put_number(w, CT_COLUMN_allocations_end_stack_id, row->end_stack);
}

static void write_allocation(void *user, const struct ct_allocation_row *row) {
    struct writer *w = user;
    begin_row(w, CT_TABLE_allocations);
    put_text(w, CT_COLUMN_allocations_kind,
             row->is_block     ? "block"
             : row->is_segment ? "segment"
                               : "allocation");
    if (!row->is_sum) {
        put_number(w, CT_COLUMN_allocations_event, row->event);
        put_number(w, row->is_handle ? CT_COLUMN_allocations_handle : CT_COLUMN_allocations_address,
                   row->key);
        put_number(w, CT_COLUMN_allocations_alloc_ns, row->t_ns);
        put_utc(w, CT_COLUMN_allocations_alloc_utc_ns, row->t_ns);
    }
    put_device(w, CT_COLUMN_allocations_device, row->device);
    put_number(w, CT_COLUMN_allocations_bytes, row->bytes);
    put_number(w, CT_COLUMN_allocations_count, row->count);
    put_end(w, row);
    put_live_at(w, row);
    put_text(w, CT_COLUMN_allocations_space, ct_event_names_space(row->space));
    put_string(w, CT_COLUMN_allocations_api, row->api, 0);
    put_thread(w, CT_COLUMN_allocations_tid, row->thread);
    put_stack(w, row->stack, CT_COLUMN_allocations_phase, CT_COLUMN_allocations_component,
              CT_COLUMN_allocations_stack_id, CT_COLUMN_allocations_site);
    end_row(w, CT_TABLE_allocations);
}

// ---- events -------------------------------------------------------------------------------------

#define PUT_NUMBER(column, member) \
    if (CT_HAS(e, member))         \
    put_number(w, CT_COLUMN_events_##column, e->member)

// The state that the writer is given is that after the event.
static void put_phase(struct writer *w, const struct ct_replay *r, const struct ct_event *e) {
    if (!w->has_open)
        w->open = r->live.open;
    w->has_open = 1;
    const struct ct_phase_at *at = ct_phase_follow_event(&w->follow, e);
    w->open.used = r->live.open.used;
    memcpy(w->open.range, r->live.open.range, w->open.used * sizeof w->open.range[0]);
    if (at->phase)
        put_text(w, CT_COLUMN_events_phase, ct_phase_name(at->phase));
    if (!at->range.length)
        return;
    ct_export_text(w->range, at->range.at, at->range.length);
    put_text(w, CT_COLUMN_events_range, w->range);
}

static void write_event(struct writer *w, const struct ct_replay *r, const struct ct_event *e,
                        uint64_t number) {
    const struct ct_definitions *n = &w->x->trace->definitions;
    begin_row(w, CT_TABLE_events);
    put_number(w, CT_COLUMN_events_event, number);
    put_number(w, CT_COLUMN_events_t_ns, e->t_ns);
    put_utc(w, CT_COLUMN_events_utc_ns, e->t_ns);
    put_thread(w, CT_COLUMN_events_tid, CT_GET(e, thread));
    put_string(w, CT_COLUMN_events_thread_name, n->threads[CT_GET(e, thread)].name, 0);
    if (CT_HAS(e, device)) {
        put_signed(w, CT_COLUMN_events_device, e->device);
        put_number(w, CT_COLUMN_events_live_bytes,
                   r->live.device[ct_event_device_index(e)].live_bytes);
    }
    put_text(w, CT_COLUMN_events_op, ct_event_names_op(e->op));
    put_string(w, CT_COLUMN_events_api, CT_GET(e, api), 1);
    if (CT_HAS(e, result))
        put_signed(w, CT_COLUMN_events_result, e->result);
    PUT_NUMBER(bytes, bytes);
    PUT_NUMBER(address, ptr);
    PUT_NUMBER(handle, handle);
    PUT_NUMBER(stream, stream);
    PUT_NUMBER(pool, pool);
    put_text(w, CT_COLUMN_events_space, CT_HAS(e, space) ? ct_event_names_space(e->space) : NULL);
    PUT_NUMBER(duration_ns, duration_ns);
    PUT_NUMBER(free_bytes, free_bytes);
    PUT_NUMBER(total_bytes, total_bytes);
    PUT_NUMBER(pid, pid);
    PUT_NUMBER(process_bytes, process_bytes);
    PUT_NUMBER(reserved_bytes, reserved_bytes);
    PUT_NUMBER(allocated_bytes, allocated_bytes);
    PUT_NUMBER(used_bytes, used_bytes);
    put_string(w, CT_COLUMN_events_text, CT_GET(e, text), 2);
    put_string(w, CT_COLUMN_events_domain, CT_GET(e, domain), 3);
    put_phase(w, r, e);
    if (CT_HAS(e, stack) && e->stack) {
        put_number(w, CT_COLUMN_events_stack_id, e->stack);
        put_text(w, CT_COLUMN_events_site, ct_export_site(w->x, e->stack));
    }
    end_row(w, CT_TABLE_events);
}

// ---- memory -------------------------------------------------------------------------------------

static void write_memory(struct writer *w, const struct ct_replay *r, const struct ct_event *e,
                         uint64_t number, int index) {
    const struct ct_live_device *d = &r->live.device[index];
    const struct ct_breakdown split = ct_replay_split(r, index);
    const struct last_memory now = {d->live_bytes,
                                    split.tracked,
                                    split.used_known ? split.used : UINT64_MAX,
                                    split.used_known ? split.total : 0,
                                    d->block_bytes,
                                    d->reported_allocated,
                                    d->reported_reserved,
                                    1};
    if (memcmp(&now, &w->last[index], sizeof now) == 0)
        return;
    w->last[index] = now;
    begin_row(w, CT_TABLE_memory);
    put_device(w, CT_COLUMN_memory_device, index);
    put_number(w, CT_COLUMN_memory_event, number);
    put_number(w, CT_COLUMN_memory_t_ns, e->t_ns);
    put_utc(w, CT_COLUMN_memory_utc_ns, e->t_ns);
    put_number(w, CT_COLUMN_memory_live_bytes, d->live_bytes);
    put_number(w, CT_COLUMN_memory_tracked_bytes, split.tracked);
    if (split.used_known) {
        put_number(w, CT_COLUMN_memory_used_bytes, split.used);
        put_number(w, CT_COLUMN_memory_free_bytes, split.free);
        put_number(w, CT_COLUMN_memory_total_bytes, split.total);
        put_number(w, CT_COLUMN_memory_used_is_inferred, split.moved_on != 0);
    }
    if (r->live.has_blocks)
        put_number(w, CT_COLUMN_memory_block_bytes, d->block_bytes);
    if (d->reported) {
        put_number(w, CT_COLUMN_memory_torch_allocated_bytes, d->reported_allocated);
        put_number(w, CT_COLUMN_memory_torch_reserved_bytes, d->reported_reserved);
    }
    end_row(w, CT_TABLE_memory);
}

static void write_memories(struct writer *w, const struct ct_replay *r, const struct ct_event *e,
                           uint64_t number) {
    for (int d = 0; d < CT_DEVICES; d++)
        if (w->x->scan.device[d].seen && (w->x->device < 0 || w->x->device == d))
            write_memory(w, r, e, number, d);
}

static void follow_event(void *user, const struct ct_replay *r, const struct ct_event *e,
                         uint64_t number) {
    struct writer *w = user;
    const int is_wanted = w->x->device < 0 || !CT_HAS(e, device) || e->device == w->x->device;
    if (is_asked(w, CT_TABLE_events) && is_wanted)
        write_event(w, r, e, number);
    if (is_asked(w, CT_TABLE_memory))
        write_memories(w, r, e, number);
}

static void write_passed(struct writer *w) {
    const int has_rows = is_asked(w, CT_TABLE_allocations);
    const int has_events = is_asked(w, CT_TABLE_events) || is_asked(w, CT_TABLE_memory);
    const struct ct_allocation_rows rows = {.from_ns = w->x->from_ns,
                                            .to_ns = w->x->to_ns,
                                            .device = w->x->device,
                                            .row = has_rows ? write_allocation : NULL,
                                            .event = has_events ? follow_event : NULL,
                                            .user = w};
    if (has_rows || has_events)
        ct_allocation_rows_read(&rows, w->x->trace);
}

// ---- sites --------------------------------------------------------------------------------------

static void write_holding(struct writer *w, const struct ct_export_held *held,
                          const struct ct_holding *h, enum ct_moment_kind kind) {
    char label[CT_EXPORT_NAME];
    begin_row(w, CT_TABLE_sites);
    put_text(w, CT_COLUMN_sites_moment, ct_moment_kind_name(kind));
    put_number(w, CT_COLUMN_sites_t_ns, held->moment.t_ns);
    put_device(w, CT_COLUMN_sites_device, held->device);
    put_text(w, CT_COLUMN_sites_kind, ct_holding_kind_name(h->kind));
    put_number(w, CT_COLUMN_sites_bytes, h->bytes);
    put_number(w, CT_COLUMN_sites_count, h->count);
    if (h->oldest_ns)
        put_number(w, CT_COLUMN_sites_oldest_ns, h->oldest_ns);
    ct_site_groups_label(w->x->sites, h->kind, h->stack, label, sizeof label);
    put_stack(w, h->stack, CT_COLUMN_sites_phase, CT_COLUMN_sites_component,
              CT_COLUMN_sites_stack_id, CT_COLUMN_sites_site);
    put_text(w, CT_COLUMN_sites_site, label);
    end_row(w, CT_TABLE_sites);
}

static void write_sites(struct writer *w) {
    static const enum ct_moment_kind moments[] = {CT_MOMENT_OOM, CT_MOMENT_PEAK, CT_MOMENT_END};
    for (size_t m = 0; m < sizeof moments / sizeof *moments; m++) {
        size_t n;
        if (!ct_export_has_moment(w->x, moments[m]))
            continue;
        const struct ct_export_held *held = ct_export_get_held(w->x, moments[m], &n);
        for (size_t i = 0; i < n; i++)
            for (size_t k = 0; k < held[i].totals.holding_count; k++)
                write_holding(w, &held[i], &held[i].totals.holdings[k], moments[m]);
    }
}

// ---- failed requests ----------------------------------------------------------------------------

static void write_incident(struct writer *w, size_t k) {
    const struct ct_scan *s = &w->x->scan;
    const struct ct_incident *incident = &s->incidents.list[k];
    const struct ct_oom_event *o = ct_incidents_head(&s->incidents, k);
    const struct ct_oom_event *crossing = ct_scan_find_crossing(s);
    begin_row(w, CT_TABLE_failed);
    put_number(w, CT_COLUMN_failed_event, o->event);
    put_number(w, CT_COLUMN_failed_t_ns, o->t_ns);
    put_utc(w, CT_COLUMN_failed_utc_ns, o->t_ns);
    put_device(w, CT_COLUMN_failed_device, o->device);
    if (o->bytes_known) {
        put_number(w, CT_COLUMN_failed_bytes, o->bytes);
        put_number(w, CT_COLUMN_failed_recovered, incident->recovered != 0);
    }
    if (o->reading_known) {
        put_number(w, CT_COLUMN_failed_free_bytes, o->free);
        put_number(w, CT_COLUMN_failed_total_bytes, o->total);
    }
    put_number(w, CT_COLUMN_failed_live_bytes, o->live_bytes);
    put_number(w, CT_COLUMN_failed_calls, incident->parts);
    put_number(w, CT_COLUMN_failed_crossed, crossing && crossing->event == o->event);
    put_number(w, CT_COLUMN_failed_retried, incident->retried != 0);
    put_string(w, CT_COLUMN_failed_api, o->api, 0);
    if (o->result_known)
        put_signed(w, CT_COLUMN_failed_result, o->result);
    put_thread(w, CT_COLUMN_failed_tid, o->thread);
    put_stack(w, o->stack, CT_COLUMN_failed_phase, CT_CELLS, CT_COLUMN_failed_stack_id,
              CT_COLUMN_failed_site);
    if (o->phase.phase)
        put_text(w, CT_COLUMN_failed_phase, ct_phase_name(o->phase.phase));
    end_row(w, CT_TABLE_failed);
}

// ---- stacks -------------------------------------------------------------------------------------

static void write_frame(struct writer *w, uint32_t stack, uint32_t depth, uint32_t node,
                        uint32_t location) {
    static const char *const kinds[] = {"native", "python", "end", "unknown", "thread"};
    const struct ct_definitions *n = &w->x->trace->definitions;
    const struct ct_frame *f = ct_definitions_node_frame(n, node);
    const struct ct_shown_frames a = {.sites = w->x->sites, .node = node, .location = location};
    char label[1300];
    const struct ct_frame_names names = ct_frame_names_get(&a, label, sizeof label);
    const int is_native = f->kind == CT_FRAME_NATIVE;
    begin_row(w, CT_TABLE_stacks);
    put_number(w, CT_COLUMN_stacks_stack_id, stack);
    put_number(w, CT_COLUMN_stacks_depth, depth);
    put_text(w, CT_COLUMN_stacks_kind, f->kind <= CT_FRAME_THREAD ? kinds[f->kind] : "unknown");
    ct_export_text(w->texts[0], names.function.at, names.function.length);
    put_text(w, CT_COLUMN_stacks_function, w->texts[0]);
    if (!is_native || location < f->location_count)
        put_string(w, CT_COLUMN_stacks_file, names.file, 1);
    if (names.line)
        put_number(w, CT_COLUMN_stacks_line, names.line);
    if (is_native) {
        put_string(w, CT_COLUMN_stacks_module, n->modules[f->module].path, 2);
        put_number(w, CT_COLUMN_stacks_offset, f->offset);
    }
    put_number(w, CT_COLUMN_stacks_hidden,
               (uint64_t)ct_call_sites_hides_frame(w->x->sites, n->nodes[node].frame));
    end_row(w, CT_TABLE_stacks);
}

static void write_stacks(struct writer *w) {
    const struct ct_definitions *n = &w->x->trace->definitions;
    for (uint32_t stack = 1; stack < n->stack_count; stack++) {
        uint32_t depth = 0;
        for (uint32_t node = n->stacks[stack]; node; node = n->nodes[node].parent) {
            const uint32_t locations = ct_definitions_node_frame(n, node)->location_count;
            for (uint32_t i = 0; i < (locations ? locations : 1); i++)
                write_frame(w, stack, depth++, node, i);
        }
    }
}

// ---- devices and facts --------------------------------------------------------------------------

static void write_device(struct writer *w, int index) {
    const struct ct_device_scan *d = &w->x->scan.device[index];
    const struct ct_live_device *live = &w->x->scan.end.live.device[index];
    const struct ct_breakdown split = ct_replay_split(&w->x->scan.end, index);
    const struct ct_string *name = ct_capacity_device_name(w->x->trace, index);
    begin_row(w, CT_TABLE_devices);
    put_device(w, CT_COLUMN_devices_device, index);
    if (name->length) {
        ct_export_text(w->texts[0], name->at, name->length);
        put_text(w, CT_COLUMN_devices_name, w->texts[0]);
    }
    if (split.used_known)
        put_number(w, CT_COLUMN_devices_total_bytes, split.total);
    if (d->peak_known) {
        put_number(w, CT_COLUMN_devices_peak_bytes, d->peak_bytes);
        put_number(w, CT_COLUMN_devices_peak_event, d->peak_event);
        put_number(w, CT_COLUMN_devices_peak_ns, d->peak_t_ns);
    }
    put_number(w, CT_COLUMN_devices_live_bytes, live->live_bytes);
    put_number(w, CT_COLUMN_devices_live_count, live->live_allocations);
    put_number(w, CT_COLUMN_devices_block_bytes, live->block_bytes);
    put_number(w, CT_COLUMN_devices_block_count, live->blocks);
    end_row(w, CT_TABLE_devices);
}

static void write_fact(struct writer *w, const char *key, const char *value) {
    begin_row(w, CT_TABLE_info);
    put_text(w, CT_COLUMN_info_key, key);
    put_text(w, CT_COLUMN_info_value, value);
    end_row(w, CT_TABLE_info);
}

static void write_fact_number(struct writer *w, const char *key, uint64_t value) {
    char text[24];
    (void)snprintf(text, sizeof text, "%" PRIu64, value);
    write_fact(w, key, text);
}

static void write_info(struct writer *w) {
    const struct ct_trace *t = w->x->trace;
    const struct ct_definitions *n = &t->definitions;
    for (size_t i = 0; i < n->info_count; i++) {
        ct_export_string(w->x, n->info[i].key, w->texts[0]);
        ct_export_string(w->x, n->info[i].value, w->texts[1]);
        write_fact(w, w->texts[0], w->texts[1]);
    }
    write_fact_number(w, "trace.events", t->events);
    write_fact_number(w, "trace.overwritten_events", t->overwritten_events);
    write_fact_number(w, "trace.missing_events", t->missing_events);
    write_fact_number(w, "trace.lost_events", ct_trace_count_unrecorded(t, w->x->scan.lost));
    write_fact_number(w, "trace.start_ns", t->start_ns);
    write_fact_number(w, "trace.first_ns", t->t_first_ns);
    write_fact_number(w, "trace.last_ns", t->t_last_ns);
    write_fact(w, "trace.end",
               t->incomplete ? "missing"
               : t->running  ? "running"
               : t->sealed   ? "killed"
                             : "clean");
}

void ct_tables_write(struct ct_export *x, unsigned set,
                     void (*row)(void *user, enum ct_export_table table,
                                 const struct ct_cell *cells),
                     void *user) {
    struct writer *w = ct_heap_alloc_zeroed(1, sizeof *w);
    w->x = x;
    w->set = set;
    w->row = row;
    w->user = user;
    w->follow.phases = x->phases;
    w->follow.open = &w->open;
    (void)snprintf(w->trace, sizeof w->trace, "%016" PRIx64, x->trace->index.trace_id);
    if (set & ~(1U << CT_TABLE_info | 1U << CT_TABLE_devices | 1U << CT_TABLE_stacks))
        ct_export_refine_sites(x);
    if (is_asked(w, CT_TABLE_info))
        write_info(w);
    for (int d = 0; is_asked(w, CT_TABLE_devices) && d < CT_DEVICES; d++)
        if (x->scan.device[d].seen)
            write_device(w, d);
    for (size_t k = 0; is_asked(w, CT_TABLE_failed) && k < x->scan.incidents.count; k++)
        write_incident(w, k);
    if (is_asked(w, CT_TABLE_sites))
        write_sites(w);
    write_passed(w);
    if (is_asked(w, CT_TABLE_stacks))
        write_stacks(w);
    ct_phase_follow_free(&w->follow);
    free(w);
}
