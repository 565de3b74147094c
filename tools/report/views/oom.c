// SPDX-License-Identifier: Apache-2.0
// oom: every incident, with the free memory, the failed calls that are its parts, and its outcome.
#include <inttypes.h>

#include "views/document.h"
#include "views/pool_text.h"
#include "views/print.h"
#include "views/trace_state.h"

// Prints "event 7  cudaMalloc  4.30 GiB  result 2".
static void print_call(struct ct_view *v, const struct ct_oom_event *o) {
    char api[100] = "PyTorch", result[80] = "";
    if (o->op != CT_OP_BLOCK_OOM) {
        ct_label_api(v, o->api, api, sizeof api);
        ct_label_result(v, o->api, o->result, result, sizeof result);
    }
    fprintf(v->out, "event %" PRIu64 "  %s  %s%s%s", o->event, api,
            o->bytes_known ? ct_label_size(v, o->bytes).text : "-", *result ? "  " : "", result);
}

static void print_head(struct ct_view *v, const struct ct_oom_event *o, int is_crossing) {
    fprintf(v->out, "%s%s%s  %s  ", is_crossing ? v->terminal->red : v->terminal->bold,
            ct_label_time(v, o->t_ns).text, v->terminal->reset, ct_label_device(o->device).text);
    print_call(v, o);
    fputs(is_crossing ? "  <- crossed capacity\n" : "\n", v->out);
}

static void print_memory(struct ct_view *v, const struct ct_breakdown *m) {
    const uint64_t parts[] = {m->tracked, m->split_known ? m->untracked : m->unexplained,
                              m->split_known ? m->others : 0, m->free, m->in_flight};
    struct ct_human_text shown[5]; // as summary shows them
    ct_human_bytes_of_parts(shown, parts, 5, m->total, v->options->units, 1);
    fprintf(v->out, "\n    memory   tracked %s", shown[0].text);
    if (m->pool_idle)
        fprintf(v->out, " (%s of it idle in CUDA's memory pools)",
                ct_label_size(v, m->pool_idle).text);
    if (m->in_flight)
        fprintf(v->out, ", in flight %s", shown[4].text);
    if (m->split_known)
        fprintf(v->out, ", untracked %s, other processes %s", shown[1].text, shown[2].text);
    else if (m->used_known)
        fprintf(v->out, ", untracked and other processes %s", shown[1].text);
    if (m->used_known)
        fprintf(v->out, ", free %s%s of %s", shown[3].text, m->moved_on ? " (inferred)" : "",
                ct_label_size(v, m->total).text);
}

// Prints the failed calls of an incident besides its head.
static void print_parts(struct ct_view *v, const struct ct_incidents *n,
                        const struct ct_incident *i) {
    const char *label = "parts";
    for (uint32_t at = i->first + 1; at; at = n->ooms[at - 1].next_part) {
        if (at - 1 == i->head)
            continue;
        fprintf(v->out, "\n    %-8s %s  ", label, ct_label_time(v, n->ooms[at - 1].t_ns).text);
        print_call(v, &n->ooms[at - 1]);
        label = "";
    }
}

static void print_outcome(struct ct_view *v, const struct ct_incident *i,
                          const struct ct_oom_event *head) {
    const struct ct_human_text later = ct_human_duration(head->recovered_t_ns - head->t_ns);
    if (i->retried)
        fprintf(
            v->out,
            "\n    outcome  recovered: PyTorch %s, and its retry succeeded %s later, event %" PRIu64,
            i->freed ? "freed memory" : "asked again", later.text, head->recovered_event);
    else if (i->recovered)
        fprintf(v->out,
                "\n    outcome  failed; a request of this size succeeded %s later, event %" PRIu64,
                later.text, head->recovered_event);
    else
        fputs("\n    outcome  failed; no later request of this size succeeded", v->out);
    putc('\n', v->out);
}

static void print_incident(struct ct_view *v, const struct ct_incidents *n, size_t k,
                           int is_crossing) {
    const struct ct_oom_event *o = ct_incidents_head(n, k);
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
    print_parts(v, n, &n->list[k]);
    print_outcome(v, &n->list[k], o);
}

static void print_text(struct ct_view *v, const struct ct_scan *s) {
    const struct ct_incidents *n = &s->incidents;
    const struct ct_oom_event *crossing = v->options->capacity ? NULL : ct_scan_find_crossing(s);
    if (!n->count) {
        fprintf(v->out, "No OOM occurred%s\n", ct_trace_state_until(v).text);
        return;
    }
    ct_print_incident_counts(v, n);
    putc('\n', v->out);
    const size_t most = v->options->top ? v->options->top : SIZE_MAX;
    for (size_t k = 0; k < n->count; k++) {
        const int is_crossing = ct_incidents_head(n, k) == crossing;
        if (n->count - k <= most || is_crossing)
            print_incident(v, n, k, is_crossing);
    }
}

static void print_json(struct ct_view *v, const struct ct_scan *s) {
    struct ct_json json = {.out = v->out}, *j = &json;
    ct_document_begin(j, v);
    ct_document_add_trace(j, v, s);
    ct_document_add_incidents(j, v, &s->incidents, ct_scan_find_crossing(s));
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
