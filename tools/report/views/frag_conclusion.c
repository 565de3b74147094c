// SPDX-License-Identifier: Apache-2.0
// The first line of `frag`: whether enough memory was free, on the device and in PyTorch's pool
// together, for a request that failed; that is what a conclusion of `explain` about fragmentation
// needs, too (diagnose/trace_causes.c).
#include "views/frag_parts.h"

#include "analyze/oom_reason.h"
#include "print/label.h"
#include "print/pool_print.h"

struct judged {
    size_t failed, in_pieces, unknown;
    const struct ct_oom_event *last; // of those in pieces, or of all if there is none
};

// What was free in the pool: before the request, where that would have been enough for it, or when
// it failed and PyTorch had given back what it could.
static struct ct_free_blocks free_in_pool(const struct ct_oom_event *o,
                                          const struct ct_pool_growth *g) {
    return g && (g->cause == CT_GROWTH_FRAGMENTED || !o->pool.known) ? g->free : o->pool.free;
}

static int is_in_pieces(const struct ct_oom_event *o, const struct ct_pool_growth *g) {
    const struct ct_oom_reason reason = ct_oom_reason_find(o, 0);
    const uint64_t on_device = reason.free_known ? reason.free : 0;
    return reason.kind == CT_OOM_REASON_ENOUGH_FREE || (g && g->cause == CT_GROWTH_FRAGMENTED) ||
           (reason.kind == CT_OOM_REASON_NOT_ENOUGH_FREE &&
            on_device + free_in_pool(o, g).bytes >= reason.rounded);
}

// Whether it is known how much was free on the device or in the pool.
static int is_known(const struct ct_oom_event *o, const struct ct_pool_growth *g) {
    const enum ct_oom_reason_kind kind = ct_oom_reason_find(o, 0).kind;
    return g || (kind != CT_OOM_REASON_UNKNOWN && kind != CT_OOM_REASON_SIZE_UNKNOWN);
}

static struct judged judge(const struct ct_scan *s, int device) {
    struct judged j = {.failed = 0};
    for (size_t k = 0; k < s->incidents.count; k++) {
        const struct ct_oom_event *o = ct_incidents_head(&s->incidents, k);
        if (o->device != device || s->incidents.list[k].retried ||
            !ct_incidents_is_device_memory(o))
            continue;
        const struct ct_pool_growth *g = ct_pool_growth_find(&s->growths, o->event);
        const int in_pieces = is_in_pieces(o, g);
        if (in_pieces || !j.in_pieces)
            j.last = o;
        j.failed++;
        j.in_pieces += (size_t)in_pieces;
        j.unknown += !in_pieces && !is_known(o, g);
    }
    return j;
}

// What was asked for, and what was free then.
static void print_figures(struct ct_view *v, const struct ct_scan *s,
                          const struct ct_oom_event *o) {
    const struct ct_oom_reason reason = ct_oom_reason_find(o, 0);
    const struct ct_pool_growth *g = ct_pool_growth_find(&s->growths, o->event);
    if (o->bytes_known)
        fprintf(v->out, ": %s was asked for", ct_label_size(v, o->bytes).text);
    if (reason.free_known)
        fprintf(v->out, ", %s was free on the device", ct_label_size(v, reason.free).text);
    if (g || o->pool.known)
        fprintf(v->out, ", %s in PyTorch's segments, largest %s",
                ct_label_size(v, free_in_pool(o, g).bytes).text,
                ct_pool_text_largest(v, free_in_pool(o, g).largest).text);
}

void ct_frag_conclusion_print(struct ct_view *v, const struct ct_scan *s, int device) {
    const struct judged j = judge(s, device);
    if (!j.failed) {
        fputs("  fragmentation made no request fail\n", v->out);
        return;
    }
    if (j.in_pieces)
        fprintf(v->out,
                "  %s" CT_WRAP_HANG
                "fragmentation may have caused %zu of %zu OOM%s, for enough memory was "
                "free in total%s",
                v->terminal->red, j.in_pieces, j.failed, ct_human_plural(j.failed),
                v->terminal->reset);
    else if (j.unknown == j.failed)
        fputs("  " CT_WRAP_HANG "whether fragmentation was the cause is not known: the trace does "
              "not have what was free",
              v->out);
    else
        fprintf(v->out, "  " CT_WRAP_HANG "fragmentation was not the cause of %s%zu OOM%s",
                j.failed - j.unknown > 1 ? "any of " : "", j.failed - j.unknown,
                ct_human_plural(j.failed - j.unknown));
    if (j.unknown < j.failed)
        print_figures(v, s, j.last);
    putc('\n', v->out);
}
