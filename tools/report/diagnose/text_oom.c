// SPDX-License-Identifier: Apache-2.0
// What these rules must not do was measured on public threads: memory that is reserved but
// unallocated exceeds most requests without being the cause; a lone "Process N" is the process
// itself under the number that the host knows; several processes are mostly ranks of one job.
#include "diagnose/text_oom.h"

#include <inttypes.h>

#include "base/human.h"
#include "diagnose/request_size.h"
#include "diagnose/server_options.h"
#include "diagnose/text_advice.h"
#include "diagnose/text_place.h"

#define MIB (INT64_C(1) << 20)
#define GIB (INT64_C(1) << 30)
#define MILLION 1000000

// A message's figures; -1: it does not have one.
struct figures {
    int64_t tried, tried_step, total, free, in_use, allocated, idle, private, limit;
    int64_t missing;   // tried less free
    int64_t others;    // held by processes that the message lists besides this one
    int64_t unlisted;  // held by none that it lists
    int64_t untracked; // by this process, outside of PyTorch's pool
    unsigned other_count;
};

struct judged {
    const struct ct_text_facts *f;
    const struct ct_text_fact *oom;
    struct ct_verdicts *v;
    struct figures n;
    struct ct_text_phase phase;
};

static struct ct_human_text size(int64_t bytes) {
    return ct_human_bytes(bytes > 0 ? (uint64_t)bytes : 0, CT_UNITS_IEC);
}

static int64_t value(const struct ct_text_fact *e, enum ct_text_field field) {
    const struct ct_text_value *v = &e->values[field];
    return v->known && v->value >= 0 && v->value < CT_TEXT_MOST ? v->value : -1;
}

// Says which process of a list is the one that writes: none if it is named apart; a lone one; of
// several the one that can hold what PyTorch holds.
static int find_own(const struct ct_text_fact *e, const struct figures *n) {
    int own = -1;
    if (n->in_use >= 0)
        return -1;
    for (unsigned i = 0; i < e->process_count; i++) {
        const int64_t held = e->processes[i].bytes.value;
        const int can_be = n->allocated < 0 || held >= n->allocated;
        if (e->process_count == 1 || (can_be && (own < 0 || held < e->processes[own].bytes.value)))
            own = (int)i;
    }
    return own;
}

static void read_processes(const struct ct_text_fact *e, struct figures *n) {
    const int own = find_own(e, n);
    n->others = 0;
    if (own >= 0)
        n->in_use = e->processes[own].bytes.value;
    for (unsigned i = 0; i < e->process_count; i++)
        if ((int)i != own) {
            const int64_t held = e->processes[i].bytes.value;
            n->others += held > 0 ? held : 0;
            n->other_count++;
        }
}

static struct figures read_figures(const struct ct_text_fact *e) {
    struct figures n = {.tried = value(e, CT_TEXT_TRIED),
                        .tried_step = e->values[CT_TEXT_TRIED].step,
                        .total = value(e, CT_TEXT_TOTAL),
                        .free = value(e, CT_TEXT_FREE),
                        .in_use = value(e, CT_TEXT_IN_USE),
                        .allocated = value(e, CT_TEXT_ALLOCATED),
                        .idle = value(e, CT_TEXT_UNALLOCATED),
                        .private = value(e, CT_TEXT_PRIVATE),
                        .limit = value(e, CT_TEXT_LIMIT),
                        .missing = -1,
                        .unlisted = -1,
                        .untracked = -1};
    const int64_t reserved = value(e, CT_TEXT_RESERVED);
    if (n.idle < 0 && reserved >= n.allocated && n.allocated >= 0)
        n.idle = reserved - n.allocated;
    if (n.tried >= 0 && n.free >= 0 && n.tried > n.free)
        n.missing = n.tried - n.free;
    read_processes(e, &n);
    if (n.in_use > 0 && n.total > 0 && n.free >= 0 && n.others < n.total)
        n.unlisted = n.total - n.free - n.in_use - n.others;
    if (n.in_use > 0 && n.allocated >= 0 && n.idle >= 0 && n.in_use > n.allocated + n.idle)
        n.untracked = n.in_use - n.allocated - n.idle;
    return n;
}

// ---- evidence -----------------------------------------------------------------------------------

static void add_request(const struct judged *j, struct ct_verdict *v) {
    const struct figures *n = &j->n;
    const uint64_t line = j->oom->line;
    struct ct_evidence *e;
    if (n->tried < 0)
        e = ct_verdict_add_text(v, "line %" PRIu64 ": out of memory, without a size", line);
    else if (n->free >= 0 && n->total > 0)
        e = ct_verdict_add_text(v, "line %" PRIu64 ": asked for %s; %s of %s was free", line,
                                size(n->tried).text, size(n->free).text, size(n->total).text);
    else
        e = ct_verdict_add_text(v, "line %" PRIu64 ": asked for %s", line, size(n->tried).text);
    e->bytes_known = n->tried >= 0;
    e->bytes = n->tried >= 0 ? (uint64_t)n->tried : 0;
    if (n->allocated >= 0 && n->idle >= 0)
        (void)ct_verdict_add_text(v, "PyTorch held %s, and %s idle in its pool",
                                  size(n->allocated).text, size(n->idle).text);
    if (n->untracked > GIB + GIB / 2)
        (void)ct_verdict_add_text(v, "%s of this process is outside of PyTorch's pool",
                                  size(n->untracked).text);
    if (n->total > 0 && n->allocated >= 0 && n->tried >= 0 && n->allocated <= n->total &&
        n->allocated > n->total - n->tried)
        (void)ct_verdict_add_text(v,
                                  "what PyTorch has in use and the request are %s together, of %s: "
                                  "no setting of its allocator helps",
                                  size(n->allocated + n->tried).text, size(n->total).text);
}

static void add_phase(const struct judged *j, struct ct_verdict *v) {
    const struct ct_text_step *s = &j->f->step;
    if (j->phase.by_traceback)
        (void)ct_verdict_add_text(v, "its traceback is one of %s", j->phase.during);
    else if (j->phase.during)
        (void)ct_verdict_add_text(v, "the lines before it end where %s begins", j->phase.during);
    if (s->line && s->tokens.known && j->phase.scenario == CT_SCENARIO_BURST_PREFILL)
        (void)ct_verdict_add_text(
            v, "line %" PRIu64 ": the step had %" PRId64 " tokens, of %" PRIu64 " new requests",
            s->line, s->tokens.value, s->requests);
}

// Says what the size is, where rows and vocabulary explain it.
static void add_meaning(const struct judged *j, struct ct_verdict *v) {
    const struct ct_text_fact *said = ct_text_facts_find(j->f, CT_TEXT_KIND_SAMPLER_WARMUP);
    const struct ct_text_setting *set = j->f->settings;
    int64_t rows = set[CT_TEXT_FLAG_MAX_NUM_SEQS].number.value / MILLION;
    const int64_t vocabulary = set[CT_TEXT_FLAG_VOCAB_SIZE].number.value / MILLION;
    struct ct_request_size r;
    if (v->scenario == CT_SCENARIO_LOGITS && j->f->step.tokens.known)
        rows = j->f->step.tokens.value;
    else if (v->scenario == CT_SCENARIO_LOGITS)
        rows = set[CT_TEXT_FLAG_MAX_NUM_BATCHED_TOKENS].number.value / MILLION;
    else if (said && said->values[CT_TEXT_SEQS].known)
        rows = said->values[CT_TEXT_SEQS].value;
    if (!ct_request_size_find(j->n.tried, j->oom->values[CT_TEXT_TRIED].step, rows, vocabulary, &r))
        return;
    (void)ct_verdict_add_text(
        v, "%s is %" PRId64 " rows x a vocabulary of %" PRId64 " x %" PRId64 " B%s",
        size(j->n.tried).text, r.rows, r.vocabulary, r.bytes,
        r.vocabulary_given ? ""
        : r.others_fit     ? " (a common vocabulary; others fit, too)"
                           : " (a common vocabulary that fits)");
}

void ct_text_oom_add_evidence(const struct ct_text_facts *f, const struct ct_text_fact *oom,
                              struct ct_verdict *v) {
    const struct judged j = {.f = f, .oom = oom, .n = read_figures(oom)};
    add_request(&j, v);
    if (v->scenario == CT_SCENARIO_WARMUP)
        add_meaning(&j, v);
}

static struct ct_verdict *add(const struct judged *j, enum ct_scenario scenario, double confidence,
                              const char *summary) {
    const int64_t gpu = value(j->oom, CT_TEXT_GPU);
    struct ct_verdict *v = ct_verdicts_add(j->v, scenario, confidence,
                                           gpu >= 0 && gpu < 64 ? (int)gpu : -1, "%s", summary);
    add_request(j, v);
    return v;
}

// ---- rules --------------------------------------------------------------------------------------

// A request larger than the device. (Windows lends memory of the host: there more than all is
// allocated.)
static int judge_impossible(const struct judged *j) {
    const struct figures *n = &j->n;
    if (n->total <= 0 || n->tried - n->tried_step <= n->total || n->allocated > n->total)
        return 0;
    struct ct_verdict *v = add(j, CT_SCENARIO_IMPOSSIBLE_REQUEST, 0.9,
                               "more was asked for at once than the whole device has");
    if (j->phase.during)
        add_phase(j, v);
    ct_verdict_set_refuted_by(v, "a device of the named size that served this request");
    ct_text_advice_add(j->f, v, j->oom);
    return 1;
}

// PyTorch was told to take no more than a part of the device.
static int judge_limit(const struct judged *j) {
    const struct figures *n = &j->n;
    if (n->limit <= 0 || n->total <= 0 || n->limit >= n->total || n->allocated < 0 ||
        n->allocated + (n->idle > 0 ? n->idle : 0) + n->tried <= n->limit)
        return 0;
    struct ct_verdict *v = add(j, CT_SCENARIO_MIS_BUDGET, 0.75,
                               "PyTorch reached the limit that was set for it, not the end of the "
                               "device");
    (void)ct_verdict_add_text(v, "its limit is %s of %s", size(n->limit).text, size(n->total).text);
    (void)ct_verdict_add_advice(v, "raise the fraction that set_per_process_memory_fraction sets "
                                   "(TGI: --cuda-memory-fraction)");
    return 1;
}

// Others on the device, if what they hold is more than what was missing. Returns whether they
// decide: not if one of them must be there, because the failed call receives what it holds.
static int judge_others(const struct judged *j) {
    const struct figures *n = &j->n;
    const int64_t ranks = ct_text_advice_ranks(j->f);
    const int64_t least = n->missing > 256 * MIB ? n->missing : 256 * MIB;
    const int64_t unseen = n->total / 20 > GIB + GIB / 2 ? n->total / 20 : GIB + GIB / 2;
    if (n->other_count && ranks > (int64_t)n->other_count)
        return 0; // ranks of the same job
    if (n->missing < 0 || (n->others < least && (n->unlisted < unseen || n->unlisted < least)))
        return 0;
    const int listed = n->others >= least;
    const int is_partner = (j->oom->places & CT_TEXT_IN_IPC) != 0;
    const int decides = listed && ranks == 1 && !is_partner;
    const double alone = n->unlisted > n->total / 4 && !is_partner ? 0.82 : 0.5;
    const double confidence = decides ? 0.82 : listed ? 0.5 : alone;
    struct ct_verdict *v = add(j, CT_SCENARIO_CO_TENANT, confidence,
                               "another process holds more of the device than was missing");
    if (listed)
        (void)ct_verdict_add_text(v, "%u other process%s held %s; %s was missing", n->other_count,
                                  n->other_count == 1 ? "" : "es", size(n->others).text,
                                  size(n->missing).text);
    else
        (void)ct_verdict_add_text(v, "%s of the device is held by none that the message names",
                                  size(n->unlisted).text);
    if (is_partner)
        (void)ct_verdict_add_text(v, "the traceback receives weights by CUDA IPC: the process that "
                                     "sends them holds them on this device");
    ct_verdict_set_refuted_by(v, is_partner
                                     ? "the other process being the one that sends the weights"
                                     : "the other process being a rank of the same job");
    if (!is_partner)
        ct_text_advice_add(j->f, v, j->oom);
    return decides || confidence > 0.8;
}

// Idle memory of the pool is only a cause where there is much of it: at least 1 GiB, and a good
// part of all that PyTorch holds. Graphs' pools were called unallocated before torch 2.4. Before it
// fails, PyTorch gives back what is idle in whole segments: what is left shares its segments with
// blocks.
static void judge_fragmentation(const struct judged *j) {
    const struct figures *n = &j->n;
    const int64_t free = n->free > 0 ? n->free : 0;
    if (n->idle < GIB || n->tried < 20 * MIB || n->idle + free < n->tried || n->tried <= free)
        return;
    const int is_enough = n->idle >= n->tried;
    const int share = (int)((__int128)n->idle * 100 / (n->allocated + n->idle));
    if (share < 10 || j->phase.scenario == CT_SCENARIO_GRAPH_CAPTURE)
        return;
    struct ct_verdict *v = add(
        j, CT_SCENARIO_FRAGMENTATION, is_enough ? (share >= 20 ? 0.82 : 0.5) : 0.4,
        is_enough ? "PyTorch's pool had enough idle memory, but no idle block was large enough"
                  : "what was idle in PyTorch's pool and what was free would have been enough in "
                    "one piece");
    if (!is_enough)
        (void)ct_verdict_add_text(v, "together they are %s", size(n->idle + free).text);
    (void)ct_verdict_add_text(v,
                              "%d %% of what PyTorch holds is idle; the message does not say in "
                              "how many pieces",
                              share);
    ct_verdict_set_refuted_by(v, "an idle block of %s in a trace (cutrace-report frag)",
                              size(n->tried).text);
    ct_text_advice_add(j->f, v, j->oom);
}

// What vLLM had planned for PyTorch: weights, activations and the KV cache; -1: a line is missing.
static int64_t find_planned(const struct ct_text_facts *f) {
    const struct ct_text_fact *plan = ct_text_facts_find(f, CT_TEXT_KIND_SUGGESTION),
                              *kv = ct_text_facts_find(f, CT_TEXT_KIND_KV_MEMORY);
    if (!plan || !kv || value(plan, CT_TEXT_WEIGHTS) < 0 || value(kv, CT_TEXT_KV) < 0)
        return -1;
    const int64_t activation = value(plan, CT_TEXT_ACTIVATION);
    return value(plan, CT_TEXT_WEIGHTS) + value(kv, CT_TEXT_KV) + (activation > 0 ? activation : 0);
}

static int is_serving(const struct judged *j) {
    return j->phase.scenario == CT_SCENARIO_BURST_PREFILL;
}

// PyTorch holds more than vLLM planned for it.
static int judge_plan(const struct judged *j) {
    const int64_t planned = find_planned(j->f);
    if (!is_serving(j) || planned < 0 || j->n.allocated - planned < 512 * MIB)
        return 0;
    struct ct_verdict *v =
        add(j, CT_SCENARIO_LEAK, j->phase.by_traceback ? 0.45 : 0.6,
            "PyTorch held more than vLLM had planned for weights, activations and "
            "KV cache together");
    (void)ct_verdict_add_text(v, "vLLM had planned %s; PyTorch held %s more", size(planned).text,
                              size(j->n.allocated - planned).text);
    (void)ct_verdict_add_advice(v, "record a trace: cutrace-report leaks names the call sites that "
                                   "only grow");
    ct_verdict_set_refuted_by(v, "a step that alone takes that much, in a trace");
    return 1;
}

// Much of the process outside of PyTorch's pool, or a budget of almost all.
static int judge_budget(const struct judged *j) {
    const int64_t share = ct_text_advice_share(j->f);
    const int is_server = ct_server_of_text(j->f) != CT_SERVER_UNKNOWN;
    const int much = j->n.untracked > GIB + GIB / 2;
    const int is_tight = share >= 950000 && is_serving(j) && j->n.total > 0;
    if ((!much && !is_tight) || (j->phase.by_traceback && !is_serving(j) && !much))
        return 0;
    struct ct_verdict *v =
        add(j, CT_SCENARIO_MIS_BUDGET, much && !j->phase.by_traceback ? 0.55 : 0.62,
            is_server ? "the budget left too little for what is taken outside of it: contexts, "
                        "CUDA graphs, libraries"
                      : "much of what the process holds is outside of PyTorch's pool: contexts, "
                        "CUDA graphs, libraries");
    if (share && j->n.total > 0)
        (void)ct_verdict_add_text(
            v, "a budget of %.2f leaves %s of %s for all that is outside of it",
            (double)share / MILLION,
            size((int64_t)((__int128)j->n.total * (MILLION - share) / MILLION)).text,
            size(j->n.total).text);
    ct_text_advice_budget(j->f, v, j->n.missing > 0 ? j->n.missing : 0,
                          "leave more for what is outside of PyTorch's pool");
    ct_verdict_set_refuted_by(v, "untracked memory that is no more than the contexts' in a trace");
    return 1;
}

static void judge_phase(const struct judged *j, double less) {
    static const char *const summaries[CT_SCENARIOS] = {
        [CT_SCENARIO_STARTUP_WEIGHTS] = "the weights did not fit while they were loaded",
        [CT_SCENARIO_REPACK] = "converting loaded weights needed more than was left",
        [CT_SCENARIO_STARTUP_PROFILE] = "the profile run's largest step did not fit",
        [CT_SCENARIO_STARTUP_KV_POOL] = "the KV cache did not fit when it was allocated",
        [CT_SCENARIO_GRAPH_CAPTURE] = "the capture of CUDA graphs needed more than was left",
        [CT_SCENARIO_WARMUP] = "the warm-up needed more than the KV cache had left",
        [CT_SCENARIO_BURST_PREFILL] = "a step that served requests needed more than was left",
        [CT_SCENARIO_LOGITS] = "logits or log-probabilities needed more than was left",
        [CT_SCENARIO_SLEEP_WAKE] = "a wake-up could not take its memory back",
        [CT_SCENARIO_WEIGHT_SYNC] = "an update of the weights needed more than was left",
        [CT_SCENARIO_COMMUNICATION] = "communication between GPUs could not take its buffers",
        [CT_SCENARIO_HOST_PINNED] = "page-locked host memory could not be taken",
        [CT_SCENARIO_LORA] = "LoRA adapters needed more than was left",
        [CT_SCENARIO_MULTIMODAL] = "an encoder of images or sounds needed more than was left",
        [CT_SCENARIO_SPECULATIVE] = "speculative decoding needed more than was left",
        [CT_SCENARIO_TRAINING_STEP] = "a training step needed more than was left",
    };
    const enum ct_scenario scenario = j->phase.scenario;
    if (scenario == CT_SCENARIO_UNKNOWN || !summaries[scenario])
        return;
    struct ct_verdict *v =
        add(j, scenario, (j->phase.by_traceback ? 0.8 : 0.5) - less, summaries[scenario]);
    add_phase(j, v);
    if (scenario == CT_SCENARIO_WARMUP || scenario == CT_SCENARIO_LOGITS)
        add_meaning(j, v);
    if (j->n.free >= 0 && j->n.tried >= 0 && j->n.tried <= j->n.free)
        (void)ct_verdict_add_text(v, "as much was free as was asked for: the driver or a limit of "
                                     "the host kept it back");
    ct_verdict_set_refuted_by(v, "a trace in which another part grew just before");
    ct_text_advice_add(j->f, v, j->oom);
}

static void judge_rest(const struct judged *j) {
    if (j->oom->kind == CT_TEXT_KIND_OTHER_OOM) {
        (void)add(j, CT_SCENARIO_UNKNOWN, 0.5,
                  "a framework whose messages say no more ran out of memory");
        return;
    }
    struct ct_verdict *v = add(j, CT_SCENARIO_INCOMPLETE, 0.6,
                               "the message says what failed, not what filled the device");
    (void)ct_verdict_add_advice(v, "look for the traceback above it: its functions name the phase; "
                                   "and for the lines of the start (KV cache, graphs)");
}

// ---- errors without sizes -----------------------------------------------------------------------

static void add_bare(const struct judged *j, enum ct_scenario scenario, double confidence,
                     const char *summary) {
    struct ct_verdict *v = add(j, scenario, confidence, summary);
    if (j->phase.during)
        add_phase(j, v);
    ct_text_advice_add(j->f, v, j->oom);
}

// A CUDA call beside PyTorch's allocator was refused, which would have said sizes.
static void judge_cuda(const struct judged *j) {
    switch (j->phase.scenario) {
    case CT_SCENARIO_STARTUP_KV_POOL:
        add_bare(j, CT_SCENARIO_HOST_PINNED, 0.65,
                 "a call beside PyTorch's allocator was refused while the KV cache was allocated: "
                 "its page-locked swap space, before vLLM 0.10");
        judge_phase(j, 0.3);
        break;
    case CT_SCENARIO_BURST_PREFILL:
    case CT_SCENARIO_LOGITS:
        add_bare(j, CT_SCENARIO_UNTRACKED_GROWTH, 0.6,
                 "a call beside PyTorch's allocator was refused while requests were served");
        judge_phase(j, 0.35);
        break;
    case CT_SCENARIO_UNKNOWN:
        judge_rest(j);
        break;
    default:
        judge_phase(j, 0);
    }
}

static void judge_library(const struct judged *j) {
    switch (j->oom->kind) {
    case CT_TEXT_KIND_CUMEM_OOM:
        if (j->phase.by_traceback && j->phase.scenario != CT_SCENARIO_SLEEP_WAKE)
            judge_phase(j, 0);
        else
            add_bare(j, CT_SCENARIO_SLEEP_WAKE, j->phase.by_traceback ? 0.85 : 0.65,
                     "the allocator of vLLM's sleep mode could not take memory back");
        break;
    case CT_TEXT_KIND_CUBLAS_ALLOC:
        add_bare(
            j, CT_SCENARIO_UNTRACKED_GROWTH, 0.6,
            "a library could not take its workspace: the device was full, outside of PyTorch's "
            "pool, too");
        judge_phase(j, 0.4);
        break;
    case CT_TEXT_KIND_NCCL_OOM:
        add_bare(j, CT_SCENARIO_COMMUNICATION, 0.85, "NCCL could not take its buffers");
        break;
    case CT_TEXT_KIND_NCCL_CUDA:
        add_bare(j, CT_SCENARIO_COMMUNICATION, 0.5,
                 "NCCL met a CUDA error that it does not name here: its own lines do");
        break;
    default:
        add_bare(j, CT_SCENARIO_COMMUNICATION, 0.75, "the custom all-reduce met a CUDA error");
    }
}

void ct_text_oom_judge(const struct ct_text_facts *f, const struct ct_text_fact *oom,
                       struct ct_verdicts *v) {
    const struct judged j = {f, oom, v, read_figures(oom), ct_text_place_find(oom)};
    const size_t before = v->count;
    const int has_figures =
        oom->kind == CT_TEXT_KIND_TORCH_OOM || oom->kind == CT_TEXT_KIND_ASYNC_OOM;
    if (oom->kind == CT_TEXT_KIND_CUDA_OOM) {
        judge_cuda(&j);
    } else if (!has_figures && oom->kind != CT_TEXT_KIND_OTHER_OOM) {
        judge_library(&j);
    } else if (!judge_impossible(&j) && !judge_limit(&j)) {
        const int others = judge_others(&j);
        judge_fragmentation(&j);
        const int planned = judge_plan(&j), budget = judge_budget(&j);
        judge_phase(&j, others || (planned && !j.phase.by_traceback) ? 0.3
                        : budget && is_serving(&j)                   ? 0.22
                                                                     : 0);
        if (v->count == before)
            judge_rest(&j);
    }
}
