// SPDX-License-Identifier: Apache-2.0
#include "views/fit_parts.h"

#include <inttypes.h>
#include <string.h>

#include "answer/companions.h"
#include "base/utf8.h"
#include "print/label.h"

// ---- the budget ---------------------------------------------------------------------------------

static struct ct_human_text size(const struct ct_view *v, int64_t bytes) {
    return ct_label_size(v, bytes > 0 ? (uint64_t)bytes : 0);
}

static void print_cache(struct ct_view *v, const struct ct_vllm_budget *b) {
    if (b->capacity == b->recorded_capacity || !b->has_cache_there)
        return;
    if (b->cache_low <= 0)
        fprintf(v->out,
                "  " CT_WRAP_HANG "on %s the budget leaves nothing for a KV cache: %s is "
                "missing\n",
                ct_label_budget(v).text, size(v, -b->cache_low).text);
    else
        fprintf(v->out, "  " CT_WRAP_HANG "on %s the same settings leave %s for the KV cache%s\n",
                ct_label_budget(v).text, size(v, b->cache_low).text,
                b->cache_high > b->cache_low ? ", rounded to a block" : "");
}

// The parts add up to the budget.
static void print_budget(struct ct_view *v, const struct ct_vllm_budget *b) {
    const int64_t budget = b->besides + b->cache, step = b->has_step ? b->step : 0,
                  graphs = b->is_compared ? b->graphs : 0;
    const uint64_t parts[] = {(uint64_t)b->cache, (uint64_t)step, (uint64_t)graphs,
                              (uint64_t)(b->besides - step - graphs)};
    struct ct_human_text shown[4];
    if (!b->by_utilization || b->besides < step + graphs) {
        fprintf(v->out, "  " CT_WRAP_HANG "KV cache %s, activations of the profile run %s\n",
                size(v, b->cache).text, b->has_step ? size(v, b->step).text : "not known");
        return;
    }
    ct_human_bytes_of_parts(shown, parts, 4, (uint64_t)budget, v->options->units, 4);
    fprintf(v->out,
            "  " CT_WRAP_HANG "budget %s = %s x %s%s: KV cache %s, activations of the profile run "
            "%s, ",
            size(v, budget).text, b->utilization.text, size(v, b->recorded_capacity).text,
            b->utilization.source == CT_SETTING_DEFAULT ? " (default)" : "", shown[0].text,
            shown[1].text);
    if (graphs)
        fprintf(v->out, "the estimate of CUDA graphs %s, ", shown[2].text);
    fprintf(v->out, "weights and all else that stays %s%s\n", shown[3].text,
            b->is_compared ? ""
                           : " (not compared with vLLM's readings: they are not in the trace)");
}

// ---- the settings -------------------------------------------------------------------------------

static const char *source_of(const struct ct_setting *s) {
    return s->source == CT_SETTING_DEFAULT ? " (default)" : "";
}

static const char *verb_of(const struct ct_fit_setting *s) {
    const int64_t now = ct_vllm_fit_recorded(s);
    if (!now)
        return "can be up to";
    if (s->safe > now)
        return "can go up to";
    return s->safe < now ? "must come down to" : "is at its limit,";
}

static void print_bounds(struct ct_view *v, const struct ct_fit_setting *s) {
    if (s->safe)
        fprintf(v->out, ": %s %s", verb_of(s), ct_vllm_fit_value(s, s->safe).text);
    if (s->fails)
        fprintf(v->out, "%s from %s on it fails", s->safe ? ";" : ":",
                ct_vllm_fit_value(s, s->fails).text);
    if (!s->safe && !s->fails)
        fputs(": not known", v->out);
    if (s->least)
        fprintf(v->out, "; one request of max_model_len needs %s",
                ct_vllm_fit_value(s, s->least).text);
}

// `above`: the setting before, or NULL. What both lack is said once.
static void print_setting(struct ct_view *v, const struct ct_fit_setting *s,
                          const struct ct_fit_setting *above) {
    const int is_said = above && strcmp(above->unknown, s->unknown) == 0;
    fprintf(v->out, "%s  " CT_WRAP_HANG "%s", v->terminal->bold, s->flag);
    if (s->now->source != CT_SETTING_UNKNOWN)
        fprintf(v->out, " %s%s", s->now->text, source_of(s->now));
    print_bounds(v, s);
    fprintf(v->out, "%s\n", v->terminal->reset);
    if (*s->because)
        fprintf(v->out, "    " CT_WRAP_HANG "%s\n", s->because);
    if (*s->unknown)
        fprintf(v->out, "    " CT_WRAP_HANG "not known: %s\n",
                is_said ? "the same as above" : s->unknown);
}

static int has_companion(const struct ct_view *v) {
    return v->companions && (v->companions->has_log || v->companions->has_metrics);
}

static int is_any_known(const struct ct_vllm_fit *f) {
    for (size_t i = 0; i < f->count; i++)
        if (f->list[i].safe || f->list[i].fails)
            return 1;
    return *f->load;
}

void ct_fit_vllm_print(struct ct_view *v, const struct ct_fit_vllm *f, int device) {
    const struct ct_vllm_budget *b = &f->budget;
    fprintf(v->out, "%svLLM on %s%s", v->terminal->bold, ct_label_device(device).text,
            v->terminal->reset);
    if (!b->known) {
        fprintf(v->out, ": nothing can be said of its settings, because %s\n", b->why);
        return;
    }
    putc('\n', v->out);
    print_budget(v, b);
    print_cache(v, b);
    if (!has_companion(v) && !is_any_known(&f->fit)) {
        fputs("  settings: " CT_WRAP_HANG
              "--log FILE (the server's log) has what bounds them: their "
              "values, and what a token takes of the KV cache\n",
              v->out);
        return;
    }
    fputs("  each setting by itself, with all others as recorded:\n", v->out);
    for (size_t i = 0; i < f->fit.count; i++)
        print_setting(v, &f->fit.list[i], i ? &f->fit.list[i - 1] : NULL);
    if (*f->fit.load)
        fprintf(v->out, "  " CT_WRAP_HANG "load: %s\n", f->fit.load);
    if (*f->fit.load_change)
        fprintf(v->out, "    " CT_WRAP_HANG "%s\n", f->fit.load_change);
}

// ---- JSON ---------------------------------------------------------------------------------------

static void add_bytes(struct ct_json *j, const char *key, int known, int64_t bytes) {
    ct_json_number_or_null(j, key, known && bytes >= 0, bytes > 0 ? (uint64_t)bytes : 0);
}

static void add_value(struct ct_json *j, const char *key, const struct ct_fit_setting *s,
                      int64_t value) {
    ct_json_text_or_null(j, key, value > 0 ? ct_vllm_fit_value(s, value).text : NULL);
}

static void add_text(struct ct_json *j, const char *key, const char *text) {
    ct_json_text_or_null(j, key, *text ? text : NULL);
}

static void add_setting(struct ct_json *j, const struct ct_fit_setting *s) {
    static const char *const sources[] = {"unknown", "trace", "log", "default"};
    ct_json_open(j, NULL, '{');
    ct_json_text(j, "flag", s->flag);
    add_text(j, "recorded", s->now->source == CT_SETTING_UNKNOWN ? "" : s->now->text);
    ct_json_text(j, "source", sources[s->now->source]);
    add_value(j, "least", s, s->least);
    add_value(j, "safe", s, s->safe);
    add_value(j, "fails", s, s->fails);
    add_text(j, "because", s->because);
    add_text(j, "unknown", s->unknown);
    ct_json_close(j, '}');
}

static void add_budget(struct ct_json *j, const struct ct_vllm_budget *b) {
    add_bytes(j, "kv_cache_bytes", 1, b->cache);
    add_bytes(j, "kv_cache_bytes_there", b->has_cache_there, b->cache_low > 0 ? b->cache_low : 0);
    add_bytes(j, "kv_cache_tokens", b->tokens != 0, b->tokens);
    add_bytes(j, "kv_block_bytes", b->block != 0, b->block);
    add_bytes(j, "kv_block_tokens", b->tokens != 0, b->block_tokens);
    add_bytes(j, "besides_bytes", b->by_utilization, b->besides);
    add_bytes(j, "profile_bytes", b->has_step, b->step);
    add_bytes(j, "graph_estimate_bytes", b->is_compared, b->graphs);
    add_bytes(j, "stays_bytes", b->has_need, b->stays);
    add_bytes(j, "serving_least_bytes", b->has_need, b->need_low);
    add_bytes(j, "serving_most_bytes", b->has_need, b->need_high);
    add_bytes(j, "start_used_bytes", b->start_used >= 0, b->start_used);
}

void ct_fit_vllm_add_json(struct ct_json *j, const struct ct_fit_vllm *f) {
    if (!ct_json_open_or_null(j, "vllm", f != NULL, '{'))
        return;
    add_text(j, "why_unknown", f->budget.known ? "" : f->budget.why);
    add_budget(j, &f->budget);
    ct_json_open(j, "bounds", '[');
    for (size_t i = 0; i < f->fit.count; i++)
        add_setting(j, &f->fit.list[i]);
    ct_json_close(j, ']');
    add_text(j, "load", f->fit.load);
    add_text(j, "load_change", f->fit.load_change);
    ct_json_close(j, '}');
}
