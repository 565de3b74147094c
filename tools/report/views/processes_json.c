// SPDX-License-Identifier: Apache-2.0
// Writes the document cutrace.processes; JSON.md documents each key.
#include "views/processes.h"

#include <inttypes.h>

#include "print/document.h"
#include "print/verdict.h"

static void add_hash(struct ct_json *j, const char *key, int known, uint64_t hash) {
    char text[20];
    (void)snprintf(text, sizeof text, "%016" PRIx64, hash);
    ct_json_text_or_null(j, key, known ? text : NULL);
}

static const char *name_of_knowledge(enum ct_process_knowledge knowledge) {
    static const char *const names[] = {"known", "not_started", "last_seen", "unknown", "ended"};
    return names[knowledge];
}

// How times of different hosts are compared.
static void add_alignment(struct ct_json *j, const struct ct_processes *all) {
    static const char *const names[] = {"clock", "time-of-day", NULL};
    int several = 0;
    for (size_t h = 0; h < all->host_count; h++)
        several |=
            all->hosts[h].processes > 1 && all->hosts[h].most_offset >= all->hosts[h].least_offset;
    ct_json_text_or_null(j, "alignment", names[all->alignment]);
    ct_json_number(j, "host_count", all->host_count);
    ct_json_number_or_null(j, "time_of_day_drift_ns", several,
                           ct_hosts_find_drift(all->hosts, all->host_count));
}

static void add_moment(struct ct_json *j, const struct ct_processes *all) {
    static const char *const names[] = {"oom", "peak"};
    const int is_oom = all->what == CT_PROCESSES_OOM;
    if (!ct_json_open_or_null(j, "moment", all->has_moment, '{'))
        return;
    ct_json_text(j, "what", names[all->what]);
    ct_json_number(j, "t_ns", all->t_ns);
    ct_json_number_or_null(j, "process_index", is_oom, all->process);
    ct_json_number_or_null(j, "event", is_oom, all->event);
    ct_json_number_or_null(j, "gpu_index", all->gpu >= 0, (uint64_t)all->gpu);
    ct_json_number_or_null(j, "sum_bytes", all->gpu >= 0, all->sum);
    ct_json_bool(j, "sum_is_exact", !all->is_about_sum);
    ct_json_close(j, '}');
}

// The parts of what is tracked that are not empty; null where `known` is 0.
static void add_parts(struct ct_json *j, int known, const struct ct_account *a) {
    if (!ct_json_open_or_null(j, "tracked_parts", known, '['))
        return;
    for (unsigned i = 0; i < CT_ACCOUNT_TRACKED_ROWS; i++) {
        if (!a->row[i].bytes)
            continue;
        ct_json_open(j, NULL, '{');
        ct_json_text(j, "component", ct_account_row_name((enum ct_account_row_kind)i));
        ct_json_number(j, "bytes", a->row[i].bytes);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
}

static void add_device(struct ct_json *j, const struct ct_process *p,
                       const struct ct_process_device *d) {
    const int is_empty = ct_process_holds_nothing(p);
    const int known = p->knowledge != CT_PROCESS_UNKNOWN;
    const struct ct_breakdown none = {0}, *m = is_empty ? &none : &d->split;
    static const struct ct_account nothing;
    ct_json_open(j, NULL, '{');
    ct_document_add_device(j, "ordinal", d->ordinal);
    ct_json_number(j, "gpu_index", (uint64_t)d->gpu);
    ct_json_number_or_null(j, "tracked_bytes", known, m->tracked);
    add_parts(j, known, is_empty ? &nothing : &d->account);
    ct_json_number_or_null(j, "asleep_bytes", known, is_empty ? 0 : d->asleep);
    ct_json_number_or_null(j, "untracked_bytes", is_empty || (known && d->untracked_known),
                           is_empty ? 0 : d->untracked);
    ct_json_number_or_null(j, "imported_bytes", known, is_empty ? 0 : d->shared.imported_bytes);
    ct_json_number_or_null(j, "opened", known, is_empty ? 0 : d->shared.opened);
    ct_json_number(j, "tracked_peak_bytes", d->curve.high);
    ct_json_number_or_null(j, "tracked_peak_t_ns", d->curve.high != 0, d->curve.high_t_ns);
    ct_json_bool(j, "tracked_peak_known", d->peak_known);
    ct_json_close(j, '}');
}

static void add_crossing(struct ct_json *j, const struct ct_process *p,
                         const struct ct_process_shown *shown) {
    const struct ct_oom_event *o = &p->crossing;
    if (!ct_json_open_or_null(j, "crossing", p->has_crossing, '{'))
        return;
    ct_json_number(j, "event", o->event);
    ct_json_number(j, "t_ns", o->t_ns);
    ct_document_add_device(j, "device", o->device);
    ct_document_add_string(j, "api",
                           &(struct ct_string){shown->recorded_api, shown->recorded_api_length});
    ct_json_number_or_null(j, "requested_bytes", o->bytes_known, o->bytes);
    ct_json_number_or_null(j, "free_bytes", o->reading_known, o->free);
    ct_json_text(j, "reason", ct_oom_reason_name(ct_oom_reason_find(o, 0).kind));
    ct_document_add_recovered(j, o->bytes_known, o->recovered);
    ct_json_close(j, '}');
}

static void add_devices(struct ct_json *j, const struct ct_process *p) {
    if (!ct_json_open_or_null(j, "devices", p->is_usable, '['))
        return;
    for (size_t k = 0; k < p->device_count; k++)
        add_device(j, p, &p->devices[k]);
    ct_json_close(j, ']');
}

static void add_process(struct ct_json *j, const struct ct_processes_shown *s, size_t i) {
    const struct ct_process *p = &s->all.list[i];
    const struct ct_process_shown *shown = &s->traces[i];
    static const struct ct_shared nothing;
    const int usable = p->is_usable;
    ct_json_open(j, NULL, '{');
    ct_json_text(j, "file", shown->path);
    ct_json_text_or_null(j, "error", shown->error);
    ct_json_number_or_null(j, "same_as", p->same_as != SIZE_MAX, p->same_as);
    ct_json_number_or_null(j, "same_process", usable && p->first_trace != i, p->first_trace);
    add_hash(j, "trace_id", usable, p->trace_id);
    ct_json_number_or_null(j, "pid", usable && p->pid_known, p->pid);
    ct_json_text_or_null(j, "exe", p->exe);
    ct_json_text_or_null(j, "thread_name", p->thread);
    ct_json_text_or_null(j, "rank", p->rank);
    ct_json_number_or_null(j, "host_index", usable && p->host != SIZE_MAX, p->host);
    ct_json_number_or_null(j, "job_index", usable && p->job != SIZE_MAX, p->job);
    ct_json_text_or_null(j, "state", usable ? shown->state : NULL);
    ct_json_text_or_null(j, "limits", usable ? shown->limits : NULL);
    ct_json_number_or_null(j, "start_ns", usable && p->start_known, p->start_ns);
    ct_json_number_or_null(j, "t_last_ns", usable && p->events, p->t_last_ns);
    ct_json_number_or_null(j, "moment_ns", usable, p->moment_ns);
    ct_json_text_or_null(j, "knowledge", usable ? name_of_knowledge(p->knowledge) : NULL);
    ct_json_number_or_null(j, "incidents_failed", usable, p->incidents.failed);
    ct_json_number_or_null(j, "incidents_retried", usable, p->incidents.retried);
    add_crossing(j, p, shown);
    ct_json_text_or_null(j, "recorder_line", shown->recorder_line);
    add_devices(j, p);
    if (usable && p->knowledge != CT_PROCESS_UNKNOWN)
        ct_document_add_shared(j, "shared_elsewhere",
                               ct_process_holds_nothing(p) ? &nothing : &p->shared_elsewhere);
    else
        ct_json_null(j, "shared_elsewhere");
    ct_json_close(j, '}');
}

static void add_gpu(struct ct_json *j, const struct ct_processes *all, const struct ct_gpu *g) {
    const int sums = all->has_moment;
    const int used = sums && g->used_known;
    ct_json_open(j, NULL, '{');
    add_hash(j, "uuid_hash", g->uuid_known, g->uuid);
    ct_json_number_or_null(j, "nvml_index", g->index_known, g->nvml_index);
    ct_json_number_or_null(j, "host_index", g->host != SIZE_MAX, g->host);
    ct_document_add_device(j, "ordinal", g->ordinal);
    ct_json_bool(j, "same_ordinals", g->same_ordinals);
    ct_json_text_or_null(j, "name", g->name);
    ct_document_add_kind(j, &g->kind);
    ct_json_number(j, "process_count", g->processes);
    ct_json_number_or_null(j, "unknown_count", sums, g->unknown);
    ct_json_number_or_null(j, "last_seen_count", sums, g->last_seen);
    ct_json_number_or_null(j, "tracked_bytes", sums, g->tracked);
    add_parts(j, sums, &g->account);
    ct_account_json_add(j, "account", sums ? &g->account : NULL);
    ct_json_number_or_null(j, "total_bytes", sums && g->total, g->total);
    ct_json_number_or_null(j, "free_bytes", used, g->free);
    ct_json_number_or_null(j, "untracked_bytes", used && g->split_known, g->untracked);
    ct_json_number_or_null(j, "other_processes_bytes", used && g->split_known, g->others);
    ct_json_number_or_null(j, "unattributed_bytes", used, g->unattributed);
    ct_json_number_or_null(j, "untracked_or_others_bytes", used, g->rest);
    ct_json_number_or_null(j, "read_t_ns", sums && g->total, g->reading_t_ns);
    ct_json_bool(j, "inferred", g->moved_on);
    ct_json_bool(j, "contradictory", g->is_contradictory);
    ct_json_bool(j, "totals_differ", g->totals_differ);
    ct_json_number_or_null(j, "calls_under_way_bytes", sums && g->total, g->calls_under_way);
    ct_json_close(j, '}');
}

// Whose lines of the log are whose.
static void add_log_lines(struct ct_json *j, const struct ct_processes_shown *s) {
    static const char *const names[] = {"tag", "no-tag", "no-trace", "ambiguous"};
    const struct ct_log_owners *o = &s->owners;
    if (!ct_json_open_or_null(j, "log_lines", s->companions.has_log, '['))
        return;
    for (size_t i = 0; i < o->lines->count; i++) {
        const struct ct_part_of_log *part = o->lines->list[i];
        ct_json_open(j, NULL, '{');
        ct_json_text_or_null(j, "name", *part->tag.name ? part->tag.name : NULL);
        ct_json_number_or_null(j, "pid", part->tag.has_pid, part->tag.pid);
        ct_json_number_or_null(j, "rank", part->tag.has_rank, part->tag.rank);
        ct_json_number(j, "lines", part->facts.lines);
        ct_json_text(j, "by", names[o->list[i].kind]);
        ct_json_number_or_null(j, "process_index", o->list[i].kind == CT_LOG_OWNED,
                               o->list[i].process);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
}

void ct_processes_json_print(const struct ct_processes_shown *s) {
    struct ct_json json = {.out = s->out}, *j = &json;
    char schema[40];
    (void)snprintf(schema, sizeof schema, "cutrace.processes/%d", CT_DOCUMENT_VERSION);
    ct_json_open(j, NULL, '{');
    ct_json_text(j, "schema", schema);
    ct_json_bool(j, "same_clock", s->all.alignment == CT_ALIGNED_BY_CLOCK);
    add_alignment(j, &s->all);
    add_moment(j, &s->all);
    ct_json_open(j, "gpus", '[');
    for (size_t g = 0; g < s->all.gpu_count; g++)
        add_gpu(j, &s->all, &s->all.gpus[g]);
    ct_json_close(j, ']');
    ct_json_open(j, "processes", '[');
    for (size_t i = 0; i < s->all.count; i++)
        add_process(j, s, i);
    ct_json_close(j, ']');
    ct_verdicts_add_json_of_processes(j, &s->verdicts);
    add_log_lines(j, s);
    ct_json_close(j, '}');
    ct_json_end_line(j);
}
