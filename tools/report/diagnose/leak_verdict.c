// SPDX-License-Identifier: Apache-2.0
#include "diagnose/leak_verdict.h"

#include "analyze/start_up.h"
#include "base/human.h"

#define HOUR_NS (UINT64_C(3600) * 1000000000)

// Less than this part of the device is no problem yet.
enum { LEAST_PART = 100 };

static struct ct_human_text size(uint64_t bytes) {
    return ct_human_bytes(bytes, CT_UNITS_IEC);
}

int ct_leak_verdict_is_possible(const struct ct_trace_case *c) {
    const uint64_t from = c->trace->start_ns, to = c->trace->t_last_ns;
    // A growth that ends in no failure is never told of a shorter time.
    if (!c->crossing && (to < from || to - from < CT_LEAKS_SHORTEST_NS))
        return 0;
    for (size_t i = 0; i < c->live->holding_count; i++) {
        const struct ct_holding *h = &c->live->holdings[i];
        if (h->kind < CT_HOLDING_STACKS && h->count >= CT_GROWTH_LEAST_STEPS &&
            h->bytes >= c->capacity / LEAST_PART / 4 &&
            !ct_start_up_has_phase(ct_phases_find(c->phases, h->stack).phase))
            return 1;
    }
    return 0;
}

static void add_site(const struct ct_trace_case *c, const struct ct_leak *l, struct ct_verdict *v) {
    const struct ct_growth_shape *s = &l->shape;
    const uint64_t start = c->trace->start_ns;
    struct ct_evidence *e = ct_verdict_add_text(
        v, "%s in %s allocations since %s, %s an hour, %s", size(s->kept_bytes).text,
        ct_human_count(s->kept_count).text,
        ct_human_elapsed(s->since_ns > start ? s->since_ns - start : 0).text,
        size(ct_growth_shape_in(s, HOUR_NS)).text, ct_growth_kind_name(s->kind));
    e->bytes_known = 1;
    e->bytes = s->kept_bytes;
    e->stack = c->leaks->groups.list[l->group].stack;
}

static void add_all(const struct ct_trace_case *c, struct ct_verdict *v) {
    enum { MOST = 3 };
    const struct ct_leaks *l = c->leaks;
    uint64_t in_ns = 0;
    for (size_t i = 0; i < l->growing_count && i < MOST; i++)
        add_site(c, &l->growing[i], v);
    if (!c->crossing && l->full_known) {
        in_ns = l->full_in_ns;
        (void)ct_verdict_add_text(v, "the device is full in %s at this rate",
                                  ct_human_duration(in_ns).text);
    }
    (void)ct_verdict_add_advice(v, "look at what the call site keeps: cutrace-report leaks shows "
                                   "its stack; no setting helps for long");
    ct_verdict_set_refuted_by(
        v, l->growing[0].is_loop ? "these allocations being weights or a cache in equal pieces, "
                                   "which the program needs at its start"
                                 : "a free of these allocations in a longer trace");
}

int ct_leak_verdict_add(const struct ct_trace_case *c, const struct ct_judged *j,
                        struct ct_verdicts *v) {
    const struct ct_leaks *l = c->leaks;
    uint64_t kept = 0, least = c->capacity / LEAST_PART;
    if (!l || !l->growing_count)
        return 0;
    for (size_t i = 0; i < l->growing_count; i++)
        kept += l->growing[i].shape.kept_bytes;
    if (j && j->cause.missing > least)
        least = j->cause.missing;
    if (kept < least || !kept)
        return 0;
    const double confidence = l->growing[0].shape.confidence;
    const char *summary = l->growing_count > 1
                              ? "call sites take memory again and again and keep it"
                              : "one call site takes memory again and again and keeps it";
    if (l->growing[0].is_loop)
        summary =
            "one call site took memory of one size again and again, until the device was full";
    struct ct_verdict *made =
        j ? ct_judged_add(j, CT_SCENARIO_LEAK, confidence, summary)
          : ct_verdicts_add(v, CT_SCENARIO_LEAK, confidence,
                            c->device < CT_MAX_DEVICES ? c->device : -1, "%s", summary);
    add_all(c, made);
    return 1;
}
