// SPDX-License-Identifier: Apache-2.0
// The digest of a chunk: what a first screen needs of its events, without reading them.
//
// Header-only and free of I/O, because the recorder (which writes digests) and the report (which
// checks them) must come to the same figures. digest_code.h has the bytes. Not thread-safe.
#ifndef CUTRACE_DIGEST_H
#define CUTRACE_DIGEST_H

#include <string.h>

#include <cutrace/model/failures.h>
#include <cutrace/model/slot_index.h>

#include <cutrace/model/readings.h>

#define CT_DIGEST_OPS 64u    // operations that are counted; no higher one is recorded
#define CT_DIGEST_FAILED 64u // failed requests whose event is listed
#define CT_DIGEST_SITES 64u  // call sites that are listed
_Static_assert(CT_OPS_END <= CT_DIGEST_OPS, "each operation is counted");

// Live memory (as in the live_* totals) that allocations took and frees gave back.
struct ct_digest_sum {
    uint64_t bytes, count;
};
struct ct_digest_flow {
    struct ct_digest_sum taken, given;
};

struct ct_digest_site {
    uint32_t stack;
    struct ct_digest_flow flow;
};

struct ct_digest_reading {
    uint64_t free, total, t_ns;
};

struct ct_digest_device {
    struct ct_digest_flow flow;
    uint64_t live_bytes; // after the chunk
    // The highest live_bytes. has_peak: it is higher than before the chunk, since this event.
    uint64_t peak_bytes, peak_event, peak_ns;
    int has_peak;
    // Readings: the one with the least free memory, by CUDA; the last one, by CUDA or NVML.
    int has_lowest, has_last;
    struct ct_digest_reading lowest, last;
    // PyTorch's own totals: the last ones, and the highest ones with their first event.
    int has_reported;
    uint64_t allocated, reserved;
    uint64_t most_allocated, most_allocated_event, most_reserved, most_reserved_event;
};

struct ct_digest {
    uint64_t first_event;
    uint64_t ops[CT_DIGEST_OPS]; // numbered events by operation
    uint64_t lost;               // events that LOST records count
    uint64_t failed;             // requests for memory that ran out of it, and the first ones
    uint64_t failed_event[CT_DIGEST_FAILED];
    uint64_t failed_frees; // AMENDs that say that a free had failed: it counted until then
    struct ct_digest_device device[CT_DEVICES];
    // The call sites with the most bytes, and the sum of all others.
    struct ct_digest_site site[CT_DIGEST_SITES];
    uint32_t sites;
    struct ct_digest_flow rest;
};

// The figures of the open chunk's call sites. Those that come when the table is full are in the
// rest.
#define CT_DIGEST_FOLLOWED 1024u
#define CT_DIGEST_SLOTS (2 * CT_DIGEST_FOLLOWED)
struct ct_digest_sites {
    uint32_t key[CT_DIGEST_SLOTS];      // 1 + stack; 0: free. Apart, so that a search stays in a
    uint16_t position[CT_DIGEST_SLOTS]; // cache line. The position is that in `site`.
    uint32_t used;
    struct ct_digest_flow beyond;
    struct ct_digest_site site[CT_DIGEST_FOLLOWED];
};

// A digest in the making.
struct ct_digest_maker {
    struct ct_digest digest;
    struct ct_digest_sites sites;
    uint64_t number, t_ns; // of the event that is being applied
    // The totals before the chunk: what was given back follows from them.
    struct ct_digest_sum before[CT_DEVICES];
};

// ---- call sites ---------------------------------------------------------------------------------

CT_HOT struct ct_digest_flow *ct_digest_flow_of_site(struct ct_digest_sites *s, uint32_t stack) {
    uint32_t i = (uint32_t)(stack * UINT32_C(0x9E3779B1)) >> 21;
    _Static_assert(CT_DIGEST_SLOTS == 1u << (32 - 21), "the hash has as many bits as needed");
    for (; s->key[i]; i = (i + 1) % CT_DIGEST_SLOTS)
        if (s->key[i] == stack + 1)
            return &s->site[s->position[i]].flow;
    if (s->used == CT_DIGEST_FOLLOWED)
        return &s->beyond;
    struct ct_digest_site *site = &s->site[s->used];
    *site = (struct ct_digest_site){.stack = stack};
    s->key[i] = stack + 1;
    s->position[i] = (uint16_t)s->used++;
    return &site->flow;
}

CT_HOT void ct_digest_flow_add(struct ct_digest_flow *f, uint64_t bytes, int sign) {
    struct ct_digest_sum *const to = sign > 0 ? &f->taken : &f->given; // no branch: it would
    to->bytes += bytes;                                                // be hard to predict
    to->count++;
}

static inline void ct_digest_flow_join(struct ct_digest_flow *to, const struct ct_digest_flow *f) {
    to->taken.bytes += f->taken.bytes;
    to->taken.count += f->taken.count;
    to->given.bytes += f->given.bytes;
    to->given.count += f->given.count;
}

// Whether a site is listed before another one: bytes taken and given back, then the lower id.
static inline int ct_digest_site_precedes(const struct ct_digest_site *a,
                                          const struct ct_digest_site *b) {
    const uint64_t x = a->flow.taken.bytes + a->flow.given.bytes,
                   y = b->flow.taken.bytes + b->flow.given.bytes;
    return x != y ? x > y : a->stack < b->stack;
}

// Puts a site into the list, in its order. What has no place there joins the rest.
static inline void ct_digest_list_site(struct ct_digest *g, const struct ct_digest_site *site) {
    uint32_t i = g->sites;
    if (i == CT_DIGEST_SITES && !ct_digest_site_precedes(site, &g->site[--i])) {
        ct_digest_flow_join(&g->rest, &site->flow);
        return;
    }
    if (g->sites == CT_DIGEST_SITES)
        ct_digest_flow_join(&g->rest, &g->site[i].flow);
    else
        g->sites++;
    for (; i && ct_digest_site_precedes(site, &g->site[i - 1]); i--)
        g->site[i] = g->site[i - 1];
    g->site[i] = *site;
}

#define CT_DIGEST_NO_ID UINT32_MAX

// Chooses the sites that are listed. `to_id` gives a stack's id in the chunk's dictionaries (0: no
// stack), or CT_DIGEST_NO_ID: it has none, and is in the rest.
static inline void ct_digest_choose_sites(struct ct_digest_maker *m,
                                          uint32_t (*to_id)(uint32_t stack)) {
    struct ct_digest *g = &m->digest;
    g->sites = 0;
    g->rest = m->sites.beyond;
    for (uint32_t i = 0; i < m->sites.used; i++) {
        struct ct_digest_site site = m->sites.site[i];
        site.stack = to_id(site.stack);
        if (site.stack == CT_DIGEST_NO_ID)
            ct_digest_flow_join(&g->rest, &site.flow);
        else
            ct_digest_list_site(g, &site);
    }
}

// ---- what events do -----------------------------------------------------------------------------

// Begins the digest of a chunk. `live` is the state before its first event.
static inline void ct_digest_begin(struct ct_digest_maker *m, const struct ct_live *live,
                                   uint64_t first_event) {
    memset(&m->digest, 0, sizeof m->digest);
    m->digest.first_event = first_event;
    m->sites.used = 0;
    m->sites.beyond = (struct ct_digest_flow){0};
    memset(m->sites.key, 0, sizeof m->sites.key);
    for (int i = 0; i < CT_DEVICES; i++) {
        m->before[i] =
            (struct ct_digest_sum){live->device[i].live_bytes, live->device[i].live_allocations};
        m->digest.device[i].peak_bytes = live->device[i].live_bytes;
    }
}

// For total_changed of struct ct_live.
CT_HOT void ct_digest_note_change(struct ct_digest_maker *m, const struct ct_live *live,
                                  const struct ct_object *o, int sign) {
    const int index = ct_device_to_index(o->device);
    struct ct_digest_device *d = &m->digest.device[index];
    ct_digest_flow_add(ct_digest_flow_of_site(&m->sites, o->stack), o->bytes, sign);
    if (sign < 0)
        return;
    d->flow.taken.bytes += o->bytes;
    d->flow.taken.count++;
    if (live->device[index].live_bytes <= d->peak_bytes)
        return;
    d->peak_bytes = live->device[index].live_bytes;
    d->peak_event = m->number;
    d->peak_ns = m->t_ns;
    d->has_peak = 1;
}

// For owner_changed of struct ct_live: the memory moves from one call site to another.
static inline void ct_digest_note_owner(struct ct_digest_maker *m, const struct ct_object *o,
                                        uint32_t by) {
    ct_digest_flow_add(ct_digest_flow_of_site(&m->sites, by), o->bytes, -1);
    ct_digest_flow_add(ct_digest_flow_of_site(&m->sites, o->stack), o->bytes, +1);
}

// Before an event (or an AMEND record, with the number of the next event) is applied to the state.
CT_HOT void ct_digest_note_event(struct ct_digest_maker *m, const struct ct_event *e,
                                 uint64_t number) {
    m->number = number;
    m->t_ns = e->t_ns;
    if (e->op != CT_OP_AMEND)
        m->digest.ops[e->op < CT_DIGEST_OPS ? e->op : 0]++;
    else if (CT_HAS(e, result) && e->result)
        m->digest.failed_frees++;
}

static inline void ct_digest_note_reported(struct ct_digest_device *d, const struct ct_event *e,
                                           uint64_t number) {
    if (!CT_HAS(e, allocated_bytes) || !CT_HAS(e, reserved_bytes) ||
        (CT_HAS(e, result) && e->result))
        return;
    d->allocated = e->allocated_bytes;
    d->reserved = e->reserved_bytes;
    if (!d->has_reported || d->allocated > d->most_allocated) {
        d->most_allocated = d->allocated;
        d->most_allocated_event = number;
    }
    if (!d->has_reported || d->reserved > d->most_reserved) {
        d->most_reserved = d->reserved;
        d->most_reserved_event = number;
    }
    d->has_reported = 1;
}

CT_COLD void ct_digest_note_reading(struct ct_digest_device *d, const struct ct_event *e) {
    const struct ct_digest_reading now = {e->free_bytes, e->total_bytes, e->t_ns};
    const int by_nvml = CT_HAS(e, flags) && e->flags & CT_FLAG_NVML;
    d->last = now;
    d->has_last = 1;
    if (by_nvml || (d->has_lowest && now.free >= d->lowest.free))
        return;
    d->lowest = now;
    d->has_lowest = 1;
}

CT_COLD void ct_digest_note_oom(struct ct_digest *g, uint64_t number) {
    if (g->failed < CT_DIGEST_FAILED)
        g->failed_event[g->failed] = number;
    g->failed++;
}

// The fields of which one at least is in each event that says more than what it does to the state.
#define CT_DIGEST_FACTS (CT_BIT(result) | CT_BIT(free_bytes) | CT_BIT(allocated_bytes))

// What else an event says, as it will be in the trace.
CT_HOT void ct_digest_note_facts(struct ct_digest_maker *m, const struct ct_event *e) {
    struct ct_digest_device *d = &m->digest.device[ct_event_device_index(e)];
    if (__builtin_expect(
            !(e->present & CT_DIGEST_FACTS) && e->op != CT_OP_LOST && e->op != CT_OP_BLOCK_OOM, 1))
        return;
    if (e->op == CT_OP_AMEND)
        return;
    if (ct_op_is_block(e->op) || e->op == CT_OP_BLOCK_OOM)
        ct_digest_note_reported(d, e, m->number);
    if (CT_HAS(e, free_bytes) && CT_HAS(e, total_bytes))
        ct_digest_note_reading(d, e);
    if (e->op == CT_OP_LOST)
        m->digest.lost += CT_HAS(e, count) ? e->count : 1;
    if (ct_event_reports_oom(e))
        ct_digest_note_oom(&m->digest, m->number);
}

// Ends the digest. `live` is the state after the chunk's last record.
static inline void ct_digest_end(struct ct_digest_maker *m, const struct ct_live *live) {
    for (int i = 0; i < CT_DEVICES; i++) {
        struct ct_digest_flow *f = &m->digest.device[i].flow;
        const struct ct_live_device *now = &live->device[i];
        m->digest.device[i].live_bytes = now->live_bytes;
        f->given.bytes = m->before[i].bytes + f->taken.bytes - now->live_bytes;
        f->given.count = m->before[i].count + f->taken.count - now->live_allocations;
    }
}

#endif
