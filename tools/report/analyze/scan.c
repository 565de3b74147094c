// SPDX-License-Identifier: Apache-2.0
// Each event is looked at before and behind its application to the replay, because a crossing, a
// request of PyTorch's and a column of the plot need the state before it.
#include "analyze/scan.h"

#include <cutrace/format/assert.h>
#include <cutrace/model/live.h>

enum { OUT_OF_MEMORY = 2 }; // CUDA_ERROR_OUT_OF_MEMORY and cudaErrorMemoryAllocation

int ct_scan_is_device_memory(const struct ct_oom_event *o) {
    return o->space != CT_SPACE_HOST && o->op != CT_OP_REGISTER && o->op != CT_OP_RESERVE;
}

static int is_oom(const struct ct_event *e) {
    return e->op == CT_OP_BLOCK_OOM ||
           (CT_HAS(e, result) && e->result == OUT_OF_MEMORY && ct_trace_op_acquires(e->op));
}

static int is_wanted(const struct ct_scan *s, int index) {
    return s->request.device < 0 || s->request.device == index;
}

static struct ct_stack_total *total_of(struct ct_scan *s, uint32_t stack) {
    if (stack >= s->stack_count) {
        const size_t before = s->stack_count;
        s->stack_count = before * 2 > stack + 1u ? before * 2 : stack + 64u;
        s->stacks = ct_heap_resize(s->stacks, s->stack_count, sizeof *s->stacks);
        memset(s->stacks + before, 0, (s->stack_count - before) * sizeof *s->stacks);
    }
    return &s->stacks[stack];
}

static void live_changed(void *user, const struct ct_object *o, int sign) {
    struct ct_scan *s = user;
    const int index = ct_device_to_index(o->device);
    s->changed_device = index;
    if (!is_wanted(s, index))
        return;
    uint64_t bytes = o->bytes, number = ct_object_allocations(&s->end.live, o);
    if (sign < 0) {
        bytes = 0 - bytes;
        number = 0 - number;
    }
    struct ct_stack_total *t = total_of(s, o->stack);
    t->live_bytes += bytes;
    t->live_count += number;
    ct_peak_totals_add(&s->device[index].totals, o->stack, bytes, number);
    if (sign > 0 && s->in_range) {
        t->total_bytes += o->bytes;
        t->total_count++;
        s->device[index].allocations++;
    }
}

// ---- OOMs ---------------------------------------------------------------------------------------

static struct ct_oom_event describe(const struct ct_scan *s, const struct ct_event *e,
                                    uint64_t number) {
    const int index = ct_event_device_index(e);
    const struct ct_live_device *live = &s->end.live.device[index];
    struct ct_oom_event o = {.event = number, .t_ns = e->t_ns, .device = index, .op = e->op};
    o.api = CT_HAS(e, api) ? e->api : 0;
    o.space = CT_HAS(e, space) ? e->space : 0;
    o.stack = CT_HAS(e, stack) ? e->stack : 0;
    o.thread = CT_HAS(e, thread) ? e->thread : 0;
    o.flags = CT_HAS(e, flags) ? e->flags : 0;
    o.result = CT_HAS(e, result) ? e->result : 0;
    o.bytes_known = CT_HAS(e, bytes);
    o.bytes = o.bytes_known ? e->bytes : 0;
    o.reading_known = CT_HAS(e, free_bytes) && CT_HAS(e, total_bytes);
    o.free = o.reading_known ? e->free_bytes : 0;
    o.total = o.reading_known ? e->total_bytes : 0;
    o.live_bytes = live->live_bytes;
    o.live_allocations = live->live_allocations;
    o.split = ct_replay_split(&s->end, index);
    o.driver_failed = s->driver_failed;
    o.pool = ct_torch_pool_totals(&s->end.pool, &s->end.live, index);
    return o;
}

// A failed request and its retry have the same key: the same size, kind of memory and device, and
// both made to the driver or both to PyTorch.
static uint64_t request_key(const struct ct_oom_event *o) {
    const uint64_t of_block = o->op == CT_OP_BLOCK_OOM || o->op == CT_OP_BLOCK_ALLOC;
    return ct_hash_mix(o->bytes) ^ (uint64_t)(o->device + 1) << 2 ^ of_block << 1 ^
           (uint64_t)ct_scan_is_device_memory(o);
}

static void add_oom(struct ct_scan *s, const struct ct_event *e, uint64_t number) {
    CT_HEAP_GROW(s->ooms, s->oom_count, s->oom_capacity);
    struct ct_oom_event *o = &s->ooms[s->oom_count++];
    *o = describe(s, e, number);
    ct_peak_totals_capture(&s->device[o->device].totals, CT_TOTALS_AT_OOM, &s->end, o->device,
                           number);
    if (!o->bytes_known)
        return;
    uint64_t *last = ct_map_add(&s->unrecovered, request_key(o));
    o->earlier = (uint32_t)*last;
    *last = s->oom_count;
}

// A successful request recovers all earlier OOMs with its key.
static void recover_ooms(struct ct_scan *s, const struct ct_event *e, uint64_t number) {
    if (!s->unrecovered.count || !CT_HAS(e, bytes) || !ct_trace_op_acquires(e->op))
        return;
    const struct ct_oom_event like = {.op = e->op,
                                      .space = CT_HAS(e, space) ? e->space : 0,
                                      .device = ct_event_device_index(e),
                                      .bytes = e->bytes};
    uint64_t *last = ct_map_find(&s->unrecovered, request_key(&like));
    if (!last)
        return;
    for (uint64_t at = *last; at; at = s->ooms[at - 1].earlier) {
        struct ct_oom_event *o = &s->ooms[at - 1];
        o->recovered = 1;
        o->recovered_event = number;
        o->recovered_t_ns = e->t_ns;
    }
    *last = 0;
}

static const struct ct_oom_event *find_over_budget(const struct ct_scan *s) {
    const struct ct_oom_event *first = NULL;
    for (int d = 0; d < CT_DEVICES; d++)
        if (s->device[d].over_known && (!first || s->device[d].over.event < first->event))
            first = &s->device[d].over;
    return first;
}

const struct ct_oom_event *ct_scan_find_crossing(const struct ct_scan *s) {
    if (s->request.capacity)
        return find_over_budget(s);
    // Memory of a device counts before host memory and address space.
    for (int of_device = 1; of_device >= 0; of_device--) {
        const struct ct_oom_event *first = NULL;
        for (size_t i = s->oom_count; i-- > 0;) {
            const struct ct_oom_event *o = &s->ooms[i];
            if (ct_scan_is_device_memory(o) != of_device)
                continue;
            if (!o->recovered)
                return o;
            first = o;
        }
        if (first)
            return first;
    }
    return NULL;
}

// ---- plot ---------------------------------------------------------------------------------------

static void add_to_column(struct ct_plot_column *c, uint64_t live,
                          const struct ct_breakdown *split) {
    if (!c->live_known || live < c->live_min)
        c->live_min = live;
    if (!c->live_known || live > c->live_max)
        c->live_max = live;
    c->live_known = 1;
    if (!split->used_known)
        return;
    const uint64_t used = split->used - split->in_flight;
    if (!c->used_known || used < c->used_min)
        c->used_min = used;
    if (!c->used_known || used > c->used_max)
        c->used_max = used;
    c->used_known = 1;
}

static unsigned column_of(const struct ct_scan_request *q, uint64_t t_ns) {
    if (t_ns <= q->columns_from)
        return 0;
    const uint64_t span = q->columns_to - q->columns_from + 1;
    const uint64_t at = (uint64_t)((unsigned __int128)(t_ns - q->columns_from) * q->columns / span);
    return at < q->columns ? (unsigned)at : q->columns - 1;
}

// Adds the present state of a device to its columns, from the last one that was filled up to column
// `to`.
static void plot(struct ct_scan *s, int index, unsigned to) {
    if (!s->plot[index])
        s->plot[index] = ct_heap_alloc_zeroed(s->request.columns, sizeof **s->plot);
    const struct ct_breakdown split = ct_replay_split(&s->end, index);
    const uint64_t live = s->end.live.device[index].live_bytes;
    CT_ASSERT(to < s->request.columns);
    for (unsigned c = s->column[index]; c <= to; c++)
        add_to_column(&s->plot[index][c], live, &split);
    if (to > s->column[index])
        s->column[index] = to;
}

// ---- the pass -----------------------------------------------------------------------------------

static void note_peaks(struct ct_scan *s, int index, const struct ct_event *e, uint64_t number) {
    struct ct_device_scan *d = &s->device[index];
    const uint64_t live = s->end.live.device[index].live_bytes;
    const struct ct_reading *last = &s->end.readings.device[index].last;
    if (!d->peak_known || live > d->peak_bytes) {
        d->peak_bytes = live;
        d->peak_event = number;
        d->peak_t_ns = e->t_ns;
        ct_peak_totals_capture(&d->totals, CT_TOTALS_AT_PEAK, &s->end, index, number);
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

// Notes the first event behind which more than the budget is in use, with the state before it.
static void note_budget(struct ct_scan *s, int index, const struct ct_oom_event *before) {
    struct ct_device_scan *d = &s->device[index];
    const struct ct_breakdown after = ct_replay_split(&s->end, index);
    const uint64_t used = before->split.used_known ? before->split.used : before->split.tracked;
    // Memory in flight counts at the event of its call.
    const uint64_t used_after = after.used_known ? after.used - after.in_flight : after.tracked;
    if (d->over_known || used_after <= s->request.capacity)
        return;
    d->over_known = 1;
    d->over = *before;
    d->over.reading_known = 0; // free and total were the real device's
    d->over.split.free = s->request.capacity > used ? s->request.capacity - used : 0;
}

// A call that frees may not know the device, but the freed object does: plots the object's device
// up to this event.
static void plot_freed(struct ct_scan *s, const struct ct_event *e, int index) {
    if (!s->request.columns)
        return;
    const struct ct_live *l = &s->end.live;
    const struct ct_found freed = ct_live_find_freed(l, e, ct_slot_index_hash_event(e));
    const struct ct_object *o = ct_found_object(&freed);
    const int device = o && o->device >= 0 && o->device < CT_MAX_DEVICES ? o->device : index;
    if (device != index && s->in_range && is_wanted(s, device) &&
        e->t_ns >= s->request.columns_from)
        plot(s, device, column_of(&s->request, e->t_ns));
}

// Analyses PyTorch's pools before an event is applied.
static void update_pools(struct ct_scan *s, const struct ct_event *e, uint64_t number, int counts) {
    const int of_block = e->op >= CT_OP_BLOCK_ALLOC && e->op <= CT_OP_BLOCK_OOM;
    if (!s->end.pool.on && !of_block && !is_oom(e)) // (the very first request may fail)
        return;
    s->driver_failed = is_oom(e) && ct_pool_growth_driver_failed(&s->growths, e);
    ct_pool_curve_advance(&s->curve, &s->end, e->t_ns);
    ct_pool_growth_update(&s->growths, &s->end, e, number, counts);
}

static void before_event(struct ct_scan *s, const struct ct_event *e, uint64_t number, int index,
                         int counts) {
    const struct ct_scan_request *q = &s->request;
    if (counts && q->columns && e->t_ns >= q->columns_from)
        plot(s, index, column_of(q, e->t_ns));
    plot_freed(s, e, index);
    s->changed_device = index;
    if (q->points)
        update_pools(s, e, number, counts);
    if (e->op == CT_OP_EXPORT)
        ct_sharing_note_export(&s->sharing, &s->end.live, e);
}

static void behind_event(struct ct_scan *s, const struct ct_event *e, int index) {
    const struct ct_scan_request *q = &s->request;
    if (s->end.pool.on)
        ct_pool_curve_update(&s->curve, &s->end, index, e->t_ns);
    if (s->changed_device != index && s->in_range && is_wanted(s, s->changed_device) &&
        q->columns && e->t_ns >= q->columns_from)
        plot(s, s->changed_device, column_of(q, e->t_ns));
    if (e->op == CT_OP_LOST)
        s->lost += CT_HAS(e, count) ? e->count : 1;
}

// Counts an event that is in the range and on a wanted device. `before`: the event and the state
// before it, or NULL without a budget.
static void count_event(struct ct_scan *s, const struct ct_event *e, uint64_t number, int index,
                        const struct ct_oom_event *before) {
    const struct ct_scan_request *q = &s->request;
    s->device[index].seen |= CT_HAS(e, device) || s->end.live.device[index].live_allocations;
    s->events++;
    s->ops[e->op < CT_OPS_END ? e->op : 0]++;
    note_peaks(s, index, e, number);
    if (before)
        note_budget(s, index, before);
    if (is_oom(e))
        add_oom(s, e, number);
    else if (!CT_HAS(e, result) || e->result == 0)
        recover_ooms(s, e, number);
    if (q->columns && e->t_ns >= q->columns_from) {
        const unsigned c = column_of(q, e->t_ns);
        plot(s, index, c);
        if (is_oom(e))
            s->plot[index][c].ooms++;
    }
}

static void scan_event(struct ct_scan *s, const struct ct_event *e, uint64_t number) {
    const int index = ct_event_device_index(e);
    s->in_range = e->t_ns >= s->request.from_ns;
    const int counts = s->in_range && is_wanted(s, index);
    const int has_budget = counts && s->request.capacity;
    struct ct_oom_event before; // if has_budget
    if (has_budget)
        before = describe(s, e, number);
    before_event(s, e, number, index, counts);
    ct_replay_apply(&s->end, e, number);
    behind_event(s, e, index);
    if (counts)
        count_event(s, e, number, index, has_budget ? &before : NULL);
}

// After a gap in the events: the columns up to the present event stay empty.
static void skip_gap(struct ct_scan *s, const struct ct_event *e) {
    if (!s->request.columns || e->t_ns < s->request.columns_from)
        return;
    for (int d = 0; d < CT_DEVICES; d++)
        s->column[d] = column_of(&s->request, e->t_ns);
}

// Adds the devices that a checkpoint restored and no event has named since.
static void add_restored(struct ct_scan *s, const struct ct_trace *t) {
    for (int d = 0; d < CT_DEVICES; d++) {
        struct ct_device_scan *scan = &s->device[d];
        const struct ct_live_device *live = &s->end.live.device[d];
        if (scan->seen || !is_wanted(s, d) ||
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
    ct_replay_init(&s->end, live_changed, s);
    s->end.tiles = request->points != 0;
    ct_pool_curve_init(
        &s->curve, request->from_ns > t->t_first_ns ? request->from_ns : t->t_first_ns,
        request->to_ns < t->t_last_ns ? request->to_ns : t->t_last_ns, request->points);
    ct_trace_rewind(t);
    for (;;) {
        const uint64_t resets = s->end.resets;
        s->in_range = 0; // objects that a checkpoint restores are no new allocations
        e = ct_replay_next(&s->end, t, &number);
        if (!e || e->t_ns > request->to_ns)
            break;
        if (s->end.resets != resets)
            skip_gap(s, e);
        scan_event(s, e, number);
    }
    ct_replay_stop(&s->end);
    ct_pool_curve_advance(&s->curve, &s->end, UINT64_MAX);
    for (int d = 0; d < CT_DEVICES; d++)
        s->device[d].pool_at_end = ct_torch_pool_totals(&s->end.pool, &s->end.live, d);
    if (s->end.resets)
        add_restored(s, t);
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
    free(s->ooms);
    free(s->stacks);
    for (int d = 0; d < CT_DEVICES; d++)
        free(s->plot[d]);
    for (int d = 0; d < CT_DEVICES; d++)
        ct_peak_totals_free(&s->device[d].totals);
    ct_map_free(&s->unrecovered);
    ct_pool_curve_free(&s->curve);
    ct_pool_growth_free(&s->growths);
    ct_sharing_free(&s->sharing);
    ct_replay_free(&s->end);
}
