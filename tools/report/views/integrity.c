// SPDX-License-Identifier: Apache-2.0
#include "views/integrity.h"

#include <inttypes.h>

#include "print/document.h"
#include "print/trace_state.h"
#include "read/event_names.h"
#include "replay/digest_replay.h"

static int note(void *integrity, const struct ct_replay *r, const struct ct_event *e,
                uint64_t number) {
    struct ct_integrity *const i = integrity;
    (void)r;
    (void)number;
    i->events++;
    if (e->op == CT_OP_LOST)
        i->lost += CT_HAS(e, count) ? e->count : 1;
    i->out_of_order += e->t_ns < i->last_ns;
    i->unknown_ops += !ct_event_names_op(e->op);
    i->unknown_stacks += CT_HAS(e, stack) && !e->stack;
    i->last_ns = e->t_ns;
    return 1;
}

struct ct_listener ct_integrity_listener(struct ct_integrity *i, struct ct_trace *t) {
    *i = (struct ct_integrity){.trace = t};
    return (struct ct_listener){.self = i, .before = note};
}

void ct_integrity_finish(struct ct_integrity *i) {
    const struct ct_trace *t = i->trace;
    i->outside = t->outside;
    i->lost = ct_trace_count_lost(t, i->lost);
    (void)ct_digest_replay_check(i->trace);
    i->ok = !t->index.damages && !t->index.missing && !t->missing_events &&
            i->events == t->events && !i->out_of_order && !i->unknown_stacks;
}

static const struct {
    const char *key, *text;
    size_t at;
} kinds[] = {
    {"out_of_order", "events are earlier than their predecessor",
     offsetof(struct ct_integrity, out_of_order)},
    {"outside_chunk", "events lie outside the times of their chunk",
     offsetof(struct ct_integrity, outside)},
    {"unknown_operations", "events have an operation that this version does not know",
     offsetof(struct ct_integrity, unknown_ops)},
    {"unresolved_stacks", "events name a stack that is not defined",
     offsetof(struct ct_integrity, unknown_stacks)},
};

static uint64_t count_kind(const struct ct_integrity *i, size_t kind) {
    uint64_t n;
    memcpy(&n, (const char *)i + kinds[kind].at, sizeof n);
    return n;
}

void ct_integrity_add_json(struct ct_json *j, const struct ct_integrity *i) {
    if (!i) {
        ct_json_null(j, "integrity");
        return;
    }
    ct_json_open(j, "integrity", '{');
    ct_json_bool(j, "ok", i->ok);
    ct_json_bool(j, "complete", ct_trace_has_every_event(i->trace, i->lost));
    ct_json_number(j, "events_read", i->events);
    ct_json_number(j, "lost_events", i->lost);
    ct_json_number(j, "missing_events", i->trace->missing_events);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        ct_json_number(j, kinds[k].key, count_kind(i, k));
    ct_document_add_damage(j, &i->trace->index);
    ct_json_close(j, '}');
}

static void print_chunks(FILE *out, const struct ct_trace *t) {
    const struct ct_index *x = &t->index;
    for (size_t k = 0; k < x->damages; k++)
        fprintf(out, "offset %" PRIu64 ": %s (%" PRIu64 " bytes)\n", x->damage[k].offset,
                x->damage[k].what, x->damage[k].bytes);
    if (x->missing)
        fprintf(out, "%" PRIu64 " chunk%s missing between others, with %" PRIu64 " event%s\n",
                x->missing, x->missing == 1 ? " is" : "s are", t->missing_events,
                ct_human_plural(t->missing_events));
    if (x->foreign)
        fprintf(out, "%" PRIu64 " chunk%s of another trace %s skipped\n", x->foreign,
                ct_human_plural(x->foreign), x->foreign == 1 ? "was" : "were");
}

void ct_integrity_print(struct ct_view *v, const struct ct_integrity *i) {
    const struct ct_trace *t = i->trace;
    print_chunks(v->out, t);
    if (i->events != t->events)
        fprintf(v->out, "%" PRIu64 " events were read, the prefixes count %" PRIu64 "\n", i->events,
                t->events);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        if (count_kind(i, k))
            fprintf(v->out, "%" PRIu64 " %s\n", count_kind(i, k), kinds[k].text);
    if (i->lost > t->missing_events)
        fprintf(v->out, "%" PRIu64 " event%s lost by the recorder\n", i->lost - t->missing_events,
                i->lost - t->missing_events == 1 ? " was" : "s were");
    fprintf(v->out, "%s: %" PRIu64 " event%s in %zu chunk%s%s\n", i->ok ? "ok" : "damaged",
            i->events, ct_human_plural(i->events), t->index.count, ct_human_plural(t->index.count),
            ct_trace_has_every_event(t, i->lost) ? ", complete from start to end" : "");
}
