// SPDX-License-Identifier: Apache-2.0
// fit: whether what the process took would fit on this device or on one of another size, and how
// far the settings of a server could go.
#include <inttypes.h>
#include <stdlib.h>

#include "analyze/capacity.h"
#include "analyze/device_need.h"
#include "answer/fit_read.h"
#include "answer/view.h"
#include "answer/view_scan.h"
#include "base/heap.h"
#include "base/json.h"
#include "print/companions_print.h"
#include "print/document.h"
#include "print/label.h"
#include "print/table.h"
#include "print/trace_state.h"
#include "views/fit_parts.h"
#include "views/views.h"

// ---- what any process took ----------------------------------------------------------------------
// The part of fit that holds for any process: whether what it took would have fitted.

enum { ROWS = 5, COLUMNS = 2 };

// ---- the answer ---------------------------------------------------------------------------------

// Why it cannot be told.
static const char *find_why(const struct ct_device_need *n) {
    if (n->with_host)
        return "the device shares its memory with the host";
    if (n->unseen)
        return n->unseen;
    if (!n->untracked_known)
        return "what the context and modules take was not read";
    if (n->overwritten)
        return "more was allocated in the time whose events were overwritten";
    return "some of it may be of other processes";
}

static void print_answer(struct ct_view *v, const struct ct_device_need *n, int device,
                         uint64_t capacity) {
    const struct ct_human_text size =
        v->options->capacity ? ct_label_budget(v) : ct_label_size(v, capacity);
    const char *until = n->failed ? " up to the request that failed" : "";
    const struct ct_need *most = &n->as_recorded, *least = &n->least;
    fprintf(v->out, "%s%s: ", v->terminal->bold, ct_label_device(device).text);
    switch (ct_device_need_judge(n, capacity)) {
    case CT_NEED_FITS:
        fprintf(v->out, "this run would fit%s on %s, and %s would be left", until, size.text,
                ct_label_size(v, capacity - most->bytes).text);
        break;
    case CT_NEED_FITS_NOT:
        fprintf(v->out, "this run would not fit on %s: at least %s would be missing", size.text,
                ct_label_size(v, least->bytes - capacity).text);
        break;
    case CT_NEED_DEPENDS:
        if (n->failed && !v->options->capacity)
            fprintf(v->out, "this run failed on %s", size.text);
        else
            fprintf(v->out, "whether this run would fit%s on %s depends", until, size.text);
        fprintf(v->out, "%s: it needs %s to %s",
                n->failed && !v->options->capacity ? "" : " on what its pools give back",
                ct_label_size(v, least->bytes).text, ct_label_size(v, most->bytes).text);
        break;
    case CT_NEED_UNKNOWN:
        fprintf(v->out, "whether this run would fit%s on %s is not known, because %s", until,
                size.text, find_why(n));
        break;
    }
    fprintf(v->out, "%s\n", v->terminal->reset);
}

// ---- what adds up to it -------------------------------------------------------------------------

static const char *const row_titles[ROWS] = {
    "in allocations and blocks", "free in pools", "the request that failed",
    "untracked (context, modules)", "untracked or of other processes"};

static void list_parts(const struct ct_need *n, int is_least, uint64_t parts[ROWS]) {
    parts[0] = n->tracked - n->pool_free;
    parts[1] = is_least ? 0 : n->pool_free;
    parts[2] = n->requested;
    parts[3] = n->untracked;
    parts[4] = is_least ? 0 : n->unattributed;
}

static void print_parts(struct ct_view *v, const struct ct_device_need *n) {
    static const struct ct_table_column columns[] = {{"needed", 0, CT_TABLE_LEFT},
                                                     {"as recorded", 0, CT_TABLE_RIGHT},
                                                     {"at least", 0, CT_TABLE_RIGHT}};
    const struct ct_need *of[COLUMNS] = {&n->as_recorded, &n->least};
    uint64_t parts[COLUMNS][ROWS];
    struct ct_human_text shown[COLUMNS][ROWS];
    struct ct_table t;
    for (int c = 0; c < COLUMNS; c++) {
        list_parts(of[c], c == 1, parts[c]);
        ct_human_bytes_of_parts(shown[c], parts[c], ROWS, of[c]->bytes, v->options->units, ROWS);
    }
    ct_table_init(&t, columns, 3, 2);
    for (int row = 0; row < ROWS; row++)
        if (parts[0][row] || parts[1][row])
            ct_table_add_row(&t, row_titles[row], parts[0][row] ? shown[0][row].text : "-",
                             parts[1][row] ? shown[1][row].text : "-", NULL);
    ct_table_add_row(&t, "all", ct_label_size(v, of[0]->bytes).text,
                     ct_label_size(v, of[1]->bytes).text, NULL);
    ct_table_add_row(&t, "at", ct_label_time(v, of[0]->t_ns).text,
                     ct_label_time(v, of[1]->t_ns).text, NULL);
    ct_table_print(v, &t);
}

static void print_notes(struct ct_view *v, const struct ct_device_need *n) {
    if (n->failed)
        fprintf(v->out,
                "  a request failed at %s: what the program would have asked for after it is not "
                "known\n",
                ct_label_time(v, n->failed_t_ns).text);
    if (!n->untracked_known)
        fputs("  untracked memory was not read: it is in no figure\n", v->out);
    if (n->overwritten)
        fprintf(v->out, "  %s was allocated in the time whose events were overwritten\n",
                ct_label_size(v, n->overwritten).text);
    if (n->others)
        fprintf(v->out, "  other processes held up to %s of the recorded device: in no figure\n",
                ct_label_size(v, n->others).text);
    if (n->managed)
        fprintf(v->out, "  up to %s of managed memory is in no figure, because it migrates\n",
                ct_label_size(v, n->managed).text);
}

// Prints the answer for a device (an index), with what adds up to it.
static void print_need(struct ct_view *v, const struct ct_device_need *n, int device,
                       const struct ct_capacity *recorded) {
    const uint64_t capacity = v->options->capacity ? v->options->capacity : recorded->bytes;
    if (!capacity) {
        fprintf(v->out,
                "%s%s: the capacity of the device was not recorded; --capacity names one%s\n",
                v->terminal->bold, ct_label_device(device).text, v->terminal->reset);
    } else
        print_answer(v, n, device, capacity);
    print_parts(v, n);
    print_notes(v, n);
}

// ---- JSON ---------------------------------------------------------------------------------------

static void add_need(struct ct_json *j, const char *key, const struct ct_need *n) {
    ct_json_open(j, key, '{');
    ct_json_number(j, "bytes", n->bytes);
    ct_json_number(j, "t_ns", n->t_ns);
    ct_json_number(j, "event", n->event);
    ct_json_number(j, "tracked_bytes", n->tracked);
    ct_json_number(j, "pool_free_bytes", n->pool_free);
    ct_json_number(j, "requested_bytes", n->requested);
    ct_json_number(j, "untracked_bytes", n->untracked);
    ct_json_number(j, "untracked_or_others_bytes", n->unattributed);
    ct_json_close(j, '}');
}

// Adds the keys of a device.
static void add_need_keys(struct ct_json *j, const struct ct_device_need *n, uint64_t capacity) {
    ct_json_text_or_null(j, "fits",
                         capacity ? ct_need_fit_name(ct_device_need_judge(n, capacity)) : NULL);
    add_need(j, "as_recorded", &n->as_recorded);
    add_need(j, "least", &n->least);
    ct_json_bool(j, "untracked_known", n->untracked_known);
    ct_json_number_or_null(j, "failed_t_ns", n->failed, n->failed_t_ns);
    ct_json_number(j, "other_processes_bytes", n->others);
    ct_json_number(j, "managed_bytes", n->managed);
    ct_json_number_or_null(j, "overwritten_bytes", n->overwritten != 0, n->overwritten);
}

// ---- all devices --------------------------------------------------------------------------------

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
        print_need(v, &f->needs.device[d], d, &recorded);
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
    add_need_keys(j, &f->needs.device[device],
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
