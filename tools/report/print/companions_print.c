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
#include "print/log_json.h"
#include "print/log_text.h"
#include "print/verdicts_json.h"
#include "print/verdicts_text.h"

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
    if (!message || !n) {
        ct_json_null(j, "error");
        return;
    }
    const struct ct_found_error found = ct_find_error(n, message);
    const struct ct_text_value *tried = &message->values[CT_TEXT_TRIED];
    ct_json_open(j, "error", '{');
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

static void print_values(const struct ct_view *v, const struct ct_scrape *s) {
    const int64_t *x = s->values;
    if (x[CT_METRIC_USAGE] >= 0)
        fprintf(v->out, "%.1f %% of the KV cache in use",
                (double)x[CT_METRIC_USAGE] * 100 / MILLION);
    if (x[CT_METRIC_RUNNING] >= 0)
        fprintf(v->out, ", %" PRId64 " requests running", x[CT_METRIC_RUNNING] / MILLION);
    if (x[CT_METRIC_WAITING] >= 0)
        fprintf(v->out, ", %" PRId64 " waiting", x[CT_METRIC_WAITING] / MILLION);
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
    uint32_t worst = 0;
    fprintf(v->out, "the metrics: " CT_WRAP_HANG "%s scrape%s", ct_human_count(m->scrapes).text,
            ct_human_plural(m->scrapes));
    if (ct_metrics_max(m, CT_METRIC_USAGE, &worst) >= 0) {
        fputs("; at most ", v->out);
        print_values(v, &m->list[worst]);
    }
    if (before) {
        fprintf(v->out, "; before the failure (%s) ", ct_human_time_of_day(before->utc_ns).text);
        print_values(v, before);
    }
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
    if (!v->companions->has_metrics) {
        ct_json_null(j, "metrics");
        return;
    }
    const int64_t preemptions = ct_metrics_growth(m, CT_METRIC_PREEMPTIONS, 0, m->count);
    ct_json_open(j, "metrics", '{');
    ct_json_number(j, "scrapes", m->scrapes);
    add_number(j, "max_usage_millionths", ct_metrics_max(m, CT_METRIC_USAGE, NULL));
    add_number(j, "usage_before_millionths", before ? before->values[CT_METRIC_USAGE] : -1);
    add_number(j, "preemptions", preemptions < 0 ? -1 : preemptions / MILLION);
    add_number(j, "hit_rate_millionths", ct_metrics_verdicts_hit_rate(m, 0, m->count));
    find_metrics_verdicts(v, &l);
    ct_verdicts_add_json(j, "verdicts", &l, NULL);
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
    if (!c || (!c->has_log && !c->has_metrics)) {
        ct_json_null(j, "companions");
        return;
    }
    ct_json_open(j, "companions", '{');
    ct_log_add_json(j, "log", c->has_log ? &c->log : NULL, v->options);
    ct_json_number_or_null(j, "left_out_lines", c->has_log, c->left_out_lines);
    add_error(j, v, incidents);
    add_metrics(j, v, incidents);
    ct_json_close(j, '}');
}
