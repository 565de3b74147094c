// SPDX-License-Identifier: Apache-2.0
#include "diagnose/untracked_verdict.h"

#include "base/human.h"
#include "diagnose/growth_verdict.h"

static struct ct_human_text size(uint64_t bytes) {
    return ct_human_bytes(bytes, CT_UNITS_IEC);
}

int ct_untracked_verdict_is_possible(const struct ct_trace_case *c,
                                     const struct ct_untracked_curve *curve) {
    return ct_untracked_growth_is_possible(curve, c->capacity / CT_GROWTH_LEAST_PART);
}

// What calls were measured to take of it.
static void add_parts(const struct ct_trace_case *c, struct ct_verdict *v) {
    static const char *const names[CT_MEASURED_PARTS] = {
        [CT_MEASURED_CONTEXTS] = "contexts that were created",
        [CT_MEASURED_MODULES] = "modules that were loaded",
        [CT_MEASURED_LIMITS] = "limits that were set",
        [CT_MEASURED_GRAPHS] = "graph executables that were made",
    };
    const struct ct_untracked_growth *g = &c->leaks->untracked;
    for (unsigned i = 0; i < CT_MEASURED_PARTS && g->measured_known; i++) {
        if (!g->measured[i])
            continue;
        struct ct_evidence *e =
            ct_verdict_add_text(v, "%s since then: %s", names[i], size(g->measured[i]).text);
        e->bytes_known = 1;
        e->bytes = g->measured[i];
    }
}

static void add_all(const struct ct_trace_case *c, struct ct_verdict *v) {
    const struct ct_leaks *l = c->leaks;
    const int is_own = l->untracked.is_own;
    uint64_t ns = 0;
    (void)ct_growth_verdict_add_shape(c, &l->untracked.shape, "", v);
    add_parts(c, v);
    struct ct_evidence *all = ct_verdict_add_text(v, "at the last reading of the device: %s",
                                                  size(l->untracked.bytes).text);
    all->bytes_known = 1;
    all->bytes = l->untracked.bytes;
    const int is_full_known = ct_leaks_full_in(l, &l->untracked.shape, &ns);
    ct_growth_verdict_add_full(c, is_full_known, ns, v);
    if (l->untracked.measured_known && l->untracked.measured[CT_MEASURED_GRAPHS])
        (void)ct_verdict_add_advice(v, "look at what instantiates graphs again and again, and "
                                       "destroys none: cutrace-report dump has each call");
    else if (is_own)
        (void)ct_verdict_add_advice(v, "look for what is made again and again outside of "
                                       "allocations: modules that are compiled, graphs, contexts, "
                                       "handles of libraries");
    else
        (void)ct_verdict_add_advice(v, "find out whose it is: nvidia-smi lists the processes of a "
                                       "GPU and what each holds; the trace has no such figure");
    ct_verdict_set_refuted_by(v, is_own ? "a fall of this memory in a longer trace"
                                        : "another process that was seen to grow as fast");
}

int ct_untracked_verdict_add(const struct ct_trace_case *c, const struct ct_judged *j,
                             struct ct_verdicts *v) {
    const struct ct_leaks *l = c->leaks;
    if (!l || !ct_growth_kind_is_leak(l->untracked.shape.kind))
        return 0;
    // Whose it is decides whether this is the scenario at all.
    const double confidence = l->untracked.shape.confidence / (l->untracked.is_own ? 1 : 2);
    struct ct_verdict *made = ct_growth_verdict_add(
        c, j, v, CT_SCENARIO_UNTRACKED_GROWTH, l->untracked.shape.kept_bytes, confidence,
        l->untracked.is_own ? "this process's untracked memory grows"
                            : "memory outside of this process's allocations grows; whether it is "
                              "this process's is not known");
    if (!made)
        return 0;
    add_all(c, made);
    return 1;
}
