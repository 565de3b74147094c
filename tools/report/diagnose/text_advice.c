// SPDX-License-Identifier: Apache-2.0
#include "diagnose/text_verdicts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/human.h"
#include "diagnose/server_settings.h"

#define GIB (INT64_C(1) << 30)
#define MILLION 1000000
#define CENT 10000 // a hundredth, in millionths

void ct_text_figures_read(struct ct_figures *n, const struct ct_text_fact *e) {
    int64_t *const fields[] = {
#define CT_TEXT_FIELD(ID, name) &n->name,
#include "text/fields.def"
    };
    ct_figures_clear(n);
    for (int i = 0; e && i < CT_TEXT_FIELDS; i++) {
        const struct ct_text_value *v = &e->values[i];
        *fields[i] = v->known && v->value >= 0 && v->value < CT_TEXT_MOST ? v->value : -1;
    }
    n->line = e ? (int64_t)e->line : -1;
}

int ct_text_device(const struct ct_text_fact *e) {
    const struct ct_text_value *gpu = &e->values[CT_TEXT_GPU];
    return gpu->known && gpu->value >= 0 && gpu->value < 64 ? (int)gpu->value : -1;
}

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

// Where the text lists all settings that are not the defaults, and has none for it.
static int64_t find_default_share(const struct ct_text_facts *f) {
    const char *text =
        *f->version && ct_text_facts_find(f, CT_TEXT_KIND_ARGUMENTS)
            ? ct_server_settings_default(CT_TEXT_FLAG_GPU_MEMORY_UTILIZATION, f->version)
            : NULL;
    struct ct_text_value number;
    size_t at = 0;
    return text && ct_template_read_number(text, strlen(text), &at, &number) ? number.value : 0;
}

int64_t ct_text_advice_share(const struct ct_text_facts *f) {
    const enum ct_framework server = ct_text_facts_program(f);
    const struct ct_server_option *o = ct_server_option_find(server, CT_OPTION_BUDGET);
    int64_t share = 0;
    if (o && *f->settings[o->flag].value)
        share = f->settings[o->flag].number.value;
    else if (server == CT_FRAMEWORK_VLLM)
        share = find_value(f, CT_TEXT_UTIL);
    if (!share && server == CT_FRAMEWORK_VLLM)
        share = find_default_share(f);
    return share > 0 && share <= MILLION ? share : 0;
}

// Capacity of the device in bytes by any line, else by the trace; 0: not known.
static int64_t find_capacity(const struct ct_text_facts *f) {
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

// Hundredths of a device's capacity, rounded up.
static int64_t hundredths(int64_t bytes, int64_t capacity) {
    return (int64_t)(((__int128)bytes * 100 + capacity - 1) / capacity);
}

// Further advice of a verdict begins with it.
static const char *or_before(const struct ct_verdict *v) {
    return v->advice_count ? "or " : "";
}

// Advice for which the text does not have all figures: says which it lacks. `capacity`: 0: that.
static struct ct_advice *add_without_value(struct ct_verdict *v, int64_t missing, const char *why,
                                           int64_t capacity) {
    const char * or = or_before(v), *how = missing < 0 ? "raise" : "lower";
    const int64_t bytes = missing < 0 ? -missing : missing;
    if (!missing || missing == CT_TEXT_MORE)
        return ct_verdict_add_advice(v, "%s%s it, to %s; the text does not say how much is missing",
                                     or, how, why);
    if (capacity)
        return ct_verdict_add_advice(
            v, "%s%s it by %.2f (its value is not in the text), to %s; %s of %s is missing", or,
            how, (double)hundredths(bytes, capacity) / 100, why, ct_text_size(bytes).text,
            ct_text_size(capacity).text);
    return ct_verdict_add_advice(
        v,
        "%s%s it, to %s; %s is missing (%.2f of a device of 24 GiB, %.2f of 80 GiB; the text does "
        "not say how large the device is)",
        or, how, why, ct_text_size(bytes).text, (double)hundredths(bytes, 24 * GIB) / 100,
        (double)hundredths(bytes, 80 * GIB) / 100);
}

// For a program whose options are not known.
static void add_without_option(struct ct_verdict *v, int64_t missing, const char *why) {
    if (missing > 0)
        (void)ct_verdict_add_advice(v, "%s%s; %s was missing", or_before(v), why,
                                    ct_text_size(missing).text);
    else
        (void)ct_verdict_add_advice(v, "%s%s", or_before(v), why);
}

void ct_text_advice_budget(const struct ct_text_facts *f, struct ct_verdict *v, int64_t missing,
                           const char *why) {
    const struct ct_server_option *o =
        ct_server_option_find(ct_text_facts_program(f), CT_OPTION_BUDGET);
    const int64_t share = ct_text_advice_share(f), total = find_capacity(f);
    char from[16] = "", to[16] = "";
    if (!o) {
        add_without_option(v, missing, why);
        return;
    }
    if (share)
        (void)snprintf(from, sizeof from, "%.2f", (double)share / MILLION);
    if (!share || !total || !missing || missing == CT_TEXT_MORE || missing > total ||
        missing < -total) {
        struct ct_advice *a = add_without_value(v, missing, why, total);
        ct_advice_set(a, o->name, from, NULL, o->versions);
        return;
    }
    // The share that is missing, rounded away from zero to a hundredth.
    const int64_t bytes = missing < 0 ? -missing : missing;
    const int64_t cents = hundredths(bytes, total);
    const int64_t moved = missing < 0 ? share + cents * CENT : share - cents * CENT;
    if (moved <= 0 || moved > 98 * CENT) {
        (void)ct_verdict_add_advice(
            v, "%s alone does not help: it is %s, and the %s that %s are %.2f of %s", o->name, from,
            ct_text_size(bytes).text,
            missing < 0 ? "it would have to give" : "it would have to leave", (double)cents / 100,
            ct_text_size(total).text);
        return;
    }
    (void)snprintf(to, sizeof to, "%.2f", (double)moved / MILLION);
    struct ct_advice *a = ct_verdict_add_advice(v, "%s%s; %s is missing, at most %.2f of %s",
                                                or_before(v), why, ct_text_size(bytes).text,
                                                (double)cents / 100, ct_text_size(total).text);
    ct_advice_set(a, o->name, from, to, o->versions);
}

// (only vLLM says how much is missing before the first block)
void ct_text_advice_least_budget(const struct ct_text_facts *f, struct ct_verdict *v,
                                 int64_t missing) {
    const struct ct_server_option *o = ct_server_option_find(CT_FRAMEWORK_VLLM, CT_OPTION_BUDGET);
    const int64_t share = ct_text_advice_share(f), total = find_capacity(f);
    char from[16] = "";
    struct ct_advice *a;
    if (share)
        (void)snprintf(from, sizeof from, "%.2f", (double)share / MILLION);
    if (share && total && missing <= total)
        a = ct_verdict_add_advice(
            v,
            "raise it to at least %.2f, because %s is missing before the first "
            "block of the KV cache "
            "fits; one request of max_model_len may need more",
            (double)(share + hundredths(missing, total) * CENT) / MILLION,
            ct_text_size(missing).text);
    else
        a = add_without_value(
            v, -missing,
            "fit the first block of the KV cache (one request of max_model_len may "
            "need more)",
            total);
    ct_advice_set(a, o->name, from, NULL, o->versions);
}

// ---- advice by scenario -------------------------------------------------------------------------

// The same as ct_plain_advice_scale, of a message's figures.
static int64_t scale_down(int64_t value, int64_t step, const struct ct_text_fact *oom) {
    struct ct_figures n;
    ct_text_figures_read(&n, oom);
    return ct_plain_advice_scale(value, step, n.tried, n.free);
}

static int64_t missing_of(const struct ct_text_fact *oom) {
    if (!oom || !oom->values[CT_TEXT_TRIED].known || !oom->values[CT_TEXT_FREE].known)
        return 0;
    const struct ct_text_value *tried = &oom->values[CT_TEXT_TRIED];
    const int64_t missing = tried->value + tried->step - oom->values[CT_TEXT_FREE].value;
    return missing > 0 ? missing : 0;
}

static struct ct_server find_server(const struct ct_text_facts *f) {
    return (struct ct_server){.is = ct_text_facts_program(f), .log = f};
}

void ct_text_advice_requests(const struct ct_text_facts *f, struct ct_verdict *v) {
    const struct ct_server server = find_server(f);
    ct_plain_advice_option(v, &server, CT_OPTION_REQUESTS, NULL,
                           "or lower it, so that fewer requests run at once");
}

// Advice to lower the tokens of a step, with which its buffers grow.
static void advise_tokens(const struct ct_text_facts *f, struct ct_verdict *v,
                          const struct ct_text_fact *oom) {
    enum { STEP = 256 };
    const struct ct_server server = find_server(f);
    const struct ct_server_option *o = ct_server_option_find(server.is, CT_OPTION_STEP_TOKENS);
    const int is_read = o && o->flag != CT_TEXT_FLAGS;
    const int64_t now = is_read ? f->settings[o->flag].number.value / MILLION : 0,
                  fits = scale_down(now, STEP, oom);
    char to[24], why[200] = "lower it, because the buffers of a step grow with it";
    if (fits)
        (void)snprintf(why, sizeof why,
                       "the buffers of a step grow with it, and %s of the %s was free; later "
                       "ones may need a lower value",
                       ct_text_size(oom->values[CT_TEXT_FREE].value).text,
                       ct_text_size(oom->values[CT_TEXT_TRIED].value).text);
    (void)snprintf(to, sizeof to, "%" PRId64, fits);
    ct_plain_advice_option(v, &server, CT_OPTION_STEP_TOKENS, fits ? to : NULL, why);
}

static void advise_weights(const struct ct_text_facts *f, struct ct_verdict *v,
                           const struct ct_text_fact *oom) {
    const struct ct_server server = find_server(f);
    (void)oom;
    ct_plain_advice_weights(v, &server);
}

// What is outside of the KV cache lacks memory, or the cache itself.
static void advise_smaller_cache(const struct ct_text_facts *f, struct ct_verdict *v,
                                 const struct ct_text_fact *oom, const char *why) {
    const char *bytes = ct_text_advice_setting(f, CT_TEXT_FLAG_KV_CACHE_MEMORY_BYTES);
    if (!bytes) {
        ct_text_advice_budget(f, v, missing_of(oom), why);
        return;
    }
    ct_verdict_add_setting(v, "--kv-cache-memory-bytes", bytes, NULL, "vLLM 0.10.2 and later",
                           "remove it, so that vLLM measures how much is left for the KV cache; "
                           "with it, vLLM takes this size unmeasured");
}

static void advise_graphs(const struct ct_text_facts *f, struct ct_verdict *v,
                          const struct ct_text_fact *oom) {
    const struct ct_server server = find_server(f);
    advise_smaller_cache(
        f, v, oom,
        server.is == CT_FRAMEWORK_VLLM
            ? "leave more for graphs, which vLLM counts in its budget from 0.21 on (an estimate)"
            : "leave more for graphs");
    ct_plain_advice_graphs(v, &server);
}

#define ROWS "the sampler's buffers have a row for each request (requests x vocabulary x 4 to 12 B)"

// (the message is vLLM's)
static void advise_sampler(const struct ct_text_facts *f, struct ct_verdict *v,
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
    ct_verdict_add_setting(v, "--max-num-seqs", *seqs ? seqs : from, to, NULL, "%s",
                           *to ? ROWS : "lower it, because " ROWS);
}

static void advise_warmup(const struct ct_text_facts *f, struct ct_verdict *v,
                          const struct ct_text_fact *oom) {
    const int is_kernels = oom && oom->where.phase == CT_PHASE_WARMUP_KERNELS &&
                           oom->where.component != CT_COMPONENT_LOGITS;
    if (!is_kernels)
        advise_sampler(f, v, oom);
    advise_smaller_cache(f, v, oom, "leave more for the warm-up");
}

static void advise_cache(const struct ct_text_facts *f, struct ct_verdict *v,
                         const struct ct_text_fact *oom) {
    advise_smaller_cache(f, v, oom, "make the KV cache smaller");
}

static void advise_serving(const struct ct_text_facts *f, struct ct_verdict *v,
                           const struct ct_text_fact *oom) {
    advise_tokens(f, v, oom);
    advise_cache(f, v, oom);
}

// The form of the message may be that of torch 2.0 and before, which cannot enlarge segments.
static void advise_fragmentation(const struct ct_text_facts *f, struct ct_verdict *v,
                                 const struct ct_text_fact *oom) {
    const int is_old = oom && oom->values[CT_TEXT_RESERVED].known;
    if (!is_old && !f->has_no_expandable) {
        ct_plain_advice_expandable(v, ct_text_facts_program(f), 0, "PYTORCH_CUDA_ALLOC_CONF", NULL);
        return;
    }
    ct_verdict_add_setting(
        v, "PYTORCH_CUDA_ALLOC_CONF", NULL, NULL, "torch 1.11 and later",
        "set a max_split_size_mb in it below the request's size, so that no "
        "smaller one splits a large free block; %s",
        is_old ? "the message is of a torch before 2.1, which has no expandable_segments"
               : "by the text, expandable_segments do not work here");
}

// Of servers whose options are known.
static void (*const by_scenario[CT_SCENARIOS])(const struct ct_text_facts *, struct ct_verdict *,
                                               const struct ct_text_fact *) = {
    [CT_SCENARIO_STARTUP_WEIGHTS] = advise_weights, [CT_SCENARIO_REPACK] = advise_weights,
    [CT_SCENARIO_STARTUP_PROFILE] = advise_tokens,  [CT_SCENARIO_STARTUP_KV_POOL] = advise_cache,
    [CT_SCENARIO_GRAPH_CAPTURE] = advise_graphs,    [CT_SCENARIO_WARMUP] = advise_warmup,
    [CT_SCENARIO_BURST_PREFILL] = advise_serving,   [CT_SCENARIO_LOGITS] = advise_serving};

void ct_text_advice_add(const struct ct_text_facts *f, struct ct_verdict *v,
                        const struct ct_text_fact *oom) {
    const enum ct_framework program =
        oom ? ct_text_facts_program_at(f, &oom->where) : ct_text_facts_program(f);
    if (v->scenario == CT_SCENARIO_FRAGMENTATION)
        advise_fragmentation(f, v, oom);
    else if (ct_server_has_options(program) && by_scenario[v->scenario])
        by_scenario[v->scenario](f, v, oom);
    else
        ct_plain_advice_add(v, &(struct ct_server){.is = program, .log = f});
}
