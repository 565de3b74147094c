// SPDX-License-Identifier: Apache-2.0
#include "print/verdicts_json.h"

// A text that may be NULL.
static void add_text(struct ct_json *j, const char *key, const char *text) {
    if (text)
        ct_json_text(j, key, text);
    else
        ct_json_null(j, key);
}

static void add_evidence(struct ct_json *j, const struct ct_evidence *e,
                         struct ct_call_sites *sites) {
    ct_json_open(j, NULL, '{');
    ct_json_number_or_null(j, "event", e->event_known, e->event);
    ct_json_number_or_null(j, "t_ns", e->event_known, e->t_ns);
    ct_json_number_or_null(j, "bytes", e->bytes_known, e->bytes);
    ct_json_text(j, "text", e->text);
    if (e->stack && sites)
        ct_call_sites_json_stack(j, sites, "stack", e->stack);
    else
        ct_json_null(j, "stack");
    ct_json_close(j, '}');
}

static void add_advice(struct ct_json *j, const struct ct_advice *a) {
    ct_json_open(j, NULL, '{');
    ct_json_text(j, "text", a->text);
    add_text(j, "flag", a->flag);
    add_text(j, "from", a->from);
    add_text(j, "to", a->to);
    add_text(j, "versions", a->versions);
    ct_json_close(j, '}');
}

static void add_verdict(struct ct_json *j, const struct ct_verdict *v,
                        struct ct_call_sites *sites) {
    ct_json_text(j, "scenario", ct_scenario_name(v->scenario));
    ct_json_ratio(j, "confidence", (uint64_t)(v->confidence * 10000 + 0.5), 10000);
    add_text(j, "sureness", ct_verdict_sureness(v));
    ct_json_number_or_null(j, "device", v->device >= 0, (uint64_t)v->device);
    ct_json_text(j, "summary", v->summary);
    ct_json_open(j, "evidence", '[');
    for (size_t i = 0; i < v->evidence_count; i++)
        add_evidence(j, &v->evidence[i], sites);
    ct_json_close(j, ']');
    ct_json_open(j, "advice", '[');
    for (size_t i = 0; i < v->advice_count; i++)
        add_advice(j, &v->advice[i]);
    ct_json_close(j, ']');
    add_text(j, "refuted_by", v->refuted_by);
}

void ct_verdicts_add_json(struct ct_json *j, const char *key, const struct ct_verdicts *l,
                          struct ct_call_sites *sites) {
    ct_json_open(j, key, '[');
    for (size_t i = 0; i < l->count; i++) {
        ct_json_open(j, NULL, '{');
        add_verdict(j, &l->list[i], sites);
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
}

void ct_verdicts_add_json_of_processes(struct ct_json *j, const char *key,
                                       const struct ct_verdicts *l) {
    ct_json_open(j, key, '[');
    for (size_t i = 0; i < l->count; i++) {
        ct_json_open(j, NULL, '{');
        add_verdict(j, &l->list[i], NULL);
        ct_json_open(j, "process_indexes", '[');
        for (size_t k = 0; k < l->list[i].process_count; k++)
            ct_json_number(j, NULL, l->list[i].processes[k]);
        ct_json_close(j, ']');
        ct_json_close(j, '}');
    }
    ct_json_close(j, ']');
}
