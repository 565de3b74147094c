// SPDX-License-Identifier: Apache-2.0
// The lines of --log, as text or as JSON.
#include "watch/watch.h"

#include <cutrace/model/live_memory.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/human.h"
#include "base/json.h"
#include "base/now.h"

struct log {
    FILE *out;
    enum ct_watch_log format;
    uint64_t now_ns, utc_ns; // utc: since 1970, at 0 of CLOCK_MONOTONIC
};

// ---- how lines begin ----------------------------------------------------------------------------

static void begin_text(const struct log *l, const struct ct_watch_process *p, uint64_t t_ns) {
    fprintf(l->out,
            "%s cutrace: %s (pid %" PRIu32 "): ", ct_human_date_and_time(t_ns + l->utc_ns).text,
            p->program, p->pid);
}

static struct ct_json begin_json(const struct log *l, const struct ct_watch_process *p,
                                 uint64_t t_ns, const char *kind, int ordinal) {
    struct ct_json j = {.out = l->out};
    ct_json_open(&j, NULL, '{');
    ct_json_text(&j, "schema", "cutrace.watch.log/1");
    ct_json_text(&j, "kind", kind);
    ct_json_text(&j, "time", ct_human_date_and_time(t_ns + l->utc_ns).text);
    ct_json_number(&j, "t_ns", t_ns);
    ct_json_number(&j, "pid", p->pid);
    ct_json_text(&j, "program", p->program);
    ct_json_text(&j, "trace", p->trace);
    ct_json_number_or_null(&j, "device", ordinal >= 0 && ordinal < CT_MAX_DEVICES,
                           (uint64_t)ordinal);
    return j;
}

static void end_json(struct ct_json *j) {
    ct_json_close(j, '}');
    ct_json_end_line(j);
}

// ---- requests that ran out of memory ------------------------------------------------------------

// Of one that PyTorch's repetition healed there is no verdict.
static int has_verdict(const struct ct_watch_details *d, const struct ct_watch_incident *i) {
    return d->verdict.summary && i->outcome != CT_WATCH_RETRIED;
}

static void put_incident_text(const struct log *l, const struct ct_watch_process *p,
                              const struct ct_watch_incident *i) {
    const struct ct_watch_verdict *v = &p->details.verdict;
    begin_text(l, p, i->head.t_ns);
    fprintf(l->out, "%s: a request of %s ", ct_watch_text_device(i->head.device).text,
            i->head.bytes_known ? ct_human_bytes(i->head.bytes, CT_UNITS_IEC).text
                                : "unknown size");
    if (i->outcome == CT_WATCH_RETRIED)
        fputs("ran out of memory, and succeeded when PyTorch repeated it\n", l->out);
    else if (has_verdict(&p->details, i))
        fprintf(l->out, "%s: %s (%s%s%s)\n",
                i->outcome == CT_WATCH_FAILED ? "failed" : "failed at first",
                ct_scenario_title(v->scenario), ct_scenario_name(v->scenario),
                v->sureness ? ", " : "", v->sureness ? v->sureness : "");
    else
        fputs("failed\n", l->out);
}

static void put_incident_json(const struct log *l, const struct ct_watch_process *p,
                              const struct ct_watch_incident *i) {
    const struct ct_watch_verdict *v = &p->details.verdict;
    struct ct_json j = begin_json(l, p, i->head.t_ns, "incident", i->head.device);
    ct_json_number(&j, "event", i->head.event);
    ct_json_number_or_null(&j, "requested_bytes", i->head.bytes_known, i->head.bytes);
    ct_json_text(&j, "outcome", ct_watch_outcome_name(i->outcome));
    if (has_verdict(&p->details, i)) {
        ct_json_text(&j, "scenario", ct_scenario_name(v->scenario));
        ct_json_text(&j, "title", ct_scenario_title(v->scenario));
        ct_json_ratio(&j, "confidence", (uint64_t)(v->confidence * 10000 + 0.5), 10000);
    } else {
        ct_json_null(&j, "scenario");
        ct_json_null(&j, "title");
        ct_json_null(&j, "confidence");
    }
    end_json(&j);
}

// Of a flood, only the last ones are known one by one.
static void put_others(const struct log *l, const struct ct_watch_process *p, uint64_t count) {
    if (l->format == CT_WATCH_LOG_TEXT) {
        begin_text(l, p, l->now_ns);
        fprintf(l->out, "%s more request%s ran out of memory before\n", ct_human_count(count).text,
                ct_human_plural(count));
        return;
    }
    struct ct_json j = begin_json(l, p, l->now_ns, "more-incidents", -1);
    ct_json_number(&j, "count", count);
    end_json(&j);
}

static void put_incidents(const struct log *l, struct ct_watch_entry *e) {
    const struct ct_watch_details *d = &e->process.details;
    struct ct_watch_news *n = &e->news;
    const struct ct_watch_incident *fresh[CT_WATCH_INCIDENTS];
    size_t count = 0;
    for (size_t i = d->incident_count; i--;)
        if (d->incidents[i].first_event >= n->told_event &&
            d->incidents[i].first_event < n->next_event)
            fresh[count++] = &d->incidents[i];
    if (n->untold > count)
        put_others(l, &e->process, n->untold - count);
    for (size_t i = 0; i < count; i++)
        if (l->format == CT_WATCH_LOG_TEXT)
            put_incident_text(l, &e->process, fresh[i]);
        else
            put_incident_json(l, &e->process, fresh[i]);
    n->told_event = n->next_event;
    n->untold = 0;
}

// ---- growth -------------------------------------------------------------------------------------

static void put_growth_text(const struct log *l, const struct ct_watch_process *p,
                            const struct ct_watch_device *d) {
    begin_text(l, p, l->now_ns);
    fprintf(l->out, "%s: what all use grows by %s, full in %s (95 %%: %s to %s);",
            ct_watch_text_device(d->ordinal).text, ct_watch_text_growth(&d->whole).text,
            ct_human_seconds(d->full.ns).text, ct_human_seconds(d->full.earliest_ns).text,
            ct_human_seconds(d->full.latest_ns).text);
    fprintf(l->out, " this process's allocations: %s\n", ct_watch_text_growth(&d->own).text);
}

static void put_growth_json(const struct log *l, const struct ct_watch_process *p,
                            const struct ct_watch_device *d) {
    struct ct_json j = begin_json(l, p, l->now_ns, "growth", d->ordinal);
    ct_watch_json_add_growth(&j, d);
    end_json(&j);
}

static void put_growth(const struct log *l, struct ct_watch_entry *e) {
    for (size_t i = 0; i < e->process.details.device_count; i++) {
        const struct ct_watch_device *d = &e->process.details.devices[i];
        uint8_t *is_new = &e->news.growth[ct_device_to_index(d->ordinal)];
        if (!*is_new)
            continue;
        *is_new = 0;
        if (l->format == CT_WATCH_LOG_TEXT)
            put_growth_text(l, &e->process, d);
        else
            put_growth_json(l, &e->process, d);
    }
}

int ct_event_log_print(struct ct_watch_list *list, enum ct_watch_log format) {
    struct log l = {.out = stdout, .format = format, .now_ns = ct_now_ns(CLOCK_MONOTONIC)};
    l.utc_ns = ct_now_ns(CLOCK_REALTIME) - l.now_ns;
    for (size_t i = 0; i < list->count; i++) {
        put_incidents(&l, &list->entries[i]);
        put_growth(&l, &list->entries[i]);
    }
    return fflush(stdout) || ferror(stdout) ? -1 : 0;
}
