// SPDX-License-Identifier: Apache-2.0
// The state is the recorder's own up to its checkpoint, so the text says whose it is and what
// proves it.
#include "views/moment_quick.h"

#include <inttypes.h>

#include "analyze/capacity.h"
#include "print/label.h"
#include "print/print.h"
#include "print/time_range.h"
#include "print/trace_state.h"
#include "sites/held_at.h"
#include "views/frag.h"
#include "views/frag_pool.h"
#include "views/moment_quick_json.h"
#include "views/top_tree.h"

enum { ROWS = 20 };

// ---- the moment ---------------------------------------------------------------------------------

static int find_moment(struct ct_view *v, struct ct_moment *m, struct ct_error *error) {
    const struct ct_trace *t = v->trace;
    const struct ct_arguments *o = v->options;
    *m = (struct ct_moment){CT_MOMENT_END, -1, UINT64_MAX, t->t_last_ns};
    if (o->at_end || o->at.kind == CT_TIME_NONE)
        return 0;
    m->kind = CT_MOMENT_TIME;
    if (ct_time_kind_of(&o->at) == CT_TIME_OF_EVENT) {
        m->event = o->at.ns;
        m->t_ns = UINT64_MAX;
        return ct_trace_has_event(t, m->event)
                   ? 0
                   : ct_error_set(error, CT_EXIT_USAGE,
                                  "%.200s: --at: event %" PRIu64 " is not in this trace",
                                  t->source.name, m->event);
    }
    if (ct_time_range_resolve(v, error))
        return -1;
    m->t_ns = v->in_gap_ns ? v->in_gap_ns : v->at.t_ns; // (whether it is known, the part says)
    return 0;
}

int ct_moment_quick_read(struct ct_moment_part *p, struct ct_view *v, struct ct_error *error) {
    struct ct_moment moment;
    *p = (struct ct_moment_part){.moment.event = 0};
    v->to_ns = UINT64_MAX;
    if (find_moment(v, &moment, error))
        return -1;
    ct_moment_part_read(p, v->trace, &moment);
    return 0;
}

// ---- text ---------------------------------------------------------------------------------------

static void print_headline(const struct ct_moment_part *p, struct ct_view *v) {
    const struct ct_trace_part *part = &p->part;
    const char *of = p->moment.kind == CT_MOMENT_END ? "at the end, " : "at ";
    fputs(v->terminal->bold, v->out);
    if (part->point.event)
        fprintf(v->out,
                "By the recorder's checkpoint before event %" PRIu64
                " and %s event%s after it, what was live %s%s:",
                part->point.event, ct_human_count(p->replayed).text, ct_human_plural(p->replayed),
                of, ct_label_time(v, p->moment.t_ns).text);
    else
        fprintf(v->out,
                "By the first %s event%s, what was live %s%s:", ct_human_count(p->replayed).text,
                ct_human_plural(p->replayed), of, ct_label_time(v, p->moment.t_ns).text);
    fprintf(v->out, "%s\n", v->terminal->reset);
}

static void print_total(struct ct_view *v, const struct ct_live_totals *live, int device) {
    fprintf(v->out, "%s: %s in %s allocation%s", ct_label_device(device).text,
            ct_label_size(v, live->bytes).text, ct_human_count(live->count).text,
            ct_human_plural(live->count));
}

static void print_top(const struct ct_moment_part *p, struct ct_view *v, int device) {
    struct ct_live_totals live;
    struct ct_site_groups groups;
    ct_held_at_read(&live, &groups, &p->state, v->sites, device,
                    v->options->segments ? CT_ROWS_BY_SEGMENT : CT_ROWS_BY_BLOCK);
    print_total(v, &live, device);
    if (live.asleep_bytes)
        fprintf(v->out, "; %s of PyTorch's blocks sleep (unmapped) beside it",
                ct_label_size(v, live.asleep_bytes).text);
    putc('\n', v->out);
    if (v->options->tree)
        ct_top_tree_print(v, &live);
    else
        ct_print_site_groups(v, &groups, live.bytes, v->options->top ? v->options->top : ROWS);
    ct_site_groups_free(&groups);
    ct_live_at_free(&live);
}

static void print_frag(const struct ct_moment_part *p, struct ct_view *v, int device) {
    const uint64_t capacity = ct_capacity_find(v->trace, &p->state, device).bytes;
    const struct ct_address_layout layout = ct_address_layout_measure(&p->state, device, capacity);
    struct ct_live_totals live;
    ct_live_at_read(&live, &p->state, device, CT_ROWS_BY_SEGMENT);
    print_total(v, &live, device);
    putc('\n', v->out);
    ct_frag_print_layout(v, &layout);
    ct_frag_pool_print_state(v, &p->state, device, p->moment.t_ns);
    ct_live_at_free(&live);
}

static void print_devices(const struct ct_moment_part *p, struct ct_view *v) {
    unsigned shown = 0;
    for (int d = 0; d < CT_DEVICES; d++) {
        if (!ct_moment_part_has(p, d) || (v->options->device >= 0 && v->options->device != d))
            continue;
        shown++;
        if (v->options->command == CT_COMMAND_frag)
            print_frag(p, v, d);
        else
            print_top(p, v, d);
    }
    if (!shown)
        fputs("no GPU memory was live then\n", v->out);
}

static void print_unknown(const struct ct_moment_part *p, struct ct_view *v) {
    const struct ct_trace_part *part = &p->part;
    fputs("not known: " CT_WRAP_HANG, v->out);
    fputs(v->options->command == CT_COMMAND_frag
              ? "free memory of the device, OOMs, pool growth and history, which need all events"
              : "peaks, totals and growth, which need all events",
          v->out);
    if (part->failed_frees)
        fprintf(v->out,
                "; %s call%s to free failed, of which a checkpoint does not have all: more may "
                "have been live",
                ct_human_count(part->failed_frees).text, ct_human_plural(part->failed_frees));
    if (part->unread_amends)
        fputs("; whether frees before the moment failed: the names that would say so were not read",
              v->out);
    if (part->lost)
        fprintf(v->out, "; %s event%s that the recorder lost", ct_human_count(part->lost).text,
                ct_human_plural(part->lost));
    if (v->trace->incomplete)
        fputs("; no clean end, and the journal was not read", v->out);
    putc('\n', v->out);
}

static void print_proof(struct ct_view *v) {
    fprintf(v->out, "%sproof: the same without --quick (reads all %s event%s)%s\n",
            v->terminal->dim, ct_human_count(v->trace->events).text,
            ct_human_plural(v->trace->events), v->terminal->reset);
}

static void print_text(const struct ct_moment_part *p, struct ct_view *v) {
    ct_trace_state_print_trimmed(v);
    ct_trace_state_print_estimate(v);
    if (p->part.unknown) {
        const int has_time = p->moment.t_ns != UINT64_MAX;
        fprintf(v->out, "%sWhat was live%s%s is not known: %s%s\n", v->terminal->bold,
                has_time ? " at " : " then", has_time ? ct_label_time(v, p->moment.t_ns).text : "",
                p->part.unknown, v->terminal->reset);
    } else {
        print_headline(p, v);
        print_devices(p, v);
        print_unknown(p, v);
    }
    print_proof(v);
}

int ct_moment_quick_print(struct ct_moment_part *p, struct ct_view *v) {
    ct_moment_part_replay(p, v->trace);
    if (v->options->json)
        ct_moment_quick_print_json(p, v);
    else
        print_text(p, v);
    return p->part.unknown || v->trace->incomplete || p->part.unread_amends ? CT_EXIT_INCOMPLETE
                                                                            : CT_EXIT_OK;
}
