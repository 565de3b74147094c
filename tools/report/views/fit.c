// SPDX-License-Identifier: Apache-2.0
// fit: whether what the process took would fit on this device or on one of another size, and how
// far the settings of a server could go.
#include <stdlib.h>

#include "base/heap.h"
#include "print/companions.h"
#include "print/document.h"
#include "print/fit_read.h"
#include "print/trace_state.h"
#include "print/view_scan.h"
#include "views/fit_allocator.h"
#include "views/fit_need.h"
#include "views/fit_vllm.h"
#include "views/views.h"

struct fit {
    struct ct_fit_read own, *other; // other: of --other, or NULL
};

static int is_shown(const struct fit *f, int device) {
    const int asked = f->own.v->options->device;
    return f->own.needs.device[device].known && (asked < 0 || asked == device);
}

static void print_text(struct fit *f) {
    struct ct_view *v = f->own.v;
    struct ct_fit_vllm vllm;
    struct ct_what_if what_if;
    int any = 0;
    for (int d = 0; d < CT_DEVICES; d++) {
        if (!is_shown(f, d))
            continue;
        const struct ct_capacity recorded = ct_capacity_find(v->trace, &f->own.scan.end, d);
        any = 1;
        ct_fit_need_print(v, &f->own.needs.device[d], d, &recorded);
        if (ct_fit_read_vllm(&f->own, f->other, d, &vllm))
            ct_fit_vllm_print(v, &vllm, d);
        if (ct_fit_allocator_run(v, &what_if, d))
            ct_fit_allocator_print(v, &what_if);
    }
    if (!any)
        ct_trace_state_print_unallocated(v, f->own.scan.lost);
    ct_companions_print(v, NULL);
    ct_trace_state_print_line(v, &f->own.scan);
}

static void add_device(struct fit *f, struct ct_json *j, int device) {
    struct ct_view *v = f->own.v;
    const struct ct_capacity recorded = ct_capacity_find(v->trace, &f->own.scan.end, device);
    struct ct_fit_vllm vllm;
    struct ct_what_if what_if;
    ct_json_open(j, NULL, '{');
    ct_document_add_device(j, "ordinal", device);
    ct_document_add_capacity(j, &recorded);
    ct_fit_need_add_json(j, &f->own.needs.device[device],
                         v->options->capacity ? v->options->capacity : recorded.bytes);
    ct_fit_vllm_add_json(j, v, ct_fit_read_vllm(&f->own, f->other, device, &vllm) ? &vllm : NULL);
    ct_fit_allocator_add_json(j, v, ct_fit_allocator_run(v, &what_if, device) ? &what_if : NULL);
    ct_json_close(j, '}');
}

static void print_json(struct fit *f) {
    struct ct_view *v = f->own.v;
    struct ct_json json = {.out = v->out}, *j = &json;
    ct_document_begin(j, v);
    ct_document_add_trace(j, v, &f->own.scan);
    ct_json_number_or_null(j, "budget_bytes", v->options->capacity != 0, v->options->capacity);
    ct_json_open(j, "devices", '[');
    for (int d = 0; d < CT_DEVICES; d++)
        if (is_shown(f, d))
            add_device(f, j, d);
    ct_json_close(j, ']');
    ct_companions_add_json(j, v, NULL);
    ct_document_end(j);
}

// The other recording, or NULL.
static struct ct_fit_read *read_other(struct ct_view *v) {
    if (!v)
        return NULL;
    struct ct_fit_read *f = ct_heap_alloc_zeroed(1, sizeof *f);
    ct_fit_read_run(f, v);
    return f;
}

int ct_view_fit(struct ct_view *v) {
    struct fit *f = ct_heap_alloc_zeroed(1, sizeof *f);
    ct_fit_read_run(&f->own, v);
    ct_view_scan_warn_device(v, &f->own.scan);
    f->other = read_other(v->other);
    if (v->options->json)
        print_json(f);
    else
        print_text(f);
    if (f->other)
        ct_fit_read_free(f->other);
    free(f->other);
    ct_fit_read_free(&f->own);
    free(f);
    return CT_EXIT_OK;
}
