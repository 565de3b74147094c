// SPDX-License-Identifier: Apache-2.0
#include "diagnose/text_advice.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/human.h"
#include "diagnose/plain_advice.h"
#include "diagnose/text_start.h"

#define GIB (INT64_C(1) << 30)
#define MILLION 1000000

// One row for each kind: the scenario that its text names, and what it says. Kinds with rules of
// their own are judged below.
static const struct {
    enum ct_text_kind kind;
    enum ct_scenario scenario;
    double confidence;
    const char *summary, *refuted_by;
} rows[] = {
    {CT_TEXT_KIND_SAMPLER_WARMUP, CT_SCENARIO_WARMUP, 0.92,
     "the warm-up of the sampler needed more than the KV cache had left", NULL},
    {CT_TEXT_KIND_LOAD_FAILED, CT_SCENARIO_STARTUP_WEIGHTS, 0.9,
     "the weights did not fit while they were loaded", NULL},
    {CT_TEXT_KIND_CAPTURE_FAILED, CT_SCENARIO_GRAPH_CAPTURE, 0.9,
     "the capture of CUDA graphs needed more than was left", NULL},
    {CT_TEXT_KIND_WARMUP_FAILED, CT_SCENARIO_STARTUP_PROFILE, 0.8,
     "the warm-up with the largest batch, which measures what stays for the KV cache, did not fit",
     NULL},
    {CT_TEXT_KIND_PREFILL_TOKENS, CT_SCENARIO_STARTUP_PROFILE, 0.85,
     "the largest prefill that is allowed does not fit", NULL},
    {CT_TEXT_KIND_TOTAL_TOKENS, CT_SCENARIO_NO_ROOM_FOR_KV_CACHE, 0.85,
     "the KV cache has no room for as many tokens as a batch may have in all", NULL},
    {CT_TEXT_KIND_EXECUTOR_FAILED, CT_SCENARIO_STARTUP_KV_POOL, 0.6,
     "the weights left too little for the KV cache, or for what else an executor is made of",
     "a line beside it that names another part"},
    {CT_TEXT_KIND_UNBALANCED, CT_SCENARIO_CO_TENANT, 0.8,
     "one GPU had less free than the others before the weights were loaded",
     "a GPU that is smaller than the others"},
    {CT_TEXT_KIND_POOL_EXPANDABLE, CT_SCENARIO_SLEEP_WAKE, 0.7,
     "sleep mode does not work with expandable segments: no memory is missing", NULL},
    {CT_TEXT_KIND_SLEEP_GREW, CT_SCENARIO_SLEEP_WAKE, 0.6,
     "more memory was in use after sleep than before it", "another process that grew meanwhile"},
    {CT_TEXT_KIND_WORKSPACE_LOCKED, CT_SCENARIO_BURST_PREFILL, 0.6,
     "a step needed a larger workspace than the warm-up had shown", NULL},
    {CT_TEXT_KIND_WORKSPACE_SMALL, CT_SCENARIO_BURST_PREFILL, 0.65,
     "a step needed more than FlashInfer's fixed workspace has: the device is not full", NULL},
    {CT_TEXT_KIND_SWAP_SPACE, CT_SCENARIO_NO_ROOM_FOR_KV_CACHE, 0.7,
     "the KV cache was full, and so was the swap space for it", NULL},
    {CT_TEXT_KIND_HOST_KERNEL, CT_SCENARIO_HOST_MEMORY, 0.95,
     "the kernel's out-of-memory killer ended a process: memory of the host, not of a GPU", NULL},
    {CT_TEXT_KIND_HOST_CGROUP, CT_SCENARIO_HOST_MEMORY, 0.95,
     "the container reached its limit of host memory", NULL},
    {CT_TEXT_KIND_HOST_RAY, CT_SCENARIO_HOST_MEMORY, 0.92,
     "Ray ended a task because the host's memory ran low", NULL},
    {CT_TEXT_KIND_HOST_TORCH, CT_SCENARIO_HOST_MEMORY, 0.9, "the host's memory ran out", NULL},
    {CT_TEXT_KIND_HOST_SHM, CT_SCENARIO_HOST_MEMORY, 0.9,
     "shared memory of the host ran out (/dev/shm), by which a loader's workers pass their batches",
     NULL},
    {CT_TEXT_KIND_HOST_PINNED, CT_SCENARIO_HOST_PINNED, 0.9,
     "page-locked host memory could not be taken", NULL},
    {CT_TEXT_KIND_DRIVER, CT_SCENARIO_DRIVER_MISMATCH, 0.9,
     "versions of driver, toolkit and program do not fit together: no memory is missing", NULL},
};

static struct ct_human_text size(int64_t bytes) {
    return ct_human_bytes(bytes > 0 ? (uint64_t)bytes : 0, CT_UNITS_IEC);
}

static int known(const struct ct_text_fact *e, enum ct_text_field field) {
    return e->values[field].known;
}

static struct ct_verdict *add(struct ct_verdicts *l, enum ct_scenario scenario, double confidence,
                              const struct ct_text_fact *e, const char *summary) {
    const int64_t gpu = known(e, CT_TEXT_GPU) ? e->values[CT_TEXT_GPU].value : -1;
    struct ct_verdict *v = ct_verdicts_add(l, scenario, confidence,
                                           gpu >= 0 && gpu < 64 ? (int)gpu : -1, "%s", summary);
    return v;
}

static void add_line(struct ct_verdict *v, const struct ct_text_fact *e) {
    (void)ct_verdict_add_text(v, "line %" PRIu64 " says so", e->line);
}

// ---- the KV cache -------------------------------------------------------------------------------

static void add_shares(const struct ct_text_facts *f, struct ct_verdict *v) {
    const struct ct_text_fact *loaded = ct_text_facts_find(f, CT_TEXT_KIND_LOADED),
                              *kv = ct_text_facts_find(f, CT_TEXT_KIND_KV_MEMORY),
                              *shares = ct_text_facts_find(f, CT_TEXT_KIND_SHARES);
    if (shares)
        (void)ct_verdict_add_text(
            v, "line %" PRIu64 ": weights %s, activations %s, outside of PyTorch %s", shares->line,
            size(shares->values[CT_TEXT_WEIGHTS].value).text,
            size(shares->values[CT_TEXT_ACTIVATION].value).text,
            size(shares->values[CT_TEXT_NON_TORCH].value).text);
    else if (loaded)
        (void)ct_verdict_add_text(v, "line %" PRIu64 ": the weights took %s", loaded->line,
                                  size(loaded->values[CT_TEXT_WEIGHTS].value).text);
    if (kv && kv->values[CT_TEXT_KV].value < 0)
        (void)ct_verdict_add_text(
            v, "line %" PRIu64 ": the budget was %s too small for what comes before the KV cache",
            kv->line, size(-kv->values[CT_TEXT_KV].value).text);
}

// The profile run takes in proportion to its tokens, as far as activations are known.
static void advise_profile(const struct ct_text_facts *f, const struct ct_text_start *s,
                           int64_t missing, struct ct_verdict *v) {
    static const char flag[] = "--max-num-batched-tokens";
    const struct ct_text_setting *set = &f->settings[CT_TEXT_FLAG_MAX_NUM_BATCHED_TOKENS];
    const char *from = ct_text_advice_setting(f, CT_TEXT_FLAG_MAX_NUM_BATCHED_TOKENS);
    const int64_t tokens = set->number.value / MILLION, took = s->activation.value;
    char to[24] = "";
    struct ct_advice *a;
    if (from && s->activation.known && missing > 0 && took > missing && tokens > 0) {
        const int64_t fits = (int64_t)((__int128)tokens * (took - missing) / took) / 256 * 256;
        if (fits > 0)
            (void)snprintf(to, sizeof to, "%" PRId64, fits);
    }
    if (*to)
        a = ct_verdict_add_advice(v,
                                  "or lower it, so that the profile run takes less; %" PRId64
                                  " tokens took %s (line %" PRIu64 "), and %s less is in "
                                  "proportion %s tokens",
                                  tokens, size(took).text, s->activation.line, size(missing).text,
                                  to);
    else
        a = ct_verdict_add_advice(v, "or lower it, so that the profile run takes less; %s",
                                  s->activation.known
                                      ? "all that it took is less than what is missing"
                                      : "the text does not say what it took");
    ct_advice_set(a, flag, from, to, NULL);
}

// 0: not known.
static int64_t find_budget(const struct ct_text_facts *f, const struct ct_text_start *s) {
    const int64_t total = s->total.known ? s->total.value : f->capacity;
    if (s->budget.known)
        return s->budget.value;
    return s->utilization.known ? (int64_t)((__int128)total * s->utilization.value / MILLION) : 0;
}

// No block fits: the budget is used up before the cache is made.
static void judge_no_blocks(const struct ct_text_facts *f, const struct ct_text_fact *e,
                            struct ct_verdicts *l) {
    struct ct_text_start s;
    struct ct_verdict *v =
        add(l, CT_SCENARIO_NO_ROOM_FOR_KV_CACHE, 0.9, e,
            "the budget left no memory for the KV cache; no request to the device "
            "failed");
    ct_text_start_find(f, &s);
    const int64_t left = s.kv_bytes.known ? s.kv_bytes.value : 0;
    const int is_known = left < 0 && left > -GIB * 1024;
    add_line(v, e);
    add_shares(f, v);
    if (is_known)
        ct_text_advice_least_budget(f, v, -left);
    else
        ct_text_advice_budget(f, v, CT_TEXT_MORE,
                              "leave memory for the KV cache beside weights and activations");
    // A smaller profile run is no help where the weights alone are more than the budget.
    const int64_t budget = find_budget(f, &s);
    const int has_room = !budget || !s.weights.known || s.weights.value < budget;
    if (has_room && (ct_text_facts_program(f) == CT_FRAMEWORK_VLLM || !ct_text_facts_program(f)))
        advise_profile(f, &s, is_known ? -left : 0, v);
}

// What one request of the longest length lacks, in bytes, by the error or by what a token takes;
// 0: not known.
static int64_t find_lacking(const struct ct_text_facts *f, const struct ct_text_fact *e) {
    struct ct_text_start s;
    const struct ct_text_value *needed = &e->values[CT_TEXT_NEEDED], *kv = &e->values[CT_TEXT_KV],
                               *fits = &e->values[CT_TEXT_TOKENS],
                               *wanted = &e->values[CT_TEXT_MAX_LEN];
    if (needed->known && kv->known)
        return kv->value >= 0 && needed->value > kv->value ? needed->value - kv->value : 0;
    ct_text_start_find(f, &s);
    if (!fits->known || !wanted->known || fits->value <= 0 || s.kv_bytes.value <= 0 ||
        wanted->value <= fits->value)
        return 0;
    return (int64_t)((__int128)s.kv_bytes.value * (wanted->value - fits->value) / fits->value);
}

static void advise_room(const struct ct_text_facts *f, struct ct_verdict *v) {
    const enum ct_framework program = ct_text_facts_program(f);
    const enum ct_framework server = ct_server_has_options(program) ? program : CT_FRAMEWORK_VLLM;
    (void)ct_plain_advice_option(v, server, CT_OPTION_RANKS,
                                 ct_text_advice_setting(f, CT_TEXT_FLAG_TENSOR_PARALLEL_SIZE), NULL,
                                 "or spread the weights over more GPUs");
    (void)ct_plain_advice_option(v, server, CT_OPTION_QUANTIZATION, NULL, NULL,
                                 "or load quantized weights");
}

// One request of the longest length does not fit.
static void judge_max_len(const struct ct_text_facts *f, const struct ct_text_fact *e,
                          struct ct_verdicts *l) {
    const enum ct_text_field fits = known(e, CT_TEXT_FITS_LEN) ? CT_TEXT_FITS_LEN : CT_TEXT_TOKENS;
    char from[24] = "", to[24] = "";
    struct ct_verdict *v = add(l, CT_SCENARIO_NO_ROOM_FOR_KV_CACHE, 0.93, e,
                               "the KV cache cannot hold one request of the longest length; no "
                               "request to the device failed");
    if (known(e, CT_TEXT_NEEDED) && known(e, CT_TEXT_KV))
        (void)ct_verdict_add_text(
            v, "line %" PRIu64 ": %s is needed for %" PRId64 " tokens, %s is there", e->line,
            size(e->values[CT_TEXT_NEEDED].value).text, e->values[CT_TEXT_MAX_LEN].value,
            size(e->values[CT_TEXT_KV].value).text);
    else
        add_line(v, e);
    if (known(e, CT_TEXT_MAX_LEN))
        (void)snprintf(from, sizeof from, "%" PRId64, e->values[CT_TEXT_MAX_LEN].value);
    if (known(e, fits) && e->values[fits].value > 0)
        (void)snprintf(to, sizeof to, "%" PRId64, e->values[fits].value);
    // (room for a hundredth of the length is no length that serves)
    const int is_nothing = *to && known(e, CT_TEXT_MAX_LEN) &&
                           e->values[fits].value < e->values[CT_TEXT_MAX_LEN].value / 16;
    const int64_t lacking = find_lacking(f, e);
    if (is_nothing)
        (void)ct_verdict_add_text(v, "weights and activations leave next to nothing: %s tokens",
                                  to);
    else
        ct_advice_set(ct_verdict_add_advice(
                          v, "%s", *to ? "the KV cache has room for that many tokens" : "lower it"),
                      "--max-model-len", from, to, NULL);
    ct_text_advice_budget(f, v, lacking ? -lacking : CT_TEXT_MORE,
                          "give the KV cache what one such request needs");
    if (is_nothing)
        advise_room(f, v);
}

static void judge_mamba(const struct ct_text_fact *e, struct ct_verdicts *l) {
    char from[24], to[24];
    struct ct_verdict *v =
        add(l, CT_SCENARIO_NO_ROOM_FOR_KV_CACHE, 0.93, e,
            "there are fewer blocks for Mamba's state than max_num_seqs requests need");
    add_line(v, e);
    (void)snprintf(from, sizeof from, "%" PRId64, e->values[CT_TEXT_SEQS].value);
    (void)snprintf(to, sizeof to, "%" PRId64, e->values[CT_TEXT_BLOCKS].value);
    ct_advice_set(ct_verdict_add_advice(v, "each request needs a block of its own"),
                  "--max-num-seqs", from, to, NULL);
}

static void judge_sglang(const struct ct_text_facts *f, const struct ct_text_fact *e,
                         struct ct_verdicts *l) {
    // (SEQS are the tokens that were asked for)
    const int has_both = known(e, CT_TEXT_SEQS) && known(e, CT_TEXT_TOKENS);
    const int are_free =
        has_both && e->values[CT_TEXT_TOKENS].value >= e->values[CT_TEXT_SEQS].value;
    struct ct_verdict *v = add(l, CT_SCENARIO_NO_ROOM_FOR_KV_CACHE, 0.9, e,
                               are_free ? "the KV cache had no room for a batch, although as many "
                                          "tokens were free: whole pages, or the state of a hybrid "
                                          "model, ran out; no request to the device failed"
                                        : "the KV cache had no room for a batch's tokens; no "
                                          "request to the device failed");
    if (has_both)
        (void)ct_verdict_add_text(
            v, "line %" PRIu64 ": %" PRId64 " tokens were asked for, %" PRId64 " were available",
            e->line, e->values[CT_TEXT_SEQS].value, e->values[CT_TEXT_TOKENS].value);
    else
        add_line(v, e);
    ct_advice_set(ct_verdict_add_advice(v, "raise it, to give the KV cache more memory"),
                  "--mem-fraction-static",
                  ct_text_advice_setting(f, CT_TEXT_FLAG_MEM_FRACTION_STATIC), NULL, NULL);
    ct_text_advice_requests(f, v);
}

// ---- the device at the start --------------------------------------------------------------------

// Less was free at the start than the budget. A context, NCCL and what a desktop or Windows keeps
// take up to 2 GiB: more is another program's.
static void judge_less_free(const struct ct_text_facts *f, const struct ct_text_fact *e,
                            struct ct_verdicts *l) {
    const int64_t total = e->values[CT_TEXT_TOTAL].value, free = e->values[CT_TEXT_FREE].value;
    const int64_t held = total > free && free >= 0 ? total - free : 0;
    const int by_others = held > 2 * GIB;
    for (int i = 0; i < 2; i++) {
        const int co_tenant = (i == 0) == by_others;
        struct ct_verdict *v =
            co_tenant ? add(l, CT_SCENARIO_CO_TENANT, by_others ? 0.85 : 0.4, e,
                            "other processes held memory of the device before vLLM began")
                      : add(l, CT_SCENARIO_MIS_BUDGET, by_others ? 0.5 : 0.8, e,
                            "the budget is larger than what was free at the start");
        (void)ct_verdict_add_text(v, "line %" PRIu64 ": %s of %s was free, %s was wanted", e->line,
                                  size(free).text, size(total).text,
                                  size(e->values[CT_TEXT_DESIRED].value).text);
        if (co_tenant)
            (void)ct_verdict_add_text(v,
                                      "%s was held; the start of vLLM itself and a desktop take "
                                      "at most 2 GiB of that",
                                      size(held).text);
        if (co_tenant)
            ct_text_advice_add(f, v, NULL);
        if (!co_tenant || free > e->values[CT_TEXT_DESIRED].value / 2) // else it is no remedy
            ct_text_advice_budget(f, v, e->values[CT_TEXT_DESIRED].value - free,
                                  "want no more than was free");
    }
}

static void judge_profile(const struct ct_text_facts *f, const struct ct_text_fact *e,
                          struct ct_verdicts *l) {
    struct ct_verdict *v = add(l, CT_SCENARIO_CO_TENANT, 0.75, e,
                               "another process gave memory back while vLLM measured its own");
    if (known(e, CT_TEXT_FREE) && known(e, CT_TEXT_CURRENT))
        (void)ct_verdict_add_text(v,
                                  "line %" PRIu64 ": %s was free before the profile run, %s "
                                  "after it",
                                  e->line, size(e->values[CT_TEXT_FREE].value).text,
                                  size(e->values[CT_TEXT_CURRENT].value).text);
    else
        add_line(v, e);
    ct_verdict_set_refuted_by(v, "no other process on the device, in nvidia-smi or a trace");
    (void)ct_verdict_add_advice(v,
                                "start one instance after the other has finished its start, or on "
                                "a device of its own");
    (void)f;
}

// ---- the rest -----------------------------------------------------------------------------------

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

static void add_advice(const struct ct_text_facts *f, const struct ct_text_fact *e,
                       const struct ct_text_fact *oom, struct ct_verdict *v) {
    const enum ct_framework program = ct_text_facts_program(f);
    for (size_t i = 0; i < sizeof advice_of / sizeof *advice_of; i++)
        if (advice_of[i].kind == e->kind &&
            (!advice_of[i].program || advice_of[i].program == program)) {
            ct_advice_set(ct_verdict_add_advice(v, "%s", advice_of[i].text), advice_of[i].flag,
                          advice_of[i].from, NULL, advice_of[i].versions);
            return;
        }
    ct_text_advice_add(f, v, oom);
}

// What the kernel says that a process held when it ended it.
static void add_host_memory(const struct ct_text_fact *e, struct ct_verdict *v) {
    if (e->kind != CT_TEXT_KIND_HOST_KERNEL || !known(e, CT_TEXT_RSS))
        return;
    struct ct_evidence *rss = ct_verdict_add_text(
        v,
        "the process held %s of anonymous and %s of shared memory, which page-locked memory is "
        "part of",
        size(e->values[CT_TEXT_RSS].value).text, size(e->values[CT_TEXT_SHMEM].value).text);
    rss->bytes_known = 1;
    rss->bytes = (uint64_t)e->values[CT_TEXT_RSS].value;
}

static void judge_by_row(const struct ct_text_facts *f, const struct ct_text_fact *e,
                         const struct ct_text_fact *oom, struct ct_verdicts *l) {
    size_t i = 0;
    while (i < sizeof rows / sizeof *rows && rows[i].kind != e->kind)
        i++;
    if (i == sizeof rows / sizeof *rows)
        return;
    struct ct_verdict *v = add(l, rows[i].scenario, rows[i].confidence, e, rows[i].summary);
    add_line(v, e);
    if (oom && v->scenario != CT_SCENARIO_HOST_MEMORY)
        ct_text_oom_add_evidence(f, oom, v);
    add_host_memory(e, v);
    add_advice(f, e, oom, v);
    if (rows[i].refuted_by)
        ct_verdict_set_refuted_by(v, "%s", rows[i].refuted_by);
}

// Graphs were captured when it failed: out of memory or not.
static void judge_capture(const struct ct_text_facts *f, const struct ct_text_fact *e,
                          const struct ct_text_fact *oom, struct ct_verdicts *l) {
    if (oom) {
        judge_by_row(f, e, oom, l);
        return;
    }
    struct ct_verdict *v =
        add(l, CT_SCENARIO_INCOMPLETE, 0.6, e,
            "the capture of CUDA graphs failed; no line says that memory ran out");
    add_line(v, e);
    (void)ct_verdict_add_advice(v, "give the whole output: the error before this one says why");
}

static void judge_other(const struct ct_text_fact *e, struct ct_verdicts *l) {
    struct ct_verdict *v = ct_verdicts_add(
        l, CT_SCENARIO_NONE, 0.6, -1, "the text has an error, but none of memory that ran out");
    (void)ct_verdict_add_text(v, "line %" PRIu64 ": an error that is not about memory", e->line);
}

void ct_text_errors_judge(const struct ct_text_facts *f, const struct ct_text_fact *error,
                          const struct ct_text_fact *oom, struct ct_verdicts *v) {
    switch (error->kind) {
    case CT_TEXT_KIND_NO_CACHE_BLOCKS:
        judge_no_blocks(f, error, v);
        break;
    case CT_TEXT_KIND_MAX_LEN:
        judge_max_len(f, error, v);
        break;
    case CT_TEXT_KIND_MAMBA_BLOCKS:
        judge_mamba(error, v);
        break;
    case CT_TEXT_KIND_SGLANG_TOKENS:
        judge_sglang(f, error, v);
        break;
    case CT_TEXT_KIND_LESS_THAN_DESIRED:
        judge_less_free(f, error, v);
        break;
    case CT_TEXT_KIND_PROFILE_CHANGED:
        judge_profile(f, error, v);
        break;
    case CT_TEXT_KIND_CAPTURE_FAILED:
        judge_capture(f, error, oom, v);
        break;
    case CT_TEXT_KIND_NOT_MEMORY:
        judge_other(error, v);
        break;
    default:
        judge_by_row(f, error, oom, v);
    }
}

// On a part of a GPU (MIG) NVML refuses what PyTorch asks it for its message.
static void judge_failed_report(const struct ct_text_fact *e, struct ct_verdicts *l) {
    struct ct_verdict *v =
        add(l, CT_SCENARIO_INCOMPLETE, 0.8, e,
            "memory ran out, and PyTorch failed while it made the message that would say how");
    (void)ct_verdict_add_text(v,
                              "line %" PRIu64 ": its allocator asks NVML for the device's "
                              "processes only when it is out of memory",
                              e->line);
    (void)ct_verdict_add_advice(v, "take a newer PyTorch, whose message does not need NVML, or "
                                   "record the program (cutrace run)");
}

void ct_text_errors_judge_wrapper(const struct ct_text_fact *wrapper, struct ct_verdicts *l) {
    if (wrapper->kind == CT_TEXT_KIND_REPORT_FAILED) {
        judge_failed_report(wrapper, l);
        return;
    }
    const int killed =
        wrapper->kind == CT_TEXT_KIND_KILLED || wrapper->kind == CT_TEXT_KIND_RAY_DIED;
    struct ct_verdict *v =
        add(l, CT_SCENARIO_INCOMPLETE, 0.8, wrapper,
            killed ? "a process was ended by a signal; the text does not say by whom"
                   : "this is how the failure was reported, not the failure");
    (void)ct_verdict_add_text(
        v, "line %" PRIu64 ": it reports that another process failed, not why", wrapper->line);
    if (killed)
        (void)ct_verdict_add_advice(v,
                                    "look into the kernel's log for \"Out of memory: Killed "
                                    "process\" (dmesg, journalctl -k): if it is there, the host's "
                                    "memory ran out");
    else
        (void)ct_verdict_add_advice(v,
                                    "look further up, in the output of the worker processes, for "
                                    "the first traceback: \"CUDA out of memory\", \"CUDA error\", "
                                    "\"ValueError\"");
    if (killed) {
        v = add(l, CT_SCENARIO_HOST_MEMORY, 0.4, wrapper,
                "the host's memory may have run out: its killer ends processes in this way");
        add_line(v, wrapper);
        ct_verdict_set_refuted_by(v, "no such line in the kernel's log");
    }
}
