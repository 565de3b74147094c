// SPDX-License-Identifier: Apache-2.0
// oom: the incidents, with the free memory, the failed calls that are their parts, and their
// outcome. Without --at, those that are alike are one entry (incidents.h), the crossing's
// first.
#include <inttypes.h>
#include <string.h>

#include "analyze/capacity.h"
#include "analyze/incidents.h"
#include "print/companions_print.h"
#include "print/document.h"
#include "print/pool_print.h"
#include "print/print.h"
#include "print/trace_state.h"
#include "print/verdict.h"
#include "views/views.h"

enum { FIELD = 10, SHOWN = 3 }; // width of a field's name; groups without --top

static void print_name(struct ct_view *v, const char *name) {
    fprintf(v->out, "  %-*s" CT_WRAP_HANG, FIELD, name);
}

static void print_field(struct ct_view *v, const char *name, char *text) {
    print_name(v, name);
    fprintf(v->out, "%s\n", text);
    free(text);
}

// Prints "GPU 0 at +5.944 s (12:54:35Z), event 1822: PyTorch asked for 24.00 MiB; ...".
static void print_head(struct ct_view *v, const struct ct_scan *s, const struct ct_oom_event *o,
                       int is_crossing) {
    const struct ct_capacity capacity = ct_capacity_find(v->trace, &s->end, o->device);
    char *request = ct_verdict_request(v, o, capacity.bytes);
    const char *mark = // (page-locked host memory and address space are no capacity of the device)
        is_crossing && ct_incidents_is_device_memory(o) ? "  <- crossed capacity" : "";
    fprintf(v->out, "%s%s at %s, event %" PRIu64 ": %s%s%s\n",
            is_crossing ? v->terminal->red : v->terminal->bold,
            ct_label_device_in_full(v, o->device, &s->end).text, ct_verdict_time(v, o->t_ns).text,
            o->event, request, mark, v->terminal->reset);
    free(request);
}

static void print_memory(struct ct_view *v, const struct ct_breakdown *m) {
    const uint64_t parts[] = {m->tracked,
                              m->split_known ? m->untracked : m->unexplained,
                              m->split_known ? m->others : 0,
                              m->free,
                              m->in_flight,
                              m->split_known ? m->unattributed : 0};
    struct ct_human_text shown[6]; // as summary shows them
    ct_human_bytes_of_parts(shown, parts, 6, m->total, v->options->units, 1);
    print_name(v, "memory");
    fprintf(v->out, "%s tracked", shown[0].text);
    if (m->pool_idle)
        fprintf(v->out, " (%s of it idle in CUDA's memory pools)",
                ct_label_size(v, m->pool_idle).text);
    if (m->in_flight)
        fprintf(v->out, ", %s in flight", shown[4].text);
    if (m->split_known)
        fprintf(v->out, ", %s untracked, %s of other processes", shown[1].text, shown[2].text);
    else if (m->used_known)
        fprintf(v->out, ", %s %suntracked or of other processes", shown[1].text,
                m->with_host ? "of the host, " : "");
    if (m->split_known && m->unattributed)
        fprintf(v->out, ", %s untracked or of other processes", shown[5].text);
    if (m->used_known)
        fprintf(v->out, ", %s free%s", shown[3].text, m->moved_on ? " (inferred)" : "");
    putc('\n', v->out);
}

static void print_pool(struct ct_view *v, const struct ct_torch_pool_totals *p) {
    print_name(v, "PyTorch");
    fprintf(v->out, "%s in blocks; %s in %s, largest %s\n",
            ct_label_size(v, p->segment_bytes - p->free.bytes).text,
            ct_label_size(v, p->free.bytes).text,
            ct_human_counted(p->free.ranges, "free block").text,
            ct_pool_text_largest(v, p->free.largest).text);
}

// ---- calls --------------------------------------------------------------------------------------

static int is_same_call(const struct ct_oom_event *a, const struct ct_oom_event *b) {
    return a->op == b->op && a->api == b->api && a->result == b->result &&
           a->bytes_known == b->bytes_known && a->bytes == b->bytes;
}

// Prints "cudaMalloc 24.00 MiB: cudaErrorMemoryAllocation (2)".
static void print_call(struct ct_view *v, const struct ct_oom_event *o) {
    char api[100] = "PyTorch", result[80] = "";
    if (o->op != CT_OP_BLOCK_OOM) {
        ct_label_api(v, o->api, api, sizeof api);
        ct_label_result(v, o->api, o->result, result, sizeof result);
    }
    fputs(api, v->out);
    if (o->bytes_known)
        fprintf(v->out, " %s", ct_label_size(v, o->bytes).text);
    else
        fputs(", size unknown", v->out);
    if (*result)
        fprintf(v->out, ": %s", result);
}

// Prints the failed calls of an incident; equal ones that follow each other in one line.
static void print_calls(struct ct_view *v, const struct ct_incidents *n,
                        const struct ct_incident *i) {
    const char *name = "calls";
    uint32_t at = i->first + 1;
    while (at) {
        const struct ct_oom_event *first = &n->ooms[at - 1], *last = first;
        unsigned times = 0;
        for (; at && is_same_call(first, &n->ooms[at - 1]); at = n->ooms[at - 1].next_part) {
            last = &n->ooms[at - 1];
            times++;
        }
        print_name(v, name);
        fprintf(v->out, "%s event%s %" PRIu64, ct_label_time(v, first->t_ns).text,
                ct_human_plural(times), first->event);
        if (times > 1)
            fprintf(v->out, " to %" PRIu64 ": %u times", last->event, times);
        else
            putc(':', v->out);
        putc(' ', v->out);
        print_call(v, first);
        putc('\n', v->out);
        name = "";
    }
}

// ---- incidents ----------------------------------------------------------------------------------

static void print_outcome(struct ct_view *v, const struct ct_incident *i,
                          const struct ct_oom_event *head) {
    const struct ct_human_text later = ct_human_duration(head->recovered_t_ns - head->t_ns);
    print_name(v, "outcome");
    if (i->retried)
        fprintf(v->out,
                "recovered: PyTorch %s, and its retry succeeded %s later, event %" PRIu64 "\n",
                i->freed ? "freed memory" : "asked again", later.text, head->recovered_event);
    else if (i->recovered && head->recovered_bytes != head->bytes)
        fprintf(v->out,
                "failed; a block of %s, which may be for this size, was handed out %s later, event "
                "%" PRIu64 "\n",
                ct_label_size(v, head->recovered_bytes).text, later.text, head->recovered_event);
    else if (i->recovered)
        fprintf(v->out, "failed; a request of this size succeeded %s later, event %" PRIu64 "\n",
                later.text, head->recovered_event);
    else if (head->bytes_known)
        fputs("failed; no later request of this size succeeded\n", v->out);
    else
        fputs("failed; whether a later request got this memory is not known\n", v->out);
}

static void print_incident(struct ct_view *v, const struct ct_scan *s, size_t k, int is_crossing) {
    const struct ct_incidents *n = &s->incidents;
    const struct ct_oom_event *o = ct_incidents_head(n, k);
    print_head(v, s, o, is_crossing);
    print_field(v, "cause", ct_verdict_cause(v, o, &s->growths));
    print_memory(v, &o->split);
    if (o->pool.known)
        print_pool(v, &o->pool);
    if (o->thread) {
        print_name(v, "thread");
        ct_verdict_print_thread(v, o->thread);
        putc('\n', v->out);
    }
    if (o->phase.phase != CT_PHASE_UNKNOWN) {
        print_name(v, "during");
        fprintf(v->out, "%s%s\n", ct_phases_title_of_event(&o->phase).text,
                o->phase.inferred ? " (by time: this stack has no frames of Python)" : "");
    }
    print_name(v, "where");
    if (o->stack)
        ct_print_stack(v, o->stack, 8, FIELD + 2);
    else
        putc('-', v->out);
    putc('\n', v->out);
    print_calls(v, n, &n->list[k]);
    print_outcome(v, &n->list[k], o);
}

// What is described: the incidents before a position.
struct described {
    struct ct_moment moment; // of --at: the last incident that began by then
    int has_moment;
    size_t end; // after it
};

static struct described find_described(const struct ct_view *v, const struct ct_scan *s) {
    const struct ct_incidents *n = &s->incidents;
    struct described d = {.has_moment = ct_view_scan_is_moment_asked(v->options), .end = n->count};
    if (!d.has_moment)
        return d;
    d.moment = ct_view_scan_asked_moment(v, s);
    for (d.end = 0; d.end < n->count; d.end++) { // in the order of their first calls
        const struct ct_oom_event *first = &n->ooms[n->list[d.end].first];
        if (first->event > d.moment.event || first->t_ns > d.moment.t_ns)
            break;
    }
    return d;
}

// Prints "up to +4.200 s: OOM 2 of 3", or "OOMs 1 to 2 of 3".
static void print_position(struct ct_view *v, const struct described *d, size_t first,
                           size_t count) {
    fprintf(v->out, "up to %s", ct_verdict_time(v, d->moment.t_ns).text);
    if (d->moment.event != UINT64_MAX)
        fprintf(v->out, ", event %" PRIu64, d->moment.event);
    if (first + 1 == d->end)
        fprintf(v->out, ": OOM %zu of %zu\n", d->end, count);
    else
        fprintf(v->out, ": OOMs %zu to %zu of %zu\n", first + 1, d->end, count);
}

// Prints the last incidents up to the moment: one, or as many as --top says.
static void print_at_moment(struct ct_view *v, const struct ct_scan *s, const struct described *d) {
    const struct ct_incidents *n = &s->incidents;
    const struct ct_oom_event *crossing = ct_scan_find_crossing(s);
    const size_t most = v->options->top ? v->options->top : 1;
    const size_t first = d->end > most ? d->end - most : 0;
    if (!d->end) {
        fprintf(v->out, "No OOM occurred up to %s%s\n", ct_label_time(v, d->moment.t_ns).text,
                ct_trace_state_as_far(v->trace, s->lost));
        return;
    }
    print_position(v, d, first, n->count);
    for (size_t k = first; k < d->end; k++)
        print_incident(v, s, k, ct_incidents_head(n, k) == crossing);
}

static void print_groups(struct ct_view *v, const struct ct_scan *s) {
    const struct ct_incidents *n = &s->incidents;
    const struct ct_oom_event *crossing = ct_scan_find_crossing(s);
    const size_t most = v->options->top ? v->options->top : SHOWN;
    struct ct_incident_groups g;
    size_t left = 0;
    ct_incident_groups_find(&g, n, crossing);
    for (size_t i = 0; i < g.count; i++) {
        if (i >= most) {
            left += g.list[i].count;
            continue;
        }
        print_incident(v, s, g.list[i].shown, ct_incidents_head(n, g.list[i].shown) == crossing);
        if (g.list[i].count > 1)
            print_field(v, "in all", ct_verdict_all_alike(v, n, &g.list[i]));
    }
    if (left)
        fprintf(v->out, "%zu more incident%s, of other call sites or outcomes (--top=all)\n", left,
                ct_human_plural(left));
    ct_incident_groups_free(&g);
}

static void print_text(struct ct_view *v, const struct ct_scan *s, const struct described *d) {
    const struct ct_incidents *n = &s->incidents;
    if (d->has_moment) {
        print_at_moment(v, s, d);
        return;
    }
    if (!n->count) {
        fprintf(v->out, "No OOM occurred%s%s\n", ct_trace_state_until(v).text,
                ct_trace_state_as_far(v->trace, s->lost));
        return;
    }
    char *counts = ct_verdict_incidents(n);
    fprintf(v->out, "%s\n", counts);
    free(counts);
    print_groups(v, s);
}

static void print_json(struct ct_view *v, const struct ct_scan *s, const struct described *d) {
    struct ct_json json = {.out = v->out}, *j = &json;
    ct_document_begin(j, v);
    ct_document_add_trace(j, v, s);
    ct_document_add_incidents(j, v, s, ct_scan_find_crossing(s));
    ct_document_add_moment_or_null(j, v->trace, d->has_moment ? &d->moment : NULL);
    ct_json_number_or_null(j, "described", d->has_moment && d->end, d->end - 1);
    ct_companions_add_json(j, v, &s->incidents);
    ct_document_end(j);
}

int ct_view_oom(struct ct_view *v) {
    struct ct_scan s;
    const struct ct_scan_request request = ct_view_scan_request_pools(v);
    ct_view_scan_run(v, &s, &request, NULL);
    const struct described d = find_described(v, &s);
    if (v->options->json) {
        print_json(v, &s, &d);
    } else {
        print_text(v, &s, &d);
        ct_coverage_limits_print(v, ct_trace_count_lost(v->trace, s.lost));
        ct_companions_print(v, &s.incidents);
    }
    ct_scan_free(&s);
    return CT_EXIT_OK;
}
