// SPDX-License-Identifier: Apache-2.0
// oom: every refused allocation, with what was free and whether a retry succeeded.
#include <inttypes.h>

#include "views/pool_common.h"

static void put_one(struct ct_view *v, const struct ct_refusal *r,
                    const struct ct_refusal *crossing) {
    const struct ct_oom_reason w = ct_oom_reason_find(r, 0);
    char api[100], result[30] = "";
    if (r->op == CT_OP_BLOCK_OOM)
        (void)snprintf(api, sizeof api, "PyTorch");
    else
        ct_label_api(v, r->api, api, sizeof api);
    if (r->op != CT_OP_BLOCK_OOM)
        (void)snprintf(result, sizeof result, "  result %d", r->result);
    fprintf(v->out, "%s%s%s  %s  event %" PRIu64 "  %s  %s%s%s\n",
            r == crossing ? v->term->red : v->term->bold, ct_label_time(v, r->t_ns).text, v->term->reset,
            ct_label_device(r->device).text, r->event, api,
            r->bytes_known ? ct_label_size(v, r->bytes).text : "-", result,
            r == crossing ? "  <- crossed capacity" : "");
    fputs("    why      ", v->out);
    ct_print_oom_reason(v, r, &w);
    fprintf(v->out, "\n    memory   tracked %s", ct_label_size(v, r->split.tracked).text);
    if (r->split.split_known)
        fprintf(v->out, ", untracked %s, other processes %s", ct_label_size(v, r->split.untracked).text,
                ct_label_size(v, r->split.others).text);
    else if (r->split.used_known)
        fprintf(v->out, ", untracked and other processes %s",
                ct_label_size(v, r->split.unexplained).text);
    if (r->split.used_known)
        fprintf(v->out, ", free %s%s of %s", ct_label_size(v, r->split.free).text,
                r->split.moved_on ? " (inferred)" : "", ct_label_size(v, r->split.total).text);
    if (r->pool.known)
        fprintf(v->out, "\n    PyTorch  %s free in %s piece%s inside %s of segments, largest %s",
                ct_label_size(v, r->pool.free.bytes).text, ct_human_count(r->pool.free.ranges).text,
                ct_human_plural(r->pool.free.ranges), ct_label_size(v, r->pool.segment_bytes).text,
                ct_pool_text_largest(v, r->pool.free.largest).text);
    fputs("\n    asked by ", v->out);
    if (r->stack)
        ct_print_stack(v, r->stack, 8, 13);
    else
        putc('-', v->out);
    if (r->recovered)
        fprintf(v->out, "\n    then     a retry succeeded %s later, event %" PRIu64,
                ct_human_duration(r->recovered_t_ns - r->t_ns).text, r->recovered_event);
    else
        fputs("\n    then     no retry of this size succeeded", v->out);
    putc('\n', v->out);
}

static void put_text(struct ct_view *v, const struct ct_scan *s) {
    const struct ct_refusal *crossing = v->options->capacity ? NULL : ct_scan_find_crossing(s);
    size_t recovered = 0;
    for (size_t i = 0; i < s->refusal_count; i++)
        recovered += (size_t)s->refusals[i].recovered;
    if (!s->refusal_count) {
        fputs("No allocation was refused\n", v->out);
        return;
    }
    fprintf(v->out, "%zu refused, %zu of them followed by a successful retry of the same size\n",
            s->refusal_count, recovered);
    const size_t most = v->options->top ? v->options->top : SIZE_MAX;
    for (size_t i = 0; i < s->refusal_count; i++)
        if (s->refusal_count - i <= most || &s->refusals[i] == crossing)
            put_one(v, &s->refusals[i], crossing);
}

static void put_json(struct ct_view *v, const struct ct_scan *s) {
    struct ct_json json = {.out = v->out}, *j = &json;
    const struct ct_refusal *crossing = ct_scan_find_crossing(s);
    ct_document_begin(j, v);
    ct_document_add_trace(j, v, s);
    ct_json_open(j, "ooms", '[');
    for (size_t i = 0; i < s->refusal_count; i++)
        ct_document_add_oom(j, v, NULL, &s->refusals[i], 0);
    ct_json_close(j, ']');
    if (crossing)
        ct_document_add_oom(j, v, "crossing", crossing, v->options->capacity != 0);
    else
        ct_json_null(j, "crossing");
    ct_json_close(j, '}');
    ct_json_end_line(j);
}

int ct_view_oom(struct ct_view *v) {
    struct ct_scan s;
    const struct ct_scan_request request = ct_view_scan_request_pools(v);
    ct_view_scan_run(v, &s, &request);
    if (v->options->json)
        put_json(v, &s);
    else
        put_text(v, &s);
    ct_scan_free(&s);
    return CT_EXIT_OK;
}
