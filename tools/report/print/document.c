// SPDX-License-Identifier: Apache-2.0
// Writes the shared parts; JSON.md documents each key.
#include "print/document.h"

#include <inttypes.h>

#include "analyze/incidents.h"
#include "answer/time_range.h"
#include "print/pool_print.h"
#include "print/trace_state.h"
#include "print/untracked.h"
#include "read/event_names.h"
#include "replay/torch_segments.h"

void ct_document_add_device(struct ct_json *j, const char *key, int device) {
    ct_json_number_or_null(j, key, device >= 0 && device < CT_MAX_DEVICES, (uint64_t)device);
}

void ct_document_add_process(struct ct_json *j, const struct ct_view *v) {
    const struct ct_definitions *n = &v->trace->definitions;
    const struct ct_string *exe = ct_definitions_info(n, "process.exe");
    uint64_t pid = 0;
    ct_json_open(j, "process", '{');
    const int known = ct_definitions_info_number(n, "process.pid", &pid);
    ct_json_number_or_null(j, "pid", known, pid);
    if (exe)
        ct_json_bytes(j, "exe", exe->at, exe->length);
    else
        ct_json_null(j, "exe");
    ct_json_close(j, '}');
}

void ct_document_begin_bare(struct ct_json *j, const struct ct_view *v) {
    char schema[64];
    (void)snprintf(schema, sizeof schema, "cutrace.%s%s/%d",
                   ct_argument_table_name(v->options->command), v->options->quick ? "-quick" : "",
                   CT_DOCUMENT_VERSION);
    ct_json_open(j, NULL, '{');
    ct_json_text(j, "schema", schema);
    ct_json_text(j, "file", v->trace->source.name);
}

void ct_document_add_start(struct ct_json *j, const struct ct_trace *t) {
    uint64_t utc_ns = 0;
    const int known = ct_time_range_utc(t, t->start_ns, &utc_ns);
    ct_json_number(j, "start_ns", t->start_ns);
    ct_json_number_or_null(j, "start_utc_ns", known, utc_ns);
}

void ct_document_begin(struct ct_json *j, const struct ct_view *v) {
    ct_document_begin_bare(j, v);
    ct_document_add_process(j, v);
    ct_document_add_start(j, v->trace);
}

void ct_document_end(struct ct_json *j) {
    ct_json_close(j, '}');
    ct_json_end_line(j);
}

void ct_document_add_gap(struct ct_json *j, const struct ct_view *v) {
    struct ct_trace_gap gap;
    if (!ct_json_open_or_null(j, "gap",
                              v->in_gap_ns && ct_trace_find_gap(v->trace, v->in_gap_ns, &gap), '{'))
        return;
    ct_json_number(j, "t_ns", v->in_gap_ns);
    ct_json_number_or_null(j, "known_until_ns", gap.from_ns != 0, gap.from_ns);
    ct_json_number_or_null(j, "known_from_ns", gap.known_ns != UINT64_MAX, gap.known_ns);
    ct_json_number_or_null(j, "as_of_ns", gap.from_ns && v->in_gap_ns < gap.next_ns, gap.from_ns);
    ct_json_close(j, '}');
}

void ct_document_add_trace(struct ct_json *j, const struct ct_view *v, const struct ct_scan *s) {
    const struct ct_trace *t = v->trace;
    const uint64_t lost = ct_trace_count_lost(v->trace, s->lost);
    char limits[CT_COVERAGE_LIMITS];
    (void)ct_coverage_limits_write(v, lost, limits);
    ct_json_open(j, "trace", '{');
    ct_json_bool(j, "complete", ct_trace_has_every_event(t, lost));
    ct_json_bool(j, "truncated", !t->ended && !t->sealed);
    ct_json_number(j, "lost_events", lost);
    ct_json_text(j, "limits", limits);
    ct_document_add_recording(j, t);
    ct_json_number(j, "events", t->events);
    ct_json_number(j, "chunks", t->index.count);
    ct_document_add_extent(j, t);
    ct_document_add_gap(j, v);
    ct_json_close(j, '}');
}

void ct_document_add_driver(struct ct_json *j, const struct ct_view *v) {
    ct_document_add_string(j, "driver_version",
                           ct_definitions_info(&v->trace->definitions, "nvidia.driver_version"));
}

int ct_document_print_unknown(const struct ct_view *v) {
    static const char *const keys[CT_COMMANDS][19] = {
        [CT_COMMAND_summary] = {"without_blocks", "devices", "host_bytes", "host_bytes_at_moment",
                                "host_registered_bytes_at_moment", "shared_at_moment", "ooms",
                                "incidents", "incident_counts", "incident_groups", "crossing",
                                "live_at_crossing", "live_at_peak", "moment", "live_at_moment",
                                "verdicts", "recorder_line", "companions"},
        [CT_COMMAND_oom] = {"ooms", "incidents", "incident_counts", "incident_groups", "crossing",
                            "moment", "described", "companions"},
        [CT_COMMAND_top] = {"devices"},
        [CT_COMMAND_leaks] = {"moment", "devices"},
        [CT_COMMAND_stats] = {"devices", "calls"},
        [CT_COMMAND_timeline] = {"from_ns", "to_ns", "devices", "mark_count", "marks"},
        [CT_COMMAND_phases] = {"by_frames", "summed", "phases"},
        [CT_COMMAND_fit] = {"devices", "companions"},
        [CT_COMMAND_explain] = {"moment", "verdicts", "companions"},
        [CT_COMMAND_frag] = {"moment", "without_blocks", "devices", "shared", "shared_elsewhere",
                             "host", "program_pools"},
    };
    const char *const *key = keys[v->options->command];
    const struct ct_scan nothing = {.events = 0};
    struct ct_json json = {.out = v->out}, *j = &json;
    if (!*key || !v->options->json)
        return *key != NULL;
    ct_document_begin(j, v);
    ct_document_add_trace(j, v, &nothing);
    if (ct_argument_table_takes(v->options->command, CT_ARGUMENT_CAPACITY))
        ct_json_number_or_null(j, "budget_bytes", v->options->capacity != 0, v->options->capacity);
    if (v->options->command == CT_COMMAND_summary)
        ct_document_add_driver(j, v);
    for (; *key; key++)
        ct_json_null(j, *key);
    ct_document_end(j);
    return 1;
}

void ct_document_add_string(struct ct_json *j, const char *key, const struct ct_string *s) {
    ct_json_bytes_or_null(j, key, s ? s->at : NULL, s ? s->length : 0);
}

static void add_fact(struct ct_json *j, const struct ct_trace *t, const char *key,
                     const char *fact) {
    ct_document_add_string(j, key, ct_definitions_info(&t->definitions, fact));
}

static void add_run(struct ct_json *j, const struct ct_index *x, uint64_t first, uint64_t last,
                    size_t from, size_t to) {
    ct_json_open(j, NULL, '{');
    ct_json_number(j, "from_event", first);
    ct_json_number(j, "to_event", last);
    ct_json_number(j, "from_ns", ct_index_first_ns(x, from));
    ct_json_number(j, "to_ns", ct_index_last_ns(x, to));
    ct_json_close(j, '}');
}

// Adds the runs of chunks, all but the one at the end, that the ring has retained around failed
// allocations.
static void add_retained(struct ct_json *j, const struct ct_trace *t) {
    const struct ct_index_chunk *c = t->index.chunks;
    ct_json_open(j, "retained", '[');
    for (size_t from = 0, i = 1; i < t->index.count; i++) {
        if (!c[i].overwritten)
            continue;
        const uint64_t first = c[from].head.first_event,
                       behind = c[i - 1].head.first_event + c[i - 1].head.events;
        if (behind > first)
            add_run(j, &t->index, first, behind - 1, from, i - 1);
        from = i;
    }
    ct_json_close(j, ']');
}

static void add_incomplete(struct ct_json *j, const struct ct_trace *t) {
    const char *reason = ct_trace_state_missing(t);
    if (!ct_json_open_or_null(j, "incomplete", reason != NULL, '{'))
        return;
    ct_json_text(j, "reason", reason);
    ct_json_number_or_null(j, "known_until_ns", t->events != 0, t->t_last_ns);
    ct_json_close(j, '}');
}

// What a part of another trace lacks of it.
static void add_trimmed(struct ct_json *j, const struct ct_trace *t) {
    if (!ct_json_open_or_null(j, "trimmed", t->trimmed_before || t->trimmed_after, '{'))
        return;
    ct_json_number(j, "events_before", t->trimmed_before);
    ct_json_number(j, "events_after", t->trimmed_after);
    ct_json_close(j, '}');
}

void ct_document_add_extent(struct ct_json *j, const struct ct_trace *t) {
    ct_json_number(j, "missing_chunks", t->index.missing);
    ct_json_number(j, "damaged_places", t->index.damages);
    ct_json_number_or_null(j, "first_damage_offset", t->index.damages != 0,
                           t->index.damages ? t->index.damage[0].offset : 0);
    ct_json_number_or_null(j, "t_first_ns", t->t_first_ns != 0, t->t_first_ns);
    ct_json_number_or_null(j, "t_last_ns", t->t_last_ns != 0, t->t_last_ns);
}

void ct_document_add_recording(struct ct_json *j, const struct ct_trace *t) {
    add_incomplete(j, t);
    ct_json_bool(j, "clean_end", t->ended);
    ct_json_bool(j, "running", t->running);
    ct_json_number(j, "torn_events", t->torn);
    ct_json_bool(j, "wrapped", t->index.chunks[0].head.seq != 0 || t->overwritten_events);
    ct_json_number(j, "overwritten_events", t->overwritten_events);
    ct_json_bool(j, "exact", t->exact);
    ct_json_number_or_null(j, "exact_from_t_ns", t->exact && t->exact_from_ns, t->exact_from_ns);
    add_retained(j, t);
    add_trimmed(j, t);
    add_fact(j, t, "sample", "option.SAMPLE");
    add_fact(j, t, "min_size", "option.MIN_SIZE");
}

static void add_cause_pool(struct ct_json *j, const struct ct_pool_growth *w) {
    if (!ct_json_open_or_null(j, "pool", w != NULL, '{'))
        return;
    ct_json_text(j, "cause", ct_pool_growth_cause_name(w->cause));
    ct_json_text(j, "class", w->class == CT_TORCH_POOL_SMALL ? "small" : "large");
    ct_json_number(j, "free_bytes", w->free.bytes);
    ct_json_number(j, "free_blocks", w->free.ranges);
    ct_json_number(j, "largest_free_bytes", w->free.largest);
    ct_pool_json_add_other_streams(j, &w->others);
    ct_json_close(j, '}');
}

static void add_cause(struct ct_json *j, const struct ct_oom_event *o,
                      const struct ct_oom_reason *reason, const struct ct_pool_growths *growths) {
    const struct ct_oom_cause c = ct_oom_cause_find(o, reason, growths);
    const int is_missing = reason->kind == CT_OOM_REASON_NOT_ENOUGH_FREE;
    if (!ct_json_open_or_null(j, "cause", is_missing || c.exceeds_device, '{'))
        return;
    ct_json_number_or_null(j, "missing_bytes", is_missing, c.missing);
    ct_json_bool(j, "exceeds_device", c.exceeds_device);
    add_cause_pool(j, c.pool);
    ct_json_number_or_null(j, "pool_idle_bytes", c.idle_bytes != 0, c.idle_bytes);
    ct_json_number_or_null(j, "other_processes_bytes", c.others_bytes != 0, c.others_bytes);
    ct_json_number_or_null(j, "mempool_idle_bytes", c.mempool_idle_bytes != 0,
                           c.mempool_idle_bytes);
    ct_json_close(j, '}');
}

void ct_document_add_recovered(struct ct_json *j, int size_known, int recovered) {
    if (size_known)
        ct_json_bool(j, "recovered", recovered);
    else
        ct_json_null(j, "recovered");
}

// NULL: null.
static void add_memory(struct ct_json *j, const char *key, const struct ct_breakdown *s) {
    if (!ct_json_open_or_null(j, key, s != NULL, '{'))
        return;
    ct_json_number(j, "tracked_bytes", s->tracked);
    ct_untracked_add_parts(j, s);
    ct_json_number(j, "managed_bytes", s->managed);
    ct_json_number(j, "pool_idle_bytes", s->pool_idle);
    ct_json_number_or_null(j, "used_bytes", s->used_known, s->used);
    ct_json_number_or_null(j, "free_bytes", s->used_known, s->free);
    ct_json_number_or_null(j, "in_flight_bytes", s->used_known, s->in_flight);
    ct_json_number_or_null(j, "untracked_bytes", s->split_known, s->untracked);
    ct_json_number_or_null(j, "other_processes_bytes", s->split_known, s->others);
    ct_json_number_or_null(j, "unattributed_bytes", s->used_known, s->unattributed);
    ct_json_number_or_null(j, "untracked_or_others_bytes", s->used_known, s->unexplained);
    ct_json_bool(j, "inferred", s->moved_on);
    ct_json_number_or_null(j, "read_t_ns", s->used_known, s->reading_t_ns);
    ct_json_close(j, '}');
}

// Adds what the memory that a stack asks for is for; null if that is not known.
static void add_component(struct ct_json *j, struct ct_phases *phases, uint32_t stack) {
    const enum ct_component c =
        phases ? ct_phases_find_component(phases, stack) : CT_COMPONENT_OTHER;
    ct_json_text_or_null(j, "component", c == CT_COMPONENT_OTHER ? NULL : ct_component_name(c));
}

void ct_document_add_oom(struct ct_json *j, struct ct_view *v, const char *key,
                         const struct ct_oom_event *o, int budget,
                         const struct ct_pool_growths *growths) {
    const struct ct_definitions *n = &v->trace->definitions;
    const struct ct_oom_reason reason = ct_oom_reason_find(o, budget);
    ct_json_open(j, key, '{');
    ct_json_number(j, "event", o->event);
    ct_json_number_or_null(j, "incident", !budget, o->incident);
    ct_json_number(j, "t_ns", o->t_ns);
    ct_document_add_device(j, "device", o->device);
    ct_document_add_string(j, "api", &n->strings[o->api]);
    ct_document_add_name(j, "op", ct_event_names_op(o->op), o->op);
    ct_json_number_or_null(j, "requested_bytes", o->bytes_known, o->bytes);
    ct_json_number_or_null(j, "rounded_bytes", reason.rounded_known, reason.rounded);
    ct_json_number_or_null(j, "free_before_bytes", o->free_before_known, o->free_before);
    ct_json_number_or_null(j, "free_bytes", o->reading_known, o->free);
    ct_json_number_or_null(j, "total_bytes", o->reading_known, o->total);
    ct_json_signed_or_null(j, "result", o->result_known, o->result);
    ct_json_number_or_null(j, "tid", o->thread != 0, n->threads[o->thread].tid);
    ct_document_add_string(j, "thread_name", &n->strings[n->threads[o->thread].name]);
    ct_account_json_add_phase(j, &o->phase);
    add_component(j, v->phases, o->stack);
    ct_json_text(j, "reason", ct_oom_reason_name(reason.kind));
    add_cause(j, o, &reason, growths);
    ct_document_add_recovered(j, o->bytes_known, o->recovered);
    ct_json_number_or_null(j, "recovered_event", o->recovered, o->recovered_event);
    ct_json_number_or_null(j, "recovered_t_ns", o->recovered, o->recovered_t_ns);
    ct_json_number(j, "live_bytes", o->live_bytes);
    ct_json_number(j, "live_allocations", o->live_allocations);
    add_memory(j, "memory", &o->split);
    ct_pool_json_add_pool(j, "pool", &o->pool, ct_torch_settings_limit_reuse(v->trace));
    ct_call_sites_json_stack(j, v->sites, "stack", o->stack);
    ct_json_close(j, '}');
}

// An OOM of a few bits of a file is text of kilobytes. Whoever wants all of them asks for them.
size_t ct_document_most_ooms(const struct ct_view *v) {
    return v->page || v->options->command == CT_COMMAND_summary ? 1000 : SIZE_MAX;
}

static void add_incident(struct ct_json *j, const struct ct_incidents *n, size_t k) {
    const struct ct_incident *i = &n->list[k];
    const struct ct_oom_event *head = ct_incidents_head(n, k);
    ct_json_open(j, NULL, '{');
    ct_json_number(j, "event", head->event);
    ct_json_text(j, "outcome", i->retried ? "retried" : "failed");
    ct_json_bool(j, "pytorch", i->by_pytorch);
    ct_json_bool(j, "freed_before_retry", i->retried && i->freed);
    ct_document_add_recovered(j, head->bytes_known, i->recovered);
    ct_json_number_or_null(j, "recovered_event", i->recovered, head->recovered_event);
    ct_json_number_or_null(j, "recovered_t_ns", i->recovered, head->recovered_t_ns);
    ct_json_open(j, "parts", '[');
    for (uint32_t at = i->first + 1; at; at = n->ooms[at - 1].next_part)
        ct_json_number(j, NULL, n->ooms[at - 1].event);
    ct_json_close(j, ']');
    ct_json_close(j, '}');
}

static void add_incident_counts(struct ct_json *j, const struct ct_incidents *n) {
    const struct ct_incident_counts c = ct_incidents_count(n);
    ct_json_open(j, "incident_counts", '{');
    ct_json_number(j, "failed", c.failed);
    ct_json_number(j, "recovered_later", c.recovered_later);
    ct_json_number(j, "retried", c.retried);
    ct_json_number(j, "freed_before_retry", c.freed);
    ct_json_close(j, '}');
}

static void add_incident_groups(struct ct_json *j, const struct ct_view *v,
                                const struct ct_incidents *n, const struct ct_oom_event *crossing) {
    struct ct_incident_groups g;
    ct_incident_groups_find(&g, n, crossing);
    ct_json_open(j, "incident_groups", '[');
    for (size_t i = 0; i < g.count && i < ct_document_most_ooms(v); i++) {
        const struct ct_incident_group *group = &g.list[i];
        const struct ct_oom_event *o = ct_incidents_head(n, group->shown);
        const int has_size = group->smallest <= group->largest;
        ct_json_open(j, NULL, '{');
        ct_json_number(j, "event", o->event);
        ct_document_add_device(j, "device", o->device);
        ct_document_add_string(j, "api", &v->trace->definitions.strings[o->api]);
        ct_json_text(j, "outcome", n->list[group->shown].retried ? "retried" : "failed");
        ct_document_add_recovered(j, o->bytes_known, n->list[group->shown].recovered);
        ct_json_number(j, "count", group->count);
        ct_json_number_or_null(j, "smallest_bytes", has_size, group->smallest);
        ct_json_number_or_null(j, "largest_bytes", has_size, group->largest);
        ct_json_number(j, "first_event", ct_incidents_head(n, group->first)->event);
        ct_json_number(j, "last_event", ct_incidents_head(n, group->last)->event);
        ct_call_sites_json_stack(j, v->sites, "stack", o->stack);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
    ct_incident_groups_free(&g);
}

void ct_document_add_incidents(struct ct_json *j, struct ct_view *v, const struct ct_scan *s,
                               const struct ct_oom_event *crossing) {
    const struct ct_incidents *n = &s->incidents;
    const int budget = v->options->capacity != 0;
    const size_t most = ct_document_most_ooms(v);
    ct_json_open(j, "ooms", '[');
    for (size_t i = 0; i < n->oom_count && i < most; i++)
        ct_document_add_oom(j, v, NULL, &n->ooms[i], 0, &s->growths);
    ct_json_close(j, ']');
    ct_json_open(j, "incidents", '[');
    for (size_t k = 0; k < n->count && k < most; k++)
        add_incident(j, n, k);
    ct_json_close(j, ']');
    add_incident_counts(j, n);
    add_incident_groups(j, v, n, crossing);
    if (crossing)
        ct_document_add_oom(j, v, "crossing", crossing, budget, &s->growths);
    else
        ct_json_null(j, "crossing");
}

void ct_document_add_capacity(struct ct_json *j, const struct ct_capacity *c) {
    ct_json_number_or_null(j, "capacity_bytes", c->bytes != 0, c->bytes);
    ct_json_open(j, "capacity", '{');
    ct_json_number_or_null(j, "total_bytes", c->total != 0, c->total);
    ct_json_number_or_null(j, "meminfo_total_bytes", c->meminfo != 0, c->meminfo);
    ct_json_number_or_null(j, "nvml_total_bytes", c->nvml != 0, c->nvml);
    ct_json_text_or_null(j, "source", c->source);
    ct_json_bool(j, "disagree", c->disagree);
    ct_json_close(j, '}');
}

static void add_number(struct ct_json *j, const char *key, int number) {
    ct_json_number_or_null(j, key, number >= 0, (uint64_t)(number >= 0 ? number : 0));
}

void ct_document_add_kind(struct ct_json *j, const struct ct_device_kind *kind) {
    if (ct_json_open_or_null(j, "mig", kind->is_mig, '{')) {
        add_number(j, "gpu_instance", kind->gpu_instance);
        add_number(j, "compute_instance", kind->compute_instance);
        add_number(j, "card", kind->card);
        ct_json_close(j, '}');
    }
    ct_json_bool(j, "shared_with_host", kind->is_shared_with_host);
    add_number(j, "numa_node", kind->numa_node);
}

void ct_document_add_name(struct ct_json *j, const char *key, const char *name, uint32_t number) {
    char text[24];
    (void)snprintf(text, sizeof text, "unknown-%" PRIu32, number);
    ct_json_text(j, key, name ? name : text);
}

void ct_document_add_memory_of_device(struct ct_json *j, const struct ct_device_memory *m) {
    ct_json_open(j, "memory", '{');
    add_memory(j, "crossing", m->crossing_known ? &m->crossing : NULL);
    add_memory(j, "peak", m->peak_known ? &m->peak : NULL);
    add_memory(j, "end", &m->end);
    ct_json_close(j, '}');
}

void ct_document_add_shared(struct ct_json *j, const char *key, const struct ct_shared *m) {
    ct_json_open(j, key, '{');
    ct_json_number(j, "exported", m->exported);
    ct_json_number(j, "exported_bytes", m->exported_bytes);
    ct_json_number(j, "opened", m->opened);
    ct_json_number(j, "imported", m->imported);
    ct_json_number(j, "imported_bytes", m->imported_bytes);
    ct_json_close(j, '}');
}

void ct_document_add_moment_known(struct ct_json *j, const struct ct_moment *m, int known) {
    ct_json_open(j, "moment", '{');
    ct_json_text(j, "what", ct_moment_kind_name(m->kind));
    ct_document_add_device(j, "device", m->device);
    ct_json_number_or_null(j, "event", m->event != UINT64_MAX, m->event);
    ct_json_number(j, "t_ns", m->t_ns);
    ct_json_bool(j, "known", known);
    ct_json_close(j, '}');
}

void ct_document_add_moment(struct ct_json *j, const struct ct_trace *t,
                            const struct ct_moment *m) {
    ct_document_add_moment_known(j, m, ct_trace_is_known_at(t, m->t_ns));
}

void ct_document_add_moment_or_null(struct ct_json *j, const struct ct_trace *t,
                                    const struct ct_moment *m) {
    if (m)
        ct_document_add_moment(j, t, m);
    else
        ct_json_null(j, "moment");
}

void ct_document_add_damage(struct ct_json *j, const struct ct_index *x) {
    ct_json_open(j, "damage", '[');
    for (size_t i = 0; i < x->damages; i++) {
        ct_json_open(j, NULL, '{');
        ct_json_number(j, "offset", x->damage[i].offset);
        ct_json_number(j, "bytes", x->damage[i].bytes);
        ct_json_text(j, "what", x->damage[i].what);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
}

// ---- phases and accounts ------------------------------------------------------------------------

void ct_account_json_add_phase(struct ct_json *j, const struct ct_phase_at *at) {
    const struct ct_phase_title title = ct_phases_title(at);
    if (!ct_json_open_or_null(j, "phase", at->phase != CT_PHASE_UNKNOWN, '{'))
        return;
    ct_json_text(j, "key", ct_phase_name(at->phase));
    ct_json_text(j, "framework", ct_framework_name(at->framework));
    ct_json_text(j, "title", title.text);
    ct_json_bool(j, "inferred", at->inferred);
    ct_document_add_string(j, "range", &at->range);
    ct_json_close(j, '}');
}

static void add_row(struct ct_json *j, const struct ct_account *a, enum ct_account_row_kind kind) {
    const struct ct_account_row *row = &a->row[kind];
    const int counts = kind < CT_ACCOUNT_MEMPOOL_IDLE; // the others are not made of blocks
    if (!row->bytes && !row->count)
        return;
    ct_json_open(j, NULL, '{');
    ct_json_text(j, "component", ct_account_row_name(kind));
    ct_json_number(j, "bytes", row->bytes);
    ct_json_number_or_null(j, "count", counts, row->count);
    ct_json_bool(j, "inferred", row->inferred);
    ct_json_close(j, '}');
}

void ct_account_json_add(struct ct_json *j, const char *key, const struct ct_account *a) {
    if (!ct_json_open_or_null(j, key, a != NULL, '{'))
        return;
    ct_json_number_or_null(j, "capacity_bytes", a->known, a->capacity);
    ct_json_number(j, "tracked_bytes", a->tracked);
    ct_json_number(j, "managed_bytes", a->managed);
    ct_json_open(j, "rows", '[');
    for (unsigned kind = 0; kind < CT_ACCOUNT_ROWS; kind++)
        add_row(j, a, (enum ct_account_row_kind)kind);
    ct_json_close(j, ']');
    ct_json_close(j, '}');
}

void ct_account_json_add_moments(struct ct_json *j, const struct ct_account *crossing,
                                 const struct ct_account *peak, const struct ct_account *end) {
    ct_json_open(j, "account", '{');
    ct_account_json_add(j, "crossing", crossing);
    ct_account_json_add(j, "peak", peak);
    ct_account_json_add(j, "end", end);
    ct_json_close(j, '}');
}
