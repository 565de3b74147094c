// SPDX-License-Identifier: Apache-2.0
#include "print/fit_read.h"

#include "analyze/capacity.h"
#include "print/companions.h"
#include "print/view_scan.h"

static void note_event(void *user, const struct ct_replay *r, const struct ct_event *e) {
    struct ct_fit_read *f = user;
    ct_device_needs_note(&f->needs, r, e, f->scan.event);
    ct_server_memories_note(&f->servers, f->v->phases, &f->scan.phase, r, e, f->scan.event);
}

struct ct_scan_request ct_fit_read_begin(struct ct_fit_read *f, struct ct_view *v) {
    struct ct_scan_request request = ct_view_scan_request_pools(v);
    f->v = v;
    request.from_ns = 0;
    request.to_ns = UINT64_MAX;
    request.capacity = 0; // the pass ends with the trace, not at the asked capacity
    request.applied = note_event;
    request.applied_user = f;
    return request;
}

void ct_fit_read_finish(struct ct_fit_read *f) {
    ct_device_needs_finish(&f->needs, &f->scan, f->v->trace);
    ct_server_memories_finish(&f->servers, &f->scan);
    ct_facts_read(&f->facts, &f->v->trace->definitions);
}

void ct_fit_read_free(struct ct_fit_read *f) {
    ct_facts_free(&f->facts);
    ct_scan_free(&f->scan);
}

int ct_fit_read_vllm(const struct ct_fit_read *f, int device, struct ct_fit_vllm *to) {
    const struct ct_view *v = f->v;
    const struct ct_companions *beside = v->companions;
    const struct ct_server_memory *m = &f->servers.device[device];
    const struct ct_vllm_budget_request request = {
        .memory = m,
        .recorded_capacity = ct_capacity_find(v->trace, &f->scan.end, device).bytes,
        .capacity = v->options->capacity,
        .facts = &f->facts,
        .log = beside && beside->has_log ? &beside->log : NULL,
        .metrics = beside && beside->has_metrics ? &beside->metrics : NULL};
    if (m->framework != CT_FRAMEWORK_VLLM)
        return 0;
    ct_vllm_budget_find(&to->budget, &request);
    if (f->needs.device[device].may_be_less) {
        to->budget.known = 0;
        to->budget.why = f->needs.device[device].unseen;
    }
    ct_vllm_fit_find(&to->fit, &to->budget, request.metrics, v->options->units);
    return 1;
}
