// SPDX-License-Identifier: Apache-2.0
// Which ranges of the program (cutrace.h, NVTX) are open after a sequence of events. Of bounded
// size: when there are more, the oldest one is forgotten. Header-only, without I/O and memory of
// its own.
#ifndef CUTRACE_OPEN_RANGES_H
#define CUTRACE_OPEN_RANGES_H

#include <cutrace/format/format.h>

enum { CT_OPEN_RANGES = 128 };

struct ct_open_range {
    uint64_t t_ns, event; // of its begin
    uint64_t handle;      // of a range-start
    uint32_t op;          // CT_OP_RANGE_PUSH or CT_OP_RANGE_START
    uint32_t thread, api; // 0: unknown, as for all ids
    uint32_t text, domain, category;
};

struct ct_open_ranges {
    struct ct_open_range range[CT_OPEN_RANGES]; // in the order of their events
    uint32_t used;
    uint64_t forgotten;
};

static inline void ct_open_ranges_remove(struct ct_open_ranges *o, uint32_t at) {
    o->used--;
    memmove(&o->range[at], &o->range[at + 1], (o->used - at) * sizeof o->range[0]);
}

// Begins a range. One that is known, because a checkpoint had it, stays as it is.
static inline void ct_open_ranges_begin(struct ct_open_ranges *o, const struct ct_event *e,
                                        uint64_t number) {
    uint32_t at = o->used;
    while (at && o->range[at - 1].event > number) // an object of a checkpoint comes later
        at--;
    if (at && o->range[at - 1].event == number)
        return;
    if (o->used == CT_OPEN_RANGES) {
        o->forgotten++;
        if (!at) // it is the oldest one
            return;
        ct_open_ranges_remove(o, 0);
        at--;
    }
    memmove(&o->range[at + 1], &o->range[at], (o->used - at) * sizeof o->range[0]);
    o->used++;
    o->range[at] = (struct ct_open_range){
        .t_ns = e->t_ns,
        .event = number,
        .op = e->op,
        .handle = e->op == CT_OP_RANGE_START && CT_HAS(e, handle) ? e->handle : 0,
        .thread = CT_GET(e, thread),
        .api = CT_GET(e, api),
        .text = CT_GET(e, text),
        .domain = CT_GET(e, domain),
        .category = CT_GET(e, category),
    };
}

// The position of the range that an event ends, + 1: the innermost one of its thread and domain, or
// that with its handle. 0: it is not known.
static inline uint32_t ct_open_ranges_find(const struct ct_open_ranges *o,
                                           const struct ct_event *e) {
    const uint32_t thread = CT_GET(e, thread);
    const uint32_t domain = CT_GET(e, domain);
    for (uint32_t at = o->used; at; at--) {
        const struct ct_open_range *r = &o->range[at - 1];
        if (e->op == CT_OP_RANGE_END
                ? r->op == CT_OP_RANGE_START && CT_HAS(e, handle) && r->handle == e->handle
                : r->op == CT_OP_RANGE_PUSH && r->thread == thread && r->domain == domain)
            return at;
    }
    return 0;
}

static inline void ct_open_ranges_apply(struct ct_open_ranges *o, const struct ct_event *e,
                                        uint64_t number) {
    uint32_t at;
    if (e->op == CT_OP_RANGE_PUSH || e->op == CT_OP_RANGE_START)
        ct_open_ranges_begin(o, e, number);
    else if ((e->op == CT_OP_RANGE_POP || e->op == CT_OP_RANGE_END) &&
             (at = ct_open_ranges_find(o, e)))
        ct_open_ranges_remove(o, at - 1);
}

// A range as the event that began it, with its number.
static inline void ct_open_ranges_put(const struct ct_open_range *r, struct ct_event *e) {
    e->present = 0;
    CT_SET(e, op, r->op);
    CT_SET(e, t_ns, r->t_ns);
    CT_SET(e, event, r->event);
    if (r->op == CT_OP_RANGE_START)
        CT_SET(e, handle, r->handle);
    CT_SET_KNOWN(e, thread, r->thread);
    CT_SET_KNOWN(e, api, r->api);
    CT_SET_KNOWN(e, text, r->text);
    CT_SET_KNOWN(e, domain, r->domain);
    CT_SET_KNOWN(e, category, r->category);
}

#endif
