// SPDX-License-Identifier: Apache-2.0
// fit: whether what the process took would fit on this device or on one of another size, and how
// far the settings of a server could go.
#include <stdlib.h>

#include "base/heap.h"
#include "print/companions.h"
#include "print/document.h"
#include "print/trace_state.h"
#include "print/view_scan.h"
#include "read/facts.h"
#include "views/fit_allocator.h"
#include "views/fit_need.h"
#include "views/fit_vllm.h"
#include "views/views.h"

struct fit {
    struct ct_view *v;
    struct ct_scan scan;
    struct ct_device_needs needs;
    struct ct_server_memories servers;
    struct ct_facts facts;
};

static void note_event(void *user, const struct ct_replay *r, const struct ct_event *e) {
    struct fit *f = user;
    ct_device_needs_note(&f->needs, r, e, f->scan.event);
    ct_server_memories_note(&f->servers, f->v->phases, f->scan.phase, r, e, f->scan.event);
}

static void read_fit(struct fit *f) {
    struct ct_scan_request request = ct_view_scan_request_pools(f->v);
    request.capacity = 0; // the pass ends with the trace, not at the asked capacity
    request.applied = note_event;
    request.applied_user = f;
    ct_view_scan_run(f->v, &f->scan, &request);
    ct_device_needs_finish(&f->needs, &f->scan, f->v->trace);
    ct_server_memories_finish(&f->servers, &f->scan);
    ct_facts_read(&f->facts, &f->v->trace->definitions);
}

// Returns 0 if the process was no server of vLLM's on the device.
static int read_vllm(const struct fit *f, int device, uint64_t capacity, struct ct_fit_vllm *to) {
    const struct ct_view *v = f->v;
    const struct ct_companions *beside = v->companions;
    const struct ct_server_memory *m = &f->servers.device[device];
    const struct ct_vllm_budget_request request = {
        .memory = m,
        .recorded_capacity = capacity,
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

static int is_shown(const struct fit *f, int device) {
    const int asked = f->v->options->device;
    return f->needs.device[device].known && (asked < 0 || asked == device);
}

static void print_text(struct fit *f) {
    struct ct_view *v = f->v;
    struct ct_fit_vllm vllm;
    struct ct_what_if what_if;
    int any = 0;
    for (int d = 0; d < CT_DEVICES; d++) {
        if (!is_shown(f, d))
            continue;
        const struct ct_capacity recorded = ct_capacity_find(v->trace, &f->scan.end, d);
        any = 1;
        ct_fit_need_print(v, &f->needs.device[d], d, &recorded);
        if (read_vllm(f, d, recorded.bytes, &vllm))
            ct_fit_vllm_print(v, &vllm, d);
        if (ct_fit_allocator_run(v, &what_if, d))
            ct_fit_allocator_print(v, &what_if);
    }
    if (!any)
        fprintf(v->out, "No GPU memory was allocated%s\n", ct_trace_state_until(v).text);
    ct_companions_print(v, NULL);
    ct_trace_state_print_line(v, &f->scan);
}

static void add_device(struct fit *f, struct ct_json *j, int device) {
    struct ct_view *v = f->v;
    const struct ct_capacity recorded = ct_capacity_find(v->trace, &f->scan.end, device);
    struct ct_fit_vllm vllm;
    struct ct_what_if what_if;
    ct_json_open(j, NULL, '{');
    ct_document_add_device(j, "ordinal", device);
    ct_document_add_capacity(j, &recorded);
    ct_fit_need_add_json(j, &f->needs.device[device],
                         v->options->capacity ? v->options->capacity : recorded.bytes);
    ct_fit_vllm_add_json(j, read_vllm(f, device, recorded.bytes, &vllm) ? &vllm : NULL);
    ct_fit_allocator_add_json(j, v, ct_fit_allocator_run(v, &what_if, device) ? &what_if : NULL);
    ct_json_close(j, '}');
}

static void print_json(struct fit *f) {
    struct ct_view *v = f->v;
    struct ct_json json = {.out = v->out}, *j = &json;
    ct_document_begin(j, v);
    ct_document_add_trace(j, v, &f->scan);
    ct_json_number_or_null(j, "budget_bytes", v->options->capacity != 0, v->options->capacity);
    ct_json_open(j, "devices", '[');
    for (int d = 0; d < CT_DEVICES; d++)
        if (is_shown(f, d))
            add_device(f, j, d);
    ct_json_close(j, ']');
    ct_companions_add_json(j, v, NULL);
    ct_document_end(j);
}

int ct_view_fit(struct ct_view *v) {
    struct fit *f = ct_heap_alloc_zeroed(1, sizeof *f);
    f->v = v;
    read_fit(f);
    if (v->options->json)
        print_json(f);
    else
        print_text(f);
    ct_facts_free(&f->facts);
    ct_scan_free(&f->scan);
    free(f);
    return CT_EXIT_OK;
}
