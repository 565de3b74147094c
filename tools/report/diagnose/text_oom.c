// SPDX-License-Identifier: Apache-2.0
// What these rules must not do was measured on public threads: memory that is reserved but
// unallocated exceeds most requests without being the cause; a lone "Process N" is the process
// itself under the number that the host knows; several processes are mostly ranks of one job.
#include "diagnose/text_advice.h"

#include <inttypes.h>
#include <string.h>

#include "base/human.h"
#include "diagnose/phase_scenarios.h"
#include "diagnose/plain_advice.h"
#include "diagnose/request_size.h"
#include "diagnose/server_settings.h"
#include "symbols/phases.h"

#define MIB (INT64_C(1) << 20)
#define GIB (INT64_C(1) << 30)
#define MILLION 1000000

// A message's figures; -1: it does not have one.
struct figures {
    int64_t tried, tried_step, total, free, in_use, allocated, idle, private, limit;
    int64_t missing;   // tried less free, at most
    int64_t others;    // held by processes that the message lists besides this one
    int64_t unlisted;  // held by none that it lists, or (is_rest) outside of PyTorch's pool
    int64_t untracked; // by this process, outside of PyTorch's pool
    int64_t rounding;  // what the last digits of the figures that `unlisted` is made of can hide
    unsigned other_count;
    int is_full; // what was free could not serve the request
    int is_rest; // the message does not say what this process has
};

// Where the request failed, how that is known, and the scenario that it is of by itself.
struct place {
    enum ct_scenario scenario;
    const char *summary; // of the scenario
    struct ct_text_where where;
    const char *known_by; // NULL: nothing is known
    double confidence;
};

struct judged {
    const struct ct_text_facts *f;
    const struct ct_text_fact *oom;
    struct ct_verdicts *v;
    struct figures n;
    struct place place;
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
    const int64_t reserved = value(e, CT_TEXT_RESERVED), with_request = value(e, CT_TEXT_CURRENT);
    if (n.allocated < 0 && with_request > n.tried && n.tried >= 0)
        n.allocated = with_request - n.tried; // (CuPy up to 6)
    if (n.idle < 0 && reserved >= n.allocated && n.allocated >= 0)
        n.idle = reserved - n.allocated;
    if (n.free > n.total && n.total > 0)
        n.free = -1; // (an APU: no figure)
    if (n.tried >= 0 && n.free >= 0 && n.tried > n.free)
        n.missing = n.tried + n.tried_step - n.free;
    // The driver keeps a reserve: a device is full with less than a 128th of it free.
    n.is_full = n.missing > 0 ||
                (n.tried >= 0 && n.free >= 0 && n.total > 0 && n.tried + n.total / 128 > n.free);
    read_processes(e, &n);
    n.is_rest = n.in_use <= 0 && n.allocated >= 0 && n.idle >= 0;
    const int64_t own = n.is_rest ? n.allocated + n.idle : n.in_use;
    if ((own > 0 || n.is_rest) && n.total > 0 && n.free >= 0 && n.others < n.total) {
        n.unlisted = n.total - n.free - own - n.others;
        n.rounding = e->values[CT_TEXT_TOTAL].step + e->values[CT_TEXT_FREE].step +
                     e->values[CT_TEXT_IN_USE].step;
        if (n.unlisted < 0 && n.unlisted >= -n.rounding)
            n.unlisted = 0;
    }
    if (n.in_use > 0 && n.allocated >= 0 && n.idle >= 0 && n.in_use > n.allocated + n.idle)
        n.untracked = n.in_use - n.allocated - n.idle;
    return n;
}

// ---- where --------------------------------------------------------------------------------------

// A pass through a server's model, without what called it, or a worker's loop: a step that serves,
// where the device is as full as it is after the start.
static int is_step(const struct ct_text_facts *f, const struct ct_text_fact *e,
                   const struct figures *n) {
    const int is_full = n->total > 0 && n->allocated >= n->total / 10 * 9;
    return ct_server_has_options(ct_text_facts_program(f)) &&
           (e->where.phase == CT_PHASE_FORWARD || (e->where.phase == CT_PHASE_OTHER && is_full));
}

static struct place find_place(const struct ct_text_facts *f, const struct ct_text_fact *e,
                               const struct figures *n) {
    struct place p = {.where = e->where, .scenario = CT_SCENARIO_UNKNOWN};
    const int is_part = ct_phase_is_inner(e->where.phase) && !e->where.is_pinned &&
                        e->where.component == CT_COMPONENT_BY_PHASE;
    if (ct_text_where_is_known(&e->where)) {
        p.known_by = e->has_traceback ? "its traceback" : "the lines beside it";
        p.confidence = 0.8;
    }
    if (is_part && e->progress != CT_TEXT_KINDS) {
        p.where = ct_template_where(e->progress);
        p.known_by = "the lines before it";
        p.confidence = 0.5;
    } else if (is_part && is_step(f, e, n)) {
        p.confidence = e->where.phase == CT_PHASE_FORWARD ? 0.65 : 0.55;
        p.where.phase = CT_PHASE_SERVE;
        p.where.framework = ct_text_facts_program(f);
    }
    if (e->where.is_pinned) {
        p.scenario = CT_SCENARIO_HOST_PINNED;
        p.summary = "page-locked host memory could not be taken";
        return p;
    }
    if (!p.where.framework)
        p.where.framework = ct_text_facts_program(f);
    const enum ct_component component = p.where.component == CT_COMPONENT_BY_PHASE
                                            ? ct_phase_component(p.where.phase)
                                            : p.where.component;
    p.scenario = ct_phase_scenario(p.where.phase, component, &p.summary);
    return p;
}

// Whether a range of addresses was refused, not memory.
static int is_of_addresses(const struct ct_text_fact *oom) {
    return strstr(oom->place, "addresses") != NULL;
}

// Whether the functions of a traceback name the scenario.
static int has_place(const struct judged *j) {
    return j->place.confidence > 0.5 && j->place.scenario != CT_SCENARIO_UNKNOWN;
}

// ---- evidence -----------------------------------------------------------------------------------

static int has_torch(const struct judged *j) {
    return ct_framework_has_torch(ct_text_facts_program(j->f));
}

// What the message says of the pool that was asked.
static void add_pool(const struct judged *j, struct ct_verdict *v) {
    const enum ct_framework program = ct_text_facts_program(j->f);
    const struct figures *n = &j->n;
    const char *whose = has_torch(j) || j->oom->kind == CT_TEXT_KIND_TORCH_OOM ? "PyTorch"
                        : program ? ct_framework_title(program)
                                  : "the pool";
    if (n->allocated >= 0 && n->idle >= 0)
        (void)ct_verdict_add_text(v, "%s held %s, and %s idle in its pool", whose,
                                  size(n->allocated).text, size(n->idle).text);
    else if (n->allocated >= 0)
        (void)ct_verdict_add_text(v, "%s held %s", whose, size(n->allocated).text);
}

static void add_request(const struct judged *j, struct ct_verdict *v) {
    const struct figures *n = &j->n;
    const uint64_t line = j->oom->line;
    struct ct_evidence *e;
    if (j->oom->values[CT_TEXT_TRIED].known && n->tried < 0)
        e = ct_verdict_add_text(v, "line %" PRIu64 ": asked for a size that is none", line);
    else if (n->tried < 0)
        e = ct_verdict_add_text(v,
                                j->oom->kind == CT_TEXT_KIND_NCCL_CUDA
                                    ? "line %" PRIu64 ": a CUDA error without its name"
                                    : "line %" PRIu64 ": out of memory, without a size",
                                line);
    else if (n->free >= 0 && n->total > 0)
        e = ct_verdict_add_text(v, "line %" PRIu64 ": asked for %s; %s of %s was free", line,
                                size(n->tried).text, size(n->free).text, size(n->total).text);
    else if (n->free >= 0)
        e = ct_verdict_add_text(v, "line %" PRIu64 ": asked for %s; %s was free", line,
                                size(n->tried).text, size(n->free).text);
    else
        e = ct_verdict_add_text(v, "line %" PRIu64 ": asked for %s", line, size(n->tried).text);
    e->bytes_known = n->tried >= 0;
    e->bytes = n->tried >= 0 ? (uint64_t)n->tried : 0;
    add_pool(j, v);
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
    const struct place *p = &j->place;
    if (p->known_by && p->where.phase != CT_PHASE_UNKNOWN) {
        const struct ct_phase_title title = ct_phases_title(
            &(struct ct_phase_at){.phase = p->where.phase, .framework = p->where.framework});
        (void)ct_verdict_add_text(v, "phase by %s: %s", p->known_by, title.text);
    }
    if (*j->oom->place)
        (void)ct_verdict_add_text(v, "the text names the place: %s", j->oom->place);
    if (s->line && s->tokens.known && p->scenario == CT_SCENARIO_BURST_PREFILL)
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
    if (!ct_request_size_find(j->n.tried, j->oom->values[CT_TEXT_TRIED].step, rows, vocabulary,
                              &r) ||
        (r.others_fit && !said)) // (of the sampler's warm-up the bytes of an element are known)
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

// The most memory that one device has: NVIDIA's (B300), and any (MI355X).
#define LARGEST_NVIDIA (270 * GIB)
#define LARGEST (288 * GIB)

static int is_larger_than_any(const struct judged *j) {
    const struct ct_text_value *tried = &j->oom->values[CT_TEXT_TRIED],
                               *backend = &j->oom->values[CT_TEXT_BACKEND];
    return tried->known &&
           tried->value > (backend->known && !backend->value ? LARGEST_NVIDIA : LARGEST);
}

// A request larger than the device. (Windows lends memory of the host: there more than all is
// allocated.)
static int judge_impossible(const struct judged *j) {
    const struct figures *n = &j->n;
    const int is_any = is_larger_than_any(j);
    if (!is_any &&
        (n->total <= 0 || n->tried - n->tried_step <= n->total || n->allocated > n->total))
        return 0;
    struct ct_verdict *v = add(j, CT_SCENARIO_IMPOSSIBLE_REQUEST, 0.9,
                               is_any ? "more was asked for at once than any device has"
                                      : "more was asked for at once than the whole device has");
    add_phase(j, v);
    ct_verdict_set_refuted_by(v, "a device of the named size that served this request");
    ct_text_advice_add(j->f, v, j->oom);
    return 1;
}

// What a compiled program of XLA needs at once, which no device of less can run. (What any device
// has is no reason.)
static int judge_program(const struct judged *j) {
    const int64_t needed = value(j->oom, CT_TEXT_NEEDED);
    if (j->oom->kind != CT_TEXT_KIND_OTHER_OOM || needed < 2 * GIB)
        return 0;
    struct ct_verdict *v =
        add(j, CT_SCENARIO_IMPOSSIBLE_REQUEST, 0.6,
            "one compiled program needs more at once than the device could give it");
    (void)ct_verdict_add_text(v, "its parameters, outputs and temporaries are %s together",
                              size(needed).text);
    (void)ct_verdict_add_advice(v,
                                "lower the batch or the inputs' size, or take a device with more "
                                "than %s free: the pool's settings do not make a program smaller",
                                size(needed).text);
    ct_verdict_set_refuted_by(v, "a device with more free memory on which it fails, too");
    return 1;
}

// What sets the limit of a pool, by program; the last row: PyTorch, whoever uses it.
static void advise_limit(const struct judged *j, struct ct_verdict *v) {
    static const struct {
        enum ct_framework program;
        const char *setter;
    } rows[] = {{CT_FRAMEWORK_TGI, "--cuda-memory-fraction"},
                {CT_FRAMEWORK_CUPY, "set_limit of its memory pool"},
                {CT_FRAMEWORK_RMM, "maximum_pool_size"},
                {CT_FRAMEWORK_ONNX_RUNTIME, "gpu_mem_limit of its CUDA provider"},
                {CT_FRAMEWORK_TENSORFLOW, "memory_limit of its logical device"},
                {CT_FRAMEWORK_NONE, "torch.cuda.set_per_process_memory_fraction"}};
    const enum ct_framework program = ct_text_facts_program(j->f);
    size_t i = 0;
    while (rows[i].program && rows[i].program != program)
        i++;
    if (rows[i].program || (program && has_torch(j)))
        (void)ct_verdict_add_advice(v, "raise the limit: %s", rows[i].setter);
    else
        (void)ct_verdict_add_advice(v, "raise the limit that the program set for its pool");
}

// A pool was told to take no more than a part of the device.
static int judge_limit(const struct judged *j) {
    const struct figures *n = &j->n;
    const int is_reached =
        n->limit > 0 && (n->total <= 0 || n->limit < n->total) && n->allocated >= 0 &&
        n->allocated + (n->idle > 0 ? n->idle : 0) + n->tried > n->limit - n->limit / 64;
    if (!is_reached && j->oom->kind != CT_TEXT_KIND_POOL_LIMIT)
        return 0;
    struct ct_verdict *v = add(j, CT_SCENARIO_MIS_BUDGET, 0.75,
                               "the pool reached the limit that was set for it, not the end of the "
                               "device");
    if (n->total > 0)
        (void)ct_verdict_add_text(v, "its limit is %s of %s", size(n->limit).text,
                                  size(n->total).text);
    else if (n->limit > 0)
        (void)ct_verdict_add_text(v, "its limit is %s", size(n->limit).text);
    advise_limit(j, v);
    return 1;
}

// Others on the device, if what they hold is more than what was missing. Returns whether they
// decide: not if one of them must be there, because the failed call receives what it holds.
static int judge_others(const struct judged *j) {
    const struct figures *n = &j->n;
    const int64_t ranks = ct_text_advice_ranks(j->f);
    const int64_t least = n->missing > 256 * MIB ? n->missing : 256 * MIB;
    // (outside of the pool is this process's own context, too, with libraries and graphs)
    const int64_t part = n->is_rest ? n->total / 8 : n->total / 20;
    const int64_t own = n->is_rest ? 2 * GIB : GIB + GIB / 2;
    const int64_t unseen = part > own ? part : own;
    if (n->other_count && ranks > (int64_t)n->other_count)
        return 0; // ranks of the same job
    if (!n->is_full || (n->others < least && (n->unlisted < unseen || n->unlisted < least)))
        return 0;
    const int listed = n->others >= least;
    const int is_partner = j->place.where.is_ipc;
    const int decides = listed && ranks == 1 && !is_partner;
    const double alone = n->unlisted > n->total / 4 && !is_partner ? 0.82 : 0.5;
    const double confidence = decides ? 0.82 : listed ? 0.5 : alone;
    struct ct_verdict *v = add(j, CT_SCENARIO_CO_TENANT, n->is_rest ? confidence - 0.1 : confidence,
                               "another process holds more of the device than was missing");
    if (listed && n->missing < 0)
        (void)ct_verdict_add_text(v, "%u other process%s held %s", n->other_count,
                                  n->other_count == 1 ? "" : "es", size(n->others).text);
    else if (listed)
        (void)ct_verdict_add_text(v, "%u other process%s held %s; about %s was missing",
                                  n->other_count, n->other_count == 1 ? "" : "es",
                                  size(n->others).text, size(n->missing).text);
    else
        (void)ct_verdict_add_text(v,
                                  n->is_rest ? "%s of the device is outside of this process's pool"
                                             : "%s of the device is held by none that the message "
                                               "names",
                                  size(n->unlisted).text);
    if (is_partner)
        (void)ct_verdict_add_text(v, "the traceback receives weights by CUDA IPC: the process that "
                                     "sends them holds them on this device");
    ct_verdict_set_refuted_by(
        v, is_partner   ? "a trace in which the other process is the one that sends the weights"
           : n->is_rest ? "no other process in nvidia-smi: another library "
                          "of this one holds it"
                        : "a trace in which the other process is a rank of the same job");
    if (!is_partner)
        ct_text_advice_add(j->f, v, j->oom);
    return decides || confidence > 0.8;
}

// Idle memory of the pool is only likely to be the cause where there is much of it: at least 1 GiB,
// and a good part of all that PyTorch holds. Graphs' pools were called unallocated before torch
// 2.4. Before it fails, PyTorch gives back what is idle in whole segments: what is left shares its
// segments with blocks.
static void judge_fragmentation(const struct judged *j) {
    const struct figures *n = &j->n;
    const int64_t free = n->free > 0 ? n->free : 0;
    if (n->idle < GIB || n->tried < 20 * MIB || n->idle + free < n->tried || n->tried <= free)
        return;
    const int is_enough = n->idle >= n->tried;
    const int64_t pool = n->allocated + n->idle;
    const int share = (int)(((__int128)n->idle * 100 + pool / 2) / pool);
    if ((share < 10 && !is_enough) || j->place.scenario == CT_SCENARIO_GRAPH_CAPTURE)
        return;
    struct ct_verdict *v = add(
        j, CT_SCENARIO_FRAGMENTATION,
        is_enough && share >= 20   ? 0.82
        : is_enough && share >= 10 ? 0.5
                                   : 0.4,
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
    return j->place.scenario == CT_SCENARIO_BURST_PREFILL;
}

// PyTorch holds more than vLLM planned for it.
static int judge_plan(const struct judged *j) {
    const int64_t planned = find_planned(j->f);
    if (!is_serving(j) || planned < 0 || j->n.allocated - planned < 512 * MIB)
        return 0;
    struct ct_verdict *v =
        add(j, CT_SCENARIO_LEAK, has_place(j) ? 0.45 : 0.6,
            "PyTorch held more than vLLM had planned for weights, activations and "
            "KV cache together");
    (void)ct_verdict_add_text(v, "vLLM had planned %s; PyTorch held %s more", size(planned).text,
                              size(j->n.allocated - planned).text);
    (void)ct_verdict_add_advice(v, "record a trace: cutrace-report leaks names the call sites that "
                                   "only grow");
    ct_verdict_set_refuted_by(v, "a step that alone takes that much, in a trace");
    return 1;
}

// A peak that rises from line to line: each step keeps something. (One that the largest input has
// made stays.)
static int judge_peak(const struct judged *j) {
    const struct ct_text_peak *p = &j->f->peak;
    enum { FEW = 4, MANY = 10 };
    if (p->rises < FEW || p->last_line > j->oom->line)
        return 0;
    struct ct_verdict *v = add(
        j, CT_SCENARIO_LEAK, p->rises < MANY ? 0.6 : 0.8,
        "the peak that the program prints rose from line to line, as where steps keep something");
    (void)ct_verdict_add_text(
        v, "lines %" PRIu64 " to %" PRIu64 ": from %s to %s, higher in each of %" PRIu64 " lines",
        p->first_line, p->last_line, size(p->first).text, size(p->last).text, p->rises);
    (void)ct_verdict_add_advice(v, "look for tensors that a list keeps (a loss without .item(), "
                                   "predictions without .cpu()), or record a trace: "
                                   "cutrace-report leaks names the call sites that only grow");
    ct_verdict_set_refuted_by(v, "a trace in which what the steps keep does not grow");
    return 1;
}

// Much of the process outside of PyTorch's pool, or a budget of almost all.
static int judge_budget(const struct judged *j) {
    const int64_t share = ct_text_advice_share(j->f);
    const int is_server = ct_server_has_options(ct_text_facts_program(j->f));
    // (contexts, graphs and libraries take as much in any process)
    const int much =
        j->n.untracked > GIB + GIB / 2 && (has_place(j) || j->n.untracked > j->n.total / 8);
    const int is_tight = share >= 950000 && is_serving(j) && j->n.total > 0;
    if ((!much && !is_tight) || (has_place(j) && !is_serving(j) && !much))
        return 0;
    struct ct_verdict *v =
        add(j, CT_SCENARIO_MIS_BUDGET, much && !has_place(j) ? 0.55 : 0.62,
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
    if (is_server || j->n.untracked <= j->n.allocated)
        ct_text_advice_budget(j->f, v, j->n.missing > 0 ? j->n.missing : 0,
                              "leave more for what is outside of PyTorch's pool");
    else
        (void)ct_verdict_add_advice(v, "make smaller what is outside of PyTorch's pool (engines, "
                                       "their KV caches, other libraries), because it is nearly "
                                       "all");
    ct_verdict_set_refuted_by(v, "untracked memory that is no more than the contexts' in a trace");
    return 1;
}

// Where nothing says when it failed: vLLM fits the KV cache into its budget, so a pool about as
// large as the budget has it already, and a larger one was filled before it.
static void judge_held(const struct judged *j) {
    const struct figures *n = &j->n;
    const int64_t share = ct_text_advice_share(j->f);
    if (j->place.known_by || ct_text_facts_program(j->f) != CT_FRAMEWORK_VLLM || share <= 0 ||
        n->total <= 0 || n->allocated < 0)
        return;
    const int64_t held = n->allocated + (n->idle > 0 ? n->idle : 0);
    const int64_t budget = (int64_t)((__int128)n->total * share / MILLION);
    if (held < budget - budget / 16)
        return;
    const int is_more = held > budget + budget / 16;
    struct ct_verdict *v =
        is_more ? add(j, CT_SCENARIO_STARTUP_WEIGHTS, 0.5,
                      "PyTorch held more than the whole budget, into which the KV cache is fitted: "
                      "weights, or the profile run, took it before")
                : add(j, CT_SCENARIO_MIS_BUDGET, 0.5,
                      "PyTorch held about the whole budget, so the KV cache was there: the budget "
                      "left too little for what came after it");
    (void)ct_verdict_add_text(v, "a budget of %.2f is %s, and PyTorch held %s",
                              (double)share / MILLION, size(budget).text, size(held).text);
    ct_verdict_set_refuted_by(v, "a traceback that names another phase");
    if (is_more)
        ct_text_advice_add(j->f, v, j->oom);
    else
        ct_text_advice_budget(j->f, v, n->missing > 0 ? n->missing : 0,
                              "leave more for steps and graphs");
}

// Whether more was free than was asked for. (PyTorch asks for whole steps of 2 MiB, and figures are
// rounded: as much can seem free.)
static int is_free_enough(const struct judged *j) {
    const struct figures *n = &j->n;
    return n->free >= 0 && n->tried >= 0 &&
           n->free - n->tried > j->oom->values[CT_TEXT_FREE].step + n->tried_step && !n->is_full;
}

static void add_free(const struct judged *j, struct ct_verdict *v) {
    const struct figures *n = &j->n;
    if (n->free < 0 || n->tried < 0 || n->tried > n->free)
        return;
    if (!is_free_enough(j))
        (void)ct_verdict_add_text(v,
                                  "what was free is hardly more than what was asked for, and the "
                                  "driver keeps a little: the device was full");
    else
        (void)ct_verdict_add_text(v, "as much was free as was asked for: the driver or a limit of "
                                     "the host kept it back");
}

static void judge_phase(const struct judged *j, double less) {
    const enum ct_scenario scenario = j->place.scenario;
    if (scenario == CT_SCENARIO_UNKNOWN)
        return;
    struct ct_verdict *v = add(j, scenario, j->place.confidence - less, j->place.summary);
    add_phase(j, v);
    if (scenario == CT_SCENARIO_WARMUP || scenario == CT_SCENARIO_LOGITS)
        add_meaning(j, v);
    add_free(j, v);
    ct_verdict_set_refuted_by(v, "a trace in which something else grew just before");
    ct_text_advice_add(j->f, v, j->oom);
}

// What others can have held at most: all that is neither free nor this process's; -1: not known.
static int64_t find_most_others(const struct figures *n) {
    return n->unlisted >= 0 ? n->others + n->unlisted : -1;
}

// Which causes the figures exclude, and what would decide on the others.
static void add_excluded(const struct judged *j, struct ct_verdict *v) {
    const struct figures *n = &j->n;
    const int64_t wanted = n->missing > 0 ? n->missing : n->tried, others = find_most_others(n);
    if (n->idle >= 0 && n->tried > n->idle && !ct_verdicts_find(j->v, CT_SCENARIO_FRAGMENTATION))
        (void)ct_verdict_add_text(v,
                                  "excluded: fragmentation of PyTorch's pool (%s was idle in it, "
                                  "%s was asked for)",
                                  size(n->idle).text, size(n->tried).text);
    if (is_free_enough(j)) {
        (void)ct_verdict_add_text(v, "still possible: another process or thread, which gave memory "
                                     "back before the figures were read");
        (void)ct_verdict_add_text(v, "still possible: the host (Windows and WSL bound what all "
                                     "programs commit: a larger page file; MIG and vGPU bound a "
                                     "part)");
        return;
    }
    if (others >= 0 && (others < wanted || others <= n->rounding))
        (void)ct_verdict_add_text(v, "excluded: another process (others held %s at most)",
                                  size(others).text);
    else if (others >= 0 && n->others < 1)
        (void)ct_verdict_add_text(v,
                                  "still possible: another process (%s is outside of this %s; "
                                  "nvidia-smi shows whose it is)",
                                  size(others).text,
                                  n->is_rest ? "one's pool, its context included" : "process");
    else if (n->tried >= 0 && n->others < 1)
        (void)ct_verdict_add_text(v, "still possible: another process (%s shows which there are)",
                                  value(j->oom, CT_TEXT_BACKEND) == 1 ? "rocm-smi" : "nvidia-smi");
    if (n->total > 0 && n->tried > 0)
        (void)ct_verdict_add_text(v, "still possible: a leak, or a step that is too large (a trace "
                                     "tells which)");
}

static void advise_text(const struct judged *j, struct ct_verdict *v) {
    const enum ct_framework program = ct_text_facts_program(j->f);
    const int is_server = ct_server_has_options(program);
    const int is_python =
        (ct_framework_has_torch(program) && j->oom->kind != CT_TEXT_KIND_GPU_OOM) ||
        program == CT_FRAMEWORK_JAX || program == CT_FRAMEWORK_CUPY;
    if (!is_python && program != CT_FRAMEWORK_LLAMA_CPP && !v->advice_count)
        (void)ct_verdict_add_advice(v, "give the whole output of the program, with the lines "
                                       "before the error");
    else if (!j->f->has_frames && is_python)
        (void)ct_verdict_add_advice(v,
                                    "give the traceback of the error, too: its functions name the "
                                    "phase%s",
                                    is_server ? "; and the lines of the start (KV cache, graphs)"
                                              : "");
}

// A place without a scenario: what helps there.
static void advise_place(const struct judged *j, struct ct_verdict *v) {
    if (j->place.where.phase == CT_PHASE_CHECKPOINT)
        (void)ct_verdict_add_advice(v, "gather the state on the host, and on one rank alone (FSDP: "
                                       "StateDictOptions or FullStateDictConfig with CPU offload)");
    if (!is_of_addresses(j->oom))
        return;
    if (ct_text_facts_program(j->f) != CT_FRAMEWORK_LLAMA_CPP)
        (void)ct_verdict_add_advice(v,
                                    "raise or remove the limit of the address space (ulimit -v), "
                                    "because addresses were refused, not memory");
    else
        ct_advice_set(ct_verdict_add_advice(v,
                                            "set it to 1, so that llama.cpp's pool takes memory "
                                            "by cudaMalloc, because a limit of the address space "
                                            "(ulimit -v) refuses the range, not the device"),
                      "GGML_CUDA_NO_VMM", NULL, NULL, "llama.cpp");
}

// What no rule knows: a place, or a message of a framework, that is of no known kind; or too little
// is said.
static void judge_rest(const struct judged *j) {
    const enum ct_phase phase = j->place.where.phase;
    const enum ct_framework program = ct_text_facts_program_at(j->f, &j->place.where);
    const int is_named = *j->oom->place || !ct_phase_is_inner(phase) ||
                         (phase == CT_PHASE_FORWARD && program != CT_FRAMEWORK_NONE);
    const char *whose = program ? "" : "; which program it is of is not known";
    const int is_unknown = is_named || (j->oom->kind == CT_TEXT_KIND_OTHER_OOM && j->n.tried >= 0);
    char summary[160];
    (void)snprintf(summary, sizeof summary, "%s, not what filled the device%s",
                   is_named          ? "the text says where it failed"
                   : j->n.tried >= 0 ? "the message says what was asked for"
                                     : "the message says what failed",
                   whose);
    struct ct_verdict *v = add(j, is_unknown ? CT_SCENARIO_UNKNOWN : CT_SCENARIO_INCOMPLETE,
                               is_unknown ? 0.5 : 0.6, summary);
    add_phase(j, v);
    add_free(j, v);
    add_excluded(j, v);
    advise_place(j, v);
    ct_plain_advice_add(v, program, j->f);
    advise_text(j, v);
}

// ---- errors without sizes -----------------------------------------------------------------------

static void add_bare(const struct judged *j, enum ct_scenario scenario, double confidence,
                     const char *summary) {
    struct ct_verdict *v = add(j, scenario, confidence, summary);
    add_phase(j, v);
    ct_text_advice_add(j->f, v, j->oom);
}

// A CUDA call beside PyTorch's allocator was refused, which would have said sizes.
static void judge_cuda(const struct judged *j) {
    switch (has_torch(j) ? j->place.scenario : CT_SCENARIO_NONE) {
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
        if (j->place.scenario == CT_SCENARIO_UNKNOWN)
            judge_rest(j);
    }
}

// NCCL's own lines name the size, at a level that is not its default.
static void judge_nccl(const struct judged *j) {
    struct ct_verdict *v =
        add(j, CT_SCENARIO_COMMUNICATION, 0.85, "NCCL could not take its buffers");
    add_phase(j, v);
    if (j->n.tried >= 0 && j->n.tried < 16 * MIB) {
        (void)ct_verdict_add_text(v, "that is little: something else had filled the device");
        (void)ct_verdict_add_advice(v, "leave a part of the device to NCCL, because a pool keeps "
                                       "what it once took: a smaller batch or budget, or for "
                                       "PyTorch torch.cuda.set_per_process_memory_fraction");
        return;
    }
    if (j->n.tried < 0)
        ct_advice_set(ct_verdict_add_advice(v, "set it, so that NCCL writes into the log what it "
                                               "could not allocate"),
                      "NCCL_DEBUG=INFO", NULL, NULL, "NCCL 2");
    ct_text_advice_add(j->f, v, j->oom);
}

static void judge_library(const struct judged *j) {
    switch (j->oom->kind) {
    case CT_TEXT_KIND_CUMEM_OOM:
        if (has_place(j) && j->place.scenario != CT_SCENARIO_SLEEP_WAKE)
            judge_phase(j, 0);
        else
            add_bare(j, CT_SCENARIO_SLEEP_WAKE, has_place(j) ? 0.85 : 0.65,
                     "the allocator of vLLM's sleep mode could not take memory back");
        break;
    case CT_TEXT_KIND_CUBLAS_ALLOC:
        add_bare(j, CT_SCENARIO_UNTRACKED_GROWTH, 0.6,
                 "a library could not take its workspace, beside the pools of the program");
        judge_phase(j, 0.4);
        break;
    case CT_TEXT_KIND_NCCL_OOM:
        judge_nccl(j);
        break;
    case CT_TEXT_KIND_NCCL_CUDA:
        if (j->n.tried >= 0) {
            judge_nccl(j);
            break;
        }
        add_bare(j, CT_SCENARIO_COMMUNICATION, 0.5,
                 "NCCL met a CUDA error that it does not name here: its own lines do");
        break;
    default:
        add_bare(j, CT_SCENARIO_COMMUNICATION, 0.75, "the custom all-reduce met a CUDA error");
    }
}

static double find_best(const struct ct_verdicts *v, size_t from) {
    double best = 0;
    for (size_t i = from; i < v->count; i++)
        best = v->list[i].confidence > best ? v->list[i].confidence : best;
    return best;
}

void ct_text_oom_judge(const struct ct_text_facts *f, const struct ct_text_fact *oom,
                       struct ct_verdicts *v) {
    struct judged j = {.f = f, .oom = oom, .v = v, .n = read_figures(oom)};
    j.place = find_place(f, oom, &j.n);
    const size_t before = v->count;
    const int has_figures =
        oom->kind == CT_TEXT_KIND_TORCH_OOM || oom->kind == CT_TEXT_KIND_ASYNC_OOM;
    if (oom->kind == CT_TEXT_KIND_GPU_OOM || is_of_addresses(oom)) {
        judge_rest(&j);
    } else if (oom->kind == CT_TEXT_KIND_CUDA_OOM) {
        judge_cuda(&j);
    } else if (!has_figures && oom->kind != CT_TEXT_KIND_OTHER_OOM &&
               oom->kind != CT_TEXT_KIND_POOL_LIMIT) {
        judge_library(&j);
    } else if (!judge_impossible(&j) && !judge_limit(&j) && !judge_program(&j)) {
        const int others = judge_others(&j);
        judge_fragmentation(&j);
        (void)judge_peak(&j);
        const int planned = judge_plan(&j), budget = judge_budget(&j);
        judge_phase(&j, others || (planned && !has_place(&j)) ? 0.3
                        : budget && is_serving(&j)            ? 0.22
                                                              : 0);
        if (find_best(v, before) < 0.5)
            judge_held(&j);
        if (find_best(v, before) < 0.5)
            judge_rest(&j);
    }
}
