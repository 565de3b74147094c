// SPDX-License-Identifier: Apache-2.0
// One pass over the events that collects what the views need.
#include "analyze/scan.h"

enum { OUT_OF_MEMORY = 2 }; // CUDA_ERROR_OUT_OF_MEMORY and cudaErrorMemoryAllocation

int ct_scan_is_device_memory(const struct ct_refusal *r) {
    return r->space != CT_SPACE_HOST && r->op != CT_OP_REGISTER && r->op != CT_OP_RESERVE;
}

static int is_refusal(const struct ct_event *e) {
    return e->op == CT_OP_BLOCK_OOM ||
           (CT_HAS(e, result) && e->result == OUT_OF_MEMORY && ct_trace_op_acquires(e->op));
}

static int wanted(const struct ct_scan *s, int index) {
    return s->request.device < 0 || s->request.device == index;
}

static void changed(void *user, const struct ct_object *o, int sign) {
    struct ct_scan *s = user;
    const int index = ct_device_to_index(o->device);
    s->touched = index;
    if (!wanted(s, index))
        return;
    if (o->stack >= s->stack_count) {
        const size_t before = s->stack_count;
        s->stack_count = before * 2 > o->stack + 1u ? before * 2 : o->stack + 64u;
        s->stacks = ct_heap_resize(s->stacks, s->stack_count, sizeof *s->stacks);
        memset(s->stacks + before, 0, (s->stack_count - before) * sizeof *s->stacks);
    }
    struct ct_stack_total *t = &s->stacks[o->stack];
    t->live_bytes += sign < 0 ? 0 - o->bytes : o->bytes;
    const uint64_t number = ct_object_allocations(&s->end.live, o);
    t->live_count += sign < 0 ? 0 - number : number;
    ct_peak_totals_add(&s->device[index].marks, o->stack, sign < 0 ? 0 - o->bytes : o->bytes,
                    sign < 0 ? 0 - number : number);
    if (sign > 0 && s->in_range) {
        t->taken_bytes += o->bytes;
        t->taken_count++;
        s->device[index].allocations++;
    }
}

// ---- refusals ----------------------------------------------------------------------------------

static struct ct_refusal describe(const struct ct_scan *s, const struct ct_event *e,
                                  uint64_t number) {
    const int index = ct_event_device_index(e);
    const struct ct_live_device *live = &s->end.live.device[index];
    struct ct_refusal r = {.event = number, .t_ns = e->t_ns, .device = index, .op = e->op};
    r.api = CT_HAS(e, api) ? e->api : 0;
    r.space = CT_HAS(e, space) ? e->space : 0;
    r.stack = CT_HAS(e, stack) ? e->stack : 0;
    r.thread = CT_HAS(e, thread) ? e->thread : 0;
    r.flags = CT_HAS(e, flags) ? e->flags : 0;
    r.result = CT_HAS(e, result) ? e->result : 0;
    r.bytes_known = CT_HAS(e, bytes);
    r.bytes = r.bytes_known ? e->bytes : 0;
    r.reading_known = CT_HAS(e, free_bytes) && CT_HAS(e, total_bytes);
    r.free = r.reading_known ? e->free_bytes : 0;
    r.total = r.reading_known ? e->total_bytes : 0;
    r.live_bytes = live->live_bytes;
    r.live_allocations = live->live_allocations;
    r.split = ct_replay_split(&s->end, index);
    r.driver_refused = s->driver_refused;
    r.pool = ct_torch_pool_totals(&s->end.pool, &s->end.live, index);
    return r;
}

// Requests of the same size for the same kind of memory, and of the same (the driver or PyTorch), have the same key.
static uint64_t request_key(const struct ct_refusal *r) {
    const uint64_t of_block = r->op == CT_OP_BLOCK_OOM || r->op == CT_OP_BLOCK_ALLOC;
    return ct_hash_mix(r->bytes) ^ (uint64_t)(r->device + 1) << 2 ^ of_block << 1 ^
           (uint64_t)ct_scan_is_device_memory(r);
}

static void refused(struct ct_scan *s, const struct ct_event *e, uint64_t number) {
    CT_HEAP_GROW(s->refusals, s->refusal_count, s->refusal_cap);
    struct ct_refusal *r = &s->refusals[s->refusal_count++];
    *r = describe(s, e, number);
    ct_peak_totals_capture(&s->device[r->device].marks, CT_TOTALS_AT_OOM, &s->end, r->device, number);
    if (!r->bytes_known)
        return;
    uint64_t *last = ct_map_add(&s->waiting, request_key(r));
    r->earlier = (uint32_t)*last;
    *last = s->refusal_count;
}

// A success settles the refusals of the same size that came before it.
static void granted(struct ct_scan *s, const struct ct_event *e, uint64_t number) {
    if (!s->waiting.count || !CT_HAS(e, bytes) || !ct_trace_op_acquires(e->op))
        return;
    const struct ct_refusal like = {.op = e->op,
                                    .space = CT_HAS(e, space) ? e->space : 0,
                                    .device = ct_event_device_index(e),
                                    .bytes = e->bytes};
    uint64_t *last = ct_map_find(&s->waiting, request_key(&like));
    if (!last)
        return;
    for (uint64_t at = *last; at; at = s->refusals[at - 1].earlier) {
        struct ct_refusal *r = &s->refusals[at - 1];
        r->recovered = 1;
        r->recovered_event = number;
        r->recovered_t_ns = e->t_ns;
    }
    *last = 0;
}

const struct ct_refusal *ct_scan_find_crossing(const struct ct_scan *s) {
    if (s->request.capacity) {
        const struct ct_refusal *first = NULL;
        for (int d = 0; d < CT_DEVICES; d++)
            if (s->device[d].over_known && (!first || s->device[d].over.event < first->event))
                first = &s->device[d].over;
        return first;
    }
    // Memory of a device counts before host memory and address space.
    for (int of_device = 1; of_device >= 0; of_device--) {
        const struct ct_refusal *first = NULL;
        for (size_t i = s->refusal_count; i-- > 0;) {
            const struct ct_refusal *r = &s->refusals[i];
            if (ct_scan_is_device_memory(r) != of_device)
                continue;
            if (!r->recovered)
                return r;
            first = r;
        }
        if (first)
            return first;
    }
    return NULL;
}

// ---- plot ----------------------------------------------------------------------------------------

static void column_add(struct ct_plot_column *c, uint64_t live, const struct ct_breakdown *split) {
    if (!c->live_known || live < c->live_min)
        c->live_min = live;
    if (!c->live_known || live > c->live_max)
        c->live_max = live;
    c->live_known = 1;
    if (!split->used_known)
        return;
    if (!c->used_known || split->used < c->used_min)
        c->used_min = split->used;
    if (!c->used_known || split->used > c->used_max)
        c->used_max = split->used;
    c->used_known = 1;
}

static unsigned column_of(const struct ct_scan_request *q, uint64_t t_ns) {
    if (t_ns <= q->columns_from)
        return 0;
    const uint64_t span = q->columns_to - q->columns_from + 1;
    const uint64_t at = (uint64_t)((unsigned __int128)(t_ns - q->columns_from) * q->columns / span);
    return at < q->columns ? (unsigned)at : q->columns - 1;
}

// Carries the present state of a device up to a column, and adds it there.
static void plot(struct ct_scan *s, int index, unsigned to) {
    if (!s->plot[index])
        s->plot[index] = ct_heap_alloc_zeroed(s->request.columns, sizeof **s->plot);
    const struct ct_breakdown split = ct_replay_split(&s->end, index);
    const uint64_t live = s->end.live.device[index].live_bytes;
    for (unsigned c = s->column[index]; c <= to; c++)
        column_add(&s->plot[index][c], live, &split);
    if (to > s->column[index])
        s->column[index] = to;
}

// ---- the pass --------------------------------------------------------------------------------------

static void note_peaks(struct ct_scan *s, int index, const struct ct_event *e, uint64_t number) {
    struct ct_device_scan *d = &s->device[index];
    const uint64_t live = s->end.live.device[index].live_bytes;
    const struct ct_reading *last = &s->end.readings.device[index].last;
    if (!d->peak_known || live > d->peak_bytes) {
        d->peak_bytes = live;
        d->peak_event = number;
        d->peak_t_ns = e->t_ns;
        ct_peak_totals_capture(&d->marks, CT_TOTALS_AT_PEAK, &s->end, index, number);
        d->pool_at_peak = ct_torch_pool_totals(&s->end.pool, &s->end.live, index);
    }
    d->peak_known = 1;
    if (last->known && last->t_ns == e->t_ns &&
        (!d->used_peak_known || last->used > d->used_peak)) {
        d->used_peak = last->used;
        d->used_peak_t_ns = e->t_ns;
        d->used_peak_known = 1;
    }
}

// With a budget: the first event behind which more than that is in use. The moment before it counts.
static void note_budget(struct ct_scan *s, int index, const struct ct_refusal *before) {
    struct ct_device_scan *d = &s->device[index];
    const struct ct_breakdown after = ct_replay_split(&s->end, index);
    const uint64_t used = before->split.used_known ? before->split.used : before->split.tracked;
    if (d->over_known || (after.used_known ? after.used : after.tracked) <= s->request.capacity)
        return;
    d->over_known = 1;
    d->over = *before;
    d->over.reading_known = 0; // free and total were the real device's
    d->over.split.free = s->request.capacity > used ? s->request.capacity - used : 0;
}

// A give-back may not know its device; what it gives back does, and was there until now.
static void plot_given(struct ct_scan *s, const struct ct_event *e, int index) {
    if (!s->request.columns)
        return;
    const struct ct_live *l = &s->end.live;
    const struct ct_found given = ct_live_find_freed(l, e, ct_slot_index_hash_event(e));
    const struct ct_object *o = ct_found_object(&given);
    const int device = o && o->device >= 0 && o->device < CT_MAX_DEVICES ? o->device : index;
    if (device != index && s->in_range && wanted(s, device) && e->t_ns >= s->request.columns_from)
        plot(s, device, column_of(&s->request, e->t_ns));
}

// What PyTorch's pools look like before an event, and behind it.
static void see_pools(struct ct_scan *s, const struct ct_event *e, uint64_t number, int counts) {
    const int of_block = e->op >= CT_OP_BLOCK_ALLOC && e->op <= CT_OP_BLOCK_OOM;
    if (!s->end.pool.on && !of_block && !is_refusal(e)) // (the first request of all may be refused)
        return;
    s->driver_refused = is_refusal(e) && ct_pool_growth_driver_failed(&s->growths, e);
    ct_pool_curve_advance(&s->curve, &s->end, e->t_ns);
    ct_pool_growth_update(&s->growths, &s->end, e, number, counts);
}

static void see(struct ct_scan *s, const struct ct_event *e, uint64_t number) {
    const int index = ct_event_device_index(e);
    const struct ct_scan_request *q = &s->request;
    struct ct_refusal before; // if has_budget
    s->in_range = e->t_ns >= q->from_ns;
    const int counts = s->in_range && wanted(s, index);
    const int has_budget = counts && q->capacity;
    if (counts && q->columns && e->t_ns >= q->columns_from)
        plot(s, index, column_of(q, e->t_ns));
    if (has_budget)
        before = describe(s, e, number);
    plot_given(s, e, index);
    s->touched = index;
    if (q->points)
        see_pools(s, e, number, counts);
    if (e->op == CT_OP_EXPORT)
        ct_sharing_note_export(&s->sharing, &s->end.live, e);
    ct_replay_apply(&s->end, e, number);
    if (s->end.pool.on)
        ct_pool_curve_update(&s->curve, &s->end, index, e->t_ns);
    if (s->touched != index && s->in_range && wanted(s, s->touched) && q->columns &&
        e->t_ns >= q->columns_from)
        plot(s, s->touched, column_of(q, e->t_ns));
    if (e->op == CT_OP_LOST)
        s->lost += CT_HAS(e, count) ? e->count : 1;
    if (!counts)
        return;
    s->device[index].seen |= CT_HAS(e, device) || s->end.live.device[index].live_allocations;
    s->events++;
    s->ops[e->op < CT_OPS_END ? e->op : 0]++;
    note_peaks(s, index, e, number);
    if (has_budget)
        note_budget(s, index, &before);
    if (is_refusal(e))
        refused(s, e, number);
    else if (!CT_HAS(e, result) || e->result == 0)
        granted(s, e, number);
    if (q->columns && e->t_ns >= q->columns_from) {
        const unsigned c = column_of(q, e->t_ns);
        plot(s, index, c);
        if (is_refusal(e))
            s->plot[index][c].refusals++;
    }
}

// Nothing is known of the time before what comes now.
static void skip_gap(struct ct_scan *s, const struct ct_event *e) {
    if (!s->request.columns || e->t_ns < s->request.columns_from)
        return;
    for (int d = 0; d < CT_DEVICES; d++)
        s->column[d] = column_of(&s->request, e->t_ns);
}

// Devices that no event names since what lives there was restored.
static void see_restored(struct ct_scan *s, const struct ct_trace *t) {
    for (int d = 0; d < CT_DEVICES; d++) {
        struct ct_device_scan *scan = &s->device[d];
        const struct ct_live_device *live = &s->end.live.device[d];
        if (scan->seen || !wanted(s, d) ||
            !(live->live_allocations || s->end.readings.device[d].seen))
            continue;
        scan->seen = scan->peak_known = 1;
        scan->peak_bytes = live->live_bytes;
        scan->peak_event = t->first_event;
        scan->peak_t_ns = t->t_first_ns;
        scan->pool_at_peak = ct_torch_pool_totals(&s->end.pool, &s->end.live, d);
        if (s->request.columns)
            plot(s, d, s->column[d]);
    }
}

void ct_scan_run(struct ct_scan *s, struct ct_trace *t, const struct ct_scan_request *request) {
    const struct ct_event *e;
    uint64_t number;
    memset(s, 0, sizeof *s);
    s->request = *request;
    ct_replay_init(&s->end, changed, s);
    s->end.tiles = request->points != 0;
    ct_pool_curve_init(&s->curve, request->from_ns > t->t_first_ns ? request->from_ns : t->t_first_ns,
                   request->to_ns < t->t_last_ns ? request->to_ns : t->t_last_ns, request->points);
    ct_trace_rewind(t);
    for (;;) {
        const uint64_t resets = s->end.resets;
        s->in_range = 0; // what a checkpoint restores was not taken now
        e = ct_replay_next(&s->end, t, &number);
        if (!e || e->t_ns > request->to_ns)
            break;
        if (s->end.resets != resets)
            skip_gap(s, e);
        see(s, e, number);
    }
    ct_replay_stop(&s->end);
    ct_pool_curve_advance(&s->curve, &s->end, UINT64_MAX);
    for (int d = 0; d < CT_DEVICES; d++)
        s->device[d].pool_at_end = ct_torch_pool_totals(&s->end.pool, &s->end.live, d);
    if (s->end.resets)
        see_restored(s, t);
    for (int d = 0; d < CT_DEVICES && request->columns; d++)
        if (s->plot[d])
            plot(s, d, request->columns - 1);
    if (t->definitions.stack_count > s->stack_count) {
        s->stacks = ct_heap_resize(s->stacks, t->definitions.stack_count, sizeof *s->stacks);
        memset(s->stacks + s->stack_count, 0,
               (t->definitions.stack_count - s->stack_count) * sizeof *s->stacks);
        s->stack_count = t->definitions.stack_count;
    }
}

void ct_scan_free(struct ct_scan *s) {
    free(s->refusals);
    free(s->stacks);
    for (int d = 0; d < CT_DEVICES; d++)
        free(s->plot[d]);
    for (int d = 0; d < CT_DEVICES; d++)
        ct_peak_totals_free(&s->device[d].marks);
    ct_map_free(&s->waiting);
    ct_pool_curve_free(&s->curve);
    ct_pool_growth_free(&s->growths);
    ct_sharing_free(&s->sharing);
    ct_replay_free(&s->end);
}
