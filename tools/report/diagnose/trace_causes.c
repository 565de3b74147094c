// SPDX-License-Identifier: Apache-2.0
#include "diagnose/trace_verdicts.h"

#include <inttypes.h>
#include <stdlib.h>

#include "diagnose/server_settings.h"

#define GIB (UINT64_C(1) << 30)

// ---- requests that a larger device would not have served ---------------------------------------

static int add(const struct ct_judged *j, enum ct_rule rule) {
    return ct_rule_add(&j->rules, rule) != NULL;
}

// A module or an executable graph, whose size no call says, is not so large: what was left was
// enough.
static int is_despite_free(const struct ct_judged *j) {
    return j->reason.kind == CT_OOM_REASON_SIZE_UNKNOWN && j->oom->reading_known &&
           j->reason.free >= GIB;
}

int ct_trace_causes_not_full(const struct ct_judged *j) {
    if (j->reason.kind == CT_OOM_REASON_HOST_MEMORY)
        return add(j, CT_RULE_HOST_PINNED);
    if (j->reason.kind == CT_OOM_REASON_ADDRESS_SPACE)
        return add(j, CT_RULE_ADDRESSES);
    if (j->cause.exceeds_device)
        return add(j, CT_RULE_LARGER_THAN_DEVICE);
    if (j->reason.kind == CT_OOM_REASON_POOL_LIMIT)
        return add(j, CT_RULE_POOL_LIMIT);
    return is_despite_free(j) && add(j, CT_RULE_DESPITE_FREE);
}

// ---- what holds the missing bytes --------------------------------------------------------------

// The number of processes of its job on this machine, as its launcher told the process.
static int find_job_size(const struct ct_judged *j, uint64_t *size) {
    const char *text = ct_facts_find_variable(j->c->facts, "LOCAL_WORLD_SIZE");
    char *end;
    if (!text)
        text = ct_facts_find_variable(j->c->facts, "WORLD_SIZE");
    if (!text || *text < '0' || *text > '9')
        return 0;
    *size = strtoull(text, &end, 10);
    return !*end;
}

// Whether the others may be of the same job.
static void add_relation(const struct ct_judged *j, struct ct_verdict *v) {
    const struct ct_siblings *s = j->c->siblings;
    const size_t given = s && s->job ? s->job : 1;
    uint64_t size = 0;
    ct_judged_add_siblings(j, v);
    ct_judged_add_neighbours(j, v);
    if (s && s->count)
        (void)ct_verdict_add_text(v, "that is without what the other traced processes held");
    if (find_job_size(j, &size) && size == given)
        (void)ct_verdict_add_text(v, "they are of none of its job's ranks: %s (WORLD_SIZE)",
                                  size == 1 ? "it has one process" : "all of them are traced");
    else
        (void)ct_verdict_add_text(v, "whether they are of the same job is not known");
}

// Others hold more than was missing while new weights are received from a process on this device:
// it must be there.
static int judge_sender(const struct ct_judged *j) {
    if (j->phase != CT_PHASE_WEIGHT_SYNC || !j->oom->opened)
        return 0;
    struct ct_verdict *v = ct_rule_add(&j->rules, CT_RULE_SENDER);
    (void)ct_verdict_add_text(v, "%s allocation%s of another process %s open by CUDA IPC",
                              ct_human_count(j->oom->opened).text, ct_human_plural(j->oom->opened),
                              j->oom->opened == 1 ? "is" : "are");
    add_relation(j, v);
    ct_judged_add_missing(j, v);
    return 1;
}

// What others held already when the server made its cache is in its plan: it is no cause, however
// much it is. The cause is what changed since then.
static int was_there_before(const struct ct_judged *j) {
    uint64_t t_ns, grown;
    return ct_judged_cache_time(j, &t_ns) && ct_judged_others_grown(j, t_ns, &grown) &&
           grown < j->cause.missing;
}

// The process with the most that PyTorch's message in the log lists besides this one; NULL: none.
static const struct ct_text_process *find_listed(const struct ct_judged *j) {
    const struct ct_text_fact *oom =
        j->c->log ? ct_text_facts_find_role(j->c->log, CT_TEXT_ROLE_OOM) : NULL;
    const struct ct_text_process *most = NULL;
    for (unsigned i = 0; oom && i < oom->process_count; i++)
        if (!most || oom->processes[i].bytes.value > most->bytes.value)
            most = &oom->processes[i];
    // (without "this process has", the only one may be this one)
    return oom && oom->values[CT_TEXT_IN_USE].known && most && most->bytes.value > 0 ? most : NULL;
}

// The process that NVML lists with the most, as advice names it.
static void advise_others(const struct ct_judged *j, struct ct_verdict *v) {
    char who[CT_NEIGHBOUR_LABEL];
    uint64_t bytes;
    const struct ct_text_process *listed = find_listed(j);
    if (ct_judged_largest_neighbour(j, who, &bytes))
        (void)ct_verdict_add_advice(v, "end process %s, which held %s", who, ct_iec(bytes).text);
    else if (listed)
        (void)ct_verdict_add_advice(v, "end process %" PRId64 ", which held %s by the log",
                                    listed->pid, ct_iec((uint64_t)listed->bytes.value).text);
    else
        (void)ct_verdict_add_advice(
            v, "end the other process; nvidia-smi lists the processes of a GPU");
}

// Others on the device hold more than was missing. What they hold while the weights are loaded is
// rather a part of the plan than the surprise that broke it.
static int judge_others(const struct ct_judged *j) {
    if (!j->cause.others_bytes || was_there_before(j) || judge_sender(j))
        return 0;
    const int is_start = j->phase == CT_PHASE_WEIGHTS || j->phase == CT_PHASE_PROFILE ||
                         j->phase == CT_PHASE_REPACK || j->phase == CT_PHASE_INIT;
    struct ct_verdict *v = ct_rule_add_sure(&j->rules, CT_RULE_OTHERS, is_start ? 0.7 : 0.88);
    add_relation(j, v);
    ct_judged_add_missing(j, v);
    advise_others(j, v);
    ct_trace_advice_leave(j, v, ct_trace_advice_need(j), "");
    return 1;
}

static void add_free_blocks(struct ct_verdict *v, const struct ct_pool_growth *w,
                            const struct ct_free_blocks *free, const char *what) {
    ct_evidence_set_bytes(
        ct_verdict_add_event(v, w->event, w->t_ns, "%s %s %s free blocks, the largest of %s",
                             ct_iec(free->bytes).text, what, ct_human_count(free->ranges).text,
                             ct_iec(free->largest).text),
        free->bytes);
}

// Enough was idle in PyTorch's pool, in blocks of which none was large enough.
static int judge_fragmentation(const struct ct_judged *j) {
    const struct ct_pool_growth *w = j->cause.pool;
    if (!w || w->cause != CT_GROWTH_FRAGMENTED || !j->oom->pool.known)
        return 0;
    const int is_most = w->free.bytes >= j->oom->pool.segment_bytes / 5;
    const int is_much = w->free.bytes >= GIB || w->free.bytes >= j->oom->pool.segment_bytes / 10;
    struct ct_verdict *v = ct_rule_add_sure(&j->rules, CT_RULE_FRAGMENTATION,
                                            is_most   ? 0.87
                                            : is_much ? 0.7
                                                      : 0.28);
    add_free_blocks(v, w, &w->free, "was idle in");
    ct_judged_add_bytes(j, v, j->oom->pool.held_open_bytes,
                        "idle in segments that blocks hold open");
    if (w->others.free.bytes)
        ct_judged_add_bytes(
            j, v, w->others.free.bytes,
            "of it in segments of other streams, which no request of this stream gets");
    ct_trace_advice_fragmentation(j, v);
    return is_much;
}

// What is idle in segments that blocks hold open is more than was missing: with what was free it
// would have been enough, could PyTorch give it back. A full pool always has a little of that.
static int judge_held_open(const struct ct_judged *j) {
    const uint64_t idle = j->oom->pool.held_open_bytes, missing = j->cause.missing;
    if (j->cause.pool || !j->oom->pool.known || !missing || idle < missing ||
        idle < j->oom->pool.segment_bytes / 10)
        return 0;
    return add(j, CT_RULE_HELD_OPEN);
}

// A free block was large enough, but of another stream: PyTorch had given back what it could.
static int judge_other_streams(const struct ct_judged *j) {
    const struct ct_pool_growth *w = j->cause.pool;
    if (!w || w->cause != CT_GROWTH_FIT_UNUSED || !ct_pool_growth_fits_other_stream(w))
        return 0;
    add_free_blocks(ct_rule_add(&j->rules, CT_RULE_OTHER_STREAMS), w, &w->others.free,
                    "was free in segments of other streams, in");
    return 1;
}

// Whether the process is a server that plans its memory, also where other code of it asked.
static int is_server(const struct ct_judged *j) {
    return j->oom->phase.framework == CT_FRAMEWORK_VLLM ||
           j->oom->phase.framework == CT_FRAMEWORK_SGLANG ||
           ct_judged_row(j, (enum ct_account_row_kind)CT_COMPONENT_KV_CACHE);
}

// Whether a stack is of code outside of the server, as far as frames of Python show it: another
// model's weights and activations, too.
static int is_of_own(const struct ct_trace_case *c, uint32_t stack) {
    return ct_phases_has_python(c->phases, stack) && !ct_phases_is_cut(c->phases, stack) &&
           !ct_server_has_options(ct_phases_find(c->phases, stack).framework) &&
           ct_phases_find_component(c->phases, stack) != CT_COMPONENT_KV_CACHE;
}

// What only grows is a leak, which no budget holds.
static int is_growing(const struct ct_trace_case *c, uint32_t stack) {
    const struct ct_leaks *l = c->leaks;
    for (size_t i = 0; l && i < l->growing_count; i++)
        if (l->groups.list[l->growing[i].group].stack == stack)
            return 1;
    return 0;
}

// Whether a stack took its memory in many pieces over a good part of the time since the cache was
// made: it may be a leak that lost events or overwritten ones hide.
static int may_grow(const struct ct_judged *j, const struct ct_holding *h) {
    enum { LEAST = 8 };
    const struct ct_stack_totals *all = &j->c->scan->totals[h->kind];
    uint64_t from;
    if (h->count < LEAST || h->stack >= all->count)
        return 0;
    const struct ct_stack_total *t = &all->list[h->stack];
    if (t->count < h->count) // some of it is from before the trace
        return 1;
    return ct_judged_cache_time(j, &from) && t->last_ns - t->first_ns > (j->oom->t_ns - from) / 4;
}

// What code outside of the server has allocated in its process, what it asked for now among it, and
// the stack that holds the most.
static uint64_t find_own(const struct ct_judged *j, const struct ct_holding **most) {
    uint64_t bytes = 0;
    *most = NULL;
    for (size_t i = 0; i < j->c->live->holding_count; i++) {
        const struct ct_holding *h = &j->c->live->holdings[i];
        if (h->kind >= CT_HOLDING_STACKS || !is_of_own(j->c, h->stack) ||
            is_growing(j->c, h->stack) || may_grow(j, h))
            continue;
        bytes += h->bytes;
        if (!*most || h->bytes > (*most)->bytes)
            *most = h;
    }
    return bytes && is_of_own(j->c, j->oom->stack) ? bytes + j->oom->bytes : bytes;
}

// Graph executables that were made once; those that are made again and again are a growth.
static uint64_t find_graphs(const struct ct_judged *j) {
    const struct ct_leaks *l = j->c->leaks;
    const uint64_t graphs = ct_judged_row(j, CT_ACCOUNT_GRAPHS);
    if (!l || !ct_growth_kind_is_leak(l->untracked.shape.kind) || !l->untracked.measured_known)
        return graphs;
    const uint64_t growing = l->untracked.measured[CT_MEASURED_GRAPHS];
    return graphs > growing ? graphs - growing : 0;
}

// Memory of the process that its server's budget does not know: graph executables, and tensors of
// the program's own.
static int judge_budget(struct ct_judged *j) {
    const struct ct_holding *most;
    const uint64_t graphs = find_graphs(j), own = find_own(j, &most);
    const uint64_t missing = j->cause.missing, capacity = j->c->capacity;
    const int by_graphs = graphs >= missing && graphs >= capacity / 200,
              by_own = own >= missing && most;
    const int is_late = j->phase != CT_PHASE_WEIGHTS && j->phase != CT_PHASE_REPACK &&
                        j->phase != CT_PHASE_PROFILE && j->phase != CT_PHASE_GRAPHS &&
                        j->phase != CT_PHASE_INIT && j->phase != CT_PHASE_WAKE_UP;
    if (!is_server(j) || !missing || !is_late || (!by_graphs && !by_own))
        return 0;
    j->n.graphs = by_graphs ? (int64_t)graphs : -1;
    struct ct_verdict *v =
        ct_rule_add_sure(&j->rules, CT_RULE_OUTSIDE_OF_BUDGET, by_own ? 0.86 : 0.84);
    if (by_own)
        ct_judged_add_holding(j, v, most, own, "allocated by code outside of the server");
    ct_judged_add_kv_cache(j, v);
    if (is_of_own(j->c, j->oom->stack))
        ct_trace_advice_room(j, v);
    else
        ct_trace_advice_leave(j, v, ct_trace_advice_need(j), "");
    return 1;
}

int ct_trace_causes_add_own(const struct ct_judged *j, struct ct_verdict *v) {
    const struct ct_holding *most;
    const uint64_t own = find_own(j, &most);
    // (What is idle in the pool is what such code has given back.)
    const uint64_t idle = j->oom->pool.known ? j->oom->pool.free.bytes : 0;
    if (!most || !j->cause.missing || own + idle < j->cause.missing || own < idle)
        return 0;
    ct_judged_add_holding(j, v, most, own, "allocated by code outside of the server");
    return 1;
}

static const struct {
    enum ct_account_row_kind row;
    const char *title;
} untracked_rows[] = {
    {CT_ACCOUNT_GRAPHS, "graph executables, as measured when they were made"},
    {CT_ACCOUNT_MODULES, "modules, as measured when they were loaded"},
    {CT_ACCOUNT_LIMITS, "limits, as measured when they were set"},
    {CT_ACCOUNT_UNMEASURED, "untracked, of no measured call"},
};
enum { UNTRACKED_ROWS = sizeof untracked_rows / sizeof *untracked_rows };

// Whether what is outside of allocations is enough to be the cause. How much was missing is not
// known of a call that makes something (a graph, a module): then it has to be most of the device.
static int is_enough(const struct ct_judged *j, uint64_t bytes) {
    if (bytes < j->c->capacity / 10 || bytes < 2 * GIB)
        return 0;
    return j->cause.missing ? bytes >= j->cause.missing
                            : !j->oom->bytes_known && bytes > j->c->capacity / 2;
}

static void advise_untracked(const struct ct_judged *j, struct ct_verdict *v, uint64_t bytes) {
    if (ct_judged_row(j, CT_ACCOUNT_GRAPHS) > bytes / 2)
        (void)ct_verdict_add_advice(v, "keep fewer graphs: capture fewer shapes, or destroy graphs "
                                       "that are not replayed any more");
    else
        (void)ct_verdict_add_advice(v, "cutrace-report frag shows what of it is measured, and what "
                                       "is inferred");
}

// Contexts, modules and graphs outside of any allocation: if they grow, or in a program without a
// budget, if they are much.
static int judge_untracked(const struct ct_judged *j) {
    uint64_t bytes = 0;
    if (ct_untracked_verdict_add(j->c, j, j->rules.to))
        return 1;
    for (int i = 0; i < UNTRACKED_ROWS; i++)
        bytes += ct_judged_row(j, untracked_rows[i].row);
    // (a device full of roundings is full of allocations)
    const uint64_t rounding = j->c->live->rounding_bytes;
    if (is_server(j) || !is_enough(j, bytes > rounding ? bytes - rounding : 0))
        return 0;
    struct ct_verdict *v =
        ct_rule_add(&j->rules, j->cause.missing ? CT_RULE_UNTRACKED : CT_RULE_MOSTLY_UNTRACKED);
    for (int i = 0; i < UNTRACKED_ROWS; i++)
        if (ct_judged_row(j, untracked_rows[i].row))
            ct_judged_add_bytes(j, v, ct_judged_row(j, untracked_rows[i].row),
                                untracked_rows[i].title);
    if (rounding)
        ct_judged_add_bytes(
            j, v, rounding,
            "of this, the rounding of allocations up to multiples of 2 MiB (inferred)");
    advise_untracked(j, v, bytes);
    return 1;
}

int ct_trace_causes_full(struct ct_judged *j) {
    const int others = judge_others(j),
              scattered = judge_fragmentation(j) | judge_other_streams(j) | judge_held_open(j),
              leak = ct_leak_verdict_add(j->c, j, j->rules.to);
    return (int)(others | scattered | leak | judge_budget(j) | judge_untracked(j));
}
