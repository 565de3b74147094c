// SPDX-License-Identifier: Apache-2.0
#include "diagnose/trace_verdicts.h"

#include "analyze/start_up.h"

// ---- what both have in common -------------------------------------------------------------------

#define SECOND_NS UINT64_C(1000000000)
#define MINUTE_NS (60 * SECOND_NS)
#define HOUR_NS (60 * MINUTE_NS)

// Less than this part of the device is no problem yet.
enum { LEAST_PART = 100 };

// Adds the verdict of a growth of so many bytes: of the failed request `j`, else (NULL) of a trace
// without one. Returns NULL if the growth is too small to matter.
static struct ct_verdict *add_growth(const struct ct_trace_case *c, const struct ct_judged *j,
                                     struct ct_verdicts *v, enum ct_rule rule, uint64_t bytes,
                                     double confidence) {
    const struct ct_rule_source quiet = {.to = v,
                                         .device = c->device < CT_MAX_DEVICES ? c->device : -1};
    uint64_t least = c->capacity / LEAST_PART;
    if (j && j->cause.missing > least)
        least = j->cause.missing;
    if (bytes < least || !bytes)
        return NULL;
    return ct_rule_add_sure(j ? &j->rules : &quiet, rule, confidence);
}

// Adds the evidence that a growth is: "2.44 GiB in 26 allocations since +15.695 s, 1.20 GiB a
// minute, steady". `what` stands after the bytes, "" for nothing.
static struct ct_evidence *add_shape(const struct ct_trace_case *c, const struct ct_growth_shape *s,
                                     const char *what, struct ct_verdict *v) {
    // A rate in a time that is longer than what was seen would be a forecast.
    const uint64_t start = c->trace->start_ns, seen = s->grown_ns;
    const uint64_t unit = seen >= HOUR_NS ? HOUR_NS : seen >= MINUTE_NS ? MINUTE_NS : SECOND_NS;
    struct ct_evidence *e =
        ct_verdict_add_text(v, "%s%s since %s, %s %s, %s", ct_iec(s->kept_bytes).text, what,
                            ct_human_elapsed(s->since_ns > start ? s->since_ns - start : 0).text,
                            ct_iec(ct_growth_shape_in(s, unit)).text,
                            unit == HOUR_NS     ? "an hour"
                            : unit == MINUTE_NS ? "a minute"
                                                : "a second",
                            ct_growth_kind_name(s->kind));
    ct_evidence_set_bytes(e, s->kept_bytes);
    return e;
}

// Adds when the device is full, of a trace in which nothing has failed.
static void add_full(const struct ct_trace_case *c, int known, uint64_t in_ns,
                     struct ct_verdict *v) {
    if (!c->crossing && known)
        (void)ct_verdict_add_text(v, "the device is full in %s at this rate",
                                  ct_human_duration(in_ns).text);
}

// ---- leaks --------------------------------------------------------------------------------------

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
    char what[64];
    (void)snprintf(what, sizeof what, " in %.40s allocations",
                   ct_human_count(l->shape.kept_count).text);
    add_shape(c, &l->shape, what, v)->stack = c->leaks->groups.list[l->group].stack;
}

static void add_leaks(const struct ct_trace_case *c, struct ct_verdict *v) {
    enum { MOST = 3 };
    const struct ct_leaks *l = c->leaks;
    for (size_t i = 0; i < l->growing_count && i < MOST; i++)
        add_site(c, &l->growing[i], v);
    add_full(c, l->full_known, l->full_in_ns, v);
}

int ct_leak_verdict_add(const struct ct_trace_case *c, const struct ct_judged *j,
                        struct ct_verdicts *v) {
    const struct ct_leaks *l = c->leaks;
    uint64_t kept = 0;
    if (!l || !l->growing_count)
        return 0;
    for (size_t i = 0; i < l->growing_count; i++)
        kept += l->growing[i].shape.kept_bytes;
    struct ct_verdict *made = add_growth(c, j, v,
                                         l->growing[0].is_loop  ? CT_RULE_GROWING_LOOP
                                         : l->growing_count > 1 ? CT_RULE_GROWING_SITES
                                                                : CT_RULE_GROWING_SITE,
                                         kept, l->growing[0].shape.confidence);
    if (!made)
        return 0;
    add_leaks(c, made);
    return 1;
}

// ---- untracked memory ---------------------------------------------------------------------------

int ct_untracked_verdict_is_possible(const struct ct_trace_case *c,
                                     const struct ct_untracked_curve *curve) {
    return ct_untracked_growth_is_possible(curve, c->capacity / LEAST_PART);
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
            ct_verdict_add_text(v, "%s since then: %s", names[i], ct_iec(g->measured[i]).text);
        ct_evidence_set_bytes(e, g->measured[i]);
    }
}

static void add_untracked(const struct ct_trace_case *c, struct ct_verdict *v) {
    const struct ct_leaks *l = c->leaks;
    const int is_own = l->untracked.is_own;
    uint64_t ns = 0;
    (void)add_shape(c, &l->untracked.shape, "", v);
    add_parts(c, v);
    struct ct_evidence *all = ct_verdict_add_text(v, "at the last reading of the device: %s",
                                                  ct_iec(l->untracked.bytes).text);
    ct_evidence_set_bytes(all, l->untracked.bytes);
    const int is_full_known = ct_leaks_full_in(l, &l->untracked.shape, &ns);
    add_full(c, is_full_known, ns, v);
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
}

int ct_untracked_verdict_add(const struct ct_trace_case *c, const struct ct_judged *j,
                             struct ct_verdicts *v) {
    const struct ct_leaks *l = c->leaks;
    if (!l || !ct_growth_kind_is_leak(l->untracked.shape.kind))
        return 0;
    // Whose it is decides whether this is the scenario at all.
    const double confidence = l->untracked.shape.confidence / (l->untracked.is_own ? 1 : 2);
    struct ct_verdict *made =
        add_growth(c, j, v, l->untracked.is_own ? CT_RULE_GROWING_OWN : CT_RULE_GROWING_OUTSIDE,
                   l->untracked.shape.kept_bytes, confidence);
    if (!made)
        return 0;
    add_untracked(c, made);
    return 1;
}
