// SPDX-License-Identifier: Apache-2.0
#include "diagnose/snapshot_verdicts.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/heap.h"
#include "diagnose/rules.h"
#include "diagnose/server_settings.h"

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

// ---- evidence and advice ------------------------------------------------------------------------

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define TIB (UINT64_C(1) << 40)

struct judged {
    const struct ct_snapshot_case *c;
    uint64_t wanted; // of the driver
    struct ct_human_text when, moment;
    struct ct_figures n;
    struct ct_rule_source rules;
};

static void read_figures(struct judged *j) {
    const struct ct_snapshot_case *c = j->c;
    const struct ct_snapshot_pool *p = &c->pool;
    struct ct_figures *n = &j->n;
    ct_figures_clear(n);
    n->entries = ct_figure(c->entries);
    n->what = c->entries == 1 ? "y" : "ies";
    if (c->device >= 0) {
        j->moment = ct_snapshot_case_name_moment(c);
        n->reserved = ct_figure(p->reserved);
        n->segments = ct_figure(p->segments);
        n->place = j->moment.text;
        n->allocated = ct_figure(p->allocated + p->pending);
        n->unallocated = ct_figure(p->free.bytes);
        n->largest = ct_figure(p->free.largest);
        n->idle = ct_figure(p->usable.bytes);
        n->ranges = ct_figure(p->usable.ranges);
        n->largest_idle = ct_figure(p->usable.largest);
    }
    if (!c->oom)
        return;
    const uint64_t us = c->oom->time_us;
    j->when = us && us < UINT64_MAX / 1000 ? ct_human_date_and_time(us * 1000)
                                           : (struct ct_human_text){"-"};
    j->wanted = ct_snapshot_segment_bytes(c->oom->bytes);
    n->when = j->when.text;
    n->entry = ct_figure(c->at + 1);
    n->tried = ct_figure(c->oom->bytes);
    n->segment = ct_figure(j->wanted);
    if (c->oom->free_known)
        n->free = ct_figure(c->oom->address);
    // What the driver would have had to give beyond what was free.
    if (c->oom->free_known && j->wanted > c->oom->address)
        n->missing = ct_figure(j->wanted - c->oom->address);
}

static void add_phase(const void *self, struct ct_verdict *v) {
    const struct judged *j = self;
    if (j->c->phase.phase != CT_PHASE_UNKNOWN)
        (void)ct_verdict_add_text(v, "during: %s", ct_phases_title(&j->c->phase).text);
}

static void add_sites(const void *self, struct ct_verdict *v) {
    enum { MOST = 3 };
    const struct ct_snapshot_case *c = ((const struct judged *)self)->c;
    const uint64_t all = c->pool.allocated + c->pool.pending;
    for (size_t i = 0; i < c->groups.count && i < MOST && all; i++) {
        const struct ct_site_group *g = &c->groups.list[i];
        if (g->bytes < all / 50)
            break;
        ct_evidence_set_bytes(ct_verdict_add_text(v, "%s of the blocks (%s): %s",
                                                  ct_iec(g->bytes).text,
                                                  ct_human_percent(g->bytes, all).text, g->label),
                              g->bytes);
    }
}

// Adds the call site whose blocks hold the most free memory of segments open.
static void add_held_open(const void *self, struct ct_verdict *v) {
    const struct ct_snapshot_case *c = ((const struct judged *)self)->c;
    const struct ct_snapshot_holder *most = NULL;
    char label[1200];
    for (size_t i = 0; i < c->pool.holder_count; i++)
        if (!most || c->pool.holders[i].held_open > most->held_open)
            most = &c->pool.holders[i];
    if (!most || !most->held_open)
        return;
    ct_call_sites_label(c->sites, most->stack, label, sizeof label);
    ct_evidence_set_bytes(
        ct_verdict_add_text(v,
                            "%s of it lies in segments that blocks of %s hold open (%s in %s "
                            "block%s)",
                            ct_iec(most->held_open).text, label, ct_iec(most->bytes).text,
                            ct_human_count(most->count).text, ct_human_plural(most->count)),
        most->held_open);
}

// Settings of vLLM by scenario. Their values are not in a snapshot.
static const struct {
    enum ct_scenario scenario;
    const char *flag, *versions, *text;
} of_vllm[] = {
#define CT_SNAPSHOT_ADVICE(SCENARIO, flag, versions, text) \
    {CT_SCENARIO_##SCENARIO, flag, versions, text},
#include "diagnose/plain_advice.def"
};

static void advise_vllm(const void *self, struct ct_verdict *v) {
    const struct judged *j = self;
    if (j->c->phase.framework != CT_FRAMEWORK_VLLM)
        return;
    for (size_t i = 0; i < sizeof of_vllm / sizeof *of_vllm; i++) {
        if (of_vllm[i].scenario != v->scenario)
            continue;
        struct ct_figures n = j->n;
        n.what = of_vllm[i].text;
        ct_rule_advise(&(struct ct_rule_source){.figures = &n}, v,
                       "<what:word>; <segment:bytes> - <free:bytes> = <missing:bytes> was missing. "
                       "A snapshot does not have its value, but the server's log does|<what:word>");
        ct_advice_set(&v->advice[v->advice_count - 1], of_vllm[i].flag, NULL, NULL,
                      of_vllm[i].versions);
    }
}

static void advise_expandable(const void *self, struct ct_verdict *v) {
    const struct ct_snapshot_case *c = ((const struct judged *)self)->c;
    ct_plain_advice_expandable(v, ct_server_of_request(c->phase.framework, NULL, NULL),
                               ct_snapshot_case_is_expandable(c) > 0, "PYTORCH_CUDA_ALLOC_CONF",
                               NULL);
}

// ---- rules --------------------------------------------------------------------------------------

// The driver had enough for the request, with a margin for its own steps, and was not asked.
static int is_limited(const struct judged *j) {
    const struct ct_snapshot_entry *o = j->c->oom;
    return o->free_known && o->address >= j->wanted && o->address - j->wanted >= 64 * MIB;
}

// Enough was idle for the request, in free blocks of its own stream and pool of which none was
// large enough. Returns whether that decides.
static int judge_fragmentation(const struct judged *j) {
    const struct ct_snapshot_case *c = j->c;
    const struct ct_snapshot_free *f = &c->pool.usable;
    if (f->bytes < c->oom->bytes || f->largest >= c->oom->bytes || !c->oom->bytes)
        return 0;
    const int is_much = f->bytes >= GIB || f->bytes >= c->pool.reserved / 10;
    (void)ct_rule_add_sure(&j->rules, CT_RULE_SNAPSHOT_FRAGMENTATION, is_much ? 0.8 : 0.4);
    return is_much;
}

static void judge_phase(const struct judged *j, int cause_known) {
    const struct ct_snapshot_case *c = j->c;
    const char *summary = "more was asked for than was left; no frame of the request names a phase";
    const enum ct_scenario scenario = ct_phase_scenario(c->phase.phase, c->component, &summary);
    const double confidence = scenario == CT_SCENARIO_UNKNOWN ? 0.3 : 0.7;
    if (scenario == CT_SCENARIO_UNKNOWN && cause_known)
        return;
    struct ct_verdict *v = ct_rule_add_as(&j->rules, CT_RULE_SNAPSHOT_PHASE, scenario,
                                          cause_known ? confidence - 0.3 : confidence, summary);
    if (scenario == CT_SCENARIO_UNKNOWN)
        (void)ct_verdict_add_advice(
            v, "%s",
            c->oom->stack ? "record a trace: it also has what PyTorch did not allocate"
                          : "record the frames, too (stacks=\"python\" of "
                            "_record_memory_history), or a trace");
}

void ct_snapshot_verdicts_find(const struct ct_snapshot_case *c, struct ct_verdicts *v) {
    static const struct ct_rule_step steps[] = {{"phase", add_phase},
                                                {"sites", add_sites},
                                                {"held", add_held_open},
                                                {"vllm", advise_vllm},
                                                {"expandable", advise_expandable},
                                                {NULL, NULL}};
    struct judged j = {.c = c};
    read_figures(&j);
    j.rules = (struct ct_rule_source){
        .to = v, .device = c->device, .figures = &j.n, .steps = steps, .self = &j};
    if (!c->oom) {
        (void)ct_rule_add(&j.rules,
                          c->entries ? CT_RULE_SNAPSHOT_NONE : CT_RULE_SNAPSHOT_NO_HISTORY);
    } else if (c->oom->bytes >= TIB) { // no device has that much
        (void)ct_rule_add(&j.rules, CT_RULE_SNAPSHOT_IMPOSSIBLE);
    } else if (is_limited(&j)) {
        (void)ct_rule_add(&j.rules, CT_RULE_SNAPSHOT_LIMIT);
    } else {
        judge_phase(&j, judge_fragmentation(&j));
        ct_verdicts_sort(v);
    }
}
