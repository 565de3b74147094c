// SPDX-License-Identifier: Apache-2.0
// Checkpoints: the state of live.h and readings.h as records, and back, for a trace that does not
// begin with the process.
//
// A record is the event that created the object, with its number in `event`. A state is written in
// parts, and it may change between two parts (a "fuzzy" checkpoint). A reader that applies the
// parts at their places among the events has the exact state after the last part, because the order
// of the parts keeps any event from mistaking an object for another one that is not restored yet:
//   1. kinds on which no other kind depends
//   2. GRAPH: a free looks for an address first, and only then for these
//   3. MAPPING: a free looks for both of them first
//   4. HANDLE: all of its mappings are known then
//   5. readings of the devices: they are relative to what is live, which is complete then
//   6. ranges of the program that are open
// A tentatively freed object (tentative.h) follows the frees that are not final; the reader knows
// whether they failed. An object that ends before its part is unknown to the reader, and so is its
// end. An object that was created since the first part comes twice, and the second time replaces
// the first. Header-only, without I/O and memory of its own.
#ifndef CUTRACE_CHECKPOINT_H
#define CUTRACE_CHECKPOINT_H

#include <cutrace/model/live.h>
#include <cutrace/model/readings.h>

// Flags of a CHECKPOINT section.
enum { CT_CHECKPOINT_FIRST = 1, CT_CHECKPOINT_LAST = 2, CT_CHECKPOINT_INEXACT = 4 };

// Sum of the allocations of a call site. An inexact checkpoint has these in place of a state that
// is too large to write.
struct ct_site_sum {
    uint64_t bytes, count;
    uint64_t t_ns, event; // of the first allocation
    uint32_t stack, flags;
    uint16_t space;
    int8_t device;
};

enum ct_checkpoint_pass {
    CT_PASS_OTHERS,
    CT_PASS_GRAPHS,
    CT_PASS_MAPPINGS,
    CT_PASS_HANDLES,
    CT_PASS_HOLDERS,   // reservations that hold a segment, again: it may have become one meanwhile
    CT_PASS_POOLS,     // of an inexact checkpoint
    CT_PASS_SITE_SUMS, // of an inexact checkpoint
    CT_PASS_DEVICES,
    CT_PASS_RANGES,
    CT_PASS_DONE,
};

// The progress of a checkpoint. Begin with ct_checkpoint_begin or ct_checkpoint_begin_sums.
struct ct_checkpoint {
    enum ct_checkpoint_pass pass;
    uint32_t at, end; // slots, or entries of `sums`, or devices, or ranges
    uint64_t
        written_from; // ranges of later events, or of the one before, need no record (any more)
    const struct ct_site_sum *sums;
    uint32_t room;
};

// ---- from the state to records ------------------------------------------------------------------

static inline void ct_checkpoint_put_common(const struct ct_live *l, const struct ct_object *o,
                                            unsigned op, struct ct_event *e) {
    const struct ct_traits *traits = ct_live_traits(l, o);
    e->present = 0;
    CT_SET(e, op, op);
    CT_SET(e, t_ns, o->t_ns);
    CT_SET(e, event, ct_object_event(o));
    CT_SET_KNOWN(e, bytes, o->bytes);
    CT_SET_KNOWN(e, stack, o->stack);
    if (o->device != CT_NO_DEVICE)
        CT_SET(e, device, (int)o->device);
    CT_SET_KNOWN(e, context, traits->context);
    CT_SET_KNOWN(e, thread, traits->thread);
    CT_SET_KNOWN(e, api, traits->api);
    const uint32_t flags = traits->flags | (o->segment ? CT_FLAG_SEGMENT : 0u) |
                           (o->holds_segment ? CT_FLAG_HOLDS_SEGMENT : 0u);
    CT_SET_KNOWN(e, flags, flags);
    CT_SET_KNOWN(e, space, traits->space);
}

static inline void ct_checkpoint_put_pool(const struct ct_live *l, const struct ct_object *o,
                                          int inexact, struct ct_event *e) {
    e->present = 0;
    CT_SET(e, op, CT_OP_POOL_SAMPLE);
    CT_SET(e, pool, o->key);
    CT_SET(e, reserved_bytes, ct_live_traits(l, o)->link);
    if (o->device != CT_NO_DEVICE)
        CT_SET(e, device, (int)o->device);
    if (inexact) // an exact one has the allocations drawn from the pool
        CT_SET(e, used_bytes, o->bytes);
}

static inline void ct_checkpoint_put_object(const struct ct_live *l, const struct ct_object *o,
                                            struct ct_event *e) {
    static const uint8_t op[CT_KINDS_END] = {
        [CT_KIND_ADDRESS] = CT_OP_ALLOC,     [CT_KIND_ARRAY] = CT_OP_ALLOC,
        [CT_KIND_HANDLE] = CT_OP_CREATE,     [CT_KIND_MAPPING] = CT_OP_MAP,
        [CT_KIND_GRAPH] = CT_OP_GRAPH_ALLOC, [CT_KIND_REGISTERED] = CT_OP_REGISTER,
        [CT_KIND_IPC] = CT_OP_IPC_OPEN,      [CT_KIND_RESERVED] = CT_OP_RESERVE,
        [CT_KIND_SITE_SUM] = CT_OP_ALLOC,    [CT_KIND_BLOCK] = CT_OP_BLOCK_ALLOC,
    };
    const struct ct_traits *traits = ct_live_traits(l, o);
    ct_checkpoint_put_common(l, o, op[o->kind], e);
    switch (o->kind) {
    case CT_KIND_SITE_SUM:
        CT_SET(e, count, traits->link);
        break;
    case CT_KIND_ARRAY:
        CT_SET(e, handle, o->key);
        break;
    case CT_KIND_HANDLE:
        CT_SET(e, handle, o->key);
        CT_SET_KNOWN(e, count, traits->maps);
        break;
    default:
        CT_SET(e, ptr, o->key);
        if (traits->link && o->kind == CT_KIND_MAPPING)
            CT_SET(e, handle, traits->link);
        if (traits->link && (o->kind == CT_KIND_ADDRESS || o->kind == CT_KIND_BLOCK))
            CT_SET(e, pool, traits->link);
    }
    if ((o->kind == CT_KIND_HANDLE || o->kind == CT_KIND_IPC) && traits->refs != 1)
        CT_SET(e, refs, traits->refs);
}

static inline enum ct_checkpoint_pass ct_checkpoint_pass_of(unsigned kind) {
    if (kind == CT_KIND_GRAPH)
        return CT_PASS_GRAPHS;
    if (kind == CT_KIND_MAPPING)
        return CT_PASS_MAPPINGS;
    return kind == CT_KIND_HANDLE ? CT_PASS_HANDLES : CT_PASS_OTHERS;
}

static inline int ct_checkpoint_is_of_pass(const struct ct_object *o,
                                           enum ct_checkpoint_pass pass) {
    if (pass == CT_PASS_HOLDERS)
        return o->kind == CT_KIND_RESERVED && o->holds_segment;
    return pass == CT_PASS_POOLS ? o->kind == CT_KIND_POOL : ct_checkpoint_pass_of(o->kind) == pass;
}

static inline void ct_checkpoint_put_sum(const struct ct_site_sum *t, struct ct_event *e) {
    e->present = 0;
    CT_SET(e, op, CT_OP_ALLOC);
    CT_SET(e, t_ns, t->t_ns);
    CT_SET(e, event, t->event);
    CT_SET(e, bytes, t->bytes);
    CT_SET(e, count, t->count);
    CT_SET_KNOWN(e, stack, t->stack);
    CT_SET_KNOWN(e, flags, t->flags);
    CT_SET_KNOWN(e, space, t->space);
    if (t->device != CT_NO_DEVICE)
        CT_SET(e, device, (int)t->device);
}

enum { CT_DEVICE_RECORDS = 7 };

static inline void ct_checkpoint_put_reading(const struct ct_device_usage *d, int device,
                                             unsigned op, uint64_t t_ns, struct ct_event *e) {
    e->present = 0;
    CT_SET(e, op, op);
    CT_SET(e, t_ns, t_ns);
    if (d->seen)
        CT_SET(e, device, device < CT_MAX_DEVICES ? device : CT_NO_DEVICE);
}

// The totals that PyTorch reported last for its pools of a device.
static inline size_t ct_checkpoint_put_reported(const struct ct_live *l, int device,
                                                struct ct_event *e) {
    const struct ct_live_device *d = &l->device[device];
    if (!d->reported)
        return 0;
    e->present = 0;
    CT_SET(e, op, CT_OP_POOL_SAMPLE);
    CT_SET(e, device, device < CT_MAX_DEVICES ? device : CT_NO_DEVICE);
    CT_SET(e, reserved_bytes, d->reported_reserved);
    CT_SET(e, allocated_bytes, d->reported_allocated);
    return 1;
}

// The records of a device: at most CT_DEVICE_RECORDS - 1. A memory-sample with used_bytes (what was
// tracked then) is the last one, without used_bytes it is the one with the least free memory.
static inline size_t ct_checkpoint_put_device(const struct ct_device_usage *d, int device,
                                              struct ct_event *out) {
    const struct ct_reading *last = &d->last;
    struct ct_event *e = out;
    if (d->free_known) {
        ct_checkpoint_put_reading(d, device, CT_OP_MEMORY_SAMPLE, d->free_min_t_ns, e);
        CT_SET(e, free_bytes, d->free_min);
        CT_SET(e, total_bytes, d->total);
        e++;
    }
    if (last->known) {
        ct_checkpoint_put_reading(d, device, CT_OP_MEMORY_SAMPLE, last->t_ns, e);
        CT_SET(e, free_bytes, last->free + last->in_flight); // the calls will have ended
        CT_SET(e, total_bytes, last->total);
        CT_SET(e, used_bytes, last->tracked);
        if (d->process_known) {
            CT_SET(e, process_bytes, last->tracked + d->process_untracked);
            CT_SET(e, bytes, d->split_unexplained);
        }
        e++;
    }
    static const uint8_t ops[CT_MEASURED_PARTS] = {
        [CT_MEASURED_CONTEXTS] = CT_OP_CONTEXT_CREATE,
        [CT_MEASURED_MODULES] = CT_OP_MODULE_LOAD,
        [CT_MEASURED_LIMITS] = CT_OP_LIMIT,
        [CT_MEASURED_GRAPHS] = CT_OP_MEMORY_SAMPLE,
    };
    const struct ct_measured *m = &d->measured;
    for (unsigned part = 0; part < CT_MEASURED_PARTS; part++) {
        const int graphs = part == CT_MEASURED_GRAPHS;
        if (!m->known[part] && !(graphs && m->unmeasured_instantiations))
            continue;
        ct_checkpoint_put_reading(d, device, ops[part], 0, e);
        CT_SET(e, free_before_bytes, m->bytes[part]);
        CT_SET(e, free_bytes, 0);
        if (part == CT_MEASURED_CONTEXTS)
            CT_SET(e, count, m->contexts);
        if (graphs) {
            CT_SET(e, flags, CT_FLAG_GRAPH);
            CT_SET(e, count, m->instantiations);
            CT_SET(e, refs, (uint32_t)m->unmeasured_instantiations);
        }
        e++;
    }
    if (e == out && d->seen)
        ct_checkpoint_put_reading(d, device, CT_OP_MEMORY_SAMPLE, 0, e++);
    return (size_t)(e - out);
}

static inline int ct_checkpoint_pass_empty(const struct ct_live *l, enum ct_checkpoint_pass pass) {
    return (pass == CT_PASS_GRAPHS && !l->of_kind[CT_KIND_GRAPH]) ||
           (pass == CT_PASS_MAPPINGS && !l->of_kind[CT_KIND_MAPPING]) ||
           (pass == CT_PASS_HANDLES && !l->of_kind[CT_KIND_HANDLE]) ||
           (pass == CT_PASS_HOLDERS && !l->of_kind[CT_KIND_RESERVED]);
}

static inline void ct_checkpoint_begin_pass(struct ct_checkpoint *c, const struct ct_live *l,
                                            enum ct_checkpoint_pass pass) {
    while (ct_checkpoint_pass_empty(l, pass))
        pass = (enum ct_checkpoint_pass)(pass + 1);
    if (pass == CT_PASS_POOLS && !c->sums)
        pass = CT_PASS_DEVICES;
    c->pass = pass;
    c->at = 0;
    // Objects that are created from here on are in the events, so slots that are added need no
    // record.
    c->end = l->slots;
    if (pass == CT_PASS_DEVICES)
        c->end = CT_DEVICES;
    if (pass == CT_PASS_SITE_SUMS)
        c->end = c->room;
    if (pass == CT_PASS_RANGES) {
        c->end = l->open.used;
        c->written_from = c->end ? l->open.range[c->end - 1].event + 2 : 0;
    }
}

static inline void ct_checkpoint_begin(struct ct_checkpoint *c, const struct ct_live *l) {
    memset(c, 0, sizeof *c);
    ct_checkpoint_begin_pass(c, l, CT_PASS_OTHERS);
}

// A tentatively freed object, after the frees that are not final. If there are more of them than
// fit, the object is left out: one of so many has succeeded.
static inline size_t ct_checkpoint_put_tentative(const struct ct_live *l, uint32_t slot,
                                                 struct ct_event *out) {
    struct ct_object o = ct_live_slot(l, slot)->object;
    size_t n = 0;
    for (uint32_t i = 0; i < l->tentative_used; i++) {
        const struct ct_tentative *a = &l->tentative[i];
        if (!a->freed_ns || a->slot != slot)
            continue;
        if (n + 1 == CT_DEVICE_RECORDS)
            return 0;
        struct ct_event *e = &out[n++];
        e->present = 0;
        CT_SET(e, op, CT_OP_AMEND);
        CT_SET(e, t_ns, a->freed_ns);
        CT_SET(e, amends_ns, a->freed_ns);
        CT_SET_KNOWN(e, thread, a->thread);
        o.kind = a->kind;
    }
    if (n)
        ct_checkpoint_put_object(l, &o, &out[n++]);
    return n;
}

// Writes the records of the current slot, sum or device: 0 to CT_DEVICE_RECORDS.
static inline size_t ct_checkpoint_put_current(const struct ct_checkpoint *c,
                                               const struct ct_live *l, const struct ct_readings *r,
                                               struct ct_event *out) {
    size_t n;
    if (c->pass == CT_PASS_DEVICES) {
        n = ct_checkpoint_put_reported(l, (int)c->at, out);
        return n + ct_checkpoint_put_device(&r->device[c->at], (int)c->at, out + n);
    }
    if (c->pass == CT_PASS_SITE_SUMS) {
        if (!c->sums[c->at].count)
            return 0;
        ct_checkpoint_put_sum(&c->sums[c->at], out);
        return 1;
    }
    const struct ct_object *o = ct_live_object_at(l, c->at);
    if (c->pass == CT_PASS_OTHERS && ct_live_slot(l, c->at)->object.kind == CT_KIND_TENTATIVE)
        return ct_checkpoint_put_tentative(l, c->at, out);
    if (!o)
        return 0;
    if (!ct_checkpoint_is_of_pass(o, c->pass))
        return 0;
    if (o->kind == CT_KIND_POOL)
        ct_checkpoint_put_pool(l, o, c->sums != NULL, out);
    else
        ct_checkpoint_put_object(l, o, out);
    return 1;
}

// Writes the next range, the newest first: an event between two parts ends the innermost one, which
// must not be mistaken for an outer one. Others may end meanwhile, so it is found by its number.
static inline size_t ct_checkpoint_put_range(struct ct_checkpoint *c, const struct ct_live *l,
                                             struct ct_event *out) {
    for (uint32_t i = l->open.used; i-- > 0;) {
        const struct ct_open_range *r = &l->open.range[i];
        if (r->event + 1 >= c->written_from)
            continue;
        ct_open_ranges_put(r, out);
        c->written_from = r->event + 1;
        return 1;
    }
    return 0;
}

// Writes the next part of the state as it is now: up to `most` records (at least
// CT_DEVICE_RECORDS). Returns how many. The checkpoint is complete when c->pass is CT_PASS_DONE. A
// call looks at a bounded number of slots, so a part may be short or empty.
static inline size_t ct_checkpoint_next(struct ct_checkpoint *c, const struct ct_live *l,
                                        const struct ct_readings *r, struct ct_event *out,
                                        size_t most) {
    size_t n = 0;
    for (size_t looks = most * 8 + 4096; c->pass != CT_PASS_DONE; c->at++) {
        if (c->at >= c->end) {
            ct_checkpoint_begin_pass(c, l, (enum ct_checkpoint_pass)(c->pass + 1));
            c->at--; // begins with 0
            continue;
        }
        if (most - n < CT_DEVICE_RECORDS || !looks--)
            break;
        n += c->pass == CT_PASS_RANGES ? ct_checkpoint_put_range(c, l, out + n)
                                       : ct_checkpoint_put_current(c, l, r, out + n);
    }
    return n;
}

// ---- sums by call site --------------------------------------------------------------------------

static inline struct ct_site_sum *ct_checkpoint_sum_slot(struct ct_site_sum *table, uint32_t room,
                                                         const struct ct_site_sum *like) {
    const uint64_t a = (uint64_t)like->stack << 32 | like->flags;
    const uint64_t hash =
        ct_slot_index_hash(a ^ (uint64_t)like->space << 48, (uint8_t)like->device);
    for (uint32_t i = (uint32_t)hash & (room - 1), n = 0; n < room; i = (i + 1) & (room - 1), n++) {
        struct ct_site_sum *t = &table[i];
        if (!t->count || (t->stack == like->stack && t->flags == like->flags &&
                          t->space == like->space && t->device == like->device))
            return t;
    }
    return NULL;
}

// Sums what is live by call site into `table` (`room` entries, a power of two; 1024 or more). Call
// sites beyond that are summed without their stacks. Returns how many objects fit nowhere even so.
static inline uint64_t ct_checkpoint_sum_sites(const struct ct_live *l, struct ct_site_sum *table,
                                               uint32_t room) {
    uint64_t without = 0;
    uint32_t used = 0;
    memset(table, 0, room * sizeof *table);
    for (uint32_t i = 0; i < l->slots; i++) {
        const struct ct_object *o = ct_live_object_at(l, i);
        if (!o || !(ct_object_is_counted(l, o) || ct_object_is_host(l, o)))
            continue;
        const struct ct_traits *traits = ct_live_traits(l, o);
        struct ct_site_sum like = {.stack = o->stack,
                                   .flags = traits->flags & CT_FLAG_ASYNC,
                                   .space = traits->space,
                                   .device = o->device,
                                   .t_ns = o->t_ns,
                                   .event = ct_object_event(o)};
        struct ct_site_sum *t = ct_checkpoint_sum_slot(table, room, &like);
        if (!t || (!t->count && used >= room / 4 * 3)) {
            like.stack = 0;
            t = ct_checkpoint_sum_slot(table, room, &like);
        }
        if (!t) {
            without++;
            continue;
        }
        if (!t->count) {
            *t = like;
            used++;
        } else if (like.event < t->event) {
            t->event = like.event;
            t->t_ns = like.t_ns;
        }
        t->bytes += o->bytes;
        t->count += ct_object_allocations(l, o);
    }
    return without;
}

// Begins an inexact checkpoint: the sums of ct_checkpoint_sum_sites, pools and readings. It must be
// written in one part.
static inline void ct_checkpoint_begin_sums(struct ct_checkpoint *c, const struct ct_live *l,
                                            const struct ct_site_sum *table, uint32_t room) {
    memset(c, 0, sizeof *c);
    c->sums = table;
    c->room = room;
    ct_checkpoint_begin_pass(c, l, CT_PASS_POOLS);
}

// ---- from records to the state ------------------------------------------------------------------

// Before the FIRST part: nothing is live, nothing was read.
static inline void ct_checkpoint_begin_restore(struct ct_live *l, struct ct_readings *r) {
    struct ct_object *o;
    for (int pools = 0; pools < 2; pools++) // pools last, because allocations refer to them
        for (uint32_t i = 0; i < l->slots; i++)
            if ((o = ct_live_object_at(l, i)) && (o->kind == CT_KIND_POOL) == pools)
                ct_object_remove(l, o);
    for (int i = 0; i < CT_DEVICES; i++)
        l->device[i].reported = l->device[i].reported_allocated = l->device[i].reported_reserved =
            0;
    memset(r, 0, sizeof *r);
    l->open.used = 0;
    l->partial = 1;
    l->next_is_freed = 0;
}

// Which VMM objects resume a reservation follows from times: they are younger than its first
// memory.
static inline void ct_checkpoint_restore_resumed(const struct ct_live *l) {
    struct ct_live_walk w = ct_live_walk_kind(l, CT_KIND_MAPPING);
    for (const struct ct_object *o; (o = ct_live_walk_next(l, &w));) {
        const struct ct_object *r = ct_live_find(l, CT_KIND_RESERVED, o->key);
        struct ct_object *memory = ct_live_find(l, CT_KIND_HANDLE, ct_live_traits(l, o)->link);
        if (!memory || !r || !r->segment || r->bytes != o->bytes || memory->t_ns <= r->t_ns)
            continue;
        memory->resumed = 1;
        if (l->owner_changed)
            l->owner_changed(l->user, memory, memory->stack);
    }
}

// After the LAST part.
static inline void ct_checkpoint_end_restore(struct ct_live *l) {
    ct_checkpoint_restore_resumed(l);
    l->partial = 0;
}

static inline void ct_checkpoint_restore_segment(struct ct_live *l, struct ct_object *o,
                                                 uint32_t flags) {
    if (o->kind == CT_KIND_MAPPING && flags & CT_FLAG_SEGMENT)
        ct_live_segment_set(l, o, o->device);
    else if (flags & CT_FLAG_SEGMENT)
        o->segment = 1;
    if (o->kind != CT_KIND_RESERVED || !(flags & CT_FLAG_HOLDS_SEGMENT))
        return;
    o->holds_segment = 1;
    ct_object_count_asleep(l, o, CT_KIND_RESERVED, +1);
    struct ct_object *awake = ct_live_find(l, CT_KIND_MAPPING, o->key);
    if (awake)
        ct_live_segment_set(l, awake, o->device);
}

static inline void ct_checkpoint_restore(struct ct_live *l, unsigned kind, uint64_t key,
                                         const struct ct_event *e) {
    struct ct_object *there = ct_live_find(l, kind, key);
    if (there)
        ct_object_remove(l, there);
    struct ct_event own = *e; // without the flags that are no traits
    own.flags &= ~(uint32_t)(CT_FLAG_SEGMENT | CT_FLAG_HOLDS_SEGMENT);
    if (!own.flags)
        own.present &= ~CT_BIT(flags);
    struct ct_object *o = ct_live_add(l, kind, key, &own, CT_GET(e, event));
    if (o)
        ct_checkpoint_restore_segment(l, o, CT_GET(e, flags));
    if (o && (kind == CT_KIND_HANDLE || kind == CT_KIND_IPC)) {
        ct_live_traits(l, o)->refs = CT_HAS(e, refs) ? e->refs : 1;
        ct_live_traits(l, o)->maps = CT_HAS(e, count) ? (uint32_t)e->count : 0;
    } else if (o && kind == CT_KIND_MAPPING) {
        ct_live_traits(l, o)->link = CT_GET(e, handle);
    }
}

static inline void ct_checkpoint_restore_pool(struct ct_live *l, const struct ct_event *e) {
    const int device = CT_HAS(e, device) ? e->device : CT_NO_DEVICE;
    struct ct_object *o = ct_live_pool_get(l, e->pool, device);
    if (!o)
        return;
    ct_live_pool_count(l, o, -1);
    o->device = (int8_t)ct_device_or_none(device);
    ct_live_traits(l, o)->link = CT_GET(e, reserved_bytes);
    if (CT_HAS(e, used_bytes))
        o->bytes = e->used_bytes;
    ct_live_pool_count(l, o, +1);
}

static inline void ct_checkpoint_restore_measured(struct ct_measured *m, const struct ct_event *e) {
    const enum ct_measured_part part = ct_measured_part_of(e);
    const uint64_t count = CT_GET(e, count);
    if (part == CT_MEASURED_PARTS)
        return;
    m->bytes[part] =
        e->free_before_bytes > e->free_bytes ? e->free_before_bytes - e->free_bytes : 0;
    m->known[part] = 1;
    if (part == CT_MEASURED_CONTEXTS)
        m->contexts = CT_HAS(e, count) ? count : 1;
    if (part == CT_MEASURED_GRAPHS) {
        m->instantiations = count;
        m->unmeasured_instantiations = CT_GET(e, refs);
        m->known[part] = count != 0 || m->bytes[part];
    }
}

static inline void ct_checkpoint_restore_reading(struct ct_readings *r, const struct ct_event *e) {
    struct ct_device_usage *d = &r->device[ct_event_device_index(e)];
    d->seen |= CT_HAS(e, device);
    if (!CT_HAS(e, free_bytes))
        return;
    if (CT_HAS(e, free_before_bytes)) {
        ct_checkpoint_restore_measured(&d->measured, e);
    } else if (CT_HAS(e, total_bytes) && CT_HAS(e, used_bytes)) {
        d->last = ct_reading_make(e->free_bytes, e->total_bytes, e->used_bytes, e->t_ns);
        d->process_known = CT_HAS(e, process_bytes);
        d->process_untracked = d->process_known ? e->process_bytes - e->used_bytes : 0;
        // Absent in traces of earlier recorders.
        d->split_unexplained = CT_HAS(e, bytes) ? e->bytes : ct_reading_unexplained(&d->last);
    } else if (CT_HAS(e, total_bytes)) {
        d->free_known = 0;
        ct_readings_note_lowest(d, e);
    }
}

static inline uint64_t ct_checkpoint_sum_key(const struct ct_event *e) {
    const int device = ct_event_device_index(e);
    return ct_site_sum_key(device == CT_MAX_DEVICES ? CT_NO_DEVICE : device,
                           (uint16_t)(CT_HAS(e, space) ? e->space : CT_SPACE_UNKNOWN),
                           CT_GET(e, stack), CT_HAS(e, flags) && e->flags & CT_FLAG_ASYNC);
}

// Restores the object or reading of a checkpoint's record.
static inline void ct_checkpoint_apply(struct ct_live *l, struct ct_readings *r,
                                       const struct ct_event *e) {
    uint64_t key;
    const unsigned kind = ct_event_makes(e, &key);
    const int is_freed = l->next_is_freed;
    if (e->op == CT_OP_AMEND) {
        // The result is 0 unless an AMEND of the trace says that the call failed.
        l->next_is_freed |= !CT_HAS(e, result) || !e->result;
        return;
    }
    l->next_is_freed = 0;
    if (is_freed)
        return;
    if (kind) {
        ct_checkpoint_restore(l, kind, key, e);
        return;
    }
    switch (e->op) {
    case CT_OP_ALLOC:
        if (CT_HAS(e, count))
            ct_checkpoint_restore(l, CT_KIND_SITE_SUM, ct_checkpoint_sum_key(e), e);
        break;
    case CT_OP_POOL_SAMPLE:
        if (CT_HAS(e, pool))
            ct_checkpoint_restore_pool(l, e);
        else
            ct_live_set_reported(l, e);
        break;
    case CT_OP_MEMORY_SAMPLE:
    case CT_OP_CONTEXT_CREATE:
    case CT_OP_MODULE_LOAD:
    case CT_OP_LIMIT:
        ct_checkpoint_restore_reading(r, e);
        break;
    case CT_OP_RANGE_PUSH:
    case CT_OP_RANGE_START:
        ct_open_ranges_begin(&l->open, e, CT_GET(e, event));
        break;
    default:
        break;
    }
}

#endif
