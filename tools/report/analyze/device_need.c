// SPDX-License-Identifier: Apache-2.0
// A need is judged at each event that changes what a device holds, because the moment with the most
// allocated, the one with the most in use and the one with the fullest pool are different ones.
#include "analyze/device_need.h"

#include "analyze/coarse_history.h"
#include "analyze/oom_reason.h"

static uint64_t at_most(uint64_t bytes, uint64_t whole) {
    return bytes < whole ? bytes : whole;
}

// What calls were measured to take: at least so much of what nothing explains is this process's.
static uint64_t sum_measured(const struct ct_breakdown *s) {
    uint64_t sum = 0;
    for (unsigned part = 0; part < CT_MEASURED_PARTS; part++)
        sum += s->measured[part];
    return at_most(sum, s->unexplained);
}

static void set_untracked(struct ct_need *to, const struct ct_breakdown *s) {
    if (!s->used_known || s->with_host)
        return;
    to->untracked = s->split_known ? s->untracked : sum_measured(s);
    to->unattributed = s->split_known ? s->unattributed : s->unexplained - to->untracked;
}

// Free in the pools: of PyTorch's `torch_free` bytes, of CUDA's the split's.
static struct ct_need make(const struct ct_breakdown *s, uint64_t torch_free, uint64_t requested) {
    struct ct_need need = {.tracked = s->tracked, .requested = requested};
    need.pool_free = at_most(torch_free + s->pool_idle, s->tracked);
    set_untracked(&need, s);
    return need;
}

// Of two moments with the same need the first counts, but the peak of the other views before it.
// The same event twice is an OOM, which comes again when NVML's next report has divided what was
// untracked then.
static void keep_larger(struct ct_need *most, const struct ct_need *now, uint64_t bytes) {
    const int is_again = now->is_peak || (now->event == most->event && now->t_ns == most->t_ns);
    if (bytes < most->bytes || (bytes == most->bytes && most->bytes && !is_again))
        return;
    *most = *now;
    most->bytes = bytes;
}

static void raise_to(uint64_t *most, uint64_t bytes) {
    *most = bytes > *most ? bytes : *most;
}

static uint64_t whole_of(const struct ct_need *now) {
    return now->tracked + now->requested + now->untracked;
}

// These keep what is more than before. `others`: what other processes hold then.
static void keep_as_recorded(struct ct_device_need *n, const struct ct_need *now, uint64_t others) {
    const uint64_t outside = now->untracked + now->unattributed;
    keep_larger(&n->as_recorded, now, whole_of(now) + now->unattributed);
    raise_to(&n->as_recorded_with_others, whole_of(now) + now->unattributed + others);
    raise_to(&n->untracked, now->untracked);
    raise_to(&n->others, others);
    raise_to(&n->outside, outside);
    raise_to(&n->outside_with_others, outside + others);
    raise_to(&n->outside_least_with_others, now->untracked + others);
}

static void keep_least(struct ct_device_need *n, const struct ct_need *now, uint64_t others) {
    keep_larger(&n->least, now, whole_of(now) - now->pool_free);
    raise_to(&n->least_with_others, whole_of(now) - now->pool_free + others);
}

static void keep(struct ct_device_need *n, const struct ct_need *now, uint64_t others) {
    keep_as_recorded(n, now, others);
    keep_least(n, now, others);
}

// Contexts are older than the first reading: what it shows was there before.
static void note_first_reading(struct ct_device_need *n, const struct ct_breakdown *s) {
    n->untracked_known = 1;
    n->as_recorded.bytes = n->least.bytes = 0;
    set_untracked(&n->before_reading, s);
    keep(n, &n->before_reading, 0);
}

static void note(struct ct_device_need *n, const struct ct_replay *r, int device, uint64_t t_ns,
                 uint64_t number, int is_peak) {
    const struct ct_range_tree *torch_free = r->pool.device[device].free;
    const struct ct_breakdown s = ct_replay_split(r, device);
    struct ct_need now = make(&s, torch_free[0].bytes + torch_free[1].bytes, 0);
    now.event = number;
    now.t_ns = t_ns;
    now.is_peak = is_peak;
    n->with_host |= s.with_host;
    raise_to(&n->managed, s.managed);
    n->known |= s.tracked || s.managed;
    if (!n->untracked_known && s.used_known && !s.with_host)
        note_first_reading(n, &s);
    if (!n->untracked_known)
        keep_larger(&n->before_reading, &now, now.tracked);
    keep(n, &now, s.split_known ? s.others : 0);
}

void ct_device_need_note(struct ct_device_need *n, const struct ct_replay *r, int device,
                         uint64_t t_ns, uint64_t number) {
    note(n, r, device, t_ns, number, 0);
}

void ct_device_needs_note(struct ct_device_needs *n, const struct ct_scan *s,
                          const struct ct_event *e) {
    const int device = ct_event_device_index(e);
    const int is_of_one = device < CT_MAX_DEVICES && e->op != CT_OP_MAP;
    for (int d = 0; d < CT_DEVICES; d++) // (a mapping is of the device of its handle)
        if (is_of_one ? d == device : ct_live_tracked(&s->end.live.device[d]) != 0)
            note(&n->device[d], &s->end, d, e->t_ns, s->event,
                 s->device[d].peak_known && s->device[d].peak_event == s->event);
}

// ---- after the last event -----------------------------------------------------------------------

// What the request that failed needs: of the driver, which PyTorch asks for more, or at least.
static void add_call(struct ct_device_need *n, const struct ct_oom_event *head,
                     const struct ct_oom_event *call) {
    const struct ct_oom_reason reason = ct_oom_reason_find(call, 0);
    const uint64_t others = call->split.split_known ? call->split.others : 0;
    struct ct_need need = make(&call->split, call->pool.free.bytes, 0);
    need.event = call->event;
    need.t_ns = call->t_ns;
    need.requested = head->bytes_known ? at_most(head->bytes, call->bytes) : call->bytes;
    keep_least(n, &need, others);
    need.requested = reason.rounded;
    keep_as_recorded(n, &need, others);
    raise_to(&n->failed_bytes, reason.rounded);
}

static void add_failure(struct ct_device_need *n, const struct ct_incidents *all, size_t incident) {
    const struct ct_oom_event *head = ct_incidents_head(all, incident),
                              *call = ct_oom_reason_find_call(all, incident, head->device,
                                                              CT_OOM_REASON_NOT_ENOUGH_FREE);
    if (call)
        add_call(n, head, call);
    n->failed_t_ns = n->failed ? n->failed_t_ns : head->t_ns;
    n->failed = n->known = 1;
}

void ct_device_need_add_failures(struct ct_device_need *n, const struct ct_incidents *all,
                                 int device, uint64_t from_event) {
    for (size_t i = 0; i < all->count; i++) {
        const struct ct_oom_event *head = ct_incidents_head(all, i);
        if (head->device == device && head->event >= from_event && !all->list[i].retried &&
            ct_incidents_is_device_memory(head))
            add_failure(n, all, i);
    }
}

static void divide_as_oom(struct ct_need *need, const struct ct_incidents *all, int device,
                          int is_least) {
    const struct ct_breakdown *split = ct_incidents_find_split(all, need->event, device);
    if (!need->bytes || !split)
        return;
    set_untracked(need, split);
    need->bytes = whole_of(need) + (is_least ? 0 - need->pool_free : need->unattributed);
}

// A lost free leaves what was freed in the figures.
static void find_unseen(struct ct_device_need *n, const struct ct_scan *s,
                        const struct ct_trace *t) {
    const struct ct_definitions *info = &t->definitions;
    n->may_be_less = ct_trace_count_lost(t, s->lost) || t->index.damages || t->index.missing;
    if (n->may_be_less)
        n->unseen = "events were lost";
    else if (t->incomplete)
        n->unseen = "the end of the trace is missing";
    else if (t->running)
        n->unseen = "the process still records";
    else if (t->overwritten_events && !ct_coarse_history_exists(t))
        n->unseen = "the beginning was overwritten";
    else if (ct_definitions_info(info, "option.SAMPLE") ||
             ct_definitions_info(info, "option.MIN_SIZE"))
        n->unseen = "not all allocations were recorded";
}

void ct_device_needs_finish(struct ct_device_needs *n, const struct ct_scan *s,
                            const struct ct_trace *t) {
    for (int d = 0; d < CT_DEVICES; d++) {
        const struct ct_coarse_summary past = ct_coarse_history_summarize(t, d);
        ct_device_need_add_failures(&n->device[d], &s->incidents, d, 0);
        divide_as_oom(&n->device[d].as_recorded, &s->incidents, d, 0);
        divide_as_oom(&n->device[d].least, &s->incidents, d, 1);
        find_unseen(&n->device[d], s, t);
        if (past.known && past.peak_bytes > n->device[d].as_recorded.tracked)
            n->device[d].overwritten = past.peak_bytes;
    }
}

enum ct_need_fit ct_device_need_judge(const struct ct_device_need *n, uint64_t capacity) {
    const struct ct_need *most = &n->as_recorded;
    if (n->least.bytes > capacity && !n->may_be_less)
        return CT_NEED_FITS_NOT;
    if (!n->untracked_known || n->overwritten || n->unseen)
        return CT_NEED_UNKNOWN;
    if (most->bytes <= capacity)
        return CT_NEED_FITS;
    return most->bytes - most->unattributed > capacity ? CT_NEED_DEPENDS : CT_NEED_UNKNOWN;
}

const char *ct_need_fit_name(enum ct_need_fit fit) {
    static const char *const names[] = {"yes", "no", "depends", "unknown"};
    return names[fit];
}
