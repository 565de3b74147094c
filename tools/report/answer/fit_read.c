// SPDX-License-Identifier: Apache-2.0
#include "answer/fit_read.h"

#include "analyze/capacity.h"
#include "answer/companions.h"
#include "answer/view_scan.h"
#include "question/question.h"

static void note_event(void *user, const struct ct_replay *r, const struct ct_event *e,
                       uint64_t number) {
    struct ct_fit_read *f = user;
    ct_device_needs_note(&f->needs, &f->scan, e);
    ct_server_memories_note(&f->servers, f->v->phases, f->scan.phase, r, e, number);
}

void ct_fit_read_run(struct ct_fit_read *f, struct ct_view *v) {
    struct ct_scan_request request = ct_view_scan_request_pools(v);
    f->v = v;
    request.from_ns = 0;
    request.to_ns = UINT64_MAX;
    request.capacity = 0; // the pass ends with the trace, not at the asked capacity
    ct_question_scan(&f->scan, v->trace, &request,
                     &(struct ct_listener){.self = f, .after = note_event});
    ct_device_needs_finish(&f->needs, &f->scan, f->v->trace);
    ct_server_memories_finish(&f->servers, &f->scan);
    ct_facts_read(&f->facts, &f->v->trace->definitions);
}

void ct_fit_read_free(struct ct_fit_read *f) {
    ct_facts_free(&f->facts);
    ct_scan_free(&f->scan);
}

static const struct ct_text_facts *log_of(const struct ct_view *v) {
    return v->companions && v->companions->has_log ? &v->companions->log : NULL;
}

static const struct ct_metrics *metrics_of(const struct ct_view *v) {
    return v->companions && v->companions->has_metrics ? &v->companions->metrics : NULL;
}

static int find_budget(const struct ct_fit_read *f, int device, struct ct_vllm_budget *to) {
    const struct ct_view *v = f->v;
    const struct ct_vllm_budget_request request = {
        .memory = &f->servers.device[device],
        .recorded_capacity = ct_capacity_find(v->trace, &f->scan.end, device).bytes,
        .capacity = v->options->capacity,
        .facts = &f->facts,
        .log = log_of(v),
        .metrics = metrics_of(v)};
    if (request.memory->framework != CT_FRAMEWORK_VLLM)
        return 0;
    ct_vllm_budget_find(to, &request);
    if (f->needs.device[device].may_be_less) {
        to->known = 0;
        to->why = f->needs.device[device].unseen;
    }
    return 1;
}

int ct_fit_read_vllm(const struct ct_fit_read *f, int device, struct ct_fit_vllm *to) {
    if (!find_budget(f, device, &to->budget))
        return 0;
    ct_vllm_fit_find(&to->fit, &to->budget, metrics_of(f->v), f->v->options->units);
    return 1;
}
