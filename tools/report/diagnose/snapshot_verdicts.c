// SPDX-License-Identifier: Apache-2.0
#include "diagnose/snapshot_verdicts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/heap.h"
#include "diagnose/phase_scenarios.h"
#include "diagnose/plain_advice.h"

// ---- the case -----------------------------------------------------------------------------------

static void count_entries(struct ct_snapshot_case *c) {
    for (int d = 0; d < CT_SNAPSHOT_DEVICES; d++) {
        c->entries += c->snapshot->history[d].count;
        c->ooms += c->snapshot->history[d].ooms;
    }
}

static int has_segments(const struct ct_snapshot *s, int device) {
    for (size_t i = 0; i < s->segment_count; i++)
        if (s->segments[i].device == device)
            return 1;
    return 0;
}

// The device whose blocks were the most, and when; -1: the snapshot is empty.
static int find_peak(const struct ct_snapshot *s, size_t *at) {
    uint64_t most = 0;
    int device = -1;
    for (int d = 0; d < CT_SNAPSHOT_DEVICES; d++) {
        uint64_t bytes;
        const size_t peak = ct_snapshot_find_peak(s, d, &bytes);
        if (bytes <= most && (device >= 0 || !has_segments(s, d)))
            continue;
        most = bytes;
        device = d;
        *at = peak;
    }
    return device;
}

static void group_holders(struct ct_snapshot_case *c) {
    const struct ct_snapshot_pool *p = &c->pool;
    struct ct_holding *list = ct_heap_alloc_zeroed(p->holder_count, sizeof *list);
    for (size_t i = 0; i < p->holder_count; i++)
        list[i] = (struct ct_holding){.kind = CT_HOLDING_BLOCK,
                                      .stack = p->holders[i].stack,
                                      .bytes = p->holders[i].bytes,
                                      .count = p->holders[i].count};
    ct_site_groups_refine(c->sites, list, p->holder_count);
    ct_site_groups_build(&c->groups, c->sites, list, p->holder_count);
    free(list);
}

void ct_snapshot_case_make(struct ct_snapshot_case *c, struct ct_snapshot *s,
                           struct ct_call_sites *sites, struct ct_phases *phases) {
    *c = (struct ct_snapshot_case){.snapshot = s, .sites = sites, .phases = phases};
    struct ct_snapshot_pool_key key = {0};
    count_entries(c);
    c->device = ct_snapshot_find_oom(s, &c->at);
    if (c->device >= 0) {
        c->oom = &s->history[c->device].list[c->at];
        c->phase = ct_phases_find(phases, c->oom->stack);
        c->component = ct_phases_find_component(phases, c->oom->stack);
        key = (struct ct_snapshot_pool_key){.stream = s->by_cutrace ? 0 : c->oom->stream,
                                            .pool = {c->oom->pool[0], c->oom->pool[1]},
                                            .is_small = c->oom->bytes <= UINT64_C(1) << 20};
    } else {
        c->device = find_peak(s, &c->at);
    }
    if (c->device < 0)
        return;
    ct_snapshot_pool_find(&c->pool, s, c->device, c->at, c->oom ? &key : NULL);
    group_holders(c);
}

void ct_snapshot_case_free(struct ct_snapshot_case *c) {
    ct_snapshot_pool_free(&c->pool);
    ct_site_groups_free(&c->groups);
}

struct ct_human_text ct_snapshot_case_name_moment(const struct ct_snapshot_case *c) {
    struct ct_human_text text = {"at the end"};
    if (c->oom)
        return (struct ct_human_text){"just before the request"};
    if (c->at < c->snapshot->history[c->device].count)
        (void)snprintf(text.text, sizeof text.text, "at the peak, entry %zu", c->at);
    return text;
}

int ct_snapshot_case_is_expandable(const struct ct_snapshot_case *c) {
    const struct ct_snapshot *s = c->snapshot;
    const struct ct_pickle_value *v =
        ct_pickle_find(&s->document, s->settings, "expandable_segments");
    return v && v->type == CT_PICKLE_IS_BOOL ? v->number != 0 : -1;
}

// ---- the verdicts -------------------------------------------------------------------------------

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define TIB (UINT64_C(1) << 40)

static struct ct_human_text size(uint64_t bytes) {
    return ct_human_bytes(bytes, CT_UNITS_IEC);
}

static void set_bytes(struct ct_evidence *e, uint64_t bytes) {
    e->bytes_known = 1;
    e->bytes = bytes;
}

// ---- evidence ----------------------------------------------------------------------------------

static void add_request(const struct ct_snapshot_case *c, struct ct_verdict *v) {
    const struct ct_snapshot_entry *o = c->oom;
    const struct ct_human_text when = o->time_us && o->time_us < UINT64_MAX / 1000
                                          ? ct_human_date_and_time(o->time_us * 1000)
                                          : (struct ct_human_text){"-"};
    if (o->free_known)
        set_bytes(ct_verdict_add_text(
                      v, "entry %zu of its history, at %s: asked for %s; %s was free on the device",
                      c->at + 1, when.text, size(o->bytes).text, size(o->address).text),
                  o->bytes);
    else
        set_bytes(ct_verdict_add_text(v, "entry %zu of its history, at %s: asked for %s", c->at + 1,
                                      when.text, size(o->bytes).text),
                  o->bytes);
}

static void add_phase(const struct ct_snapshot_case *c, struct ct_verdict *v) {
    if (c->phase.phase != CT_PHASE_UNKNOWN)
        (void)ct_verdict_add_text(v, "during: %s", ct_phases_title(&c->phase).text);
}

static void add_pool(const struct ct_snapshot_case *c, struct ct_verdict *v) {
    const struct ct_snapshot_pool *p = &c->pool;
    if (c->device < 0)
        return;
    set_bytes(ct_verdict_add_text(
                  v,
                  "PyTorch held %s in %s segment%s %s: %s in blocks, %s idle, of which the largest "
                  "free block had %s",
                  size(p->reserved).text, ct_human_count(p->segments).text,
                  ct_human_plural(p->segments), ct_snapshot_case_name_moment(c).text,
                  size(p->allocated + p->pending).text, size(p->free.bytes).text,
                  size(p->free.largest).text),
              p->reserved);
}

static void add_sites(const struct ct_snapshot_case *c, struct ct_verdict *v) {
    enum { MOST = 3 };
    const uint64_t all = c->pool.allocated + c->pool.pending;
    for (size_t i = 0; i < c->groups.count && i < MOST && all; i++) {
        const struct ct_site_group *g = &c->groups.list[i];
        if (g->bytes < all / 50)
            break;
        set_bytes(ct_verdict_add_text(v, "%s of the blocks (%s): %s", size(g->bytes).text,
                                      ct_human_percent(g->bytes, all).text, g->label),
                  g->bytes);
    }
}

static struct ct_verdict *add(const struct ct_snapshot_case *c, struct ct_verdicts *l,
                              enum ct_scenario scenario, double confidence, const char *summary) {
    struct ct_verdict *v = ct_verdicts_add(l, scenario, confidence, c->device, "%s", summary);
    add_request(c, v);
    add_phase(c, v);
    return v;
}

// ---- advice ------------------------------------------------------------------------------------

// What the driver would have had to give beyond what was free.
static uint64_t find_missing(const struct ct_snapshot_case *c) {
    const uint64_t wanted = ct_snapshot_segment_bytes(c->oom->bytes);
    return c->oom->free_known && wanted > c->oom->address ? wanted - c->oom->address : 0;
}

// Settings of vLLM by scenario. Their values are not in a snapshot.
static const struct {
    enum ct_scenario scenario;
    const char *flag, *versions, *text;
} of_vllm[] = {
    {CT_SCENARIO_STARTUP_WEIGHTS, "--tensor-parallel-size", NULL,
     "raise it, to spread the weights over more GPUs, or load quantized weights"},
    {CT_SCENARIO_STARTUP_PROFILE, "--max-num-batched-tokens", NULL,
     "lower it, because the profile run takes memory in proportion to it"},
    {CT_SCENARIO_MULTIMODAL, "--limit-mm-per-prompt", "vLLM 0.5 and later",
     "lower it, because the profile run takes as many items as are allowed, of the largest size"},
    {CT_SCENARIO_STARTUP_KV_POOL, "--gpu-memory-utilization", NULL,
     "lower it, because a smaller budget makes a smaller KV cache"},
    {CT_SCENARIO_GRAPH_CAPTURE, "--gpu-memory-utilization", NULL,
     "lower it, because a smaller budget leaves more outside of the KV cache"},
    {CT_SCENARIO_WARMUP, "--max-num-seqs", NULL,
     "lower it, because the sampler's buffers have a row for each request"},
    {CT_SCENARIO_BURST_PREFILL, "--max-num-batched-tokens", NULL,
     "lower it, because a step takes memory in proportion to it"},
    {CT_SCENARIO_LOGITS, "--max-num-batched-tokens", NULL,
     "lower it, because logits have a row for each token whose log-probability is asked for"},
};

static void advise_vllm(const struct ct_snapshot_case *c, struct ct_verdict *v) {
    const uint64_t missing = find_missing(c);
    if (c->phase.framework != CT_FRAMEWORK_VLLM)
        return;
    for (size_t i = 0; i < sizeof of_vllm / sizeof *of_vllm; i++) {
        if (of_vllm[i].scenario != v->scenario)
            continue;
        struct ct_advice *a =
            missing ? ct_verdict_add_advice(v,
                                            "%s; %s - %s = %s was missing. A snapshot does not "
                                            "have its value, but the server's log does",
                                            of_vllm[i].text,
                                            size(ct_snapshot_segment_bytes(c->oom->bytes)).text,
                                            size(c->oom->address).text, size(missing).text)
                    : ct_verdict_add_advice(v, "%s", of_vllm[i].text);
        ct_advice_set(a, of_vllm[i].flag, NULL, NULL, of_vllm[i].versions);
    }
}

static void advise_fragmentation(const struct ct_snapshot_case *c, struct ct_verdict *v) {
    ct_plain_advice_expandable(v, ct_server_of_request(c->phase.framework, NULL, NULL),
                               ct_snapshot_case_is_expandable(c) > 0, "PYTORCH_CUDA_ALLOC_CONF",
                               NULL);
}

// ---- rules -------------------------------------------------------------------------------------

// No device has that much.
static int judge_impossible(const struct ct_snapshot_case *c, struct ct_verdicts *l) {
    if (c->oom->bytes < TIB)
        return 0;
    struct ct_verdict *v = add(c, l, CT_SCENARIO_IMPOSSIBLE_REQUEST, 0.85,
                               "more was asked for at once than any device has");
    (void)ct_verdict_add_advice(v, "no setting helps: look at the call site of the request");
    return 1;
}

// The driver had enough for the request, with a margin for its own steps, and was not asked.
static int judge_limit(const struct ct_snapshot_case *c, struct ct_verdicts *l) {
    const uint64_t wanted = ct_snapshot_segment_bytes(c->oom->bytes);
    if (!c->oom->free_known || c->oom->address < wanted || c->oom->address - wanted < 64 * MIB)
        return 0;
    struct ct_verdict *v =
        add(c, l, CT_SCENARIO_MIS_BUDGET, 0.6,
            "the device had more free than was asked for: PyTorch kept to a limit of its own");
    add_pool(c, v);
    (void)ct_verdict_add_advice(v, "look for set_per_process_memory_fraction in the program, or "
                                   "per_process_memory_fraction in PYTORCH_CUDA_ALLOC_CONF");
    ct_verdict_set_refuted_by(v, "a failed call of the driver in a trace");
    return 1;
}

// Adds the call site whose blocks hold the most free memory of segments open.
static void add_held_open(const struct ct_snapshot_case *c, struct ct_verdict *v) {
    const struct ct_snapshot_holder *most = NULL;
    char label[1200];
    for (size_t i = 0; i < c->pool.holder_count; i++)
        if (!most || c->pool.holders[i].held_open > most->held_open)
            most = &c->pool.holders[i];
    if (!most || !most->held_open)
        return;
    ct_call_sites_label(c->sites, most->stack, label, sizeof label);
    set_bytes(ct_verdict_add_text(v,
                                  "%s of it lies in segments that blocks of %s hold open (%s in "
                                  "%s block%s)",
                                  size(most->held_open).text, label, size(most->bytes).text,
                                  ct_human_count(most->count).text, ct_human_plural(most->count)),
              most->held_open);
}

// Enough was idle for the request, in free blocks of its own stream and pool of which none was
// large enough. Returns whether that decides.
static int judge_fragmentation(const struct ct_snapshot_case *c, struct ct_verdicts *l) {
    const struct ct_snapshot_free *f = &c->pool.usable;
    if (f->bytes < c->oom->bytes || f->largest >= c->oom->bytes || !c->oom->bytes)
        return 0;
    const int is_much = f->bytes >= GIB || f->bytes >= c->pool.reserved / 10;
    struct ct_verdict *v =
        add(c, l, CT_SCENARIO_FRAGMENTATION, is_much ? 0.8 : 0.4,
            "PyTorch's pool had enough idle memory, but no idle block was large enough");
    set_bytes(ct_verdict_add_text(v, "%s was idle for it in %s free block%s, the largest of %s",
                                  size(f->bytes).text, ct_human_count(f->ranges).text,
                                  ct_human_plural(f->ranges), size(f->largest).text),
              f->bytes);
    add_held_open(c, v);
    advise_fragmentation(c, v);
    ct_verdict_set_refuted_by(v, "a request of this size that fails with expandable segments, too");
    return is_much;
}

static void judge_phase(const struct ct_snapshot_case *c, int cause_known, struct ct_verdicts *l) {
    const char *summary = "more was asked for than was left; no frame of the request names a phase";
    const enum ct_scenario scenario = ct_phase_scenario(c->phase.phase, c->component, &summary);
    const double confidence = scenario == CT_SCENARIO_UNKNOWN ? 0.3 : 0.7;
    if (scenario == CT_SCENARIO_UNKNOWN && cause_known)
        return;
    struct ct_verdict *v =
        add(c, l, scenario, cause_known ? confidence - 0.3 : confidence, summary);
    add_pool(c, v);
    add_sites(c, v);
    advise_vllm(c, v);
    if (scenario == CT_SCENARIO_UNKNOWN)
        (void)ct_verdict_add_advice(
            v, c->oom->stack ? "record a trace: it also has what PyTorch did not allocate"
                             : "record the frames, too (stacks=\"python\" of "
                               "_record_memory_history), or a trace");
    ct_verdict_set_refuted_by(v, "memory outside of PyTorch that grew: no snapshot has it");
}

// ---- no request failed -------------------------------------------------------------------------

static void judge_quiet(const struct ct_snapshot_case *c, struct ct_verdicts *l) {
    const int has_history = c->entries != 0;
    struct ct_verdict *v =
        has_history
            ? ct_verdicts_add(l, CT_SCENARIO_NONE, 0.6, c->device,
                              "no request to PyTorch's allocator failed in this snapshot")
            : ct_verdicts_add(l, CT_SCENARIO_INCOMPLETE, 0.6, c->device,
                              "the snapshot has no history: what happened before its end is not "
                              "known");
    if (has_history)
        (void)ct_verdict_add_text(v, "%s entr%s of history, none of which is an out-of-memory",
                                  ct_human_count(c->entries).text, c->entries == 1 ? "y" : "ies");
    add_pool(c, v);
    add_sites(c, v);
    if (has_history)
        ct_verdict_set_refuted_by(v, "a failure before the oldest entry, or outside of PyTorch");
    else
        (void)ct_verdict_add_advice(v, "call torch.cuda.memory._record_memory_history() before the "
                                       "model is loaded, or record a trace");
}

void ct_snapshot_verdicts_find(const struct ct_snapshot_case *c, struct ct_verdicts *v) {
    if (!c->oom) {
        judge_quiet(c, v);
        return;
    }
    if (judge_impossible(c, v) || judge_limit(c, v))
        return;
    judge_phase(c, judge_fragmentation(c, v), v);
    ct_verdicts_sort(v);
}
