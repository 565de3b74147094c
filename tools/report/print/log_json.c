// SPDX-License-Identifier: Apache-2.0
#include "print/log_json.h"

#include <stddef.h>
#include <string.h>

#include "diagnose/kv_arithmetic.h"
#include "diagnose/text_start.h"

static void add_figure(struct ct_json *j, const char *key, const struct ct_text_figure *f) {
    if (f->known)
        ct_json_signed(j, key, f->value);
    else
        ct_json_null(j, key);
}

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
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        add_figure(
            j, figures[i].key,
            (const struct ct_text_figure *)(const void *)((const char *)&s + figures[i].offset));
    ct_json_close(j, '}');
}

static void add_settings(struct ct_json *j, const struct ct_text_facts *f) {
    static const char *const names[CT_TEXT_FLAGS] = {
#define CT_TEXT_FLAG(ID, name, dashed, source) name,
#include "text/flags.def"
    };
    ct_json_open(j, "settings", '{');
    for (int i = 0; i < CT_TEXT_FLAGS; i++)
        if (*f->settings[i].value)
            ct_json_text(j, names[i], f->settings[i].value);
    ct_json_close(j, '}');
}

static void add_load(struct ct_json *j, const struct ct_text_facts *f) {
    const struct ct_text_load *l = &f->load;
    if (!l->lines) {
        ct_json_null(j, "load");
        return;
    }
    ct_json_open(j, "load", '{');
    ct_json_number(j, "lines", l->lines);
    ct_json_signed(j, "max_usage_millionths", l->max_usage / 100);
    ct_json_signed(j, "max_running", l->max_running);
    ct_json_signed(j, "max_waiting", l->max_waiting);
    ct_json_number_or_null(j, "preemptions", l->preemptions >= 0, (uint64_t)l->preemptions);
    ct_json_close(j, '}');
}

static void add_step(struct ct_json *j, const struct ct_text_facts *f) {
    if (!f->step.line) {
        ct_json_null(j, "step");
        return;
    }
    ct_json_open(j, "step", '{');
    ct_json_number(j, "line", f->step.line);
    ct_json_number_or_null(j, "tokens", f->step.tokens.known, (uint64_t)f->step.tokens.value);
    ct_json_number(j, "new_requests", f->step.requests);
    ct_json_close(j, '}');
}

static void add_waste(struct ct_json *j, const struct ct_text_facts *f,
                      const struct ct_arguments *o) {
    struct ct_kv_waste w;
    if (ct_kv_waste_find(f, o->lengths, &w)) {
        ct_json_null(j, "waste");
        return;
    }
    ct_json_open(j, "waste", '{');
    ct_json_text(j, "lengths_from", o->lengths ? "option" : "step");
    ct_json_number(j, "block_tokens", w.block_tokens);
    ct_json_number(j, "requests", w.requests);
    ct_json_number(j, "tokens", w.tokens);
    ct_json_number(j, "blocks", w.blocks);
    ct_json_number(j, "partly_filled_blocks", w.partly_blocks);
    ct_json_number(j, "empty_tokens", w.empty_tokens);
    ct_json_close(j, '}');
}

void ct_log_add_json(struct ct_json *j, const char *key, const struct ct_text_facts *f,
                     const struct ct_arguments *o) {
    if (!f) {
        ct_json_null(j, key);
        return;
    }
    ct_json_open(j, key, '{');
    ct_json_number(j, "lines", f->lines);
    ct_json_number(j, "text_bytes", f->bytes);
    if (*f->version)
        ct_json_bytes(j, "vllm_version", f->version, strlen(f->version));
    else
        ct_json_null(j, "vllm_version");
    add_settings(j, f);
    add_start(j, f);
    add_load(j, f);
    add_step(j, f);
    add_waste(j, f, o);
    ct_json_close(j, '}');
}
