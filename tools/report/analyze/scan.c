// SPDX-License-Identifier: Apache-2.0
// Each event is looked at before and after its application to the replay, because a crossing, a
// request of PyTorch's and a column of the plot need the state before it.
#include "analyze/scan.h"

#include <cutrace/format/assert.h>
#include <cutrace/model/device_use.h>
#include <cutrace/model/failures.h>
#include <cutrace/model/live.h>

static int is_request_for_memory(const struct ct_event *e) {
    return ct_op_request_kind(e->op) == CT_REQUEST_SIZED && e->op != CT_OP_RESERVE &&
           e->op != CT_OP_REGISTER && !(CT_HAS(e, space) && e->space == CT_SPACE_HOST);
}

// Whether what is live is known, as far as it ever is.
static int is_known(const struct ct_scan *s) {
    return s->end.is_known || s->is_never_known;
}

static int is_wanted(const struct ct_scan *s, int index) {
    return s->request.device < 0 || s->request.device == index;
}

// ---- totals by stack ----------------------------------------------------------------------------

CT_COLD void grow_totals(struct ct_stack_totals *t, uint32_t stack) {
    CT_HEAP_REACH(t->list, t->count, stack);
}

// Adds to what a stack has allocated, or subtracts from it.
CT_HOT void add_total(struct ct_scan *s, enum ct_holding_kind kind, const struct ct_object *o,
                      int sign) {
    struct ct_stack_totals *t = &s->totals[kind];
    if (o->stack >= t->count)
        grow_totals(t, o->stack);
    struct ct_stack_total *total = &t->list[o->stack];
    s->device[ct_device_to_index(o->device)].has_totals = 1;
    if (sign > 0 && (!total->count || o->t_ns < total->first_ns)) {
        total->first_event = ct_object_event(o);
        total->first_ns = o->t_ns;
    }
    if (sign > 0 && o->t_ns > total->last_ns)
        total->last_ns = o->t_ns;
    total->bytes += sign < 0 ? 0 - o->bytes : o->bytes;
    total->count += (uint64_t)(int64_t)sign;
}

// Adds to what a stack holds, or subtracts from it.
CT_HOT void add_live(struct ct_scan *s, enum ct_holding_kind kind, const struct ct_object *o,
                     int sign) {
    const uint64_t number = ct_object_allocations(&s->end.live, o);
    struct ct_peak_totals *totals = &s->device[ct_device_to_index(o->device)].totals;
    ct_peak_totals_add(totals, &totals->kind[kind], o->stack, sign < 0 ? 0 - o->bytes : o->bytes,
                       sign < 0 ? 0 - number : number);
    const uint64_t rounding = ct_live_at_rounding(&s->end.live, o);
    totals->rounding_bytes += sign < 0 ? 0 - rounding : rounding;
}

// The same of what has slept.
static void add_resumed(struct ct_scan *s, enum ct_holding_kind kind, const struct ct_object *o,
                        int sign) {
    struct ct_peak_totals *totals = &s->device[ct_device_to_index(o->device)].totals;
    if (o->resumed)
        ct_peak_totals_add(totals, &totals->resumed[kind], o->stack,
                           sign < 0 ? 0 - o->bytes : o->bytes, 0);
}

static void live_changed(void *user, const struct ct_object *o, int sign) {
    struct ct_scan *s = user;
    const int index = ct_device_to_index(o->device);
    s->changed_device = index;
    if (!is_wanted(s, index))
        return;
    const int is_segment = o->kind == CT_KIND_HANDLE && o->segment;
    add_live(s, is_segment ? CT_HOLDING_SEGMENT : CT_HOLDING_ALLOCATION, o, sign);
    add_resumed(s, is_segment ? CT_HOLDING_SEGMENT : CT_HOLDING_ALLOCATION, o, sign);
    if (sign > 0 && s->in_range) {
        add_total(s, CT_HOLDING_ALLOCATION, o, sign);
        s->device[index].allocations++;
    }
}

// Whether an object was allocated in the range, and seen to be: what a checkpoint restored is not
// counted.
static int was_counted(const struct ct_scan *s, const struct ct_object *o) {
    return s->in_range && ct_object_event(o) >= s->known_event && o->t_ns >= s->request.from_ns;
}

// A VMM object turns out to resume a reservation: it is its first owner's, from the beginning.
static void owner_changed(void *user, const struct ct_object *o, uint32_t by) {
    struct ct_scan *s = user;
    struct ct_object before = *o;
    const enum ct_holding_kind kind = o->segment ? CT_HOLDING_SEGMENT : CT_HOLDING_ALLOCATION;
    if (!is_wanted(s, ct_device_to_index(o->device)))
        return;
    before.stack = by;
    add_live(s, kind, &before, -1);
    add_live(s, kind, o, +1);
    add_resumed(s, kind, o, +1);
    if (!was_counted(s, o))
        return;
    add_total(s, kind, &before, -1);
    add_total(s, kind, o, +1);
}

static void block_changed(void *user, const struct ct_object *o, int sign) {
    struct ct_scan *s = user;
    if (!is_wanted(s, ct_device_to_index(o->device)))
        return;
    add_live(s, CT_HOLDING_BLOCK, o, sign);
    add_resumed(s, CT_HOLDING_BLOCK, o, sign);
    if (sign > 0 && s->in_range && ct_object_event(o) == s->event)
        add_total(s, CT_HOLDING_BLOCK, o, sign);
}

// An allocation or a VMM object becomes a segment, or is none any more.
static void segment_changed(void *user, const struct ct_object *o, int sign) {
    struct ct_scan *s = user;
    if (!is_wanted(s, ct_device_to_index(o->device)) || !ct_object_is_counted(&s->end.live, o))
        return;
    add_live(s, CT_HOLDING_SEGMENT, o, sign);
    add_live(s, CT_HOLDING_ALLOCATION, o, -sign);
    add_resumed(s, CT_HOLDING_SEGMENT, o, sign);
    add_resumed(s, CT_HOLDING_ALLOCATION, o, -sign);
    // What has once been a segment was allocated as one, also after it is unmapped.
    if (sign < 0 || ct_live_traits(&s->end.live, o)->was_segment || !was_counted(s, o))
        return;
    add_total(s, CT_HOLDING_SEGMENT, o, +1);
    add_total(s, CT_HOLDING_ALLOCATION, o, -1);
}

// ---- OOMs ---------------------------------------------------------------------------------------

static uint64_t find_total(const struct ct_scan *s, const struct ct_oom_event *o) {
    if (o->reading_known)
        return o->total;
    return o->split.total ? o->split.total : s->end.cuda_total[o->device];
}

static struct ct_oom_event describe(const struct ct_scan *s, const struct ct_event *e,
                                    uint64_t number) {
    const int index = ct_event_device_index(e);
    const struct ct_live_device *live = &s->end.live.device[index];
    struct ct_oom_event o = {.event = number, .t_ns = e->t_ns, .device = index, .op = e->op};
    o.api = CT_GET(e, api);
    o.space = CT_GET(e, space);
    o.stack = CT_GET(e, stack);
    o.thread = CT_GET(e, thread);
    o.flags = CT_GET(e, flags);
    o.result_known = CT_HAS(e, result); // (PyTorch's report of an OOM has none)
    o.result = o.result_known ? e->result : 0;
    o.bytes_known = ct_event_has_requested_bytes(e);
    o.bytes = o.bytes_known ? e->bytes : 0;
    o.reading_known = CT_HAS(e, free_bytes) && CT_HAS(e, total_bytes);
    o.free = o.reading_known ? e->free_bytes : 0;
    o.total = o.reading_known ? e->total_bytes : 0;
    o.free_before_known = CT_HAS(e, free_before_bytes);
    o.free_before = o.free_before_known ? e->free_before_bytes : 0;
    o.live_bytes = live->live_bytes;
    o.live_allocations = live->live_allocations;
    o.split = ct_replay_split(&s->end, index);
    o.device_total = find_total(s, &o);
    o.phase = *s->phase;
    o.driver_failed = s->of_event && s->of_event->failed;
    o.pool = ct_torch_pool_totals(&s->end.pool, &s->end.live, index);
    return o;
}

static uint64_t count_opened(const struct ct_live *l, int index) {
    uint64_t n = 0;
    struct ct_live_walk w = ct_live_walk_kind(l, CT_KIND_IPC);
    for (const struct ct_object *o; (o = ct_live_walk_next(l, &w));)
        n += ct_device_to_index(o->device) == index;
    return n;
}

static void add_oom(struct ct_scan *s, const struct ct_event *e, uint64_t number) {
    struct ct_oom_event o = describe(s, e, number);
    o.opened = count_opened(&s->end.live, o.device);
    ct_peak_totals_capture(&s->device[o.device].totals, CT_TOTALS_AT_OOM, &s->end, o.device,
                           number);
    ct_incidents_add(&s->incidents, &o, s->of_event);
}

// NVML's report divides the memory at the OOMs shortly before it, as the recorder does for its line
// on stderr (ct_breakdown_divide_later). Each is divided by the first report that follows it.
static void divide_ooms(struct ct_scan *s, const struct ct_event *e, int index) {
    size_t *divided = &s->device[index].divided_ooms;
    const struct ct_breakdown then = ct_replay_split(&s->end, index);
    for (size_t i = s->incidents.oom_count; i > *divided; i--) {
        struct ct_oom_event *o = &s->incidents.ooms[i - 1];
        if (e->t_ns - o->t_ns > CT_SPLIT_AFTER_NS)
            break;
        if (o->device == index)
            ct_breakdown_divide_later(&o->split, &then);
    }
    *divided = s->incidents.oom_count;
}

static void note_success(struct ct_scan *s, const struct ct_event *e, uint64_t number) {
    if (s->incidents.unrecovered.count)
        ct_incidents_note_success(&s->incidents, e, number);
    if (e->op == CT_OP_BLOCK_ALLOC && s->of_event && s->of_event->incident)
        ct_incidents_note_retry(&s->incidents, s->of_event);
}

static const struct ct_oom_event *find_over_budget(const struct ct_scan *s) {
    const struct ct_oom_event *first = NULL;
    for (int d = 0; d < CT_DEVICES; d++)
        if (s->device[d].over_known && (!first || s->device[d].over.event < first->event))
            first = &s->device[d].over;
    return first;
}

int ct_scan_find_fullest(const struct ct_scan *s) {
    int best = -1;
    for (int d = 0; d < CT_DEVICES; d++)
        if (s->device[d].seen && (best < 0 || s->device[d].peak_bytes > s->device[best].peak_bytes))
            best = d;
    return best;
}

const struct ct_oom_event *ct_scan_find_crossing(const struct ct_scan *s) {
    if (s->request.capacity)
        return find_over_budget(s);
    return ct_incidents_find_crossing(&s->incidents);
}

// ---- plot ---------------------------------------------------------------------------------------

static void add_live_to_column(struct ct_plot_column *c, uint64_t live, uint64_t asleep) {
    if (asleep > c->asleep_max)
        c->asleep_max = asleep;
    if (!c->live_known || live < c->live_min)
        c->live_min = live;
    if (!c->live_known || live > c->live_max)
        c->live_max = live;
    c->live_known = 1;
}

static void add_use_to_column(struct ct_plot_column *c, uint64_t used) {
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
    for (unsigned c = s->column[index]; c <= to; c++) {
        struct ct_plot_column *column = &s->plot[index][c];
        if (is_known(s))
            add_live_to_column(column, live, ct_live_at_sum_asleep(&s->end, index));
        if (split.used_known)
            add_use_to_column(column, split.used - split.in_flight);
    }
    if (to > s->column[index])
        s->column[index] = to;
}

// ---- the pass -----------------------------------------------------------------------------------

// The memory that an event allocated, if it did.
static struct ct_new_memory find_new_memory(const struct ct_event *e) {
    struct ct_new_memory m = {.thread = CT_GET(e, thread)};
    if (e->op == CT_OP_ALLOC && CT_HAS(e, ptr) && CT_HAS(e, bytes)) {
        m.known = 1;
        m.start = e->ptr;
        m.bytes = e->bytes;
    } else if (e->op == CT_OP_CREATE && CT_HAS(e, handle)) {
        m.known = 1;
        m.handle = e->handle;
    }
    return m;
}

// A VMM object gets its address after it was created.
static void note_mapping(struct ct_scan *s, const struct ct_event *e) {
    for (int d = 0; d < CT_DEVICES; d++) {
        struct ct_new_memory *m = &s->device[d].peak_memory;
        if (!m->known || !m->handle || m->handle != CT_GET(e, handle))
            continue;
        m->start = CT_GET(e, ptr);
        m->bytes = CT_HAS(e, ptr) && CT_HAS(e, bytes) ? e->bytes : 0;
    }
}

// Whether an event maps the memory of the peak into a reservation that it resumes: then it shows
// whose the memory is.
static int resumes_peak(const struct ct_scan *s, const struct ct_device_scan *d,
                        const struct ct_event *e, uint64_t live) {
    const struct ct_new_memory *m = &d->peak_memory;
    if (e->op != CT_OP_MAP || !m->known || !m->handle || live != d->peak_bytes ||
        !CT_HAS(e, handle) || e->handle != m->handle)
        return 0;
    const struct ct_object *o = ct_live_find(&s->end.live, CT_KIND_HANDLE, m->handle);
    return o && o->resumed;
}

// Whether an event is the block for which the memory of the peak was allocated: the thread's next
// event of a block, if it lies there.
static int completes_peak(struct ct_device_scan *d, const struct ct_event *e, uint64_t live) {
    const struct ct_new_memory m = d->peak_memory;
    if (!m.known || !ct_op_is_block(e->op) || m.thread != CT_GET(e, thread))
        return 0;
    d->peak_memory.known = 0;
    if (e->op != CT_OP_BLOCK_ALLOC || live != d->peak_bytes || !CT_HAS(e, ptr) || !CT_HAS(e, bytes))
        return 0;
    return e->ptr < m.start ? m.start - e->ptr < e->bytes && m.bytes : e->ptr - m.start < m.bytes;
}

static void note_peaks(struct ct_scan *s, int index, const struct ct_event *e, uint64_t number) {
    struct ct_device_scan *d = &s->device[index];
    const uint64_t live = s->end.live.device[index].live_bytes;
    const struct ct_reading *last = &s->end.readings.device[index].last;
    const int is_higher = !d->peak_known || live > d->peak_bytes;
    if (is_higher || resumes_peak(s, d, e, live) || completes_peak(d, e, live)) {
        d->peak_memory = is_higher ? find_new_memory(e) : (struct ct_new_memory){.known = 0};
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
        d->used_peak_known = 1;
    }
}

// Returns what a failed call asked the device for, 0 for all other events.
static uint64_t failed_bytes(const struct ct_oom_event *o, const struct ct_event *e) {
    return ct_event_is_oom(e) && o->bytes_known && ct_incidents_is_device_memory(o) &&
                   o->space != CT_SPACE_MANAGED
               ? o->bytes
               : 0;
}

void ct_scan_limit_free(struct ct_breakdown *split, uint64_t capacity) {
    const uint64_t used = split->used_known ? split->used : split->tracked;
    if (capacity)
        split->free = capacity > used ? capacity - used : 0;
}

struct ct_device_memory ct_scan_memory(const struct ct_scan *s, int device) {
    const struct ct_oom_event *crossing = ct_scan_find_crossing(s);
    const struct ct_device_scan *d = &s->device[device];
    struct ct_device_memory m = {.peak_known = d->peak_known};
    m.end = ct_replay_split(&s->end, device);
    ct_scan_limit_free(&m.end, s->request.capacity);
    if (m.peak_known)
        m.peak = ct_peak_totals_split(&d->totals, CT_TOTALS_AT_PEAK);
    ct_scan_limit_free(&m.peak, s->request.capacity);
    m.crossing_known = crossing && crossing->device == device;
    if (m.crossing_known)
        m.crossing = crossing->split;
    return m;
}

// Notes the first event after which more than the budget is in use, or would be if its call had
// not failed, with the state before it. A reading shows what was in use already: its state is the
// one after it.
static void note_budget(struct ct_scan *s, int index, const struct ct_event *e) {
    struct ct_device_scan *d = &s->device[index];
    const struct ct_oom_event *before = &s->before;
    const struct ct_breakdown after = ct_replay_split(&s->end, index);
    // Memory in flight counts at the event of its call.
    const uint64_t in_use = after.used_known ? after.used - after.in_flight : after.tracked;
    const uint64_t asked = failed_bytes(before, e);
    if (in_use <= s->request.capacity && asked <= s->request.capacity - in_use)
        return;
    d->over_known = s->exceeded = 1;
    d->over = *before;
    d->over.reading_known = 0; // free and total were the real device's
    if (e->op == CT_OP_MEMORY_SAMPLE)
        d->over.split = after;
    if (before->flags & CT_FLAG_NVML)
        d->over.thread = 0; // the recorder's own
    ct_scan_limit_free(&d->over.split, s->request.capacity);
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

// Analyses PyTorch's pools before an event is applied. The very first request may fail, or be
// retried.
static void update_pools(struct ct_scan *s, const struct ct_event *e, uint64_t number, int counts) {
    const int is_outcome = e->op == CT_OP_BLOCK_ALLOC || e->op == CT_OP_BLOCK_OOM;
    if (!is_known(s))
        ct_pool_curve_skip(&s->curve, e->t_ns);
    else if (s->end.pool.on || is_outcome || ct_event_reports_oom(e))
        ct_pool_curve_advance(&s->curve, &s->end, e->t_ns);
    if (!counts || !is_outcome || !s->of_event)
        return;
    struct ct_other_streams others = {0};
    if (e->op == CT_OP_BLOCK_OOM && is_known(s))
        others = ct_segment_streams_find_others(&s->streams, &s->end, e, s->of_event->device,
                                                ct_pool_growth_class(CT_GET(e, bytes)));
    ct_pool_growth_count(&s->growths, s->of_event, &others, e, number);
}

static void before_event(struct ct_scan *s, const struct ct_event *e, uint64_t number, int index,
                         int counts) {
    const struct ct_scan_request *q = &s->request;
    if (counts && q->columns && e->t_ns >= q->columns_from)
        plot(s, index, column_of(q, e->t_ns));
    plot_freed(s, e, index);
    s->changed_device = index;
    s->of_event = ct_driver_requests_follow(&s->requests, &s->end, e, number);
    if (q->points)
        update_pools(s, e, number, counts);
    if (e->op == CT_OP_EXPORT)
        ct_sharing_note_export(&s->sharing, &s->end.live, e);
}

static void after_event(struct ct_scan *s, const struct ct_event *e, int index) {
    const struct ct_scan_request *q = &s->request;
    if (q->points && (e->op == CT_OP_BLOCK_ALLOC || e->op == CT_OP_UNRESERVE))
        ct_segment_streams_note(&s->streams, &s->end, e);
    if (s->end.pool.on && is_known(s))
        ct_pool_curve_update(&s->curve, &s->end, index, e->t_ns, is_request_for_memory(e));
    if (s->changed_device != index && s->in_range && is_wanted(s, s->changed_device) &&
        q->columns && e->t_ns >= q->columns_from)
        plot(s, s->changed_device, column_of(q, e->t_ns));
    if (e->op == CT_OP_LOST)
        s->lost += CT_HAS(e, count) ? e->count : 1;
}

// Counts an event that is in the range and on a wanted device.
static void count_event(struct ct_scan *s, const struct ct_event *e, uint64_t number, int index) {
    const struct ct_scan_request *q = &s->request;
    s->device[index].seen |=
        ct_event_uses_device(e) || s->end.live.device[index].live_allocations != 0;
    s->events++;
    s->ops[e->op < CT_OPS_END ? e->op : 0]++;
    note_peaks(s, index, e, number);
    if (q->capacity)
        note_budget(s, index, e);
    if (e->op == CT_OP_MEMORY_SAMPLE && CT_HAS(e, process_bytes))
        divide_ooms(s, e, index);
    if (ct_event_reports_oom(e))
        add_oom(s, e, number);
    else if (!CT_HAS(e, result) || e->result == 0)
        note_success(s, e, number);
    if (q->columns && e->t_ns >= q->columns_from)
        plot(s, index, column_of(q, e->t_ns));
}

// Leaves out the columns and the instants before a time.
static void skip_unknown(struct ct_scan *s, uint64_t t_ns) {
    const struct ct_scan_request *q = &s->request;
    ct_pool_curve_skip(&s->curve, t_ns);
    for (int d = 0; d < CT_DEVICES && q->columns && t_ns >= q->columns_from; d++)
        if (s->column[d] < column_of(q, t_ns))
            s->column[d] = column_of(q, t_ns);
}

static int take_before(void *self, const struct ct_replay *r, const struct ct_event *e,
                       uint64_t number) {
    struct ct_scan *s = self;
    (void)r;
    if (s->exceeded) // what comes later would not have happened
        return 0;
    if (s->end.resets != s->resets) { // no call repeats one before the gap
        s->known_event = number;
        ct_driver_requests_free(&s->requests);
    }
    if (is_known(s) && !s->was_known)
        skip_unknown(s, s->last_ns); // (the state since then is restored)
    const int index = ct_event_device_index(e);
    s->in_range = e->t_ns >= s->request.from_ns;
    s->counts = s->in_range && is_wanted(s, index);
    s->of_event = NULL;
    s->phase = ct_phase_follow_event(&s->follow, e);
    if (s->counts && s->request.capacity)
        s->before = describe(s, e, number);
    before_event(s, e, number, index, s->counts);
    s->event = number;
    s->failures += ct_event_reports_oom(e) != 0;
    return 1;
}

// What the next event is compared with.
static void expect_next(struct ct_scan *s) {
    s->resets = s->end.resets;
    s->was_known = is_known(s);
    s->in_range = 0; // objects that a checkpoint restores are no new allocations
}

static void take_after(void *self, const struct ct_replay *r, const struct ct_event *e,
                       uint64_t number) {
    struct ct_scan *s = self;
    const int index = ct_event_device_index(e);
    (void)r;
    if (e->op == CT_OP_MAP)
        note_mapping(s, e);
    after_event(s, e, index);
    if (s->counts)
        count_event(s, e, number, index);
    s->last_ns = e->t_ns;
    if (e->t_ns > s->latest_ns)
        s->latest_ns = e->t_ns;
    expect_next(s);
}

static void plot_incidents(struct ct_scan *s) {
    for (size_t k = 0; k < s->incidents.count; k++) {
        const struct ct_oom_event *o = ct_incidents_head(&s->incidents, k);
        if (o->t_ns >= s->request.columns_from && s->plot[o->device])
            s->plot[o->device][column_of(&s->request, o->t_ns)].ooms++;
    }
}

// Before a gap: the last event was at last_ns, and nothing is known up to the next one.
static int before_gap(void *self, const struct ct_replay *r, uint64_t number, uint64_t next_ns) {
    struct ct_scan *s = self;
    const struct ct_scan_request *q = &s->request;
    (void)r;
    (void)number;
    if (s->exceeded)
        return 0;
    if (q->points && is_known(s))
        ct_pool_curve_advance(&s->curve, &s->end, s->last_ns + 1);
    for (int d = 0; d < CT_DEVICES && q->columns; d++)
        if (s->plot[d] && s->last_ns >= q->columns_from)
            plot(s, d, column_of(q, s->last_ns));
    skip_unknown(s, next_ns);
    return 1;
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
        ct_peak_totals_capture(&scan->totals, CT_TOTALS_AT_PEAK, &s->end, d, scan->peak_event);
        scan->pool_at_peak = ct_torch_pool_totals(&s->end.pool, &s->end.live, d);
        if (s->request.columns)
            plot(s, d, s->column[d]);
    }
}

// Counts the lost events of the whole range: a pass that ended at a budget has not seen all.
static void count_lost(struct ct_scan *s, struct ct_trace *t) {
    const struct ct_scan_request *q = &s->request;
    struct ct_event e;
    uint64_t number;
    s->lost = 0;
    ct_trace_rewind(t);
    while (ct_trace_next(t, &e, &number) && e.t_ns <= q->to_ns &&
           !(q->end_event && number >= q->end_event))
        if (e.op == CT_OP_LOST)
            s->lost += CT_HAS(&e, count) ? e.count : 1;
}

void ct_scan_join(struct ct_scan *s, struct ct_listeners *to, const struct ct_trace *t,
                  const struct ct_scan_request *request) {
    const struct ct_listener a = {.self = s,
                                  .end_event = request->end_event,
                                  .end_ns = request->to_ns + 1,
                                  .before = take_before,
                                  .after = take_after,
                                  .before_gap = before_gap,
                                  .live_changed = live_changed,
                                  .owner_changed = owner_changed,
                                  .block_changed = block_changed,
                                  .segment_changed = segment_changed,
                                  .leads = 1};
    s->request = *request;
    s->end.tiles = request->points || request->blocks;
    s->is_never_known = !ct_trace_is_ever_known(t);
    s->follow.phases = request->phases;
    s->follow.open = &s->end.live.open;
    ct_pool_curve_init(
        &s->curve, request->from_ns > t->t_first_ns ? request->from_ns : t->t_first_ns,
        request->to_ns < t->t_last_ns ? request->to_ns : t->t_last_ns, request->points);
    ct_segment_streams_init(&s->streams, t);
    expect_next(s);
    ct_listeners_add(to, &a);
}

void ct_scan_finish(struct ct_scan *s, struct ct_trace *t) {
    const struct ct_scan_request *q = &s->request;
    if (s->streams.disagree)
        ct_pool_growth_forget_streams(&s->growths);
    if (s->exceeded)
        count_lost(s, t);
    if (is_known(s))
        ct_pool_curve_advance(&s->curve, &s->end, UINT64_MAX);
    ct_pool_curve_finish(&s->curve);
    for (int d = 0; d < CT_DEVICES; d++)
        s->device[d].pool_at_end = ct_torch_pool_totals(&s->end.pool, &s->end.live, d);
    if (s->end.resets)
        add_restored(s, t);
    for (int d = 0; d < CT_DEVICES && q->columns; d++)
        if (s->plot[d])
            plot(s, d, q->columns - 1);
    ct_incidents_finish(&s->incidents);
    if (q->columns)
        plot_incidents(s);
}

int ct_scan_is_of_one_device(const struct ct_scan *s, int device) {
    for (int d = 0; d < CT_DEVICES; d++)
        if (s->device[d].has_totals != (d == device))
            return 0;
    return 1;
}

void ct_scan_free(struct ct_scan *s) {
    for (unsigned kind = 0; kind < CT_HOLDING_STACKS; kind++)
        free(s->totals[kind].list);
    for (int d = 0; d < CT_DEVICES; d++)
        free(s->plot[d]);
    for (int d = 0; d < CT_DEVICES; d++)
        ct_peak_totals_free(&s->device[d].totals);
    ct_incidents_free(&s->incidents);
    ct_driver_requests_free(&s->requests);
    ct_pool_curve_free(&s->curve);
    ct_pool_growth_free(&s->growths);
    ct_segment_streams_free(&s->streams);
    ct_sharing_free(&s->sharing);
    ct_phase_follow_free(&s->follow);
    ct_replay_free(&s->end);
}
