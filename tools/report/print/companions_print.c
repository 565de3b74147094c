// SPDX-License-Identifier: Apache-2.0
#include "print/companions_print.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "answer/time_range.h"
#include "base/utf8.h"
#include "diagnose/kv_arithmetic.h"
#include "diagnose/log_owners.h"
#include "diagnose/metrics_verdicts.h"
#include "diagnose/text_start.h"
#include "diagnose/text_verdicts.h"
#include "print/document.h"
#include "print/label.h"
#include "print/verdict.h"

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
    fprintf(v->out, "the metrics: " CT_WRAP_HANG "%s", ct_human_counted(m->scrapes, "scrape").text);
    print_most(v, m);
    if (preempted > 0)
        fprintf(v->out, "; %s counted since the server's start",
                ct_human_counted((uint64_t)preempted / MILLION, "preemption").text);
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
        fprintf(v->out, "the log says, in %s", ct_human_counted(c->log.lines, "line").text);
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
    ct_log_add_json(j, c->has_log ? &c->log : NULL, v->options);
    ct_json_number_or_null(j, "left_out_lines", c->has_log, c->left_out_lines);
    add_error(j, v, incidents);
    add_metrics(j, v, incidents);
    ct_json_close(j, '}');
}

// ---- the log ------------------------------------------------------------------------------------

static const char *const setting_names[CT_TEXT_FLAGS] = {
#define CT_TEXT_FLAG(ID, name, dashed, source) name,
#include "text/flags.def"
};

static struct ct_human_text size(const struct ct_view *v, int64_t bytes) {
    const struct ct_human_text s = ct_label_size(v, (uint64_t)(bytes < 0 ? -bytes : bytes));
    return bytes < 0 ? ct_human_format("-%.30s", s.text) : s;
}

static void begin_line(struct ct_view *v, unsigned *lines, const char *what) {
    fprintf(v->out, "  %-9s " CT_WRAP_HANG, what);
    ++*lines;
}

// "weights 12.55 GiB (line 21), ..." of the figures that are known.
static void print_shares(struct ct_view *v, const struct ct_text_start *s, unsigned *lines) {
    const struct {
        const char *name;
        const struct ct_text_figure *f;
    } shares[] = {{"weights", &s->weights},
                  {"activations", &s->activation},
                  {"outside of PyTorch", &s->non_torch},
                  {"CUDA graphs", &s->graphs},
                  {"graphs as estimated", &s->graphs_estimated},
                  {"budget", &s->budget},
                  {"free at the start", &s->free},
                  {"capacity", &s->total}};
    int is_first = 1;
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
        if (!shares[i].f->known)
            continue;
        if (is_first)
            begin_line(v, lines, "start");
        fprintf(v->out, "%s%s %s (line %" PRIu64 ")", is_first ? "" : ", ", shares[i].name,
                size(v, shares[i].f->value).text, shares[i].f->line);
        is_first = 0;
    }
    if (!is_first)
        putc('\n', v->out);
}

static void print_blocks(struct ct_view *v, const struct ct_text_start *s) {
    const uint64_t block = (uint64_t)s->block_tokens.value, length = (uint64_t)s->max_len.value;
    fprintf(v->out, "; blocks of %" PRIu64 " tokens", block);
    if (s->token_bytes.known && s->token_bytes.value < INT64_MAX / (INT64_C(1) << 20) &&
        block < (1 << 20))
        fprintf(v->out, " are %s each",
                ct_label_size(v, (uint64_t)s->token_bytes.value * block).text);
    if (s->max_len.known && s->max_len.value > 0)
        fprintf(v->out, ", a request of %s tokens takes %s of them", ct_human_count(length).text,
                ct_human_count(ct_kv_blocks_of(length, block)).text);
}

static void print_cache(struct ct_view *v, const struct ct_text_start *s, unsigned *lines) {
    if (!s->kv_bytes.known && !s->kv_tokens.known && !s->kv_blocks.known)
        return;
    begin_line(v, lines, "KV cache");
    if (s->kv_bytes.known)
        fprintf(v->out, "%s (line %" PRIu64 ")", size(v, s->kv_bytes.value).text, s->kv_bytes.line);
    if (s->kv_tokens.known && s->kv_tokens.value >= 0)
        fprintf(v->out, "%s%s tokens (line %" PRIu64 ")", s->kv_bytes.known ? ", " : "",
                ct_human_count((uint64_t)s->kv_tokens.value).text, s->kv_tokens.line);
    if (s->kv_blocks.known && s->kv_blocks.value >= 0)
        fprintf(v->out, "%s%s blocks (line %" PRIu64 ")",
                s->kv_bytes.known || s->kv_tokens.known ? ", " : "",
                ct_human_count((uint64_t)s->kv_blocks.value).text, s->kv_blocks.line);
    if (s->token_bytes.known)
        fprintf(v->out, ": %s a token", size(v, s->token_bytes.value).text);
    if (s->block_tokens.known && s->block_tokens.value > 0)
        print_blocks(v, s);
    putc('\n', v->out);
}

// "3 requests of 50 tokens take 5 blocks of 16: 2 are partly filled, 37.5 % of the places are
// empty".
static void print_waste(struct ct_view *v, const struct ct_text_facts *f, unsigned *lines) {
    struct ct_kv_waste w;
    const struct ct_arguments *o = v->options;
    if (ct_kv_waste_find(f, o->lengths, &w)) {
        if (!o->lengths)
            return;
        begin_line(v, lines, "waste");
        fputs(
            "not known: the log does not say how many tokens a block has; add them: --lengths=17/16\n",
            v->out);
        return;
    }
    const uint64_t last = w.requests == 1 ? ct_kv_last_block_empty(w.tokens, w.block_tokens) : 0;
    begin_line(v, lines, "waste");
    fprintf(v->out, "%s with %s tokens take%s %s of %" PRIu64 " tokens; ",
            ct_human_counted(w.requests, "request").text, ct_human_count(w.tokens).text,
            w.requests == 1 ? "s" : "", ct_human_counted(w.blocks, "block").text, w.block_tokens);
    fprintf(v->out, "%s of these %s partly filled", ct_human_count(w.partly_blocks).text,
            w.partly_blocks == 1 ? "is" : "are");
    if (last)
        fprintf(v->out, ", the last, and %.2f %% of it empty", (double)last / 10000);
    if (w.empty_tokens <= UINT64_MAX - w.tokens)
        fprintf(v->out, "; %s of %s places have no token (%s)", ct_human_count(w.empty_tokens).text,
                ct_human_count(w.tokens + w.empty_tokens).text,
                ct_human_percent(w.empty_tokens, w.tokens + w.empty_tokens).text);
    fprintf(v->out, "%s\n", o->lengths ? "" : " (new requests of the step)");
}

static void print_settings(struct ct_view *v, const struct ct_text_facts *f, unsigned *lines) {
    int is_first = 1;
    for (int i = 0; i < CT_TEXT_FLAGS; i++) {
        if (!*f->settings[i].value)
            continue;
        if (is_first)
            begin_line(v, lines, "settings");
        fprintf(v->out, "%s%s %s", is_first ? "" : ", ", setting_names[i], f->settings[i].value);
        is_first = 0;
    }
    if (!is_first)
        putc('\n', v->out);
}

static void print_load(struct ct_view *v, const struct ct_text_facts *f, unsigned *lines) {
    const struct ct_text_load *l = &f->load;
    if (!l->lines)
        return;
    begin_line(v, lines, "load");
    fprintf(v->out,
            "at most %.1f %% of the KV cache in use (line %" PRIu64 "), %" PRId64
            " requests running and %" PRId64 " waiting, in %" PRIu64 " line%s\n",
            (double)l->max_usage / MILLION, l->worst_line, l->max_running, l->max_waiting, l->lines,
            ct_human_plural(l->lines));
}

static void print_step(struct ct_view *v, const struct ct_text_facts *f, unsigned *lines) {
    if (!f->step.line || !f->step.tokens.known)
        return;
    begin_line(v, lines, "step");
    fprintf(v->out, "%" PRId64 " tokens, of %" PRIu64 " new request%s (line %" PRIu64 ")\n",
            f->step.tokens.value, f->step.requests, ct_human_plural(f->step.requests),
            f->step.line);
}

unsigned ct_log_print(struct ct_view *v, const struct ct_text_facts *f) {
    struct ct_text_start s;
    unsigned lines = 0;
    ct_text_start_find(f, &s);
    if (*f->version) {
        begin_line(v, &lines, "program");
        fprintf(v->out, "vLLM %s\n", f->version);
    }
    print_settings(v, f, &lines);
    print_shares(v, &s, &lines);
    print_cache(v, &s, &lines);
    print_waste(v, f, &lines);
    print_load(v, f, &lines);
    print_step(v, f, &lines);
    return lines;
}

// ---- the log in JSON ----------------------------------------------------------------------------

static void add_start(struct ct_json *j, const struct ct_text_facts *f) {
    static const struct {
        const char *key;
        size_t offset;
    } figures[] = {
#define FIGURE(key, name) {key, offsetof(struct ct_text_start, name)}
        FIGURE("weights_bytes", weights),
        FIGURE("activation_bytes", activation),
        FIGURE("non_torch_bytes", non_torch),
        FIGURE("graph_bytes", graphs),
        FIGURE("graph_estimated_bytes", graphs_estimated),
        FIGURE("kv_cache_bytes", kv_bytes),
        FIGURE("kv_cache_tokens", kv_tokens),
        FIGURE("kv_cache_blocks", kv_blocks),
        FIGURE("token_bytes", token_bytes),
        FIGURE("block_tokens", block_tokens),
        FIGURE("max_model_len", max_len),
        FIGURE("utilization_millionths", utilization),
        FIGURE("vllm_budget_bytes", budget),
#undef FIGURE
    };
    struct ct_text_start s;
    ct_text_start_find(f, &s);
    ct_json_open(j, "start", '{');
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
        const struct ct_text_figure *figure = (const void *)((const char *)&s + figures[i].offset);
        ct_json_signed_or_null(j, figures[i].key, figure->known, figure->value);
    }
    ct_json_close(j, '}');
}

static void add_settings(struct ct_json *j, const struct ct_text_facts *f) {
    ct_json_open(j, "settings", '{');
    for (int i = 0; i < CT_TEXT_FLAGS; i++)
        if (*f->settings[i].value)
            ct_json_text(j, setting_names[i], f->settings[i].value);
    ct_json_close(j, '}');
}

static void add_load(struct ct_json *j, const struct ct_text_facts *f) {
    const struct ct_text_load *l = &f->load;
    if (!ct_json_open_or_null(j, "load", l->lines != 0, '{'))
        return;
    ct_json_number(j, "lines", l->lines);
    ct_json_signed(j, "max_usage_millionths", l->max_usage / 100);
    ct_json_signed(j, "max_running", l->max_running);
    ct_json_signed(j, "max_waiting", l->max_waiting);
    ct_json_number_or_null(j, "preemptions", l->preemptions >= 0, (uint64_t)l->preemptions);
    ct_json_close(j, '}');
}

static void add_step(struct ct_json *j, const struct ct_text_facts *f) {
    if (!ct_json_open_or_null(j, "step", f->step.line != 0, '{'))
        return;
    ct_json_number(j, "line", f->step.line);
    ct_json_number_or_null(j, "tokens", f->step.tokens.known, (uint64_t)f->step.tokens.value);
    ct_json_number(j, "new_requests", f->step.requests);
    ct_json_close(j, '}');
}

static void add_waste(struct ct_json *j, const struct ct_text_facts *f,
                      const struct ct_arguments *o) {
    struct ct_kv_waste w;
    if (!ct_json_open_or_null(j, "waste", !ct_kv_waste_find(f, o->lengths, &w), '{'))
        return;
    ct_json_text(j, "lengths_from", o->lengths ? "option" : "step");
    ct_json_number(j, "block_tokens", w.block_tokens);
    ct_json_number(j, "requests", w.requests);
    ct_json_number(j, "tokens", w.tokens);
    ct_json_number(j, "blocks", w.blocks);
    ct_json_number(j, "partly_filled_blocks", w.partly_blocks);
    ct_json_number(j, "empty_tokens", w.empty_tokens);
    ct_json_close(j, '}');
}

void ct_log_add_json(struct ct_json *j, const struct ct_text_facts *f,
                     const struct ct_arguments *o) {
    if (!ct_json_open_or_null(j, "log", f != NULL, '{'))
        return;
    ct_json_number(j, "lines", f->lines);
    ct_json_number(j, "text_bytes", f->bytes);
    ct_json_text_or_null(j, "vllm_version", *f->version ? f->version : NULL);
    add_settings(j, f);
    add_start(j, f);
    add_load(j, f);
    add_step(j, f);
    add_waste(j, f, o);
    ct_json_close(j, '}');
}
