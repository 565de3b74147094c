// SPDX-License-Identifier: Apache-2.0
// check: reads all that the file contains and reports what is wrong with it.
#include <inttypes.h>

#include "print/document.h"
#include "print/trace_state.h"
#include "read/event_names.h"
#include "replay/digest_replay.h"
#include "views/views.h"

struct findings {
    struct ct_digest_checked digests;
    uint64_t events, lost, out_of_order, outside, unknown_ops, unknown_stacks, miscounted;
};

// Whether an event lies outside the times of its chunk, which are exact. Its own time may be
// rounded down, also that of the first event, if an AMEND is before it.
static int is_outside(const struct ct_trace *t, const struct ct_event *e) {
    const struct ct_chunk *head = &t->index.chunks[t->chunk].head;
    if (e->t_ns > head->t_last_ns)
        return 1;
    return e->t_ns < head->t_first_ns && head->t_first_ns - e->t_ns >= ct_trace_time_span_ns(t);
}

static void read_events(struct ct_view *v, struct findings *f) {
    struct ct_trace *t = v->trace;
    struct ct_event e;
    uint64_t number, last = 0;
    ct_trace_rewind(t);
    while (ct_trace_next(t, &e, &number)) {
        f->events++;
        if (e.op == CT_OP_LOST)
            f->lost += CT_HAS(&e, count) ? e.count : 1;
        f->out_of_order += e.t_ns < last;
        f->outside += (uint64_t)is_outside(t, &e);
        f->unknown_ops += !ct_event_names_op(e.op);
        f->unknown_stacks += CT_HAS(&e, stack) && !e.stack;
        last = e.t_ns;
    }
    f->lost = ct_trace_count_lost(v->trace, f->lost);
    f->digests = ct_digest_replay_check(t);
    if (f->events != t->events)
        f->miscounted = 1;
}

static const struct {
    const char *key, *text;
    size_t at;
} kinds[] = {
    {"out_of_order", "events are earlier than their predecessor",
     offsetof(struct findings, out_of_order)},
    {"outside_chunk", "events lie outside the times of their chunk",
     offsetof(struct findings, outside)},
    {"unknown_operations", "events have an operation that this version does not know",
     offsetof(struct findings, unknown_ops)},
    {"unresolved_stacks", "events name a stack that is not defined",
     offsetof(struct findings, unknown_stacks)},
};

static uint64_t get_finding(const struct findings *f, size_t i) {
    uint64_t n;
    memcpy(&n, (const char *)f + kinds[i].at, sizeof n);
    return n;
}

static void print_json(struct ct_view *v, const struct findings *f, int ok) {
    struct ct_json json = {.out = v->out}, *j = &json;
    const struct ct_index *x = &v->trace->index;
    ct_document_begin_bare(j, v);
    ct_json_bool(j, "ok", ok);
    ct_json_bool(j, "complete", ct_trace_state_is_complete(v->trace, f->lost));
    ct_json_number(j, "lost_events", f->lost);
    ct_document_add_recording(j, v->trace);
    ct_json_number(j, "events", v->trace->events);
    ct_json_number(j, "events_read", f->events);
    ct_json_number(j, "missing_events", v->trace->missing_events);
    ct_json_number(j, "missing_chunks", x->missing);
    ct_json_number(j, "foreign_chunks", x->foreign);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        ct_json_number(j, kinds[i].key, get_finding(f, i));
    ct_document_add_damage(j, x);
    ct_document_end(j);
}

static void print_text(struct ct_view *v, const struct findings *f, int ok) {
    const struct ct_trace *t = v->trace;
    const struct ct_index *x = &t->index;
    for (size_t i = 0; i < x->damages; i++)
        fprintf(v->out, "offset %" PRIu64 ": %s (%" PRIu64 " bytes)\n", x->damage[i].offset,
                x->damage[i].what, x->damage[i].bytes);
    if (x->missing)
        fprintf(v->out, "%" PRIu64 " chunk%s missing between others, with %" PRIu64 " event%s\n",
                x->missing, x->missing == 1 ? " is" : "s are", t->missing_events,
                ct_human_plural(t->missing_events));
    if (x->foreign)
        fprintf(v->out, "%" PRIu64 " chunk%s of another trace %s skipped\n", x->foreign,
                ct_human_plural(x->foreign), x->foreign == 1 ? "was" : "were");
    if (f->miscounted)
        fprintf(v->out, "%" PRIu64 " events were read, the prefixes count %" PRIu64 "\n", f->events,
                t->events);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (get_finding(f, i))
            fprintf(v->out, "%" PRIu64 " %s\n", get_finding(f, i), kinds[i].text);
    if (f->lost > t->missing_events)
        fprintf(v->out, "%" PRIu64 " event%s lost by the recorder\n", f->lost - t->missing_events,
                f->lost - t->missing_events == 1 ? " was" : "s were");
    if (ct_trace_state_print_overwritten(v))
        putc('\n', v->out);
    if (ct_trace_state_print_torn(v))
        putc('\n', v->out);
    if (ct_trace_state_end(t))
        fprintf(v->out, "%s%s\n", t->running ? "" : "no clean end: ", ct_trace_state_end(t));
    fprintf(v->out, "%s: %" PRIu64 " event%s in %zu chunk%s%s\n", ok ? "ok" : "damaged", f->events,
            ct_human_plural(f->events), x->count, ct_human_plural(x->count),
            ct_trace_state_is_complete(t, f->lost) ? ", complete from start to end" : "");
}

int ct_view_check(struct ct_view *v) {
    struct findings f = {0};
    read_events(v, &f);
    const int ok = !v->trace->index.damages && !v->trace->index.missing &&
                   !v->trace->missing_events && !f.miscounted && !f.out_of_order &&
                   !f.unknown_stacks;
    if (v->options->json)
        print_json(v, &f, ok);
    else
        print_text(v, &f, ok);
    return ok ? CT_EXIT_OK : CT_EXIT_BAD_TRACE;
}
