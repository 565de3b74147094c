// SPDX-License-Identifier: Apache-2.0
// What these rules must not do was measured on public threads: memory that is reserved but
// unallocated exceeds most requests without being the cause; a lone "Process N" is the process
// itself under the number that the host knows; several processes are mostly ranks of one job.
#include "diagnose/text_verdicts.h"

#include <inttypes.h>
#include <string.h>

#include "base/human.h"
#include "diagnose/kv_arithmetic.h"
#include "diagnose/server_settings.h"
#include "symbols/phases.h"

#define MIB (INT64_C(1) << 20)
#define GIB (INT64_C(1) << 30)
#define MILLION 1000000

// What else the figures of a message tell.
struct told {
    int64_t tried_step;
    int64_t rounding; // what the last digits of the figures that `unlisted` is made of can hide
    int is_full;      // what was free could not serve the request
    int is_rest;      // the message does not say what this process has
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
    struct ct_figures n;
    struct told told;
    struct place place;
    struct ct_rule_source rules;
};

// Says which process of a list is the one that writes: none if it is named apart; a lone one; of
// several the one that can hold what PyTorch holds.
static int find_own(const struct ct_text_fact *e, const struct ct_figures *n) {
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

static void read_processes(const struct ct_text_fact *e, struct ct_figures *n) {
    const int own = find_own(e, n);
    n->others = n->other_processes = 0;
    if (own >= 0)
        n->in_use = e->processes[own].bytes.value;
    for (unsigned i = 0; i < e->process_count; i++)
        if ((int)i != own) {
            const int64_t held = e->processes[i].bytes.value;
            n->others += held > 0 ? held : 0;
            n->other_processes++;
        }
}

static void read_figures(struct judged *j) {
    const struct ct_text_fact *e = j->oom;
    struct ct_figures *n = &j->n;
    struct told *t = &j->told;
    ct_text_figures_read(n, e);
    t->tried_step = e->values[CT_TEXT_TRIED].step;
    if (n->allocated < 0 && n->current > n->tried && n->tried >= 0)
        n->allocated = n->current - n->tried; // (CuPy up to 6)
    if (n->unallocated < 0 && n->reserved >= n->allocated && n->allocated >= 0)
        n->unallocated = n->reserved - n->allocated;
    n->total = n->total > 0 ? n->total : -1;
    if (n->free > n->total && n->total > 0)
        n->free = -1; // (an APU: no figure)
    if (n->tried >= 0 && n->free >= 0 && n->tried > n->free)
        n->missing = n->tried + t->tried_step - n->free;
    // The driver keeps a reserve: a device is full with less than a 128th of it free.
    t->is_full = n->missing > 0 || (n->tried >= 0 && n->free >= 0 && n->total > 0 &&
                                    n->tried + n->total / 128 > n->free);
    read_processes(e, n);
    t->is_rest = n->in_use <= 0 && n->allocated >= 0 && n->unallocated >= 0;
    const int64_t own = t->is_rest ? n->allocated + n->unallocated : n->in_use;
    if ((own > 0 || t->is_rest) && n->total > 0 && n->free >= 0 && n->others < n->total) {
        n->unlisted = n->total - n->free - own - n->others;
        t->rounding = e->values[CT_TEXT_TOTAL].step + e->values[CT_TEXT_FREE].step +
                      e->values[CT_TEXT_IN_USE].step;
        if (n->unlisted < 0 && n->unlisted >= -t->rounding)
            n->unlisted = 0;
    }
    if (n->in_use > 0 && n->allocated >= 0 && n->unallocated >= 0 &&
        n->in_use > n->allocated + n->unallocated)
        n->untracked = n->in_use - n->allocated - n->unallocated;
}

// ---- where --------------------------------------------------------------------------------------

// A pass through a server's model, without what called it, or a worker's loop: a step that serves,
// where the device is as full as it is after the start.
static int is_step(const struct ct_text_facts *f, const struct ct_text_fact *e,
                   const struct ct_figures *n) {
    const int is_full = n->total > 0 && n->allocated >= n->total / 10 * 9;
    return ct_server_has_options(ct_text_facts_program(f)) &&
           (e->where.phase == CT_PHASE_FORWARD || (e->where.phase == CT_PHASE_OTHER && is_full));
}

static struct place find_place(const struct ct_text_facts *f, const struct ct_text_fact *e,
                               const struct ct_figures *n) {
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

// What the message says of the request, and of the pool that was asked.
static void add_request(const void *self, struct ct_verdict *v) {
    const struct judged *j = self;
    struct ct_figures n = j->n;
    const struct ct_rule_source said = {.figures = &n};
    const enum ct_framework program = ct_text_facts_program(j->f);
    if (n.tried < 0)
        n.what = j->oom->values[CT_TEXT_TRIED].known      ? "asked for a size that is none"
                 : j->oom->kind == CT_TEXT_KIND_NCCL_CUDA ? "a CUDA error without its name"
                                                          : "out of memory, without a size";
    n.whose = has_torch(j) || j->oom->kind == CT_TEXT_KIND_TORCH_OOM ? "PyTorch"
              : program                                              ? ct_framework_title(program)
                                                                     : "the pool";
    if (n.total > 0 && n.allocated >= 0 && n.tried >= 0 && n.allocated <= n.total &&
        n.allocated > n.total - n.tried)
        n.together = n.allocated + n.tried;
    if (n.untracked <= GIB + GIB / 2)
        n.untracked = -1;
    ct_rule_say(&said, v,
                "line <line:int>: asked for <tried:bytes!>[; <free:bytes>[ of <total:bytes>] was "
                "free]|line <line:int>: <what:word>\n"
                "<whose:word> held <allocated:bytes>[, and <unallocated:bytes> idle in its pool]\n"
                "<untracked:bytes> of this process is outside of PyTorch's pool\n"
                "what PyTorch has in use and the request are <together:bytes> together, of "
                "<total:bytes>: no setting of its allocator helps");
}

static void add_phase(const void *self, struct ct_verdict *v) {
    const struct judged *j = self;
    const struct ct_text_step *s = &j->f->step;
    const struct place *p = &j->place;
    struct ct_figures n = j->n;
    const struct ct_rule_source said = {.figures = &n};
    const struct ct_phase_title title = ct_phases_title(
        &(struct ct_phase_at){.phase = p->where.phase, .framework = p->where.framework});
    if (p->where.phase != CT_PHASE_UNKNOWN)
        n.phase = title.text;
    n.known_by = p->known_by;
    n.place = *j->oom->place ? j->oom->place : NULL;
    if (s->line && s->tokens.known && p->scenario == CT_SCENARIO_BURST_PREFILL) {
        n.tokens = s->tokens.value;
        n.step_line = (int64_t)s->line;
        n.requests = (int64_t)s->requests;
    }
    ct_rule_say(&said, v,
                "phase by <known_by:word>: <phase:word>\n"
                "the text names the place: <place:word>\n"
                "line <step_line:int>: the step had <tokens:int> tokens, of <requests:int> new "
                "requests");
}

// Says what the size is, where rows and vocabulary explain it.
static void add_meaning(const void *self, struct ct_verdict *v) {
    const struct judged *j = self;
    const struct ct_text_fact *said = ct_text_facts_find(j->f, CT_TEXT_KIND_SAMPLER_WARMUP);
    const struct ct_text_setting *set = j->f->settings;
    int64_t rows = set[CT_TEXT_FLAG_MAX_NUM_SEQS].number.value / MILLION;
    const int64_t vocabulary = set[CT_TEXT_FLAG_VOCAB_SIZE].number.value / MILLION;
    struct ct_request_size r;
    if (v->scenario == CT_SCENARIO_LOGITS && j->f->step.tokens.known)
        rows = j->f->step.tokens.value;
    else if (v->scenario == CT_SCENARIO_LOGITS)
        rows = set[CT_TEXT_FLAG_MAX_NUM_BATCHED_TOKENS].number.value / MILLION;
    else if (v->scenario != CT_SCENARIO_WARMUP)
        return;
    else if (said && said->values[CT_TEXT_SEQS].known)
        rows = said->values[CT_TEXT_SEQS].value;
    if (!ct_request_size_find(j->n.tried, j->told.tried_step, rows, vocabulary, &r) ||
        (r.others_fit && !said)) // (of the sampler's warm-up the bytes of an element are known)
        return;
    (void)ct_verdict_add_text(
        v, "%s is %" PRId64 " rows x a vocabulary of %" PRId64 " x %" PRId64 " B%s",
        ct_iec((uint64_t)j->n.tried).text, r.rows, r.vocabulary, r.bytes,
        r.vocabulary_given ? ""
        : r.others_fit     ? " (a common vocabulary; others fit, too)"
                           : " (a common vocabulary that fits)");
}

void ct_text_oom_add_evidence(const struct ct_text_facts *f, const struct ct_text_fact *oom,
                              struct ct_verdict *v) {
    struct judged j = {.f = f, .oom = oom};
    read_figures(&j);
    add_request(&j, v);
    add_meaning(&j, v);
}

// The advice of the scenario.
static void advise(const void *self, struct ct_verdict *v) {
    const struct judged *j = self;
    ct_text_advice_add(j->f, v, j->oom);
}

static struct ct_verdict *add_sure(const struct judged *j, enum ct_rule rule, double confidence) {
    return ct_rule_add_sure(&j->rules, rule, confidence);
}

static int add(const struct judged *j, enum ct_rule rule) {
    return ct_rule_add(&j->rules, rule) != NULL;
}

static void say(const struct judged *j, struct ct_verdict *v, const char *sentences) {
    ct_rule_say(&j->rules, v, sentences);
}

// ---- rules --------------------------------------------------------------------------------------

// The most memory that one device has: NVIDIA's (B300), and any (MI355X).
#define LARGEST_NVIDIA (270 * GIB)
#define LARGEST (288 * GIB)

static int is_larger_than_any(const struct judged *j) {
    const struct ct_text_value *tried = &j->oom->values[CT_TEXT_TRIED];
    return tried->known && tried->value > (j->n.backend == 0 ? LARGEST_NVIDIA : LARGEST);
}

// A request larger than the device. (Windows lends memory of the host: there more than all is
// allocated.)
static int judge_impossible(const struct judged *j) {
    const struct ct_figures *n = &j->n;
    if (is_larger_than_any(j))
        return add(j, CT_RULE_TEXT_LARGER_THAN_ANY);
    return n->total > 0 && n->tried - j->told.tried_step > n->total && n->allocated <= n->total &&
           add(j, CT_RULE_TEXT_LARGER_THAN_DEVICE);
}

// What a compiled program of XLA needs at once, which no device of less can run. (What any device
// has is no reason.)
static int judge_program(const struct judged *j) {
    return j->oom->kind == CT_TEXT_KIND_OTHER_OOM && j->n.needed >= 2 * GIB &&
           add(j, CT_RULE_TEXT_PROGRAM);
}

// What sets the limit of a pool, by program; the last row: PyTorch, whoever uses it.
static void advise_limit(const void *self, struct ct_verdict *v) {
    static const struct {
        enum ct_framework program;
        const char *setter;
    } rows[] = {{CT_FRAMEWORK_TGI, "--cuda-memory-fraction"},
                {CT_FRAMEWORK_CUPY, "set_limit of its memory pool"},
                {CT_FRAMEWORK_RMM, "maximum_pool_size"},
                {CT_FRAMEWORK_ONNX_RUNTIME, "gpu_mem_limit of its CUDA provider"},
                {CT_FRAMEWORK_TENSORFLOW, "memory_limit of its logical device"},
                {CT_FRAMEWORK_NONE, "torch.cuda.set_per_process_memory_fraction"}};
    const struct judged *j = self;
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
    const struct ct_figures *n = &j->n;
    const int is_reached = n->limit > 0 && (n->total <= 0 || n->limit < n->total) &&
                           n->allocated >= 0 &&
                           n->allocated + (n->unallocated > 0 ? n->unallocated : 0) + n->tried >
                               n->limit - n->limit / 64;
    return (is_reached || j->oom->kind == CT_TEXT_KIND_POOL_LIMIT) && add(j, CT_RULE_TEXT_LIMIT);
}

// Others on the device, if what they hold is more than what was missing. Returns whether they
// decide: not if one of them must be there, because the failed call receives what it holds.
static int judge_others(const struct judged *j) {
    const struct ct_figures *n = &j->n;
    const int is_rest = j->told.is_rest, is_partner = j->place.where.is_ipc;
    const int64_t ranks = ct_text_advice_ranks(j->f);
    const int64_t least = n->missing > 256 * MIB ? n->missing : 256 * MIB;
    // (outside of the pool is this process's own context, too, with libraries and graphs)
    const int64_t part = is_rest ? n->total / 8 : n->total / 20;
    const int64_t own = is_rest ? 2 * GIB : GIB + GIB / 2;
    const int64_t unseen = part > own ? part : own;
    if (n->other_processes && ranks > n->other_processes)
        return 0; // ranks of the same job
    if (!j->told.is_full || (n->others < least && (n->unlisted < unseen || n->unlisted < least)))
        return 0;
    const int listed = n->others >= least;
    const int decides = listed && ranks == 1 && !is_partner;
    const double alone = n->unlisted > n->total / 4 && !is_partner ? 0.82 : 0.5;
    const double confidence = decides ? 0.82 : listed ? 0.5 : alone;
    struct ct_verdict *v =
        add_sure(j, CT_RULE_TEXT_CO_TENANT, is_rest ? confidence - 0.1 : confidence);
    say(j, v,
        listed ? "<other_processes:int> other process<other_processes:-es> held <others:bytes>[; "
                 "about <missing:bytes> was missing]"
        : is_rest ? "<unlisted:bytes> of the device is outside of this process's pool"
                  : "<unlisted:bytes> of the device is held by none that the message names");
    if (is_partner)
        say(j, v,
            "the traceback receives weights by CUDA IPC: the process that sends them holds "
            "them on this device");
    ct_verdict_set_refuted_by(
        v, is_partner ? "a trace in which the other process is the one that sends the weights"
           : is_rest  ? "no other process in nvidia-smi: another library of this one holds it"
                      : "a trace in which the other process is a rank of the same job");
    if (!is_partner)
        advise(j, v);
    return decides || confidence > 0.8;
}

// Idle memory of the pool is only likely to be the cause where there is much of it: at least 1 GiB,
// and a good part of all that PyTorch holds. Graphs' pools were called unallocated before torch
// 2.4. Before it fails, PyTorch gives back what is idle in whole segments: what is left shares its
// segments with blocks.
static void judge_fragmentation(struct judged *j) {
    struct ct_figures *n = &j->n;
    const int64_t free = n->free > 0 ? n->free : 0, idle = n->unallocated;
    if (idle < GIB || n->tried < 20 * MIB || idle + free < n->tried || n->tried <= free)
        return;
    const int is_enough = idle >= n->tried;
    const int64_t pool = n->allocated + idle;
    n->idle_share = (int)(((__int128)idle * 100 + pool / 2) / pool);
    n->idle_and_free = idle + free;
    if ((n->idle_share < 10 && !is_enough) || j->place.scenario == CT_SCENARIO_GRAPH_CAPTURE)
        return;
    (void)add_sure(j, is_enough ? CT_RULE_TEXT_FRAGMENTATION : CT_RULE_TEXT_IN_ONE_PIECE,
                   is_enough && n->idle_share >= 20   ? 0.82
                   : is_enough && n->idle_share >= 10 ? 0.5
                                                      : 0.4);
}

// What vLLM had planned for PyTorch: weights, activations and the KV cache; -1: a line is missing.
static int64_t find_planned(const struct ct_text_facts *f) {
    const struct ct_text_fact *suggestion = ct_text_facts_find(f, CT_TEXT_KIND_SUGGESTION),
                              *memory = ct_text_facts_find(f, CT_TEXT_KIND_KV_MEMORY);
    struct ct_figures plan, kv;
    if (!suggestion || !memory)
        return -1;
    ct_text_figures_read(&plan, suggestion);
    ct_text_figures_read(&kv, memory);
    return plan.weights < 0 || kv.kv < 0
               ? -1
               : plan.weights + kv.kv + (plan.activation > 0 ? plan.activation : 0);
}

static int is_serving(const struct judged *j) {
    return j->place.scenario == CT_SCENARIO_BURST_PREFILL;
}

// PyTorch holds more than vLLM planned for it.
static int judge_plan(struct judged *j) {
    j->n.planned = find_planned(j->f);
    j->n.more = j->n.allocated - j->n.planned;
    return is_serving(j) && j->n.planned >= 0 && j->n.more >= 512 * MIB &&
           add_sure(j, CT_RULE_TEXT_PLAN, has_place(j) ? 0.45 : 0.6) != NULL;
}

// A peak that rises from line to line: each step keeps something. (One that the largest input has
// made stays.)
static void judge_peak(struct judged *j) {
    const struct ct_text_peak *p = &j->f->peak;
    enum { FEW = 4, MANY = 10 };
    if (p->rises < FEW || p->last_line > j->oom->line)
        return;
    j->n.first_line = (int64_t)p->first_line;
    j->n.last_line = (int64_t)p->last_line;
    j->n.first_peak = p->first;
    j->n.last_peak = p->last;
    j->n.rises = (int64_t)p->rises;
    (void)add_sure(j, CT_RULE_TEXT_PEAK, p->rises < MANY ? 0.6 : 0.8);
}

// Advice to leave more outside of the budget.
static void advise_budget(const struct judged *j, struct ct_verdict *v, const char *why) {
    ct_text_advice_budget(j->f, v, j->n.missing > 0 ? j->n.missing : 0, why);
}

// Much of the process outside of PyTorch's pool, or a budget of almost all.
static int judge_budget(const struct judged *j) {
    const struct ct_figures *n = &j->n;
    const int is_server = ct_server_has_options(ct_text_facts_program(j->f));
    // (contexts, graphs and libraries take as much in any process)
    const int much = n->untracked > GIB + GIB / 2 && (has_place(j) || n->untracked > n->total / 8);
    const int is_tight = n->share >= 950000 && is_serving(j) && n->total > 0;
    if ((!much && !is_tight) || (has_place(j) && !is_serving(j) && !much))
        return 0;
    struct ct_verdict *v =
        add_sure(j, is_server ? CT_RULE_TEXT_BUDGET : CT_RULE_TEXT_OUTSIDE_OF_POOL,
                 much && !has_place(j) ? 0.55 : 0.62);
    if (is_server || n->untracked <= n->allocated)
        advise_budget(j, v, "leave more for what is outside of PyTorch's pool");
    else
        (void)ct_verdict_add_advice(v, "make smaller what is outside of PyTorch's pool (engines, "
                                       "their KV caches, other libraries), because it is nearly "
                                       "all");
    return 1;
}

// Where nothing says when it failed: vLLM fits the KV cache into its budget, so a pool about as
// large as the budget has it already, and a larger one was filled before it.
static void judge_held(struct judged *j) {
    struct ct_figures *n = &j->n;
    if (j->place.known_by || ct_text_facts_program(j->f) != CT_FRAMEWORK_VLLM || n->share <= 0 ||
        n->total <= 0 || n->allocated < 0)
        return;
    n->held = n->allocated + (n->unallocated > 0 ? n->unallocated : 0);
    n->budget = (int64_t)((__int128)n->total * n->share / MILLION);
    if (n->held > n->budget + n->budget / 16)
        (void)add(j, CT_RULE_TEXT_MORE_THAN_BUDGET);
    else if (n->held >= n->budget - n->budget / 16)
        advise_budget(j, ct_rule_add(&j->rules, CT_RULE_TEXT_WHOLE_BUDGET),
                      "leave more for steps and graphs");
}

// Whether more was free than was asked for. (PyTorch asks for whole steps of 2 MiB, and figures are
// rounded: as much can seem free.)
static int is_free_enough(const struct judged *j) {
    const struct ct_figures *n = &j->n;
    return n->free >= 0 && n->tried >= 0 &&
           n->free - n->tried > j->oom->values[CT_TEXT_FREE].step + j->told.tried_step &&
           !j->told.is_full;
}

static void add_free(const void *self, struct ct_verdict *v) {
    const struct judged *j = self;
    const struct ct_figures *n = &j->n;
    if (n->free < 0 || n->tried < 0 || n->tried > n->free)
        return;
    say(j, v,
        is_free_enough(j) ? "as much was free as was asked for: the driver or a limit of the host "
                            "kept it back"
                          : "what was free is hardly more than what was asked for, and the driver "
                            "keeps a little: the device was full");
}

static void judge_phase(const struct judged *j, double less) {
    if (j->place.scenario != CT_SCENARIO_UNKNOWN)
        (void)ct_rule_add_as(&j->rules, CT_RULE_TEXT_PHASE, j->place.scenario,
                             j->place.confidence - less, j->place.summary);
}

// Which causes the figures exclude, and what would decide on the others.
static void add_excluded(const void *self, struct ct_verdict *v) {
    const struct judged *j = self;
    const struct ct_figures *n = &j->n;
    // What others can have held at most: all that is neither free nor this process's.
    const int64_t wanted = n->missing > 0 ? n->missing : n->tried, others = n->most_others;
    if (n->tried > n->unallocated && !ct_verdicts_find(j->rules.to, CT_SCENARIO_FRAGMENTATION))
        say(j, v,
            "excluded: fragmentation of PyTorch's pool (<unallocated:bytes> was idle in it, "
            "<tried:bytes> was asked for)");
    if (is_free_enough(j)) {
        say(j, v,
            "still possible: another process or thread, which gave memory back before the "
            "figures were read\n"
            "still possible: the host (Windows and WSL bound what all programs commit: a "
            "larger page file; MIG and vGPU bound a part)");
        return;
    }
    if (others >= 0 && (others < wanted || others <= j->told.rounding))
        say(j, v, "excluded: another process (others held <most_others:bytes> at most)");
    else if (others >= 0 && n->others < 1)
        say(j, v,
            j->told.is_rest
                ? "still possible: another process (<most_others:bytes> is outside of this one's "
                  "pool, its context included; nvidia-smi shows whose it is)"
                : "still possible: another process (<most_others:bytes> is outside of "
                  "this process; "
                  "nvidia-smi shows whose it is)");
    else if (n->tried >= 0 && n->others < 1)
        say(j, v,
            n->backend == 1 ? "still possible: another process (rocm-smi shows which there are)"
                            : "still possible: another process (nvidia-smi shows which there are)");
    if (n->total > 0 && n->tried > 0)
        say(j, v, "still possible: a leak, or a step that is too large (a trace tells which)");
}

static void advise_text(const void *self, struct ct_verdict *v) {
    const struct judged *j = self;
    const enum ct_framework program = ct_text_facts_program(j->f);
    const int is_python =
        (ct_framework_has_torch(program) && j->oom->kind != CT_TEXT_KIND_GPU_OOM) ||
        program == CT_FRAMEWORK_JAX || program == CT_FRAMEWORK_CUPY;
    if (!is_python && program != CT_FRAMEWORK_LLAMA_CPP && !v->advice_count)
        (void)ct_verdict_add_advice(v, "give the whole output of the program, with the lines "
                                       "before the error");
    else if (!j->f->has_frames && is_python)
        (void)ct_verdict_add_advice(
            v, "give the traceback of the error, too: its functions name the phase%s",
            ct_server_has_options(program) ? "; and the lines of the start (KV cache, graphs)"
                                           : "");
}

// A place without a scenario: what helps there.
static void advise_place(const void *self, struct ct_verdict *v) {
    const struct judged *j = self;
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
        ct_verdict_add_setting(
            v, "GGML_CUDA_NO_VMM", NULL, NULL, "llama.cpp",
            "set it to 1, so that llama.cpp's pool takes memory by cudaMalloc, "
            "because a limit of the address space (ulimit -v) refuses the range, "
            "not the device");
}

static void advise_plainly(const void *self, struct ct_verdict *v) {
    const struct judged *j = self;
    const struct ct_server server = {.is = ct_text_facts_program_at(j->f, &j->place.where),
                                     .log = j->f};
    ct_plain_advice_add(v, &server);
}

// What no rule knows: a place, or a message of a framework, that is of no known kind; or too little
// is said.
static void judge_rest(const struct judged *j) {
    const enum ct_phase phase = j->place.where.phase;
    const enum ct_framework program = ct_text_facts_program_at(j->f, &j->place.where);
    const int is_named = *j->oom->place || !ct_phase_is_inner(phase) ||
                         (phase == CT_PHASE_FORWARD && program != CT_FRAMEWORK_NONE);
    const int is_unknown = is_named || (j->oom->kind == CT_TEXT_KIND_OTHER_OOM && j->n.tried >= 0);
    char summary[160];
    (void)snprintf(summary, sizeof summary, "%s, not what filled the device%s",
                   is_named          ? "the text says where it failed"
                   : j->n.tried >= 0 ? "the message says what was asked for"
                                     : "the message says what failed",
                   program ? "" : "; which program it is of is not known");
    (void)ct_rule_add_as(&j->rules, CT_RULE_TEXT_REST,
                         is_unknown ? CT_SCENARIO_UNKNOWN : CT_SCENARIO_INCOMPLETE,
                         is_unknown ? 0.5 : 0.6, summary);
}

// ---- errors without sizes -----------------------------------------------------------------------

// A CUDA call beside PyTorch's allocator was refused, which would have said sizes.
static void judge_cuda(const struct judged *j) {
    const enum ct_scenario scenario = j->place.scenario;
    double less = 0;
    if (has_torch(j) && scenario == CT_SCENARIO_STARTUP_KV_POOL) {
        (void)add(j, CT_RULE_TEXT_SWAP_SPACE);
        less = 0.3;
    } else if (has_torch(j) &&
               (scenario == CT_SCENARIO_BURST_PREFILL || scenario == CT_SCENARIO_LOGITS)) {
        (void)add(j, CT_RULE_TEXT_BESIDE_ALLOCATOR);
        less = 0.35;
    }
    if (scenario == CT_SCENARIO_UNKNOWN)
        judge_rest(j);
    else
        judge_phase(j, less);
}

// NCCL's own lines name the size, at a level that is not its default.
static void judge_nccl(const struct judged *j) {
    enum { LITTLE = 16 << 20 };
    if (j->n.tried >= 0 && j->n.tried < LITTLE) {
        (void)add(j, CT_RULE_TEXT_LITTLE_FOR_NCCL);
        return;
    }
    struct ct_verdict *v = ct_rule_add(&j->rules, CT_RULE_TEXT_NCCL);
    if (j->n.tried < 0)
        ct_verdict_add_setting(
            v, "NCCL_DEBUG=INFO", NULL, NULL, "NCCL 2",
            "set it, so that NCCL writes into the log what it could not allocate");
    advise(j, v);
}

static void judge_library(const struct judged *j) {
    switch (j->oom->kind) {
    case CT_TEXT_KIND_CUMEM_OOM:
        if (has_place(j) && j->place.scenario != CT_SCENARIO_SLEEP_WAKE)
            judge_phase(j, 0);
        else
            (void)add_sure(j, CT_RULE_TEXT_SLEEP_ALLOCATOR, has_place(j) ? 0.85 : 0.65);
        break;
    case CT_TEXT_KIND_CUBLAS_ALLOC:
        (void)add(j, CT_RULE_TEXT_WORKSPACE);
        judge_phase(j, 0.4);
        break;
    case CT_TEXT_KIND_NCCL_CUDA:
        if (j->n.tried < 0) {
            (void)add(j, CT_RULE_TEXT_NCCL_CUDA);
            break;
        }
        judge_nccl(j);
        break;
    case CT_TEXT_KIND_NCCL_OOM:
        judge_nccl(j);
        break;
    default:
        (void)add(j, CT_RULE_TEXT_ALL_REDUCE);
    }
}

static double find_best(const struct ct_verdicts *v, size_t from) {
    double best = 0;
    for (size_t i = from; i < v->count; i++)
        best = v->list[i].confidence > best ? v->list[i].confidence : best;
    return best;
}

static void judge(struct judged *j) {
    const enum ct_text_kind kind = j->oom->kind;
    const size_t before = j->rules.to->count;
    const int has_figures = kind == CT_TEXT_KIND_TORCH_OOM || kind == CT_TEXT_KIND_ASYNC_OOM ||
                            kind == CT_TEXT_KIND_OTHER_OOM || kind == CT_TEXT_KIND_POOL_LIMIT;
    if (kind == CT_TEXT_KIND_GPU_OOM || is_of_addresses(j->oom)) {
        judge_rest(j);
    } else if (kind == CT_TEXT_KIND_CUDA_OOM) {
        judge_cuda(j);
    } else if (!has_figures) {
        judge_library(j);
    } else if (!judge_impossible(j) && !judge_limit(j) && !judge_program(j)) {
        const int others = judge_others(j);
        judge_fragmentation(j);
        judge_peak(j);
        const int planned = judge_plan(j), budget = judge_budget(j);
        judge_phase(j, others || (planned && !has_place(j)) ? 0.3
                       : budget && is_serving(j)            ? 0.22
                                                            : 0);
        if (find_best(j->rules.to, before) < 0.5)
            judge_held(j);
        if (find_best(j->rules.to, before) < 0.5)
            judge_rest(j);
    }
}

void ct_text_oom_judge(const struct ct_text_facts *f, const struct ct_text_fact *oom,
                       struct ct_verdicts *v) {
    static const struct ct_rule_step steps[] = {{"request", add_request},
                                                {"phase", add_phase},
                                                {"meaning", add_meaning},
                                                {"free", add_free},
                                                {"excluded", add_excluded},
                                                {"scenario", advise},
                                                {"limit", advise_limit},
                                                {"place", advise_place},
                                                {"plain", advise_plainly},
                                                {"text", advise_text},
                                                {NULL, NULL}};
    struct judged j = {.f = f, .oom = oom};
    struct ct_figures *n = &j.n;
    read_figures(&j);
    j.place = find_place(f, oom, n);
    j.rules = (struct ct_rule_source){
        .to = v, .device = ct_text_device(oom), .figures = n, .steps = steps, .self = &j};
    const int64_t share = ct_text_advice_share(f);
    n->share = share ? share : -1;
    n->left =
        share && n->total > 0 ? (int64_t)((__int128)n->total * (MILLION - share) / MILLION) : -1;
    n->most_others = n->unlisted >= 0 ? n->others + n->unlisted : -1;
    judge(&j);
}
