// SPDX-License-Identifier: Apache-2.0
#include "diagnose/growth_verdict.h"

#include "base/human.h"

#define SECOND_NS UINT64_C(1000000000)
#define MINUTE_NS (60 * SECOND_NS)
#define HOUR_NS (60 * MINUTE_NS)

static struct ct_human_text size(uint64_t bytes) {
    return ct_human_bytes(bytes, CT_UNITS_IEC);
}

struct ct_verdict *ct_growth_verdict_add(const struct ct_trace_case *c, const struct ct_judged *j,
                                         struct ct_verdicts *v, enum ct_scenario scenario,
                                         uint64_t bytes, double confidence, const char *summary) {
    uint64_t least = c->capacity / CT_GROWTH_LEAST_PART;
    if (j && j->cause.missing > least)
        least = j->cause.missing;
    if (bytes < least || !bytes)
        return NULL;
    return j ? ct_judged_add(j, scenario, confidence, summary)
             : ct_verdicts_add(v, scenario, confidence, c->device < CT_MAX_DEVICES ? c->device : -1,
                               "%s", summary);
}

struct ct_evidence *ct_growth_verdict_add_shape(const struct ct_trace_case *c,
                                                const struct ct_growth_shape *s, const char *what,
                                                struct ct_verdict *v) {
    // A rate in a time that is longer than what was seen would be a forecast.
    const uint64_t start = c->trace->start_ns, seen = s->grown_ns;
    const uint64_t unit = seen >= HOUR_NS ? HOUR_NS : seen >= MINUTE_NS ? MINUTE_NS : SECOND_NS;
    struct ct_evidence *e =
        ct_verdict_add_text(v, "%s%s since %s, %s %s, %s", size(s->kept_bytes).text, what,
                            ct_human_elapsed(s->since_ns > start ? s->since_ns - start : 0).text,
                            size(ct_growth_shape_in(s, unit)).text,
                            unit == HOUR_NS     ? "an hour"
                            : unit == MINUTE_NS ? "a minute"
                                                : "a second",
                            ct_growth_kind_name(s->kind));
    e->bytes_known = 1;
    e->bytes = s->kept_bytes;
    return e;
}

void ct_growth_verdict_add_full(const struct ct_trace_case *c, int known, uint64_t in_ns,
                                struct ct_verdict *v) {
    if (!c->crossing && known)
        (void)ct_verdict_add_text(v, "the device is full in %s at this rate",
                                  ct_human_duration(in_ns).text);
}
