// SPDX-License-Identifier: Apache-2.0
#include "diagnose/text_advice.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/human.h"
#include "diagnose/plain_advice.h"

#define GIB (INT64_C(1) << 30)
#define MILLION 1000000
#define CENT 10000 // a hundredth, in millionths

const char *ct_text_advice_setting(const struct ct_text_facts *f, enum ct_text_flag flag) {
    return *f->settings[flag].value ? f->settings[flag].value : NULL;
}

// The value that a fact of any kind has first; 0: none has it.
static int64_t find_value(const struct ct_text_facts *f, enum ct_text_field field) {
    for (size_t i = 0; i < f->count; i++)
        if (f->list[i].values[field].known && f->list[i].values[field].value > 0)
            return f->list[i].values[field].value;
    return 0;
}

int64_t ct_text_advice_utilization(const struct ct_text_facts *f) {
    const struct ct_text_setting *s = &f->settings[CT_TEXT_FLAG_GPU_MEMORY_UTILIZATION];
    const int64_t util = *s->value ? s->number.value : find_value(f, CT_TEXT_UTIL);
    return util > 0 && util <= MILLION ? util : 0;
}

int64_t ct_text_advice_capacity(const struct ct_text_facts *f) {
    const int64_t total = find_value(f, CT_TEXT_TOTAL);
    return total ? total : f->capacity;
}

int64_t ct_text_advice_ranks(const struct ct_text_facts *f) {
    static const enum ct_text_flag flags[] = {CT_TEXT_FLAG_TENSOR_PARALLEL_SIZE,
                                              CT_TEXT_FLAG_PIPELINE_PARALLEL_SIZE,
                                              CT_TEXT_FLAG_DATA_PARALLEL_SIZE};
    int64_t ranks = 0;
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        const int64_t n = f->settings[flags[i]].number.value / MILLION;
        if (n > 0 && n <= 100000)
            ranks = ranks ? ranks * n : n;
    }
    return ranks > INT32_MAX ? INT32_MAX : ranks;
}

static struct ct_human_text size(int64_t bytes) {
    return ct_human_bytes(bytes > 0 ? (uint64_t)bytes : 0, CT_UNITS_IEC);
}

// Hundredths of a device's capacity, rounded up.
static int64_t hundredths(int64_t bytes, int64_t capacity) {
    return (int64_t)(((__int128)bytes * 100 + capacity - 1) / capacity);
}

// Advice for which the text does not have all figures: says which it lacks.
static struct ct_advice *add_without_value(struct ct_verdict *v, int64_t missing, const char *why,
                                           int lacks_capacity) {
    const char *how = missing < 0 ? "raise" : "lower";
    const int64_t bytes = missing < 0 ? -missing : missing;
    if (!missing || missing == CT_TEXT_MORE)
        return ct_verdict_add_advice(v,
                                     "%s it: %s; by how much is not known, because the text does "
                                     "not say how many bytes are missing",
                                     how, why);
    if (!lacks_capacity)
        return ct_verdict_add_advice(v, "%s it by %s: %s; the text does not say what it is now",
                                     how, size(bytes).text, why);
    return ct_verdict_add_advice(
        v,
        "%s it by %s: %s; the text does not say how large the device is (of 24 GiB that is %.2f, "
        "of 80 GiB %.2f)",
        how, size(bytes).text, why, (double)hundredths(bytes, 24 * GIB) / 100,
        (double)hundredths(bytes, 80 * GIB) / 100);
}

void ct_text_advice_budget(const struct ct_text_facts *f, struct ct_verdict *v, int64_t missing,
                           const char *why) {
    static const char flag[] = "--gpu-memory-utilization", versions[] = "vLLM 0.1 and later";
    const int64_t util = ct_text_advice_utilization(f), total = ct_text_advice_capacity(f);
    char from[16] = "", to[16] = "";
    if (util)
        (void)snprintf(from, sizeof from, "%.2f", (double)util / MILLION);
    if (!util || !total || !missing || missing == CT_TEXT_MORE || missing > total ||
        missing < -total) {
        struct ct_advice *a = add_without_value(v, missing, why, !total);
        ct_advice_set(a, flag, from, NULL, versions);
        return;
    }
    // The share that is missing, rounded away from zero to a hundredth.
    const int64_t bytes = missing < 0 ? -missing : missing;
    const int64_t cents = hundredths(bytes, total);
    const int64_t moved = missing < 0 ? util + cents * CENT : util - cents * CENT;
    if (moved <= 0 || moved > 98 * CENT) {
        (void)ct_verdict_add_advice(v,
                                    "--gpu-memory-utilization alone does not help: %s is %" PRId64
                                    " hundredths of %s, and it is %s",
                                    size(bytes).text, cents, size(total).text, from);
        return;
    }
    (void)snprintf(to, sizeof to, "%.2f", (double)moved / MILLION);
    struct ct_advice *a = ct_verdict_add_advice(
        v, "%s: %s is at most %" PRId64 " hundredth%s of %s", why, size(bytes).text, cents,
        ct_human_plural((uint64_t)cents), size(total).text);
    ct_advice_set(a, flag, from, to, versions);
}

void ct_text_advice_least_budget(const struct ct_text_facts *f, struct ct_verdict *v,
                                 int64_t missing) {
    static const char flag[] = "--gpu-memory-utilization", versions[] = "vLLM 0.1 and later";
    const int64_t util = ct_text_advice_utilization(f), total = ct_text_advice_capacity(f);
    char from[16] = "";
    struct ct_advice *a;
    if (util)
        (void)snprintf(from, sizeof from, "%.2f", (double)util / MILLION);
    if (util && total && missing <= total)
        a = ct_verdict_add_advice(
            v,
            "raise it to at least %.2f: %s is missing before the first block; what one request of "
            "max_model_len takes beyond that is not known",
            (double)(util + hundredths(missing, total) * CENT) / MILLION, size(missing).text);
    else
        a = add_without_value(v, -missing,
                              "so much is missing before the first block, and what one request of "
                              "max_model_len takes beyond that is not known",
                              !total);
    ct_advice_set(a, flag, from, NULL, versions);
}

// ---- advice by scenario -------------------------------------------------------------------------

// A number of a setting that shrinks with the share of the request that was free, in steps; 0:
// there is no figure for it, or it would be 0.
static int64_t scale_down(int64_t value, int64_t step, const struct ct_text_fact *oom) {
    if (!oom || !oom->values[CT_TEXT_TRIED].known || !oom->values[CT_TEXT_FREE].known || value <= 0)
        return 0;
    const int64_t tried = oom->values[CT_TEXT_TRIED].value, free = oom->values[CT_TEXT_FREE].value;
    if (tried <= 0 || free <= 0 || free >= tried)
        return 0;
    const int64_t scaled = (int64_t)((__int128)value * free / tried);
    return scaled / step * step;
}

static int64_t missing_of(const struct ct_text_fact *oom) {
    if (!oom || !oom->values[CT_TEXT_TRIED].known || !oom->values[CT_TEXT_FREE].known)
        return 0;
    const struct ct_text_value *tried = &oom->values[CT_TEXT_TRIED];
    const int64_t missing = tried->value + tried->step - oom->values[CT_TEXT_FREE].value;
    return missing > 0 ? missing : 0;
}

// Advice to lower a setting that counts rows, of which the failed buffer has one each.
static void add_scaled(const struct ct_text_facts *f, struct ct_verdict *v,
                       const struct ct_text_fact *oom, enum ct_text_flag flag, int64_t step,
                       const char *name, const char *versions) {
    const char *from = ct_text_advice_setting(f, flag);
    const int64_t to = scale_down(f->settings[flag].number.value / MILLION, step, oom);
    char number[24];
    if (!to) {
        ct_advice_set(ct_verdict_add_advice(v, "lower it: the failed buffer grows with it"), name,
                      from, NULL, versions);
        return;
    }
    (void)snprintf(number, sizeof number, "%" PRId64, to);
    ct_advice_set(ct_verdict_add_advice(v, "%s of %s was free, and the failed buffer grows with it",
                                        size(oom->values[CT_TEXT_FREE].value).text,
                                        size(oom->values[CT_TEXT_TRIED].value).text),
                  name, from, number, versions);
}

static void advise_weights(const struct ct_text_facts *f, struct ct_verdict *v) {
    const int64_t ranks = f->settings[CT_TEXT_FLAG_TENSOR_PARALLEL_SIZE].number.value / MILLION;
    ct_plain_advice_weights(v, ct_text_advice_setting(f, CT_TEXT_FLAG_TENSOR_PARALLEL_SIZE), ranks);
}

static void advise_kv_pool(const struct ct_text_facts *f, struct ct_verdict *v,
                           const struct ct_text_fact *oom) {
    const char *bytes = ct_text_advice_setting(f, CT_TEXT_FLAG_KV_CACHE_MEMORY_BYTES);
    if (!bytes) {
        ct_text_advice_budget(f, v, missing_of(oom), "the cache is what the budget leaves");
        return;
    }
    ct_advice_set(ct_verdict_add_advice(v, "leave it out: vLLM then measures what fits; as it is "
                                           "set, it is taken without a look at what is free"),
                  "--kv-cache-memory-bytes", bytes, NULL, "vLLM 0.10.2 and later");
}

static void advise_graphs(const struct ct_text_facts *f, struct ct_verdict *v,
                          const struct ct_text_fact *oom) {
    if (ct_text_advice_setting(f, CT_TEXT_FLAG_KV_CACHE_MEMORY_BYTES))
        advise_kv_pool(f, v, oom);
    else
        ct_text_advice_budget(f, v, missing_of(oom),
                              "before vLLM 0.21 graphs are outside of the budget, later they are "
                              "estimated");
    ct_advice_set(ct_verdict_add_advice(v, "or capture fewer and smaller sizes"), "--max-num-seqs",
                  ct_text_advice_setting(f, CT_TEXT_FLAG_MAX_NUM_SEQS), NULL, "vLLM 0.1 and later");
    ct_advice_set(ct_verdict_add_advice(v, "or do without graphs, which is slower"),
                  "--enforce-eager", NULL, NULL, "vLLM 0.2.7 and later");
}

static void advise_warmup(const struct ct_text_facts *f, struct ct_verdict *v,
                          const struct ct_text_fact *oom) {
    const struct ct_text_fact *said = ct_text_facts_find(f, CT_TEXT_KIND_SAMPLER_WARMUP);
    const char *from = ct_text_advice_setting(f, CT_TEXT_FLAG_MAX_NUM_SEQS);
    char seqs[24] = "", to[24] = "";
    if (said && said->values[CT_TEXT_SEQS].known) {
        const int64_t fits = scale_down(said->values[CT_TEXT_SEQS].value, 8, oom);
        (void)snprintf(seqs, sizeof seqs, "%" PRId64, said->values[CT_TEXT_SEQS].value);
        if (fits)
            (void)snprintf(to, sizeof to, "%" PRId64, fits);
    }
    ct_advice_set(
        ct_verdict_add_advice(v, "the sampler's buffers have a row for each of them: sequences x "
                                 "vocabulary x 4 to 12 B"),
        "--max-num-seqs", *seqs ? seqs : from, to, "vLLM 0.1 and later");
    if (ct_text_advice_setting(f, CT_TEXT_FLAG_KV_CACHE_MEMORY_BYTES))
        advise_kv_pool(f, v, oom);
    else
        ct_text_advice_budget(f, v, missing_of(oom),
                              "the KV cache leaves that much more for the warm-up");
}

static void advise_serving(const struct ct_text_facts *f, struct ct_verdict *v,
                           const struct ct_text_fact *oom) {
    add_scaled(f, v, oom, CT_TEXT_FLAG_MAX_NUM_BATCHED_TOKENS, 256, "--max-num-batched-tokens",
               "vLLM 0.2 and later");
    if (ct_text_advice_setting(f, CT_TEXT_FLAG_KV_CACHE_MEMORY_BYTES))
        advise_kv_pool(f, v, oom);
    else
        ct_text_advice_budget(f, v, missing_of(oom), "or give the KV cache less");
}

void ct_text_advice_add(const struct ct_text_facts *f, struct ct_verdict *v,
                        const struct ct_text_fact *oom) {
    switch (v->scenario) {
    case CT_SCENARIO_STARTUP_WEIGHTS:
        advise_weights(f, v);
        break;
    case CT_SCENARIO_STARTUP_PROFILE:
        add_scaled(f, v, oom, CT_TEXT_FLAG_MAX_NUM_BATCHED_TOKENS, 256, "--max-num-batched-tokens",
                   "vLLM 0.2 and later");
        break;
    case CT_SCENARIO_STARTUP_KV_POOL:
        advise_kv_pool(f, v, oom);
        break;
    case CT_SCENARIO_GRAPH_CAPTURE:
        advise_graphs(f, v, oom);
        break;
    case CT_SCENARIO_WARMUP:
        advise_warmup(f, v, oom);
        break;
    case CT_SCENARIO_BURST_PREFILL:
    case CT_SCENARIO_LOGITS:
        advise_serving(f, v, oom);
        break;
    default:
        ct_plain_advice_add(v);
    }
}
