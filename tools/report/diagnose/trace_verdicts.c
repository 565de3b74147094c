// SPDX-License-Identifier: Apache-2.0
// The phase of the request that failed says what could not be served; the account of that moment
// says whether something else had taken its place (trace_causes.c).
#include "diagnose/trace_verdicts.h"

#include <inttypes.h>

// ---- by phase -----------------------------------------------------------------------------------

// `cause_known`: another verdict says what took the place.
static int judge_phase(const struct ct_judged *j, int cause_known) {
    const char *summary = NULL;
    const enum ct_scenario scenario = ct_phase_scenario(j->phase, j->component, &summary);
    const double confidence = j->oom->phase.inferred ? 0.55 : 0.82;
    if (scenario == CT_SCENARIO_UNKNOWN)
        return 0;
    struct ct_verdict *v = ct_rule_add_as(&j->rules, CT_RULE_PHASE, scenario,
                                          cause_known ? confidence - 0.3 : confidence, summary);
    if (!cause_known)
        ct_judged_add_account(j, v);
    if (scenario != CT_SCENARIO_STARTUP_KV_POOL)
        ct_judged_add_kv_cache(j, v);
    if (scenario == CT_SCENARIO_SLEEP_WAKE && ct_trace_causes_add_own(j, v))
        (void)ct_verdict_add_advice(v,
                                    "let this process free that before wake_up, or take it after "
                                    "the wake-up, as far as the server's budget leaves room");
    else
        ct_trace_advice_add(j, v);
    return 1;
}

static void judge_unknown(const struct ct_judged *j) {
    const struct ct_holding *most = ct_judged_largest_other(j);
    const int is_one = most && most->bytes > j->c->capacity / 2 && j->c->capacity;
    const char *summary = is_one ? "one call site holds most of the device (cutrace-report top)"
                                 : "more was asked for than was left (cutrace-report top)";
    const enum ct_scenario special = ct_component_scenario(j->component, &summary);
    const int is_known = special != CT_SCENARIO_UNKNOWN;
    struct ct_verdict *v =
        ct_rule_add_as(&j->rules, CT_RULE_UNKNOWN, special, is_known ? 0.5 : 0.3, summary);
    if (is_known)
        ct_trace_advice_add(j, v);
    else if (j->phase == CT_PHASE_FORWARD)
        (void)ct_verdict_add_advice(v, "give this pass a smaller batch, or shorter inputs");
}

// The request was served after all.
static int judge_recovered(const struct ct_judged *j) {
    const struct ct_incident *n = &j->c->scan->incidents.list[j->oom->incident];
    if (!n->recovered)
        return 0;
    struct ct_verdict *v = ct_rule_add(&j->rules, n->retried ? CT_RULE_RETRIED : CT_RULE_RECOVERED);
    if (j->oom->recovered)
        (void)ct_verdict_add_event(v, j->oom->recovered_event, j->oom->recovered_t_ns,
                                   "the request was served");
    return 1;
}

// The next frame of Python from a node on, going outward; NULL: there is none. What is native
// between two of them differs from call to call.
static const struct ct_frame *next_python(const struct ct_definitions *n, uint32_t *node) {
    while (*node) {
        const struct ct_frame *f = &n->frames[n->nodes[*node].frame];
        *node = n->nodes[*node].parent;
        if (f->kind == CT_FRAME_PYTHON)
            return f;
    }
    return NULL;
}

// Whether two stacks are of the same lines of Python, with the same callers.
static int is_same_call(const struct ct_definitions *n, uint32_t a, uint32_t b) {
    uint32_t at = n->stacks[a], other = n->stacks[b];
    const struct ct_frame *f = next_python(n, &at), *g = next_python(n, &other);
    if (!f)
        return a == b;
    while (f && g && f->function == g->function && f->file == g->file && f->line == g->line) {
        f = next_python(n, &at);
        g = next_python(n, &other);
    }
    return !f && !g;
}

// Whether a call got memory after a time.
static int got_memory(const struct ct_trace_case *c, uint32_t stack, uint64_t t_ns) {
    const struct ct_definitions *n = &c->trace->definitions;
    for (unsigned kind = 0; kind < CT_HOLDING_STACKS; kind++) {
        const struct ct_stack_totals *all = &c->scan->totals[kind];
        for (uint32_t i = 1; i < all->count && i < n->stack_count; i++)
            if (all->list[i].count && all->list[i].last_ns > t_ns && is_same_call(n, i, stack))
                return 1;
    }
    return 0;
}

// The same lines of the program got memory after the failure: it caught the error and asked for
// less, or again, or went on with its next input, to a good end. (Other threads, and what was
// queued, may go on for a while after an error that ends the program.)
static int judge_caught(const struct ct_judged *j) {
    return j->c->trace->ended && !j->c->facts->exit_status && j->oom->stack &&
           got_memory(j->c, j->oom->stack, j->oom->t_ns) &&
           ct_rule_add(&j->rules, CT_RULE_CAUGHT) != NULL;
}

// One stack took memory of one size again and again, up to more than half of the device, gave none
// of it back, and asked for more. How long it was watched makes that no surer.
static int judge_hoard(const struct ct_judged *j) {
    enum { LEAST = 8 };
    const struct ct_holding *most = ct_judged_largest_other(j);
    if (!most || !most->stack || most->count < LEAST || most->bytes <= j->c->capacity / 2 ||
        !is_same_call(&j->c->trace->definitions, most->stack, j->oom->stack) ||
        most->bytes / most->count != j->oom->bytes)
        return 0;
    const struct ct_stack_totals *all = &j->c->scan->totals[most->kind];
    if (most->stack >= all->count || all->list[most->stack].count != most->count)
        return 0;
    struct ct_verdict *v = ct_rule_add(&j->rules, CT_RULE_HOARD);
    ct_judged_add_holding(j, v, most, most->bytes, "kept");
    (void)ct_verdict_add_text(
        v, "%s allocations in %s, none given back", ct_human_count(most->count).text,
        ct_human_duration(all->list[most->stack].last_ns - j->c->trace->start_ns).text);
    return 1;
}

// What of the activations many calls of the same lines hold at once: a pass that keeps nothing for
// a backward pass gives back the last layer's before it takes the next one's.
static uint64_t find_kept(const struct ct_judged *j, uint64_t *all) {
    enum { LAYERS = 4 };
    uint64_t kept = 0;
    *all = 0;
    for (size_t i = 0; i < j->c->live->holding_count; i++) {
        const struct ct_holding *h = &j->c->live->holdings[i];
        if (h->kind >= CT_HOLDING_STACKS ||
            ct_phases_find(j->c->phases, h->stack).phase != CT_PHASE_FORWARD ||
            ct_phases_find_component(j->c->phases, h->stack) != CT_COMPONENT_ACTIVATIONS)
            continue;
        *all += h->bytes;
        kept += h->count >= LAYERS ? h->bytes : 0;
    }
    return kept;
}

// The first step of a training shows no backward pass yet, but what it keeps for one.
static int judge_kept(struct ct_judged *j) {
    uint64_t all;
    if (j->phase != CT_PHASE_FORWARD)
        return 0;
    const uint64_t kept = find_kept(j, &all);
    j->n.held = (int64_t)kept;
    return kept > all / 2 && kept >= j->cause.missing &&
           ct_rule_add(&j->rules, CT_RULE_KEPT) != NULL;
}

// Where the frames are there and no rule knows them, what would have served the request is the
// answer, however little of the pool it is. (Without frames, a phase can be the answer.)
static int judge_pieces(const struct ct_judged *j) {
    struct ct_verdict *v = ct_verdicts_find(j->rules.to, CT_SCENARIO_FRAGMENTATION);
    if (!v || !ct_phases_has_python(j->c->phases, j->oom->stack) ||
        ct_phases_is_cut(j->c->phases, j->oom->stack))
        return 0;
    v->confidence = 0.5;
    ct_judged_add_account(j, v);
    return 1;
}

static void judge_rest(struct ct_judged *j) {
    if (!judge_hoard(j) && !judge_kept(j) && !judge_pieces(j))
        judge_unknown(j);
}

// Why it failed is worth less than that nothing came of it.
static void lower(struct ct_verdicts *v) {
    for (size_t i = 0; i < v->count; i++)
        if (v->list[i].scenario != CT_SCENARIO_RECOVERED && v->list[i].confidence > 0.5)
            v->list[i].confidence = 0.5;
}

static void judge(const struct ct_trace_case *c, struct ct_verdicts *v) {
    static const struct ct_rule_step steps[] = {{"request", ct_judged_add_request},
                                                {"phase", ct_judged_add_phase},
                                                {"account", ct_judged_add_account},
                                                {"kv", ct_judged_add_kv_cache},
                                                {"missing", ct_judged_add_missing},
                                                {"scenario", ct_trace_advice_add},
                                                {"fragmentation", ct_trace_advice_fragmentation},
                                                {NULL, NULL}};
    struct ct_judged j;
    ct_judged_make(&j, c, v);
    j.rules.steps = steps;
    if (ct_trace_causes_not_full(&j) || judge_recovered(&j))
        return;
    const int is_caught = judge_caught(&j), cause_known = ct_trace_causes_full(&j);
    if (!judge_phase(&j, cause_known) && !cause_known && !is_caught)
        judge_rest(&j);
    if (is_caught)
        lower(v);
}

// ---- without a failed request -------------------------------------------------------------------

static void add_headroom(const struct ct_trace_case *c, struct ct_verdict *v) {
    const struct ct_device_scan *d = &c->scan->device[c->device];
    const struct ct_device_usage *now = &c->scan->end.readings.device[c->device];
    if (d->peak_known) {
        struct ct_evidence *e = ct_verdict_add_event(
            v, d->peak_event, d->peak_t_ns, "%s allocated at the peak%s",
            ct_iec(d->peak_bytes).text,
            ct_trace_is_known_at(c->trace, d->peak_t_ns) ? ""
                                                         : ", by the events that are not missing");
        ct_evidence_set_bytes(e, d->peak_bytes);
    }
    // (a reading from before the peak says nothing of it)
    if (now->free_known && d->peak_known && now->free_min <= c->capacity &&
        c->capacity - now->free_min >= d->peak_bytes)
        (void)ct_verdict_add_text(v, "at least %s of the device stayed free, by the readings",
                                  ct_iec(now->free_min).text);
}

static double find_strongest_growth(struct ct_verdicts *v) {
    const struct ct_verdict *leak = ct_verdicts_find(v, CT_SCENARIO_LEAK),
                            *untracked = ct_verdicts_find(v, CT_SCENARIO_UNTRACKED_GROWTH);
    const double a = leak ? leak->confidence : 0, b = untracked ? untracked->confidence : 0;
    return a > b ? a : b;
}

// A program that ended with an error of its own may have given up memory that it never asked for: a
// server whose budget leaves nothing for its cache does. Python ends with 1 after an exception.
static void add_exit_status(const struct ct_trace_case *c, struct ct_verdict *v) {
    const uint64_t status = c->facts->exit_status;
    if (!status)
        return;
    v->confidence = v->confidence < 0.75 ? v->confidence : 0.75;
    (void)ct_verdict_add_text(v,
                              "the process ended with exit status %" PRIu64
                              ": it failed, but not at a call for GPU memory",
                              status);
    if (!c->log)
        (void)ct_verdict_add_advice(v, "give the log, too (--log): the reason is there, not in the "
                                       "calls");
}

static void judge_whole(const struct ct_trace_case *c, const struct ct_rule_source *s) {
    struct ct_verdict *one = ct_rule_add(s, c->is_complete ? CT_RULE_NONE : CT_RULE_NONE_SO_FAR);
    if (c->device >= 0)
        add_headroom(c, one);
    add_exit_status(c, one);
    if (ct_leak_verdict_add(c, NULL, s->to) | ct_untracked_verdict_add(c, NULL, s->to)) {
        one = ct_verdicts_find(s->to, CT_SCENARIO_NONE);
        one->confidence = 1 - find_strongest_growth(s->to);
    }
    if (!c->is_complete && c->trace->ended)
        ct_verdict_set_refuted_by(one, "an error of the program's log (give the log: --log)");
}

static void judge_quiet(const struct ct_trace_case *c, struct ct_verdicts *v) {
    struct ct_figures n;
    const struct ct_rule_source s = {
        .to = v, .device = c->device < CT_MAX_DEVICES ? c->device : -1, .figures = &n};
    ct_figures_clear(&n);
    n.earlier = (int64_t)c->earlier_ooms;
    if (c->earlier_ooms)
        (void)ct_rule_add(&s, CT_RULE_OVERWRITTEN);
    else if (c->trace->incomplete && !c->trace->events)
        (void)ct_rule_add(&s, CT_RULE_EMPTY);
    else
        judge_whole(c, &s);
}

void ct_trace_verdicts_find(const struct ct_trace_case *c, struct ct_verdicts *v) {
    if (c->crossing)
        judge(c, v);
    else
        judge_quiet(c, v);
    ct_verdicts_sort(v);
    if (c->crossing && v->count && v->list[0].evidence_count) // what it asked for, and by whom
        v->list[0].evidence[0].stack = c->crossing->stack;
}
