// SPDX-License-Identifier: Apache-2.0
// One pass over the events that collects what the views need.
#include "scan.h"

enum { OUT_OF_MEMORY = 2 }; // CUDA_ERROR_OUT_OF_MEMORY and cudaErrorMemoryAllocation

int ct_op_takes(uint32_t op) {
    switch (op) {
    case CT_OP_ALLOC:
    case CT_OP_RESERVE:
    case CT_OP_CREATE:
    case CT_OP_MAP:
    case CT_OP_REGISTER:
    case CT_OP_GRAPH_ALLOC:
    case CT_OP_POOL_CREATE:
    case CT_OP_IPC_OPEN:
    case CT_OP_IMPORT:
    case CT_OP_ACCESS:
    case CT_OP_CONTEXT_CREATE:
    case CT_OP_MODULE_LOAD:
    case CT_OP_LIMIT:
        return 1;
    default:
        return 0;
    }
}

int ct_refusal_of_device(const struct ct_refusal *r) {
    return r->space != CT_SPACE_HOST && r->op != CT_OP_REGISTER && r->op != CT_OP_RESERVE;
}

static int wanted(const struct ct_scan *s, int index) {
    return s->request.device < 0 || s->request.device == index;
}

static void changed(void *user, const struct ct_object *o, int sign) {
    struct ct_scan *s = user;
    const int index = o->device >= 0 && o->device < CT_MAX_DEVICES ? o->device : CT_MAX_DEVICES;
    s->touched = index;
    if (!wanted(s, index))
        return;
    if (o->stack >= s->stack_count) {
        const size_t before = s->stack_count;
        s->stack_count = before * 2 > o->stack + 1u ? before * 2 : o->stack + 64u;
        s->stacks = ct_resize(s->stacks, s->stack_count, sizeof *s->stacks);
        memset(s->stacks + before, 0, (s->stack_count - before) * sizeof *s->stacks);
    }
    struct ct_stack_total *t = &s->stacks[o->stack];
    t->live_bytes += sign < 0 ? 0 - o->bytes : o->bytes;
    t->live_count += (uint64_t)(int64_t)sign;
    if (sign > 0 && s->in_range) {
        t->taken_bytes += o->bytes;
        t->taken_count++;
        s->device[index].allocations++;
    }
}

// ---- refusals ----------------------------------------------------------------------------------

static struct ct_refusal describe(const struct ct_scan *s, const struct ct_event *e,
                                  uint64_t number) {
    const int index = ct_device_index(e);
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
    return r;
}

// Requests of the same size for the same kind of memory have the same key.
static uint64_t request_key(int device, int of_device, uint64_t bytes) {
    return ct_mix(bytes) ^ (uint64_t)(device + 1) << 1 ^ (uint64_t)of_device;
}

static void refused(struct ct_scan *s, const struct ct_event *e, uint64_t number) {
    CT_GROW(s->refusals, s->refusal_count, s->refusal_cap);
    struct ct_refusal *r = &s->refusals[s->refusal_count++];
    *r = describe(s, e, number);
    if (!r->bytes_known)
        return;
    uint64_t *last =
        ct_map_at(&s->waiting, request_key(r->device, ct_refusal_of_device(r), r->bytes));
    r->earlier = (uint32_t)*last;
    *last = s->refusal_count;
}

// A success settles the refusals of the same size that came before it.
static void granted(struct ct_scan *s, const struct ct_event *e, uint64_t number) {
    if (!s->waiting.count || !CT_HAS(e, bytes) || !ct_op_takes(e->op))
        return;
    const struct ct_refusal like = {.op = e->op, .space = CT_HAS(e, space) ? e->space : 0};
    uint64_t *last = ct_map_get(
        &s->waiting, request_key(ct_device_index(e), ct_refusal_of_device(&like), e->bytes));
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

const struct ct_refusal *ct_scan_crossing(const struct ct_scan *s) {
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
            if (ct_refusal_of_device(r) != of_device)
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

static void column_add(struct ct_plot_column *c, uint64_t live, const struct ct_split *split) {
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
        s->plot[index] = ct_zeroed(s->request.columns, sizeof **s->plot);
    const struct ct_split split = ct_replay_split(&s->end, index);
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
    const struct ct_reading *last = &s->end.device[index].last;
    if (!d->peak_known || live > d->peak_bytes) {
        d->peak_bytes = live;
        d->peak_event = number;
        d->peak_t_ns = e->t_ns;
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
    const struct ct_split after = ct_replay_split(&s->end, index);
    const uint64_t used = before->split.used_known ? before->split.used : before->split.tracked;
    if (d->over_known || (after.used_known ? after.used : after.tracked) <= s->request.capacity)
        return;
    d->over_known = 1;
    d->over = *before;
    d->over.reading_known = 0; // free and total were the real device's
    d->over.split.free = s->request.capacity > used ? s->request.capacity - used : 0;
}

static void see(struct ct_scan *s, const struct ct_event *e, uint64_t number) {
    const int index = ct_device_index(e);
    const struct ct_scan_request *q = &s->request;
    struct ct_refusal before = {0};
    s->in_range = e->t_ns >= q->from_ns;
    const int counts = s->in_range && wanted(s, index);
    if (counts && q->columns && e->t_ns >= q->columns_from)
        plot(s, index, column_of(q, e->t_ns));
    if (counts && q->capacity)
        before = describe(s, e, number);
    s->touched = index;
    ct_replay_apply(&s->end, e, number);
    // A give-back may not know its device; what it gave back does.
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
    if (q->capacity)
        note_budget(s, index, &before);
    if (CT_HAS(e, result) && e->result == OUT_OF_MEMORY && ct_op_takes(e->op))
        refused(s, e, number);
    else if (!CT_HAS(e, result) || e->result == 0)
        granted(s, e, number);
    if (q->columns && e->t_ns >= q->columns_from) {
        const unsigned c = column_of(q, e->t_ns);
        plot(s, index, c);
        if (CT_HAS(e, result) && e->result == OUT_OF_MEMORY)
            s->plot[index][c].refusals++;
    }
}

void ct_scan_run(struct ct_scan *s, struct ct_trace *t, const struct ct_scan_request *request) {
    struct ct_event e;
    uint64_t number;
    memset(s, 0, sizeof *s);
    s->request = *request;
    ct_replay_init(&s->end, changed, s);
    ct_trace_rewind(t);
    while (ct_trace_next(t, &e, &number) && e.t_ns <= request->to_ns)
        see(s, &e, number);
    for (int d = 0; d < CT_DEVICES && request->columns; d++)
        if (s->plot[d])
            plot(s, d, request->columns - 1);
    if (t->names.stack_count > s->stack_count) {
        s->stacks = ct_resize(s->stacks, t->names.stack_count, sizeof *s->stacks);
        memset(s->stacks + s->stack_count, 0,
               (t->names.stack_count - s->stack_count) * sizeof *s->stacks);
        s->stack_count = t->names.stack_count;
    }
}

void ct_scan_free(struct ct_scan *s) {
    free(s->refusals);
    free(s->stacks);
    for (int d = 0; d < CT_DEVICES; d++)
        free(s->plot[d]);
    ct_map_clear(&s->waiting);
    ct_replay_free(&s->end);
}
