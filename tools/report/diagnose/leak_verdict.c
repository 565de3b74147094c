// SPDX-License-Identifier: Apache-2.0
#include "diagnose/leak_verdict.h"

#include "analyze/start_up.h"
#include "base/human.h"
#include "diagnose/growth_verdict.h"

int ct_leak_verdict_is_possible(const struct ct_trace_case *c) {
    const uint64_t from = c->trace->start_ns, to = c->trace->t_last_ns;
    // A growth that ends in no failure is never told of a shorter time.
    if (!c->crossing && (to < from || to - from < CT_LEAKS_SHORTEST_NS))
        return 0;
    for (size_t i = 0; i < c->live->holding_count; i++) {
        const struct ct_holding *h = &c->live->holdings[i];
        if (h->kind < CT_HOLDING_STACKS && h->count >= CT_GROWTH_LEAST_STEPS &&
            h->bytes >= c->capacity / CT_GROWTH_LEAST_PART / 4 &&
            !ct_start_up_has_phase(ct_phases_find(c->phases, h->stack).phase))
            return 1;
    }
    return 0;
}

static void add_site(const struct ct_trace_case *c, const struct ct_leak *l, struct ct_verdict *v) {
    char what[64];
    (void)snprintf(what, sizeof what, " in %.40s allocations",
                   ct_human_count(l->shape.kept_count).text);
    ct_growth_verdict_add_shape(c, &l->shape, what, v)->stack =
        c->leaks->groups.list[l->group].stack;
}

static void add_all(const struct ct_trace_case *c, struct ct_verdict *v) {
    enum { MOST = 3 };
    const struct ct_leaks *l = c->leaks;
    for (size_t i = 0; i < l->growing_count && i < MOST; i++)
        add_site(c, &l->growing[i], v);
    ct_growth_verdict_add_full(c, l->full_known, l->full_in_ns, v);
    (void)ct_verdict_add_advice(v, "look at what the call site keeps: cutrace-report leaks shows "
                                   "its stack; no setting helps for long");
    ct_verdict_set_refuted_by(
        v, l->growing[0].is_loop
               ? "a use for all of it: weights, or a cache in equal pieces, which "
                 "the program needs at its start"
               : "a free of these allocations in a longer trace");
}

static const char *summarize(const struct ct_leaks *l) {
    if (l->growing[0].is_loop)
        return "one call site took memory of one size again and again, until the device was full";
    return l->growing_count > 1 ? "call sites take memory again and again and keep it"
                                : "one call site takes memory again and again and keeps it";
}

int ct_leak_verdict_add(const struct ct_trace_case *c, const struct ct_judged *j,
                        struct ct_verdicts *v) {
    const struct ct_leaks *l = c->leaks;
    uint64_t kept = 0;
    if (!l || !l->growing_count)
        return 0;
    for (size_t i = 0; i < l->growing_count; i++)
        kept += l->growing[i].shape.kept_bytes;
    struct ct_verdict *made = ct_growth_verdict_add(c, j, v, CT_SCENARIO_LEAK, kept,
                                                    l->growing[0].shape.confidence, summarize(l));
    if (!made)
        return 0;
    add_all(c, made);
    return 1;
}
