// SPDX-License-Identifier: Apache-2.0
// Readings of the devices' free memory, and how a device's memory is used: by whom, and how much is
// unexplained.
//
// Header-only like live.h, because the recorder and the report must come to the same result.
#ifndef CUTRACE_READINGS_H
#define CUTRACE_READINGS_H

#include <cutrace/model/live_memory.h>

enum { CT_DEVICES = CT_MAX_DEVICES + 1 }; // the last one: device unknown

// A reading of a whole device, with what this process was known to hold at that time.
struct ct_reading {
    int known;
    uint64_t free, total, used, tracked, t_ns;
};

struct ct_device_usage {
    int seen;
    struct ct_reading last; // by CUDA or NVML
    uint64_t total;         // by cuMemGetInfo; 0: unknown
    int free_known;
    uint64_t free_min, free_min_t_ns;
    int process_known;          // NVML reported what this process uses
    uint64_t process_untracked; // part of it that its allocations do not explain
    uint64_t context_bytes, module_bytes, limit_bytes; // measured costs
    int context_known, module_known, limit_known;
};

struct ct_readings {
    struct ct_device_usage device[CT_DEVICES];
};

CT_HOT int ct_event_device_index(const struct ct_event *e) {
    return CT_HAS(e, device) && (uint32_t)e->device < CT_MAX_DEVICES ? e->device : CT_MAX_DEVICES;
}

static inline struct ct_reading ct_reading_make(uint64_t free, uint64_t total, uint64_t tracked,
                                                uint64_t t_ns) {
    return (struct ct_reading){1, free, total, total > free ? total - free : 0, tracked, t_ns};
}

static inline void ct_readings_note_lowest(struct ct_device_usage *d, const struct ct_event *e) {
    d->total = e->total_bytes;
    if (!d->free_known || e->free_bytes < d->free_min) {
        d->free_min = e->free_bytes;
        d->free_min_t_ns = e->t_ns;
    }
    d->free_known = 1;
}

// Memory of others below this is the driver's own (9 MiB with a context on an H100; NVML attributes
// it to no process).
#define CT_DRIVER_OWN_MAX_BYTES ((uint64_t)64 << 20)

// Memory that neither this process's allocations nor NVML's figure for it explain.
static inline uint64_t ct_readings_others(const struct ct_device_usage *d) {
    const uint64_t own = d->last.tracked + d->process_untracked;
    return d->last.used > own ? d->last.used - own : 0;
}

// Free memory falls between two NVML readings. If nobody else uses the device, the cause is this
// process: it loads the modules of kernels that it launches first. Otherwise the cause is unknown
// and the growth counts as others'.
static inline void ct_readings_attribute_growth(struct ct_device_usage *d, uint64_t others_before) {
    const uint64_t now = ct_readings_others(d);
    if (d->process_known && others_before < CT_DRIVER_OWN_MAX_BYTES && now > others_before)
        d->process_untracked += now - others_before;
}

static inline void ct_readings_apply_sample(struct ct_device_usage *d, const struct ct_live *l,
                                            int index, const struct ct_event *e) {
    const int nvml = CT_HAS(e, flags) && e->flags & CT_FLAG_NVML;
    const uint64_t tracked = ct_live_tracked(&l->device[index]);
    // NVML's total includes what the driver keeps for itself (480 MiB of an H100); CUDA's does not.
    const uint64_t total = nvml && d->total ? d->total : e->total_bytes;
    if (d->last.known && !nvml)
        d->last = ct_reading_make(d->last.free, total, d->last.tracked, d->last.t_ns);
    const uint64_t others = ct_readings_others(d);
    if (!nvml)
        ct_readings_note_lowest(d, e);
    d->last = ct_reading_make(e->free_bytes, total, tracked, e->t_ns);
    if (nvml && CT_HAS(e, process_bytes)) {
        d->process_known = 1;
        d->process_untracked = e->process_bytes > tracked ? e->process_bytes - tracked : 0;
    } else {
        ct_readings_attribute_growth(d, others);
    }
}

static inline void ct_readings_add_cost(struct ct_device_usage *d, const struct ct_event *e) {
    const uint64_t cost =
        e->free_before_bytes > e->free_bytes ? e->free_before_bytes - e->free_bytes : 0;
    if (e->op == CT_OP_CONTEXT_CREATE) {
        d->context_bytes += cost;
        d->context_known = 1;
    } else if (e->op == CT_OP_MODULE_LOAD) {
        d->module_bytes += cost;
        d->module_known = 1;
    } else if (e->op == CT_OP_LIMIT) {
        d->limit_bytes += cost;
        d->limit_known = 1;
    }
}

CT_COLD void ct_readings_apply_slow(struct ct_device_usage *d, const struct ct_live *l, int index,
                                    const struct ct_event *e) {
    if (CT_HAS(e, total_bytes))
        ct_readings_apply_sample(d, l, index, e);
    if (CT_HAS(e, free_before_bytes) && (!CT_HAS(e, result) || !e->result))
        ct_readings_add_cost(d, e);
}

// Applies what an event says of its device. Call it after ct_live_apply of the same event.
CT_HOT void ct_readings_apply(struct ct_readings *r, const struct ct_live *l,
                              const struct ct_event *e) {
    const int index = ct_event_device_index(e);
    struct ct_device_usage *d = &r->device[index];
    if (CT_HAS(e, device))
        d->seen = 1;
    if (CT_HAS(e, free_bytes))
        ct_readings_apply_slow(d, l, index, e);
}

// How a device's memory is used now. A value that is unknown has its flag unset.
struct ct_breakdown {
    uint64_t
        tracked; // by this process's allocations: pools with what they reserve, no managed memory
    uint64_t managed; // by this process; where it resides is unknown
    uint64_t
        used; // of the device by everybody: the last reading, adjusted by what was tracked since
    uint64_t free, total;
    uint64_t untracked, others; // by this process beyond `tracked`; by other processes
    uint64_t unexplained;       // untracked + others, where only their sum is known
    int used_known, split_known;
    int moved_on; // tracked memory changed since the reading: `used` is inferred
    uint64_t reading_t_ns;
};

// The breakdown of a device (an index) whose tracked memory is given.
static inline struct ct_breakdown ct_readings_breakdown_of(const struct ct_readings *r, int device,
                                                           uint64_t tracked) {
    const struct ct_device_usage *d = &r->device[device];
    struct ct_breakdown s = {.tracked = tracked};
    if (!d->last.known)
        return s;
    const struct ct_reading *last = &d->last;
    const int64_t since = (int64_t)(s.tracked - last->tracked);
    s.used_known = 1;
    s.moved_on = since != 0;
    s.reading_t_ns = last->t_ns;
    s.total = last->total;
    s.used = since < 0 && (uint64_t)-since > last->used ? 0 : last->used + (uint64_t)since;
    if (!since)
        s.free = last->free;
    else
        s.free = s.total > s.used ? s.total - s.used : 0;
    s.unexplained = s.used > s.tracked ? s.used - s.tracked : 0;
    s.split_known = d->process_known;
    s.untracked = d->process_untracked < s.unexplained ? d->process_untracked : s.unexplained;
    s.others = s.unexplained - s.untracked;
    return s;
}

static inline struct ct_breakdown ct_readings_breakdown(const struct ct_readings *r,
                                                        const struct ct_live *l, int device) {
    struct ct_breakdown s =
        ct_readings_breakdown_of(r, device, ct_live_tracked(&l->device[device]));
    s.managed = l->device[device].managed_bytes;
    return s;
}

#endif
