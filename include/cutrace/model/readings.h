// SPDX-License-Identifier: Apache-2.0
// Readings of the devices' free memory, and how a device's memory is used: by whom, and how much is
// unexplained.
//
// Header-only like live.h, because the recorder and the report must come to the same result.
#ifndef CUTRACE_READINGS_H
#define CUTRACE_READINGS_H

#include <cutrace/model/device_use.h>
#include <cutrace/model/live_memory.h>
#include <cutrace/model/measured.h>

enum { CT_DEVICES = CT_MAX_DEVICES + 1 }; // the last one: device unknown

// A reading of a whole device, with what this process was known to hold at that time.
//
// A reading inside a call, while an allocation or a free is under way, may or may not contain the
// memory of that call, and `tracked` then has the opposite error. Therefore the part of the growth
// of unexplained memory that such calls can explain is `in_flight`: neither tracked nor untracked.
// A free is under way from its event on, and an allocation until its event. The latter is known
// beforehand to a reader that looks ahead (`expected`). Otherwise the reading is corrected when the
// event of the allocation arrives.
struct ct_reading {
    int known;
    uint64_t free, total, used, tracked, t_ns;
    uint64_t in_flight; // part of `used`
    uint64_t expected;  // bytes of allocations that were under way and have not arrived yet
    int corrected;      // memory in flight was taken out of `used`
};

// What an earlier reading left unexplained.
struct ct_earlier_reading {
    uint64_t t_ns, unexplained, process_untracked;
    int process_known;
};
enum { CT_EARLIER_READINGS = 8 };

struct ct_device_usage {
    int seen;               // an event shows that the process uses it
    struct ct_reading last; // by CUDA or NVML
    uint64_t total;         // by cuMemGetInfo; 0: unknown
    uint64_t cuda_total;    // by another source of CUDA's, set by the caller; 0: unknown
    // Set by the caller: the device has no memory of its own, so that what is used is used by the
    // host's programs, too; its memory is a NUMA node of the host, whose programs may use it.
    int with_host, is_host_node;
    uint64_t tracked; // after the last event of the device
    int free_known;
    uint64_t free_min, free_min_t_ns;
    int process_known;          // NVML reported what this process uses
    uint64_t process_untracked; // part of it that its allocations do not explain
    // What the reading of that report left unexplained, and when it was: the part beyond
    // process_untracked is of other processes.
    uint64_t split_unexplained, split_t_ns;
    struct ct_measured measured;
    uint64_t readings; // before the last one
    struct ct_earlier_reading earlier[CT_EARLIER_READINGS];
};

// The last free of a thread that has recorded nothing since: the call may be under way.
struct ct_pending_free {
    uint64_t t_ns, bytes;
    uint32_t thread;
    int device; // index
};
enum { CT_PENDING_FREES = 64 }; // by thread; of threads that share an entry, the last one counts

struct ct_readings {
    struct ct_device_usage device[CT_DEVICES];
    uint64_t pending; // a bit for each entry in use
    struct ct_pending_free pending_free[CT_PENDING_FREES];
};

CT_HOT int ct_event_device_index(const struct ct_event *e) {
    return CT_HAS(e, device) && (uint32_t)e->device < CT_MAX_DEVICES ? e->device : CT_MAX_DEVICES;
}

static inline struct ct_reading ct_reading_make(uint64_t free, uint64_t total, uint64_t tracked,
                                                uint64_t t_ns) {
    return (struct ct_reading){.known = 1,
                               .free = free,
                               .total = total,
                               .used = total > free ? total - free : 0,
                               .tracked = tracked,
                               .t_ns = t_ns};
}

static inline uint64_t ct_reading_unexplained(const struct ct_reading *r) {
    const uint64_t explained = r->tracked + r->in_flight;
    return r->used > explained ? r->used - explained : 0;
}

// Takes memory in flight out of the reading: its call has ended, so it is tracked or free.
static inline void ct_reading_correct(struct ct_reading *r, uint64_t in_flight) {
    r->used -= in_flight;
    r->free += in_flight;
    r->corrected |= in_flight != 0;
}

static inline void ct_readings_note_lowest(struct ct_device_usage *d, const struct ct_event *e) {
    d->total = e->total_bytes;
    if (!d->free_known || e->free_bytes < d->free_min) {
        d->free_min = e->free_bytes;
        d->free_min_t_ns = e->t_ns;
    }
    d->free_known = 1;
}

// ---- calls under way ----------------------------------------------------------------------------

// Physical memory is allocated in multiples of these sizes, the second one by memory pools.
#define CT_READING_PAGE ((uint64_t)2 << 20)
#define CT_READING_POOL_PAGE ((uint64_t)32 << 20)
#define CT_READING_FREE_NS UINT64_C(10000000000) // a free that takes longer is not waited for

// The bytes of the device that an allocation can have taken; 0 for any other event.
static inline uint64_t ct_event_allocated_bytes(const struct ct_event *e) {
    if ((e->op != CT_OP_ALLOC && e->op != CT_OP_CREATE) || !CT_HAS(e, bytes) ||
        (CT_HAS(e, result) && e->result))
        return 0;
    const uint32_t flags = CT_GET(e, flags);
    const uint32_t space = CT_HAS(e, space) ? e->space : CT_SPACE_DEVICE;
    const uint64_t page = flags & CT_FLAG_ASYNC ? CT_READING_POOL_PAGE : CT_READING_PAGE;
    if (space == CT_SPACE_HOST || space == CT_SPACE_MANAGED ||
        flags & (CT_FLAG_FOREIGN | CT_FLAG_MULTICAST | CT_FLAG_DEFERRED) ||
        e->bytes > UINT64_MAX - page)
        return 0;
    return (e->bytes + page - 1) / page * page;
}

// Whether the call of an event was under way at a time before the event.
CT_HOT int ct_event_was_under_way(const struct ct_event *e, uint64_t t_ns) {
    return CT_HAS(e, duration_ns) && e->t_ns - e->duration_ns < t_ns;
}

// The bytes of the frees of other threads that were under way at a reading.
static inline uint64_t ct_readings_pending_bytes(const struct ct_readings *r, int device,
                                                 const struct ct_event *e) {
    const uint32_t thread = CT_GET(e, thread);
    uint64_t bytes = 0;
    for (unsigned i = 0; i < CT_PENDING_FREES; i++) {
        const struct ct_pending_free *f = &r->pending_free[i];
        if (r->pending >> i & 1 && f->device == device && f->thread != thread &&
            e->t_ns - f->t_ns <= CT_READING_FREE_NS)
            bytes += f->bytes;
    }
    return bytes;
}

// The growth, as far as calls under way can explain it.
static inline uint64_t ct_readings_explain_growth(uint64_t before, uint64_t now, uint64_t calls) {
    const uint64_t growth = now > before ? now - before : 0;
    return growth < calls ? growth : calls;
}

// ---- readings -----------------------------------------------------------------------------------

// Later readings than NVML's report only say how the sum of untracked memory and others' memory has
// changed, not whose it was: ct_breakdown_divide.
static inline void ct_readings_keep_last(struct ct_device_usage *d) {
    if (d->last.known)
        d->earlier[d->readings++ % CT_EARLIER_READINGS] = (struct ct_earlier_reading){
            d->last.t_ns, ct_reading_unexplained(&d->last), d->process_untracked, d->process_known};
}

// NVML's total includes what the driver keeps for itself (480 MiB of an H100); CUDA's does not.
static inline uint64_t ct_readings_total(const struct ct_device_usage *d, const struct ct_event *e,
                                         int nvml) {
    if (!nvml)
        return e->total_bytes;
    if (d->total)
        return d->total;
    return d->cuda_total ? d->cuda_total : e->total_bytes;
}

// The last reading was made with NVML's total; now CUDA's is known.
static inline void ct_readings_set_total(struct ct_device_usage *d, uint64_t total) {
    const uint64_t before = ct_reading_unexplained(&d->last);
    d->last =
        ct_reading_make(d->last.free + d->last.in_flight, total, d->last.tracked, d->last.t_ns);
    const uint64_t now = ct_reading_unexplained(&d->last);
    if (now > before)
        d->split_unexplained += now - before;
    else
        d->split_unexplained -=
            d->split_unexplained < before - now ? d->split_unexplained : before - now;
}

// What NVML reports of this process beyond its allocations, without memory in flight.
static inline uint64_t ct_readings_process_untracked(const struct ct_device_usage *d,
                                                     const struct ct_event *e,
                                                     const struct ct_reading *now, uint64_t calls) {
    const uint64_t beyond = e->process_bytes > now->tracked ? e->process_bytes - now->tracked : 0;
    if (d->process_known)
        return beyond - ct_readings_explain_growth(d->process_untracked, beyond, calls);
    return beyond - (beyond < now->in_flight ? beyond : now->in_flight);
}

// `ahead`: bytes of allocations that were under way at the reading.
static inline void ct_readings_apply_sample(struct ct_readings *r, const struct ct_live *l,
                                            int index, const struct ct_event *e, uint64_t ahead) {
    struct ct_device_usage *d = &r->device[index];
    const int nvml = CT_HAS(e, flags) && e->flags & CT_FLAG_NVML;
    const uint64_t tracked = ct_live_tracked(&l->device[index]);
    const uint64_t total = ct_readings_total(d, e, nvml);
    const uint64_t calls = ahead + ct_readings_pending_bytes(r, index, e);
    struct ct_reading now = ct_reading_make(e->free_bytes, total, tracked, e->t_ns);
    if (!nvml)
        ct_readings_note_lowest(d, e);
    if (d->last.known && !nvml && d->last.total != total)
        ct_readings_set_total(d, total);
    const uint64_t beyond = ct_reading_unexplained(&now);
    if (calls && d->last.known)
        now.in_flight = ct_readings_explain_growth(ct_reading_unexplained(&d->last), beyond, calls);
    else if (calls && (!CT_HAS(e, result) || !e->result))
        return; // nothing to compare with, and no failed allocation: it says nothing certain
    else if (calls)
        now.in_flight = beyond >= calls ? calls : 0;
    now.expected = ahead;
    ct_readings_keep_last(d);
    d->last = now;
    if (!nvml || !CT_HAS(e, process_bytes))
        return;
    d->process_untracked = ct_readings_process_untracked(d, e, &now, calls);
    d->process_known = 1;
    d->split_unexplained = ct_reading_unexplained(&now);
    d->split_t_ns = now.t_ns;
}

// ---- calls that a reading did not know of -------------------------------------------------------

// Corrects the readings that were taken while this allocation was in flight: their extra
// unexplained bytes, up to its size, become tracked.
static inline void ct_readings_correct(struct ct_device_usage *d, uint64_t start_ns,
                                       uint64_t bytes) {
    struct ct_earlier_reading *before = NULL;
    uint64_t i = d->readings;
    const uint64_t kept = i < CT_EARLIER_READINGS ? i : CT_EARLIER_READINGS;
    while (!before && d->readings - i < kept)
        if (d->earlier[--i % CT_EARLIER_READINGS].t_ns <= start_ns)
            before = &d->earlier[i % CT_EARLIER_READINGS];
    if (!before) {
        d->last.known = d->process_known = 0;
        d->readings = d->process_untracked = 0;
        return;
    }
    for (i++; i < d->readings; i++) {
        struct ct_earlier_reading *o = &d->earlier[i % CT_EARLIER_READINGS];
        o->unexplained -= ct_readings_explain_growth(before->unexplained, o->unexplained, bytes);
        o->process_untracked -= ct_readings_explain_growth(
            before->process_known ? before->process_untracked : before->unexplained,
            o->process_untracked, bytes);
    }
    if (d->split_t_ns > start_ns)
        d->split_unexplained -=
            ct_readings_explain_growth(before->unexplained, d->split_unexplained, bytes);
    ct_reading_correct(&d->last, ct_readings_explain_growth(
                                     before->unexplained, ct_reading_unexplained(&d->last), bytes));
    d->process_untracked -= ct_readings_explain_growth(
        before->process_known ? before->process_untracked : before->unexplained,
        d->process_untracked, bytes);
}

// Memory that was in flight at the last reading is tracked now.
static inline void ct_readings_arrive(struct ct_device_usage *d, uint64_t bytes) {
    const uint64_t part = bytes < d->last.in_flight ? bytes : d->last.in_flight;
    d->last.in_flight -= part;
    ct_reading_correct(&d->last, part);
}

CT_COLD void ct_readings_apply_late(struct ct_device_usage *d, const struct ct_event *e) {
    uint64_t bytes = ct_event_allocated_bytes(e);
    const uint64_t expected = bytes < d->last.expected ? bytes : d->last.expected;
    if (!d->last.known)
        return;
    ct_readings_arrive(d, expected);
    d->last.expected -= expected;
    bytes -= expected;
    if (bytes)
        ct_readings_correct(d, e->t_ns - e->duration_ns, bytes);
}

CT_COLD void ct_readings_end_flight(struct ct_device_usage *d, const struct ct_event *e,
                                    uint64_t tracked) {
    if (e->op == CT_OP_POOL_SAMPLE && tracked > d->tracked) // its allocation follows
        ct_readings_arrive(d, tracked - d->tracked);
    else if (!d->last.expected)
        ct_readings_arrive(d, d->last.in_flight);
}

CT_HOT void ct_readings_note_free(struct ct_readings *r, const struct ct_event *e, int index,
                                  uint64_t bytes) {
    const uint32_t thread = CT_GET(e, thread);
    const unsigned at = thread % CT_PENDING_FREES;
    r->pending_free[at] = (struct ct_pending_free){e->t_ns, bytes, thread, index};
    r->pending |= UINT64_C(1) << at;
}

// A thread that records an event has returned from its last free.
CT_HOT void ct_readings_end_free(struct ct_readings *r, const struct ct_event *e) {
    const uint32_t thread = CT_GET(e, thread);
    const unsigned at = thread % CT_PENDING_FREES;
    if (r->pending >> at & 1 && r->pending_free[at].thread == thread)
        r->pending &= ~(UINT64_C(1) << at);
}

// Whether no other call of the device was under way during one. A call whose device is not known
// may be one of any device.
static inline int ct_readings_is_alone(const struct ct_readings *r, int index,
                                       const struct ct_event *e) {
    const uint64_t start = e->t_ns - CT_GET(e, duration_ns);
    const uint64_t call = r->device[index].measured.call_ns,
                   unknown = r->device[CT_MAX_DEVICES].measured.call_ns;
    return call <= start && unknown <= start && !ct_readings_pending_bytes(r, index, e);
}

// Looks for calls that are measured, and for others during them.
CT_HOT void ct_readings_note_measured(struct ct_readings *r, int index, const struct ct_event *e) {
    struct ct_measured *m = &r->device[index].measured;
    const enum ct_measured_part part = ct_measured_part_of(e);
    if (part == CT_MEASURED_PARTS && (e->op == CT_OP_MEMORY_SAMPLE || e->op >= CT_OP_MARK))
        return; // a reading, a mark and a list of processes change nothing
    if (__builtin_expect(m->count && ct_event_was_under_way(e, m->newest_ns), 0))
        ct_measured_take_back(m, e->t_ns - e->duration_ns);
    if (__builtin_expect(part != CT_MEASURED_PARTS, 0))
        ct_measured_note(m, e, part, ct_readings_is_alone(r, index, e));
    else if (__builtin_expect(e->op == CT_OP_CONTEXT_DESTROY, 0) && m->contexts &&
             (!CT_HAS(e, result) || !e->result) && !--m->contexts)
        ct_measured_end_context(m);
    m->call_ns = e->t_ns;
}

CT_HOT void ct_readings_note_call(struct ct_readings *r, const struct ct_live *l, int index,
                                  const struct ct_event *e) {
    struct ct_device_usage *d = &r->device[index];
    const uint64_t tracked = ct_live_tracked(&l->device[index]);
    if (__builtin_expect(ct_event_was_under_way(e, d->last.t_ns), 0))
        ct_readings_apply_late(d, e);
    ct_readings_note_measured(r, index, e);
    if (tracked == d->tracked)
        return;
    if (__builtin_expect(d->last.in_flight != 0, 0))
        ct_readings_end_flight(d, e, tracked);
    if (tracked < d->tracked && e->op != CT_OP_AMEND)
        ct_readings_note_free(r, e, index, d->tracked - tracked);
    d->tracked = tracked;
}

CT_COLD void ct_readings_apply_slow(struct ct_readings *r, const struct ct_live *l, int index,
                                    const struct ct_event *e, uint64_t ahead) {
    if (CT_HAS(e, total_bytes))
        ct_readings_apply_sample(r, l, index, e, ahead);
}

// Applies what an event says of its device. Call it after ct_live_apply of the same event. `ahead`:
// for a reading, the bytes of the allocations that were under way and whose events follow, as far
// as they are known (ct_event_allocated_bytes, ct_event_was_under_way).
CT_HOT void ct_readings_apply_ahead(struct ct_readings *r, const struct ct_live *l,
                                    const struct ct_event *e, uint64_t ahead) {
    const int index = ct_event_device_index(e);
    if (r->pending)
        ct_readings_end_free(r, e);
    if (ct_event_uses_device(e))
        r->device[index].seen = 1;
    if (!ct_op_is_block(e->op))
        ct_readings_note_call(r, l, index, e);
    if (CT_HAS(e, free_bytes))
        ct_readings_apply_slow(r, l, index, e, ahead);
}

CT_HOT void ct_readings_apply(struct ct_readings *r, const struct ct_live *l,
                              const struct ct_event *e) {
    ct_readings_apply_ahead(r, l, e, 0);
}

// How a device's memory is used now. A value that is unknown has its flag unset. Where `used` is
// known, total = free + tracked + in_flight + unexplained.
struct ct_breakdown {
    uint64_t
        tracked; // by this process's allocations: pools with what they reserve, no managed memory
    uint64_t managed;   // by this process; where it resides is unknown
    uint64_t pool_idle; // part of `tracked`: reserved by CUDA's memory pools beyond allocations
    uint64_t
        used; // of the device by everybody: the last reading, adjusted by what was tracked since
    uint64_t free, total;
    uint64_t in_flight; // by allocations and frees that were under way at the reading
    // By this process beyond `tracked`; by other processes; by one of them, which is not known.
    uint64_t untracked, others, unattributed;
    uint64_t unexplained;                               // the sum of these three
    uint64_t measured[CT_MEASURED_PARTS];               // what calls were measured to take
    uint64_t instantiations, unmeasured_instantiations; // of graphs
    int used_known, split_known;
    int with_host, is_host_node; // see ct_device_usage
    int moved_on;                // tracked memory changed since the reading: `used` is inferred
    uint64_t reading_t_ns;
};

// Divides what is unexplained by a division that is known of another moment. If the sum was smaller
// then, the difference may belong to either; if it was larger, either may have given it back. (If
// one process takes what another one has given back meanwhile, the sum does not show it.)
static inline void ct_breakdown_divide(struct ct_breakdown *s, uint64_t untracked,
                                       uint64_t others) {
    const uint64_t sum = untracked + others;
    const uint64_t less = sum > s->unexplained ? sum - s->unexplained : 0;
    s->split_known = 1;
    s->untracked = untracked > less ? untracked - less : 0;
    s->others = others > less ? others - less : 0;
    s->unattributed = s->unexplained - s->untracked - s->others;
}

// The same by NVML's next report, at most so long after the moment. `then` is the breakdown at the
// report.
#define CT_SPLIT_AFTER_NS UINT64_C(2000000000)
static inline void ct_breakdown_divide_later(struct ct_breakdown *s,
                                             const struct ct_breakdown *then) {
    struct ct_breakdown later = *s;
    if (!s->used_known || !then->split_known || then->unattributed)
        return;
    ct_breakdown_divide(&later, then->untracked, then->others);
    if (!s->split_known || later.unattributed < s->unattributed)
        *s = later;
}

// What the measured parts are parts of: `untracked`, or where nothing is divided, `unexplained`.
static inline uint64_t ct_breakdown_measured_whole(const struct ct_breakdown *s) {
    return s->split_known ? s->untracked : s->unexplained;
}

// What no call was measured to take; the whole if calls were measured to take more than that (some
// of it was given back unmeasured, or is part of `unattributed`).
static inline uint64_t ct_breakdown_unmeasured(const struct ct_breakdown *s, int *exceeds) {
    const uint64_t whole = ct_breakdown_measured_whole(s);
    uint64_t left = whole;
    for (unsigned part = 0; part < CT_MEASURED_PARTS; part++) {
        *exceeds = s->measured[part] > left;
        if (*exceeds)
            return whole;
        left -= s->measured[part];
    }
    return left;
}

// The breakdown of a device (an index) whose tracked memory is given.
static inline struct ct_breakdown ct_readings_breakdown_of(const struct ct_readings *r, int device,
                                                           uint64_t tracked) {
    const struct ct_device_usage *d = &r->device[device];
    struct ct_breakdown s = {.tracked = tracked};
    s.with_host = d->with_host;
    s.is_host_node = d->is_host_node;
    if (!d->last.known)
        return s;
    const struct ct_reading *last = &d->last;
    const int64_t since = (int64_t)(s.tracked - last->tracked);
    s.used_known = 1;
    s.reading_t_ns = last->t_ns;
    s.total = last->total;
    s.used = since < 0 && 0 - (uint64_t)since > last->used ? 0 : last->used + (uint64_t)since;
    s.moved_on = since != 0 || last->corrected;
    // What was tracked since can contradict the reading, because others' memory changes unseen, and
    // a call may return between a reading and its event.
    const uint64_t read = s.used;
    if (s.used > s.total)
        s.used = s.total;
    if (s.used < s.tracked && s.tracked <= s.total)
        s.used = s.tracked;
    s.moved_on |= s.used != read;
    s.free = s.total > s.used ? s.total - s.used : 0;
    s.unexplained = s.used > s.tracked ? s.used - s.tracked : 0;
    s.in_flight = last->in_flight < s.unexplained ? last->in_flight : s.unexplained;
    s.unexplained -= s.in_flight;
    s.unattributed = s.unexplained;
    memcpy(s.measured, d->measured.bytes, sizeof s.measured);
    s.instantiations = d->measured.instantiations;
    s.unmeasured_instantiations = d->measured.unmeasured_instantiations;
    // Beyond what this process holds, the host's programs are no other processes on the device.
    if (!d->process_known || d->with_host)
        return s;
    const uint64_t own =
        d->process_untracked < d->split_unexplained ? d->process_untracked : d->split_unexplained;
    ct_breakdown_divide(&s, own, d->split_unexplained - own);
    return s;
}

static inline struct ct_breakdown ct_readings_breakdown(const struct ct_readings *r,
                                                        const struct ct_live *l, int device) {
    const struct ct_live_device *live = &l->device[device];
    struct ct_breakdown s = ct_readings_breakdown_of(r, device, ct_live_tracked(live));
    s.managed = live->managed_bytes;
    s.pool_idle = ct_live_pool_idle(live);
    return s;
}

#endif
