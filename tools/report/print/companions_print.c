// SPDX-License-Identifier: Apache-2.0
#include "print/companions_print.h"

#include <inttypes.h>
#include <string.h>

#include "answer/time_range.h"
#include "base/utf8.h"
#include "diagnose/find_error.h"
#include "diagnose/metrics_verdicts.h"
#include "diagnose/text_verdicts.h"
#include "print/document.h"
#include "print/label.h"
#include "print/log_print.h"
#include "print/verdicts_print.h"

#define MILLION 1000000

// ---- the error message of the log ---------------------------------------------------------------

static void print_error(struct ct_view *v, const struct ct_incidents *n) {
    const struct ct_text_fact *message = ct_text_verdicts_main_oom(&v->companions->log);
    const struct ct_found_error found = ct_find_error(n, message);
    if (!message)
        return;
    fputs("the log's error: " CT_WRAP_HANG, v->out);
    if (!found.event && message->values[CT_TEXT_TRIED].known)
        fprintf(v->out, "no failed allocation of this trace asked for %s%s",
                ct_label_size(v, (uint64_t)message->values[CT_TEXT_TRIED].value).text,
                message->values[CT_TEXT_GPU].known ? " on that device" : "");
    else if (!found.event)
        fputs("it has no size, and every failed allocation of this trace has one", v->out);
    else
        fprintf(v->out, "it is about event %" PRIu64 " at %s%s%s%s", found.event->event,
                ct_label_time(v, found.event->t_ns).text,
                found.by_size ? ", by the size that was asked for" : "",
                found.by_free ? " and what was free" : "",
                found.fitting > 1 ? "; the last one of several that fit" : "");
    putc('\n', v->out);
}

static void add_error(struct ct_json *j, const struct ct_view *v, const struct ct_incidents *n) {
    const struct ct_companions *c = v->companions;
    const struct ct_text_fact *message = c->has_log ? ct_text_verdicts_main_oom(&c->log) : NULL;
    if (!ct_json_open_or_null(j, "error", message && n, '{'))
        return;
    const struct ct_found_error found = ct_find_error(n, message);
    const struct ct_text_value *tried = &message->values[CT_TEXT_TRIED];
    ct_json_number_or_null(j, "asked_bytes", tried->known && tried->value >= 0,
                           (uint64_t)tried->value);
    ct_json_number_or_null(j, "event", found.event != NULL, found.event ? found.event->event : 0);
    ct_json_number(j, "fitting", found.fitting);
    ct_json_close(j, '}');
}

// ---- metrics ------------------------------------------------------------------------------------

// The last scrape before the crossing, or NULL.
static const struct ct_scrape *find_scrape(const struct ct_view *v, const struct ct_metrics *m,
                                           const struct ct_incidents *n) {
    const struct ct_oom_event *o = n ? ct_incidents_find_crossing(n) : NULL;
    const struct ct_scrape *found = NULL;
    uint64_t utc;
    if (!o || !ct_time_range_utc(v->trace, o->t_ns, &utc))
        return NULL;
    for (uint32_t i = 0; i < m->count && m->list[i].utc_ns <= utc; i++)
        found = m->list[i].utc_ns ? &m->list[i] : found;
    return found;
}

static const struct {
    enum ct_metric field;
    const char *what;
} shown[] = {{CT_METRIC_USAGE, "of the KV cache in use"},
             {CT_METRIC_RUNNING, "requests running"},
             {CT_METRIC_WAITING, "waiting"}};
enum { SHOWN = sizeof shown / sizeof *shown };

// Prints value i of these and when it was read (NULL: the time is said already); -1: nothing.
static void print_value(const struct ct_view *v, const char *before, size_t i, int64_t value,
                        const struct ct_scrape *at) {
    if (value < 0)
        return;
    fputs(before, v->out);
    if (shown[i].field == CT_METRIC_USAGE)
        fprintf(v->out, "%.1f %% ", (double)value * 100 / MILLION);
    else
        fprintf(v->out, "%" PRId64 " ", value / MILLION);
    fputs(shown[i].what, v->out);
    if (at && at->utc_ns)
        fprintf(v->out, " (%s)", ct_human_time_of_day(at->utc_ns).text);
}

// The most of each over all scrapes, which are of different moments.
static void print_most(const struct ct_view *v, const struct ct_metrics *m) {
    const char *before = "; at most ";
    for (size_t i = 0; i < SHOWN; i++) {
        uint32_t at = 0;
        const int64_t most = ct_metrics_max(m, shown[i].field, &at);
        print_value(v, before, i, most, most > 0 ? &m->list[at] : NULL);
        before = most < 0 ? before : ", ";
    }
}

static void print_before(const struct ct_view *v, const struct ct_scrape *s) {
    fprintf(v->out, "; before the failure (%s)", ct_human_time_of_day(s->utc_ns).text);
    for (size_t i = 0; i < SHOWN; i++)
        print_value(v, i ? ", " : " ", i, s->values[shown[i].field], NULL);
}

// The verdicts of the metrics, with the settings that the trace has.
static void find_metrics_verdicts(const struct ct_view *v, struct ct_verdicts *l) {
    struct ct_facts facts;
    ct_facts_read(&facts, &v->trace->definitions);
    ct_metrics_verdicts_find(&v->companions->metrics, &facts, l);
    ct_facts_free(&facts);
}

static void print_metrics(struct ct_view *v, const struct ct_incidents *n) {
    const struct ct_metrics *m = &v->companions->metrics;
    const struct ct_scrape *before = find_scrape(v, m, n);
    struct ct_verdicts l = {0};
    const int64_t preempted = m->count ? m->list[m->count - 1].values[CT_METRIC_PREEMPTIONS] : -1;
    fprintf(v->out, "the metrics: " CT_WRAP_HANG "%s scrape%s", ct_human_count(m->scrapes).text,
            ct_human_plural(m->scrapes));
    print_most(v, m);
    if (preempted > 0)
        fprintf(v->out, "; %s preemption%s counted since the server's start",
                ct_human_count((uint64_t)preempted / MILLION).text,
                ct_human_plural((uint64_t)preempted / MILLION));
    if (before)
        print_before(v, before);
    putc('\n', v->out);
    if (v->options->command == CT_COMMAND_summary || v->options->command == CT_COMMAND_explain)
        return; // these join the verdicts with those of the trace
    find_metrics_verdicts(v, &l);
    ct_verdicts_print(v, &l, 2);
    ct_verdicts_free(&l);
}

static void add_number(struct ct_json *j, const char *key, int64_t value) {
    ct_json_number_or_null(j, key, value >= 0, (uint64_t)value);
}

static void add_metrics(struct ct_json *j, const struct ct_view *v, const struct ct_incidents *n) {
    const struct ct_metrics *m = &v->companions->metrics;
    const struct ct_scrape *before = v->companions->has_metrics ? find_scrape(v, m, n) : NULL;
    struct ct_verdicts l = {0};
    if (!ct_json_open_or_null(j, "metrics", v->companions->has_metrics, '{'))
        return;
    const int64_t preemptions = ct_metrics_growth(m, CT_METRIC_PREEMPTIONS, 0, m->count);
    ct_json_number(j, "scrapes", m->scrapes);
    add_number(j, "max_usage_millionths", ct_metrics_max(m, CT_METRIC_USAGE, NULL));
    add_number(j, "usage_before_millionths", before ? before->values[CT_METRIC_USAGE] : -1);
    add_number(j, "preemptions", preemptions < 0 ? -1 : preemptions / MILLION);
    add_number(j, "hit_rate_millionths", ct_metrics_verdicts_hit_rate(m, 0, m->count));
    find_metrics_verdicts(v, &l);
    ct_verdicts_add_json(j, &l, NULL);
    ct_verdicts_free(&l);
    ct_json_close(j, '}');
}

// ---- all of them --------------------------------------------------------------------------------

void ct_companions_print(struct ct_view *v, const struct ct_incidents *incidents) {
    const struct ct_companions *c = v->companions;
    if (c && c->has_log) {
        fprintf(v->out, "the log says, in %s line%s", ct_human_count(c->log.lines).text,
                ct_human_plural(c->log.lines));
        if (c->left_out_lines)
            fprintf(v->out, "; %s of other processes %s left out by their tags",
                    ct_human_count(c->left_out_lines).text, c->left_out_lines == 1 ? "is" : "are");
        fputs(":\n", v->out);
        if (!ct_log_print(v, &c->log))
            fputs(c->log.count ? "  nothing of its start, settings or load\n"
                               : "  nothing that is known\n",
                  v->out);
    }
    if (c && c->has_log && incidents)
        print_error(v, incidents);
    if (c && c->has_metrics)
        print_metrics(v, incidents);
}

void ct_companions_add_json(struct ct_json *j, const struct ct_view *v,
                            const struct ct_incidents *incidents) {
    const struct ct_companions *c = v->companions;
    if (!ct_json_open_or_null(j, "companions", c && (c->has_log || c->has_metrics), '{'))
        return;
    ct_log_add_json(j, "log", c->has_log ? &c->log : NULL, v->options);
    ct_json_number_or_null(j, "left_out_lines", c->has_log, c->left_out_lines);
    add_error(j, v, incidents);
    add_metrics(j, v, incidents);
    ct_json_close(j, '}');
}
