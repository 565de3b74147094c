// SPDX-License-Identifier: Apache-2.0
// The state is the recorder's own up to its checkpoint, so the text says whose it is and what
// proves it.
#include "views/quick.h"

#include <inttypes.h>

#include "analyze/capacity.h"
#include "answer/time_range.h"
#include "print/document.h"
#include "print/label.h"
#include "print/print.h"
#include "print/trace_state.h"
#include "sites/site_groups.h"
#include "views/frag_parts.h"
#include "views/steps.h"
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

// What call sites hold in the state, of which nothing earlier is known: the groups' labels suit it.
// Who resumed memory that has slept is not known of a state that a checkpoint restored. Both are to
// be freed by the caller.
static void read_held(struct ct_live_totals *live, struct ct_site_groups *groups,
                      const struct ct_replay *state, struct ct_call_sites *sites, int device,
                      enum ct_holding_rows rows) {
    ct_live_at_read(live, state, device, rows);
    for (size_t i = 0; i < live->holding_count; i++)
        live->holdings[i].resumed_bytes = 0;
    ct_site_groups_refine(sites, live->holdings, live->holding_count);
    ct_site_groups_build(groups, sites, live->holdings, live->holding_count);
}

// ---- text ---------------------------------------------------------------------------------------

static void print_headline(const struct ct_moment_part *p, struct ct_view *v) {
    const struct ct_trace_part *part = &p->part;
    const char *of = p->moment.kind == CT_MOMENT_END ? "at the end, " : "at ";
    fputs(v->terminal->bold, v->out);
    if (part->point.event)
        fprintf(v->out,
                "By the recorder's checkpoint before event %" PRIu64
                " and %s after it, what was live %s%s:",
                part->point.event, ct_human_counted(p->replayed, "event").text, of,
                ct_label_time(v, p->moment.t_ns).text);
    else
        fprintf(v->out,
                "By the first %s, what was live %s%s:", ct_human_counted(p->replayed, "event").text,
                of, ct_label_time(v, p->moment.t_ns).text);
    fprintf(v->out, "%s\n", v->terminal->reset);
}

static void print_total(struct ct_view *v, const struct ct_live_totals *live, int device) {
    fprintf(v->out, "%s: %s in %s", ct_label_device(device).text,
            ct_label_size(v, live->bytes).text, ct_human_counted(live->count, "allocation").text);
}

static void print_top(const struct ct_moment_part *p, struct ct_view *v, int device) {
    struct ct_live_totals live;
    struct ct_site_groups groups;
    read_held(&live, &groups, &p->state, v->sites, device,
              v->options->segments ? CT_ROWS_BY_SEGMENT : CT_ROWS_BY_BLOCK);
    print_total(v, &live, device);
    if (live.asleep_bytes)
        fprintf(v->out, "; %s of PyTorch's blocks sleep (unmapped) beside it",
                ct_label_size(v, live.asleep_bytes).text);
    putc('\n', v->out);
    if (v->options->tree)
        ct_top_tree_print(v, &live);
    else
        ct_print_site_groups(v, &groups, live.bytes, v->options->top ? v->options->top : ROWS,
                             CT_PRINT_NO_SITE);
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
        fprintf(
            v->out,
            "; %s to free failed, of which a checkpoint does not have all: more may have been live",
            ct_human_counted(part->failed_frees, "call").text);
    if (part->unread_amends)
        fputs("; whether frees before the moment failed: the names that would say so were not read",
              v->out);
    if (part->lost)
        fprintf(v->out, "; %s that the recorder lost", ct_human_counted(part->lost, "event").text);
    if (v->trace->incomplete)
        fputs("; no clean end, and the journal was not read", v->out);
    putc('\n', v->out);
}

static void print_proof(struct ct_view *v) {
    fprintf(v->out, "%sproof: the same without --quick (reads all %s)%s\n", v->terminal->dim,
            ct_human_counted(v->trace->events, "event").text, v->terminal->reset);
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

// ---- JSON ---------------------------------------------------------------------------------------

static void add_begin(struct ct_json *j, const struct ct_moment_part *p, const struct ct_trace *t) {
    const struct ct_trace_part *part = &p->part;
    const int known = !part->unknown;
    ct_json_bool(j, "known", known);
    ct_json_text_or_null(j, "unknown", part->unknown);
    ct_json_number_or_null(j, "checkpoint_event", known && part->point.event, part->point.event);
    ct_json_number_or_null(j, "replayed_events", known, p->replayed);
    ct_json_number(j, "events", t->events);
    ct_json_number_or_null(j, "lost_events", known, part->lost);
    ct_json_number_or_null(j, "failed_frees", known, part->failed_frees);
    ct_json_number_or_null(j, "unread_amends", known, part->unread_amends);
}

static void add_site(struct ct_view *v, struct ct_json *j, const struct ct_site_group *g) {
    ct_json_open(j, NULL, '{');
    ct_json_text(j, "kind", ct_holding_kind_name(g->kind));
    ct_json_text(j, "site", g->label);
    ct_json_number(j, "bytes", g->bytes);
    ct_json_number(j, "count", g->count);
    ct_json_number(j, "stacks", g->stacks);
    ct_call_sites_json_stack(j, v->sites, "stack", g->stack);
    ct_json_close(j, '}');
}

static void add_top_device(const struct ct_moment_part *p, struct ct_view *v, struct ct_json *j,
                           int device) {
    struct ct_live_totals live;
    struct ct_site_groups groups;
    read_held(&live, &groups, &p->state, v->sites, device,
              v->options->segments ? CT_ROWS_BY_SEGMENT : CT_ROWS_BY_BLOCK);
    ct_json_number(j, "bytes", live.bytes);
    ct_json_number(j, "asleep_bytes", live.asleep_bytes);
    ct_json_text(j, "rows", live.rows == CT_ROWS_BY_BLOCK ? "blocks" : "segments");
    if (v->options->tree) {
        ct_json_null(j, "sites");
        ct_top_tree_add(v, j, &live);
    } else {
        ct_json_open(j, "sites", '[');
        for (size_t i = 0; i < groups.count && (!v->options->top || i < v->options->top); i++)
            add_site(v, j, &groups.list[i]);
        ct_json_close(j, ']');
        ct_json_null(j, "tree");
    }
    ct_site_groups_free(&groups);
    ct_live_at_free(&live);
}

static void add_frag_device(const struct ct_moment_part *p, struct ct_view *v, struct ct_json *j,
                            int device) {
    const uint64_t capacity = ct_capacity_find(v->trace, &p->state, device).bytes;
    const struct ct_address_layout layout = ct_address_layout_measure(&p->state, device, capacity);
    struct ct_live_totals live;
    ct_live_at_read(&live, &p->state, device, CT_ROWS_BY_SEGMENT);
    ct_json_number(j, "live_bytes", live.bytes);
    ct_json_number(j, "live_allocations", live.count);
    ct_json_open(j, "address_layout", '{');
    ct_frag_add_layout(j, &layout);
    ct_json_close(j, '}');
    ct_frag_pool_add_state(v, j, &p->state, device);
    ct_live_at_free(&live);
}

static void add_device(const struct ct_moment_part *p, struct ct_view *v, struct ct_json *j,
                       int device) {
    ct_json_open(j, NULL, '{');
    ct_document_add_device(j, "ordinal", device);
    if (v->options->command == CT_COMMAND_frag)
        add_frag_device(p, v, j, device);
    else
        add_top_device(p, v, j, device);
    ct_json_close(j, '}');
}

// JSON.md has the keys.
static void print_json(struct ct_moment_part *p, struct ct_view *v) {
    struct ct_json json = {.out = v->out}, *j = &json;
    ct_document_begin(j, v);
    ct_document_add_moment_known(j, &p->moment, !p->part.unknown);
    add_begin(j, p, v->trace);
    if (ct_json_open_or_null(j, "devices", !p->part.unknown, '[')) {
        for (int d = 0; d < CT_DEVICES; d++)
            if (ct_moment_part_has(p, d) && (v->options->device < 0 || v->options->device == d))
                add_device(p, v, j, d);
        ct_json_close(j, ']');
    }
    ct_document_end(j);
}

int ct_moment_quick_print(struct ct_moment_part *p, struct ct_view *v) {
    ct_moment_part_replay(p, v->trace);
    if (v->options->json)
        print_json(p, v);
    else
        print_text(p, v);
    return p->part.unknown || v->trace->incomplete || p->part.unread_amends ? CT_EXIT_INCOMPLETE
                                                                            : CT_EXIT_OK;
}
