// SPDX-License-Identifier: Apache-2.0
// oom: every failed allocation, with the free memory and whether a retry succeeded.
#include <inttypes.h>

#include "views/document.h"
#include "views/pool_text.h"
#include "views/print.h"

static void print_head(struct ct_view *v, const struct ct_oom_event *o, int is_crossing) {
    char api[100] = "PyTorch", result[30] = "";
    if (o->op != CT_OP_BLOCK_OOM) {
        ct_label_api(v, o->api, api, sizeof api);
        (void)snprintf(result, sizeof result, "  result %d", o->result);
    }
    fprintf(v->out, "%s%s%s  %s  event %" PRIu64 "  %s  %s%s%s\n",
            is_crossing ? v->terminal->red : v->terminal->bold, ct_label_time(v, o->t_ns).text,
            v->terminal->reset, ct_label_device(o->device).text, o->event, api,
            o->bytes_known ? ct_label_size(v, o->bytes).text : "-", result,
            is_crossing ? "  <- crossed capacity" : "");
}

static void print_memory(struct ct_view *v, const struct ct_breakdown *m) {
    fprintf(v->out, "\n    memory   tracked %s", ct_label_size(v, m->tracked).text);
    if (m->pool_idle)
        fprintf(v->out, " (%s of it idle in CUDA's memory pools)",
                ct_label_size(v, m->pool_idle).text);
    if (m->in_flight)
        fprintf(v->out, ", in flight %s", ct_label_size(v, m->in_flight).text);
    if (m->split_known)
        fprintf(v->out, ", untracked %s, other processes %s", ct_label_size(v, m->untracked).text,
                ct_label_size(v, m->others).text);
    else if (m->used_known)
        fprintf(v->out, ", untracked and other processes %s",
                ct_label_size(v, m->unexplained).text);
    if (m->used_known)
        fprintf(v->out, ", free %s%s of %s", ct_label_size(v, m->free).text,
                m->moved_on ? " (inferred)" : "", ct_label_size(v, m->total).text);
}

static void print_oom(struct ct_view *v, const struct ct_oom_event *o, int is_crossing) {
    const struct ct_oom_reason reason = ct_oom_reason_find(o, 0);
    print_head(v, o, is_crossing);
    fputs("    reason   ", v->out);
    ct_print_oom_reason(v, o, &reason);
    print_memory(v, &o->split);
    if (o->pool.known)
        fprintf(v->out, "\n    PyTorch  %s in %s free block%s inside %s of segments, largest %s",
                ct_label_size(v, o->pool.free.bytes).text, ct_human_count(o->pool.free.ranges).text,
                ct_human_plural(o->pool.free.ranges), ct_label_size(v, o->pool.segment_bytes).text,
                ct_pool_text_largest(v, o->pool.free.largest).text);
    fputs("\n    stack    ", v->out);
    if (o->stack)
        ct_print_stack(v, o->stack, 8, 13);
    else
        putc('-', v->out);
    if (o->recovered)
        fprintf(v->out, "\n    retry    succeeded %s later, event %" PRIu64,
                ct_human_duration(o->recovered_t_ns - o->t_ns).text, o->recovered_event);
    else
        fputs("\n    retry    none of this size succeeded", v->out);
    putc('\n', v->out);
}

static void print_text(struct ct_view *v, const struct ct_scan *s) {
    const struct ct_oom_event *crossing = v->options->capacity ? NULL : ct_scan_find_crossing(s);
    size_t recovered = 0;
    for (size_t i = 0; i < s->oom_count; i++)
        recovered += (size_t)s->ooms[i].recovered;
    if (!s->oom_count) {
        fputs("No OOM occurred\n", v->out);
        return;
    }
    fprintf(v->out, "%zu OOM%s, %zu of them followed by a successful retry of the same size\n",
            s->oom_count, ct_human_plural(s->oom_count), recovered);
    const size_t most = v->options->top ? v->options->top : SIZE_MAX;
    for (size_t i = 0; i < s->oom_count; i++)
        if (s->oom_count - i <= most || &s->ooms[i] == crossing)
            print_oom(v, &s->ooms[i], &s->ooms[i] == crossing);
}

static void print_json(struct ct_view *v, const struct ct_scan *s) {
    struct ct_json json = {.out = v->out}, *j = &json;
    const struct ct_oom_event *crossing = ct_scan_find_crossing(s);
    ct_document_begin(j, v);
    ct_document_add_trace(j, v, s);
    ct_json_open(j, "ooms", '[');
    for (size_t i = 0; i < s->oom_count; i++)
        ct_document_add_oom(j, v, NULL, &s->ooms[i], 0);
    ct_json_close(j, ']');
    if (crossing)
        ct_document_add_oom(j, v, "crossing", crossing, v->options->capacity != 0);
    else
        ct_json_null(j, "crossing");
    ct_document_end(j);
}

int ct_view_oom(struct ct_view *v) {
    struct ct_scan s;
    const struct ct_scan_request request = ct_view_scan_request_pools(v);
    ct_view_scan_run(v, &s, &request);
    if (v->options->json)
        print_json(v, &s);
    else
        print_text(v, &s);
    ct_scan_free(&s);
    return CT_EXIT_OK;
}
