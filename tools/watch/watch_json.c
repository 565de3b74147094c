// SPDX-License-Identifier: Apache-2.0
// The document of cutrace watch --once --json.
#include "watch/watch.h"

#include <cutrace/model/live_memory.h>

#include "base/json.h"
#include "base/now.h"

static void add_text(struct ct_json *j, const char *key, const char *text) {
    ct_json_text_or_null(j, key, text && *text ? text : NULL);
}

static void add_trend(struct ct_json *j, const char *key, const struct ct_trend *t) {
    const int known = ct_trend_is_known(t);
    ct_json_open(j, key, '{');
    ct_json_text(j, "kind", ct_trend_kind_name(t->kind));
    ct_json_number(j, "window_ns", t->span_ns);
    if (known) {
        ct_json_signed(j, "bytes_per_minute", ct_trend_per_minute(t->slope));
        ct_json_signed(j, "low_bytes_per_minute", ct_trend_per_minute(t->slope - t->error));
        ct_json_signed(j, "high_bytes_per_minute", ct_trend_per_minute(t->slope + t->error));
    } else {
        ct_json_null(j, "bytes_per_minute");
        ct_json_null(j, "low_bytes_per_minute");
        ct_json_null(j, "high_bytes_per_minute");
    }
    ct_json_close(j, '}');
}

static void add_full(struct ct_json *j, const struct ct_watch_device *d) {
    if (!ct_json_open_or_null(j, "full", d->has_full, '{'))
        return;
    ct_json_number(j, "in_ns", d->full.ns);
    ct_json_number(j, "earliest_ns", d->full.earliest_ns);
    ct_json_number(j, "latest_ns", d->full.latest_ns);
    ct_json_close(j, '}');
}

void ct_watch_json_add_growth(struct ct_json *j, const struct ct_watch_device *d) {
    ct_json_open(j, "growth", '{');
    add_trend(j, "process", &d->own);
    add_trend(j, "device", &d->whole);
    ct_json_close(j, '}');
    add_full(j, d);
}

static void add_pool(struct ct_json *j, const struct ct_torch_pool_totals *p) {
    if (!ct_json_open_or_null(j, "pool", p->known && p->reported, '{'))
        return;
    ct_json_number(j, "allocated_bytes", p->allocated);
    ct_json_number(j, "reserved_bytes", p->reserved);
    ct_json_number(j, "largest_free_bytes", p->free.largest);
    ct_json_number(j, "held_open_bytes", p->held_open_bytes);
    ct_json_close(j, '}');
}

static void add_device(struct ct_json *j, const struct ct_watch_device *d) {
    ct_json_open(j, NULL, '{');
    ct_json_number_or_null(j, "ordinal", d->ordinal < CT_MAX_DEVICES, (uint64_t)d->ordinal);
    add_text(j, "name", d->name);
    ct_json_number_or_null(j, "capacity_bytes", d->capacity != 0, d->capacity);
    ct_json_number(j, "tracked_bytes", d->tracked);
    ct_json_number(j, "managed_bytes", d->managed);
    ct_json_open(j, "memory", '{');
    ct_json_number_or_null(j, "total_bytes", d->is_read, d->total);
    for (unsigned i = 0; i < CT_WATCH_PARTS; i++)
        ct_json_number_or_null(j, ct_watch_parts[i].key, d->is_read || i <= CT_WATCH_MEMPOOL_IDLE,
                               d->part[i]);
    ct_json_close(j, '}');
    add_pool(j, &d->pool);
    ct_watch_json_add_growth(j, d);
    ct_json_close(j, '}');
}

static void add_sites(struct ct_json *j, const struct ct_watch_details *d) {
    ct_json_number(j, "site_count", d->all_sites);
    ct_json_number(j, "gained_since_ns", d->since_ns);
    ct_json_open(j, "sites", '[');
    for (size_t i = 0; i < d->site_count; i++) {
        ct_json_open(j, NULL, '{');
        ct_json_text(j, "call_site", d->sites[i].label);
        ct_json_text(j, "kind", d->sites[i].kind);
        ct_json_number(j, "bytes", d->sites[i].bytes);
        ct_json_number(j, "count", d->sites[i].count);
        ct_json_signed(j, "gained_bytes", d->sites[i].gained);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
}

static void add_incidents(struct ct_json *j, const struct ct_watch_details *d) {
    ct_json_number(j, "incident_count", d->all_incidents);
    ct_json_number(j, "failed_count", d->failed);
    ct_json_open(j, "incidents", '[');
    for (size_t k = 0; k < d->incident_count; k++) {
        const struct ct_watch_incident *i = &d->incidents[k];
        ct_json_open(j, NULL, '{');
        ct_json_number(j, "event", i->head.event);
        ct_json_number(j, "t_ns", i->head.t_ns);
        ct_json_number_or_null(j, "device", i->head.device < CT_MAX_DEVICES,
                               (uint64_t)i->head.device);
        ct_json_number_or_null(j, "requested_bytes", i->head.bytes_known, i->head.bytes);
        ct_json_text(j, "outcome", ct_watch_outcome_name(i->outcome));
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
    const struct ct_watch_verdict *v = &d->verdict;
    if (!ct_json_open_or_null(j, "verdict", v->summary != NULL, '{'))
        return;
    ct_json_text(j, "scenario", ct_scenario_name(v->scenario));
    ct_json_text(j, "title", ct_scenario_title(v->scenario));
    ct_json_ratio(j, "confidence", (uint64_t)(v->confidence * 10000 + 0.5), 10000);
    ct_json_text(j, "summary", v->summary);
    ct_json_close(j, '}');
}

static void add_details(struct ct_json *j, const struct ct_watch_process *p) {
    const struct ct_watch_details *d = &p->details;
    if (!ct_json_open_or_null(j, "details", p->has_details, '{'))
        return;
    ct_json_number(j, "start_ns", d->start_ns);
    ct_json_number(j, "t_ns", d->t_ns);
    ct_json_number(j, "events", d->events);
    ct_json_number(j, "lost_events", d->lost);
    ct_json_open(j, "recent", '{');
    ct_json_number(j, "window_ns", d->recent_ns);
    ct_json_number(j, "events", d->recent_events);
    ct_json_number(j, "allocations", d->recent_allocations);
    ct_json_close(j, '}');
    add_text(j, "phase", d->phase);
    ct_json_open(j, "devices", '[');
    for (size_t i = 0; i < d->device_count; i++)
        add_device(j, &d->devices[i]);
    ct_json_close(j, ']');
    add_sites(j, d);
    add_incidents(j, d);
    ct_json_close(j, '}');
}

static void add_now(struct ct_json *j, const struct ct_watch_process *p) {
    ct_json_open(j, "now", '{');
    ct_json_number(j, "t_ns", p->read_ns);
    ct_json_number(j, "events", p->head.events);
    ct_json_number(j, "lost_events", p->head.lost);
    ct_json_number(j, "written_bytes", p->head.bytes_written);
    ct_json_open(j, "devices", '[');
    for (int i = 0; i < CT_JOURNAL_DEVICES; i++) {
        const struct ct_journal_device *n = &p->head.device[i];
        if (!ct_watch_is_used(n))
            continue;
        ct_json_open(j, NULL, '{');
        ct_json_number(j, "ordinal", (uint64_t)i);
        ct_json_number(j, "tracked_bytes", n->tracked);
        ct_json_number(j, "peak_bytes", n->peak);
        ct_json_number(j, "ooms", n->ooms);
        ct_json_number_or_null(j, "free_bytes", n->total != 0, n->free_bytes);
        ct_json_number_or_null(j, "total_bytes", n->total != 0, n->total);
        ct_json_number_or_null(j, "read_ns", n->total != 0, n->sampled_ns);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
    ct_json_close(j, '}');
}

static void add_process(struct ct_json *j, const struct ct_watch_process *p) {
    ct_json_open(j, NULL, '{');
    ct_json_text(j, "trace", p->trace);
    ct_json_number(j, "pid", p->pid);
    ct_json_text(j, "program", p->program);
    ct_json_text(j, "state", ct_watch_state_name(p->state));
    add_text(j, "problem", p->problem);
    add_now(j, p);
    add_details(j, p);
    ct_json_close(j, '}');
}

void ct_watch_json_print(FILE *out, const struct ct_watch_list *l) {
    const size_t shown = l->skips < CT_WATCH_SKIPS ? l->skips : CT_WATCH_SKIPS;
    struct ct_json j = {.out = out};
    ct_json_open(&j, NULL, '{');
    ct_json_text(&j, "schema", "cutrace.watch/1");
    ct_json_number(&j, "t_ns", ct_now_ns(CLOCK_MONOTONIC));
    ct_json_open(&j, "processes", '[');
    for (size_t i = 0; i < l->count; i++)
        add_process(&j, &l->entries[i].process);
    ct_json_close(&j, ']');
    ct_json_number(&j, "skipped_count", l->skips);
    ct_json_open(&j, "skipped", '[');
    for (size_t i = 0; i < shown; i++)
        ct_json_text(&j, NULL, l->skipped[i]);
    ct_json_close(&j, ']');
    ct_json_close(&j, '}');
    ct_json_end_line(&j);
}
