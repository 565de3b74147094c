// SPDX-License-Identifier: Apache-2.0
// fit: whether what the process took would fit on this device or on one of another size, and how
// far the settings of a server could go.
#include <stdlib.h>

#include "answer/fit_read.h"
#include "answer/view_scan.h"
#include "base/heap.h"
#include "print/companions_print.h"
#include "print/document.h"
#include "print/trace_state.h"
#include "views/fit_allocator.h"
#include "views/fit_need.h"
#include "views/fit_vllm.h"
#include "views/views.h"

static int is_shown(const struct ct_fit_read *f, int device) {
    const int asked = f->v->options->device;
    return f->needs.device[device].known && (asked < 0 || asked == device);
}

static void print_text(struct ct_fit_read *f) {
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
        if (ct_fit_read_vllm(f, d, &vllm))
            ct_fit_vllm_print(v, &vllm, d);
        if (ct_fit_allocator_run(v, &what_if, d))
            ct_fit_allocator_print(v, &what_if);
    }
    if (!any)
        ct_trace_state_print_unallocated(v, f->scan.lost);
    ct_companions_print(v, NULL);
    ct_trace_state_print_line(v, &f->scan);
}

static void add_device(struct ct_fit_read *f, struct ct_json *j, int device) {
    struct ct_view *v = f->v;
    const struct ct_capacity recorded = ct_capacity_find(v->trace, &f->scan.end, device);
    struct ct_fit_vllm vllm;
    struct ct_what_if what_if;
    ct_json_open(j, NULL, '{');
    ct_document_add_device(j, "ordinal", device);
    ct_document_add_capacity(j, &recorded);
    ct_fit_need_add_json(j, &f->needs.device[device],
                         v->options->capacity ? v->options->capacity : recorded.bytes);
    ct_fit_vllm_add_json(j, ct_fit_read_vllm(f, device, &vllm) ? &vllm : NULL);
    ct_fit_allocator_add_json(j, v, ct_fit_allocator_run(v, &what_if, device) ? &what_if : NULL);
    ct_json_close(j, '}');
}

static void print_json(struct ct_fit_read *f) {
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
    struct ct_fit_read *f = ct_heap_alloc_zeroed(1, sizeof *f);
    ct_fit_read_run(f, v);
    ct_view_scan_warn_device(v, &f->scan);
    if (v->options->json)
        print_json(f);
    else
        print_text(f);
    ct_fit_read_free(f);
    free(f);
    return CT_EXIT_OK;
}
