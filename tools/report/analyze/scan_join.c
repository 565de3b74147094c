// SPDX-License-Identifier: Apache-2.0
// Adds the part of a trace before to what the next one has found. The state between the two is the
// same (scan_run.c), so that sums are added, and of two candidates the one is chosen that a scan
// from the start would have kept.
#include "analyze/scan_steps.h"

// ---- devices ------------------------------------------------------------------------------------

// Whether the block for which the memory of the peak was allocated may be in the next part.
static int may_complete_peak(const struct ct_scan *s, const struct ct_device_scan *d,
                             const struct ct_device_scan *before) {
    return before->peak_memory.known && d->peak_known && d->peak_bytes == before->peak_bytes &&
           (s->ops[CT_OP_BLOCK_ALLOC] || s->ops[CT_OP_MAP]);
}

// Candidates of a part may show a reading that it inherited.
static void set_exact_reading(struct ct_breakdown *split, const struct ct_seam *seam,
                              const struct ct_scan *before, int device) {
    split->reading_t_ns = ct_seam_exact_reading_ns(seam, &before->end, device, split->reading_t_ns);
}

static void keep_peak(struct ct_device_scan *d, const struct ct_device_scan *before) {
    d->peak_bytes = before->peak_bytes;
    d->peak_event = before->peak_event;
    d->peak_t_ns = before->peak_t_ns;
    d->peak_known = 1;
    d->peak_memory = before->peak_memory;
    d->pool_at_peak = before->pool_at_peak;
    ct_peak_totals_take_peak(&d->totals, &before->totals);
}

static int prepend_device(struct ct_scan *s, struct ct_scan *before, const struct ct_seam *seam,
                          int index) {
    struct ct_device_scan *d = &s->device[index];
    const struct ct_device_scan *old = &before->device[index];
    if (may_complete_peak(s, d, old))
        return 0;
    for (unsigned moment = 0; moment < CT_TOTALS_MOMENTS; moment++)
        set_exact_reading(&d->totals.candidate[moment].split, seam, before, index);
    if (old->peak_known && old->peak_bytes >= d->peak_bytes)
        keep_peak(d, old);
    if (old->used_peak > d->used_peak)
        d->used_peak = old->used_peak;
    d->used_peak_known |= old->used_peak_known;
    d->seen |= old->seen;
    d->has_totals |= old->has_totals;
    d->allocations += old->allocations;
    return 1;
}

// ---- totals by stack ----------------------------------------------------------------------------

static void prepend_total(struct ct_stack_total *t, const struct ct_stack_total *before) {
    if (before->count) {
        t->first_event = before->first_event;
        t->first_ns = before->first_ns;
    }
    t->last_ns = before->last_ns > t->last_ns ? before->last_ns : t->last_ns;
    t->bytes += before->bytes;
    t->count += before->count;
}

static void prepend_totals(struct ct_stack_totals *t, const struct ct_stack_totals *before) {
    if (t->count < before->count) {
        t->list = ct_heap_resize(t->list, before->count, sizeof *t->list);
        memset(t->list + t->count, 0, (before->count - t->count) * sizeof *t->list);
        t->count = before->count;
    }
    for (size_t i = 0; i < before->count; i++)
        prepend_total(&t->list[i], &before->list[i]);
}

// ---- plot ---------------------------------------------------------------------------------------

static void prepend_plot(struct ct_scan *s, struct ct_scan *before, int device) {
    if (!before->plot[device])
        return;
    if (!s->plot[device]) {
        s->plot[device] = before->plot[device];
        before->plot[device] = NULL;
        return;
    }
    for (unsigned c = 0; c < s->request.columns; c++)
        ct_scan_add_column(&s->plot[device][c], &before->plot[device][c]);
}

// ---- all of it ----------------------------------------------------------------------------------

static void prepend_keyframes(struct ct_scan *s, struct ct_scan *before,
                              const struct ct_seam *seam) {
    struct ct_keyframes joined = before->keyframes;
    before->keyframes = (struct ct_keyframes){.list = NULL};
    ct_keyframes_append(&joined, &s->keyframes, s->part->from_event, seam, &before->end);
    ct_keyframes_free(&s->keyframes);
    s->keyframes = joined;
}

static void prepend_counts(struct ct_scan *s, const struct ct_scan *before) {
    s->events += before->events;
    s->lost += before->lost;
    for (unsigned op = 0; op < CT_OPS_END; op++)
        s->ops[op] += before->ops[op];
}

int ct_scan_prepend(struct ct_scan *s, struct ct_scan *before, const struct ct_seam *seam) {
    if (before->sharing.exported.count || before->known_event != s->known_event ||
        !ct_driver_requests_prepend(&s->requests, &before->requests) ||
        !ct_segment_streams_prepend(&s->streams, &before->streams) ||
        !ct_pool_growth_prepend(&s->growths, &before->growths))
        return 0;
    for (int d = 0; d < CT_DEVICES; d++)
        if (!prepend_device(s, before, seam, d))
            return 0;
    for (size_t i = 0; i < s->incidents.oom_count; i++) {
        struct ct_oom_event *o = &s->incidents.ooms[i];
        set_exact_reading(&o->split, seam, before, o->device);
    }
    for (unsigned kind = 0; kind < CT_HOLDING_STACKS; kind++)
        prepend_totals(&s->totals[kind], &before->totals[kind]);
    for (int d = 0; d < CT_DEVICES; d++)
        prepend_plot(s, before, d);
    ct_pool_curve_prepend(&s->curve, &before->curve);
    prepend_keyframes(s, before, seam);
    ct_seam_complete(seam, &before->end, &s->end.readings, &s->end.resets, &s->end.gaps);
    prepend_counts(s, before);
    return 1;
}
