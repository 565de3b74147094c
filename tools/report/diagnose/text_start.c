// SPDX-License-Identifier: Apache-2.0
#include "diagnose/text_start.h"

#define MILLION 1000000

// The first fact of the start that has a field: errors have the same fields with another meaning.
static struct ct_text_figure find(const struct ct_text_facts *f, enum ct_text_field field) {
    for (size_t i = 0; i < f->count; i++) {
        const struct ct_text_fact *e = &f->list[i];
        const int is_start = ct_template_role(e->kind) == CT_TEXT_ROLE_INFO &&
                             e->kind != CT_TEXT_KIND_DRIVER_REFUSED &&
                             e->kind != CT_TEXT_KIND_SLEPT && e->kind != CT_TEXT_KIND_CUTRACE;
        if ((is_start || e->kind == CT_TEXT_KIND_LESS_THAN_DESIRED) && e->values[field].known)
            return (struct ct_text_figure){1, e->values[field].value, e->line};
    }
    return (struct ct_text_figure){0};
}

static struct ct_text_figure find_of(const struct ct_text_facts *f, enum ct_text_kind kind,
                                     enum ct_text_field field) {
    for (size_t i = 0; i < f->count; i++)
        if (f->list[i].kind == kind && f->list[i].values[field].known)
            return (struct ct_text_figure){1, f->list[i].values[field].value, f->list[i].line};
    return (struct ct_text_figure){0};
}

static struct ct_text_figure find_setting(const struct ct_text_facts *f, enum ct_text_flag flag,
                                          int64_t unit) {
    const struct ct_text_setting *s = &f->settings[flag];
    if (!*s->value || !s->number.known)
        return (struct ct_text_figure){0};
    return (struct ct_text_figure){1, s->number.value / unit, s->line};
}

void ct_text_start_find(const struct ct_text_facts *f, struct ct_text_start *s) {
    *s = (struct ct_text_start){
        .weights = find_of(f, CT_TEXT_KIND_LOADED, CT_TEXT_WEIGHTS),
        .activation = find(f, CT_TEXT_ACTIVATION),
        .non_torch = find(f, CT_TEXT_NON_TORCH),
        .graphs = find_of(f, CT_TEXT_KIND_GRAPHS_TOOK, CT_TEXT_GRAPHS),
        .graphs_estimated = find(f, CT_TEXT_ESTIMATED),
        .kv_bytes = find_of(f, CT_TEXT_KIND_KV_MEMORY, CT_TEXT_KV),
        .kv_tokens = find_of(f, CT_TEXT_KIND_KV_TOKENS, CT_TEXT_TOKENS),
        .kv_blocks = find(f, CT_TEXT_BLOCKS),
        .max_len = find_of(f, CT_TEXT_KIND_CONCURRENCY, CT_TEXT_MAX_LEN),
        .concurrency = find(f, CT_TEXT_CONCURRENCY),
        .utilization = find_setting(f, CT_TEXT_FLAG_GPU_MEMORY_UTILIZATION, 1),
        .budget = find(f, CT_TEXT_DESIRED),
        .total = find(f, CT_TEXT_TOTAL),
        .free = find(f, CT_TEXT_FREE),
        .block_tokens = find_setting(f, CT_TEXT_FLAG_BLOCK_SIZE, MILLION),
    };
    // (of vLLM's first form, which says the peak of all that PyTorch held)
    const struct ct_text_figure peak = find_of(f, CT_TEXT_KIND_BUDGET, CT_TEXT_ACTIVATION);
    if (peak.known && peak.line == s->activation.line && s->weights.known &&
        peak.value > s->weights.value)
        s->activation.value -= s->weights.value;
    if (!s->utilization.known)
        s->utilization = find(f, CT_TEXT_UTIL);
    if (!s->max_len.known)
        s->max_len = find_setting(f, CT_TEXT_FLAG_MAX_MODEL_LEN, MILLION);
    if (!s->weights.known)
        s->weights = find(f, CT_TEXT_WEIGHTS);
    if (!s->kv_bytes.known)
        s->kv_bytes = find(f, CT_TEXT_KV);
    if (s->kv_bytes.value > 0 && s->kv_tokens.value > 0)
        s->token_bytes =
            (struct ct_text_figure){1, s->kv_bytes.value / s->kv_tokens.value, s->kv_tokens.line};
    // (both are said to be positive: lines of a log can say anything)
    if (!s->block_tokens.known && s->kv_blocks.value > 0 && s->kv_tokens.value > 0)
        s->block_tokens =
            (struct ct_text_figure){1, s->kv_tokens.value / s->kv_blocks.value, s->kv_blocks.line};
}
