// SPDX-License-Identifier: Apache-2.0
#include "diagnose/text_verdicts.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/human.h"
#include "diagnose/server_settings.h"
#include "diagnose/text_start.h"

#define GIB (INT64_C(1) << 30)
#define MILLION 1000000

// Kinds whose text names the scenario.
static const int rule_of[CT_TEXT_KINDS] = {
// + 1; 0: none
#define CT_KIND_RULE(KIND, SCENARIO, confidence, summary, evidence, advice, refuted_by) \
    [CT_TEXT_KIND_##KIND] = CT_RULE_KIND_##KIND + 1,
#include "diagnose/rules.def"
};

struct judged {
    const struct ct_text_facts *f;
    const struct ct_text_fact *e;
    const struct ct_text_fact *oom; // the message that the same text has, or NULL
    struct ct_figures n;
    struct ct_rule_source rules;
};

static struct ct_verdict *add(const struct judged *j, enum ct_rule rule) {
    return ct_rule_add(&j->rules, rule);
}

// ---- the KV cache -------------------------------------------------------------------------------

static void add_shares(const void *self, struct ct_verdict *v) {
    const struct judged *j = self;
    const struct ct_text_fact *loaded = ct_text_facts_find(j->f, CT_TEXT_KIND_LOADED),
                              *kv = ct_text_facts_find(j->f, CT_TEXT_KIND_KV_MEMORY),
                              *shares = ct_text_facts_find(j->f, CT_TEXT_KIND_SHARES);
    if (shares)
        (void)ct_verdict_add_text(
            v, "line %" PRIu64 ": weights %s, activations %s, outside of PyTorch %s", shares->line,
            ct_text_size(shares->values[CT_TEXT_WEIGHTS].value).text,
            ct_text_size(shares->values[CT_TEXT_ACTIVATION].value).text,
            ct_text_size(shares->values[CT_TEXT_NON_TORCH].value).text);
    else if (loaded)
        (void)ct_verdict_add_text(v, "line %" PRIu64 ": the weights took %s", loaded->line,
                                  ct_text_size(loaded->values[CT_TEXT_WEIGHTS].value).text);
    if (kv && kv->values[CT_TEXT_KV].value < 0)
        (void)ct_verdict_add_text(
            v, "line %" PRIu64 ": the budget was %s too small for what comes before the KV cache",
            kv->line, ct_text_size(-kv->values[CT_TEXT_KV].value).text);
}

// The profile run takes in proportion to its tokens, as far as activations are known.
static void advise_profile(const struct ct_text_facts *f, const struct ct_text_start *s,
                           int64_t missing, struct ct_verdict *v) {
    const struct ct_text_setting *set = &f->settings[CT_TEXT_FLAG_MAX_NUM_BATCHED_TOKENS];
    const char *from = ct_text_advice_setting(f, CT_TEXT_FLAG_MAX_NUM_BATCHED_TOKENS);
    const int64_t tokens = set->number.value / MILLION, took = s->activation.value;
    const int64_t fits =
        from && s->activation.known ? ct_plain_advice_scale(tokens, 256, took, took - missing) : 0;
    char to[24] = "";
    struct ct_advice *a;
    if (fits) {
        (void)snprintf(to, sizeof to, "%" PRId64, fits);
        a = ct_verdict_add_advice(v,
                                  "or lower it, so that the profile run takes less; %" PRId64
                                  " tokens took %s (line %" PRIu64 "), and %s less is in "
                                  "proportion %s tokens",
                                  tokens, ct_text_size(took).text, s->activation.line,
                                  ct_text_size(missing).text, to);
    } else
        a = ct_verdict_add_advice(v, "or lower it, so that the profile run takes less; %s",
                                  s->activation.known
                                      ? "all that it took is less than what is missing"
                                      : "the text does not say what it took");
    ct_advice_set(a, "--max-num-batched-tokens", from, to, NULL);
}

// 0: not known.
static int64_t find_budget(const struct ct_text_facts *f, const struct ct_text_start *s) {
    const int64_t total = s->total.known ? s->total.value : f->capacity;
    if (s->budget.known)
        return s->budget.value;
    return s->utilization.known ? (int64_t)((__int128)total * s->utilization.value / MILLION) : 0;
}

// No block fits: the budget is used up before the cache is made.
static void judge_no_blocks(struct judged *j) {
    struct ct_text_start s;
    struct ct_verdict *v = add(j, CT_RULE_KIND_NO_CACHE_BLOCKS);
    ct_text_start_find(j->f, &s);
    const int64_t left = s.kv_bytes.known ? s.kv_bytes.value : 0;
    const int is_known = left < 0 && left > -GIB * 1024;
    if (is_known)
        ct_text_advice_least_budget(j->f, v, -left);
    else
        ct_text_advice_budget(j->f, v, CT_TEXT_MORE,
                              "leave memory for the KV cache beside weights and activations");
    // A smaller profile run is no help where the weights alone are more than the budget.
    const int64_t budget = find_budget(j->f, &s);
    const int has_room = !budget || !s.weights.known || s.weights.value < budget;
    const enum ct_framework program = ct_text_facts_program(j->f);
    if (has_room && (program == CT_FRAMEWORK_VLLM || !program))
        advise_profile(j->f, &s, is_known ? -left : 0, v);
}

// What one request of the longest length lacks, in bytes, by the error or by what a token takes;
// 0: not known.
static int64_t find_lacking(const struct judged *j) {
    const struct ct_figures *n = &j->n;
    const struct ct_text_value *needed = &j->e->values[CT_TEXT_NEEDED],
                               *kv = &j->e->values[CT_TEXT_KV];
    struct ct_text_start s;
    if (needed->known && kv->known)
        return kv->value >= 0 && needed->value > kv->value ? needed->value - kv->value : 0;
    ct_text_start_find(j->f, &s);
    if (n->tokens <= 0 || s.kv_bytes.value <= 0 || n->max_len <= n->tokens)
        return 0;
    return (int64_t)((__int128)s.kv_bytes.value * (n->max_len - n->tokens) / n->tokens);
}

static void advise_room(const struct ct_text_facts *f, struct ct_verdict *v) {
    const enum ct_framework program = ct_text_facts_program(f);
    const struct ct_server s = {.is = ct_server_has_options(program) ? program : CT_FRAMEWORK_VLLM,
                                .log = f};
    const struct ct_server_option *o = ct_server_option_find(s.is, CT_OPTION_RANKS);
    if (o)
        ct_verdict_add_setting(v, o->name,
                               ct_text_advice_setting(f, CT_TEXT_FLAG_TENSOR_PARALLEL_SIZE), NULL,
                               o->versions, "or spread the weights over more GPUs");
    ct_plain_advice_option(v, &s, CT_OPTION_QUANTIZATION, NULL, "or load quantized weights");
}

// One request of the longest length does not fit.
static void judge_max_len(struct judged *j) {
    struct ct_figures *n = &j->n;
    const int64_t fits = n->fits_len >= 0 ? n->fits_len : n->tokens;
    char from[24] = "", to[24] = "";
    if (j->e->values[CT_TEXT_KV].known && n->kv < 0)
        n->kv = 0; // (less than nothing is there)
    struct ct_verdict *v = add(j, CT_RULE_KIND_MAX_LEN);
    if (n->max_len >= 0)
        (void)snprintf(from, sizeof from, "%" PRId64, n->max_len);
    if (fits > 0)
        (void)snprintf(to, sizeof to, "%" PRId64, fits);
    // (room for a hundredth of the length is no length that serves)
    const int is_nothing = *to && fits < n->max_len / 16;
    const int64_t lacking = find_lacking(j);
    if (is_nothing)
        (void)ct_verdict_add_text(v, "weights and activations leave next to nothing: %s tokens",
                                  to);
    else
        ct_verdict_add_setting(v, "--max-model-len", from, to, NULL, "%s",
                               *to ? "the KV cache has room for that many tokens" : "lower it");
    ct_text_advice_budget(j->f, v, lacking ? -lacking : CT_TEXT_MORE,
                          "give the KV cache what one such request needs");
    if (is_nothing)
        advise_room(j->f, v);
}

static void judge_mamba(struct judged *j) {
    char from[24], to[24];
    struct ct_verdict *v = add(j, CT_RULE_KIND_MAMBA_BLOCKS);
    (void)snprintf(from, sizeof from, "%" PRId64, j->e->values[CT_TEXT_SEQS].value);
    (void)snprintf(to, sizeof to, "%" PRId64, j->e->values[CT_TEXT_BLOCKS].value);
    ct_advice_set(&v->advice[0], "--max-num-seqs", from, to, NULL);
}

static void judge_sglang(struct judged *j) {
    // (SEQS are the tokens that were asked for)
    const int are_free = j->n.seqs >= 0 && j->n.tokens >= j->n.seqs;
    struct ct_verdict *v =
        add(j, are_free ? CT_RULE_TEXT_SGLANG_PAGES : CT_RULE_KIND_SGLANG_TOKENS);
    ct_advice_set(&v->advice[0], "--mem-fraction-static",
                  ct_text_advice_setting(j->f, CT_TEXT_FLAG_MEM_FRACTION_STATIC), NULL, NULL);
    ct_text_advice_requests(j->f, v);
}

// ---- the device at the start --------------------------------------------------------------------

// Less was free at the start than the budget. A context, NCCL and what a desktop or Windows keeps
// take up to 2 GiB: more is another program's.
static void judge_less_free(struct judged *j) {
    struct ct_figures *n = &j->n;
    const int64_t desired = j->e->values[CT_TEXT_DESIRED].value,
                  free = j->e->values[CT_TEXT_FREE].value;
    int64_t *const said[] = {&n->free, &n->total, &n->desired};
    j->oom = NULL;
    n->held = n->total > free && free >= 0 ? n->total - free : 0;
    for (size_t i = 0; i < sizeof said / sizeof *said; i++)
        *said[i] = *said[i] > 0 ? *said[i] : 0; // (a line can say less than nothing)
    const int by_others = n->held > 2 * GIB;
    for (int i = 0; i < 2; i++) {
        const int co_tenant = (i == 0) == by_others;
        struct ct_verdict *v =
            co_tenant
                ? ct_rule_add_sure(&j->rules, CT_RULE_TEXT_HELD_BEFORE, by_others ? 0.85 : 0.4)
                : ct_rule_add_sure(&j->rules, CT_RULE_KIND_LESS_THAN_DESIRED,
                                   by_others ? 0.5 : 0.8);
        if (!co_tenant || free > desired / 2) // else it is no remedy
            ct_text_advice_budget(j->f, v, desired - free, "want no more than was free");
    }
}

// ---- the rest -----------------------------------------------------------------------------------

static void add_oom(const void *self, struct ct_verdict *v) {
    const struct judged *j = self;
    if (j->oom && v->scenario != CT_SCENARIO_HOST_MEMORY)
        ct_text_oom_add_evidence(j->f, j->oom, v);
}

static void advise(const void *self, struct ct_verdict *v) {
    const struct judged *j = self;
    ct_text_advice_add(j->f, v, j->oom);
}

// Settings that a kind of error is about; advice on the others is by scenario.
static const struct {
    enum ct_text_kind kind;
    enum ct_framework program; // NONE: any
    const char *flag, *from, *versions, *text;
} advice_of[] = {
    {CT_TEXT_KIND_WORKSPACE_SMALL, CT_FRAMEWORK_VLLM, "VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE", NULL,
     "vLLM 0.11 and later", "raise it, because the workspace does not grow by itself"},
    {CT_TEXT_KIND_HOST_SHM, CT_FRAMEWORK_NONE, "--shm-size", NULL, "docker, podman",
     "raise it (of a pod, mount an emptyDir of medium Memory at /dev/shm), or use fewer workers"},
    {CT_TEXT_KIND_POOL_EXPANDABLE, CT_FRAMEWORK_NONE, "PYTORCH_CUDA_ALLOC_CONF",
     "expandable_segments:True", "torch 2.1 and later", "remove expandable_segments from it"},
};

static void advise_kind(const void *self, struct ct_verdict *v) {
    const struct judged *j = self;
    const enum ct_framework program = ct_text_facts_program(j->f);
    for (size_t i = 0; i < sizeof advice_of / sizeof *advice_of; i++)
        if (advice_of[i].kind == j->e->kind &&
            (!advice_of[i].program || advice_of[i].program == program)) {
            ct_verdict_add_setting(v, advice_of[i].flag, advice_of[i].from, NULL,
                                   advice_of[i].versions, "%s", advice_of[i].text);
            return;
        }
    advise(j, v);
}

static void judge_by_row(const struct judged *j) {
    if (rule_of[j->e->kind])
        (void)add(j, (enum ct_rule)(rule_of[j->e->kind] - 1));
    else if (ct_template_role(j->e->kind) == CT_TEXT_ROLE_WRAPPER)
        (void)add(j, CT_RULE_TEXT_WRAPPER);
}

// Graphs were captured when it failed: out of memory or not.
static void judge_capture(struct judged *j) {
    (void)add(j, j->oom ? CT_RULE_KIND_CAPTURE_FAILED : CT_RULE_TEXT_CAPTURE_FAILED);
}

static void judge_killed(struct judged *j) {
    (void)add(j, CT_RULE_TEXT_KILLED);
    (void)add(j, CT_RULE_TEXT_KILLED_BY_HOST);
}

static void (*const by_kind[CT_TEXT_KINDS])(struct judged *) = {
    [CT_TEXT_KIND_NO_CACHE_BLOCKS] = judge_no_blocks,
    [CT_TEXT_KIND_MAX_LEN] = judge_max_len,
    [CT_TEXT_KIND_MAMBA_BLOCKS] = judge_mamba,
    [CT_TEXT_KIND_SGLANG_TOKENS] = judge_sglang,
    [CT_TEXT_KIND_LESS_THAN_DESIRED] = judge_less_free,
    [CT_TEXT_KIND_CAPTURE_FAILED] = judge_capture,
    [CT_TEXT_KIND_KILLED] = judge_killed,
    [CT_TEXT_KIND_RAY_DIED] = judge_killed,
};

void ct_text_errors_judge(const struct ct_text_facts *f, const struct ct_text_fact *error,
                          const struct ct_text_fact *oom, struct ct_verdicts *v) {
    static const struct ct_rule_step steps[] = {{"oom", add_oom},
                                                {"shares", add_shares},
                                                {"scenario", advise},
                                                {"kind", advise_kind},
                                                {NULL, NULL}};
    struct judged j = {.f = f, .e = error, .oom = oom};
    ct_text_figures_read(&j.n, error);
    j.rules = (struct ct_rule_source){
        .to = v, .device = ct_text_device(error), .figures = &j.n, .steps = steps, .self = &j};
    if (by_kind[error->kind])
        by_kind[error->kind](&j);
    else
        judge_by_row(&j);
}
