// SPDX-License-Identifier: Apache-2.0
// Each failed allocation joins the incident of its request, or begins one.
#include "analyze/incidents.h"

#include <cutrace/format/assert.h>
#include <cutrace/model/failures.h>

#include "base/search.h"
#include "replay/torch_pool.h"

// ---- incidents ----------------------------------------------------------------------------------

int ct_incidents_is_device_memory(const struct ct_oom_event *o) {
    return o->space != CT_SPACE_HOST && o->op != CT_OP_REGISTER && o->op != CT_OP_RESERVE;
}

// A failed request and a later one that recovers it have the same key: the same size, kind of
// memory and device, and both made to the driver or both to PyTorch.
static uint64_t request_key(const struct ct_oom_event *o) {
    const uint64_t of_block = o->op == CT_OP_BLOCK_OOM || o->op == CT_OP_BLOCK_ALLOC;
    return ct_hash_mix(o->bytes) ^ (uint64_t)(o->device + 1) << 2 ^ of_block << 1 ^
           (uint64_t)ct_incidents_is_device_memory(o);
}

// Remembers the size of a block that failed, unless it is small: small ones are split exactly.
static void note_block(struct ct_incidents *n, uint64_t bytes) {
    for (size_t i = 0; i < n->block_count && i < CT_INCIDENT_BLOCKS; i++)
        if (n->blocks[i] == bytes)
            return;
    if (bytes > CT_TORCH_POOL_SMALL_BLOCK)
        n->blocks[n->block_count++ % CT_INCIDENT_BLOCKS] = bytes;
}

static uint32_t begin_incident(struct ct_incidents *n) {
    CT_HEAP_GROW(n->list, n->count, n->room);
    n->list[n->count] =
        (struct ct_incident){.first = (uint32_t)n->oom_count, .last = (uint32_t)n->oom_count};
    return (uint32_t)n->count++;
}

// Appends the newest OOM to an incident.
static void join_incident(struct ct_incidents *n, uint32_t incident) {
    const uint32_t at = (uint32_t)(n->oom_count - 1);
    struct ct_incident *i = &n->list[incident];
    CT_ASSERT(i->first <= at && i->last <= at);
    n->ooms[at].incident = incident;
    if (i->parts++)
        n->ooms[i->last].next_part = at + 1;
    i->last = at;
    i->by_pytorch |= n->ooms[at].op == CT_OP_BLOCK_OOM;
}

// The most that PyTorch asked the driver for to serve a request.
static uint64_t find_segment(const struct ct_incidents *n, uint32_t incident, int device) {
    uint64_t most = 0;
    for (uint32_t at = n->list[incident].first + 1; at; at = n->ooms[at - 1].next_part) {
        const struct ct_oom_event *o = &n->ooms[at - 1];
        if (o->op != CT_OP_BLOCK_OOM && o->device == device && o->bytes_known && o->bytes > most)
            most = o->bytes;
    }
    return most;
}

void ct_incidents_add(struct ct_incidents *n, const struct ct_oom_event *o,
                      struct ct_driver_request *q) {
    const uint32_t incident = q && q->incident ? q->incident - 1 : begin_incident(n);
    if (q)
        q->incident = incident + 1;
    CT_HEAP_GROW(n->ooms, n->oom_count, n->oom_room);
    n->ooms[n->oom_count++] = *o;
    join_incident(n, incident);
    if (o->op == CT_OP_BLOCK_OOM) {
        n->ooms[n->oom_count - 1].segment_bytes = find_segment(n, incident, o->device);
        note_block(n, o->bytes);
    }
    if (!o->bytes_known)
        return;
    uint64_t *last = ct_map_add(&n->unrecovered, request_key(o));
    n->ooms[n->oom_count - 1].earlier = (uint32_t)*last;
    *last = n->oom_count;
}

static void recover(struct ct_oom_event *o, uint64_t event, uint64_t t_ns, uint64_t bytes) {
    o->recovered = 1;
    o->recovered_event = event;
    o->recovered_t_ns = t_ns;
    o->recovered_bytes = bytes;
}

// Recovers the OOMs of requests like this one, made or served by an event.
static void recover_all(struct ct_incidents *n, const struct ct_oom_event *like,
                        const struct ct_event *e, uint64_t number) {
    uint64_t *last = ct_map_find(&n->unrecovered, request_key(like));
    for (uint64_t at = last ? *last : 0; at; at = n->ooms[at - 1].earlier)
        recover(&n->ooms[at - 1], number, e->t_ns, e->bytes);
    if (last)
        *last = 0;
}

void ct_incidents_note_success(struct ct_incidents *n, const struct ct_event *e, uint64_t number) {
    if (!ct_event_has_requested_bytes(e))
        return;
    struct ct_oom_event like = {.op = e->op,
                                .space = CT_GET(e, space),
                                .device = ct_event_device_index(e),
                                .bytes = e->bytes};
    recover_all(n, &like, e, number);
    // PyTorch leaves a rest of up to 1 MiB in a large block.
    for (size_t i = 0; e->op == CT_OP_BLOCK_ALLOC && i < n->block_count && i < CT_INCIDENT_BLOCKS;
         i++)
        if (n->blocks[i] < e->bytes && e->bytes - n->blocks[i] <= CT_TORCH_POOL_SMALL_BLOCK) {
            like.bytes = n->blocks[i];
            recover_all(n, &like, e, number);
        }
}

void ct_incidents_note_retry(struct ct_incidents *n, const struct ct_driver_request *q) {
    struct ct_incident *i = &n->list[q->incident - 1];
    i->by_pytorch = i->retried = 1;
    i->freed = q->freed;
    // Another thread's call of the same size may have succeeded earlier; this one is the retry.
    for (uint32_t at = i->first + 1; at; at = n->ooms[at - 1].next_part)
        recover(&n->ooms[at - 1], q->obtained_event, q->obtained_t_ns, n->ooms[at - 1].bytes);
}

// Whether an incident describes the crossing better than another one that begins earlier: an
// incident that was not recovered, the last one; else one that the program noticed, the first one.
static int is_more_telling(const struct ct_incident *i, const struct ct_incident *earlier) {
    if (!earlier || !i->recovered)
        return !earlier || earlier->recovered || i->head > earlier->head;
    return earlier->retried && !i->retried;
}

// Views ask once a row, and a trace may have as many rows as incidents.
static size_t find_crossing(const struct ct_incidents *n) {
    for (int of_device = 1; of_device >= 0; of_device--) {
        const struct ct_incident *best = NULL;
        for (const struct ct_incident *i = n->list; i < n->list + n->count; i++)
            if (ct_incidents_is_device_memory(&n->ooms[i->head]) == of_device &&
                is_more_telling(i, best))
                best = i;
        if (best)
            return (size_t)(best - n->list) + 1;
    }
    return 0;
}

void ct_incidents_finish(struct ct_incidents *n) {
    for (size_t k = 0; k < n->count; k++) {
        struct ct_incident *i = &n->list[k];
        i->recovered = n->ooms[i->last].recovered;
        i->head = i->recovered && !i->by_pytorch ? i->first : i->last;
        if (i->retried)
            i->head = i->first;
    }
    n->crossing = find_crossing(n);
}

const struct ct_oom_event *ct_incidents_head(const struct ct_incidents *n, size_t incident) {
    return &n->ooms[n->list[incident].head];
}

int ct_incidents_is_retried(const struct ct_incidents *n, const struct ct_oom_event *o) {
    return n->list[o->incident].retried;
}

struct ct_incident_counts ct_incidents_count(const struct ct_incidents *n) {
    struct ct_incident_counts c = {0};
    for (size_t k = 0; k < n->count; k++) {
        const struct ct_incident *i = &n->list[k];
        c.failed += !i->retried;
        c.recovered_later += !i->retried && i->recovered;
        c.retried += i->retried != 0;
        c.freed += i->retried && i->freed;
    }
    return c;
}

const struct ct_breakdown *ct_incidents_find_split(const struct ct_incidents *n, uint64_t number,
                                                   int device) {
    const size_t at = CT_COUNT_BELOW(n->ooms, n->oom_count, event, number);
    const struct ct_oom_event *o = at < n->oom_count ? &n->ooms[at] : NULL;
    return o && o->event == number && o->device == device ? &o->split : NULL;
}

size_t ct_incidents_count_failed(const struct ct_incidents *n, int device) {
    size_t count = 0;
    for (size_t i = 0; i < n->count; i++)
        count += !n->list[i].retried && ct_incidents_head(n, i)->device == device;
    return count;
}

const struct ct_oom_event *ct_incidents_find_crossing(const struct ct_incidents *n) {
    return n->crossing ? ct_incidents_head(n, n->crossing - 1) : NULL;
}

void ct_incidents_free(struct ct_incidents *n) {
    free(n->ooms);
    free(n->list);
    ct_map_free(&n->unrecovered);
    *n = (struct ct_incidents){0};
}

// ---- incidents that are alike -------------------------------------------------------------------

static uint64_t group_key(const struct ct_incident *i, const struct ct_oom_event *o) {
    const uint64_t parts[] = {(uint64_t)o->device,
                              o->op,
                              o->api,
                              (uint32_t)o->result,
                              o->stack,
                              (uint64_t)(i->retried << 2 | i->freed << 1 | i->recovered),
                              (uint64_t)o->bytes_known};
    uint64_t key = 0;
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
        key = ct_hash_mix(key ^ parts[k]);
    return key;
}

static struct ct_incident_group *begin_group(struct ct_incident_groups *g, size_t incident) {
    CT_HEAP_GROW(g->list, g->count, g->room);
    g->list[g->count] =
        (struct ct_incident_group){.shown = incident, .first = incident, .smallest = UINT64_MAX};
    return &g->list[g->count++];
}

static void add(struct ct_incident_group *group, size_t incident, const struct ct_oom_event *o) {
    group->last = incident;
    group->count++;
    if (!o->bytes_known)
        return;
    group->smallest = o->bytes < group->smallest ? o->bytes : group->smallest;
    group->largest = o->bytes > group->largest ? o->bytes : group->largest;
}

// Moves the group of the crossing to the front.
static void put_first(struct ct_incident_groups *g, size_t at, size_t crossing) {
    struct ct_incident_group first = g->list[at];
    first.shown = crossing;
    memmove(g->list + 1, g->list, at * sizeof *g->list);
    g->list[0] = first;
}

void ct_incident_groups_find(struct ct_incident_groups *g, const struct ct_incidents *n,
                             const struct ct_oom_event *crossing) {
    struct ct_map known = {.count = 0}; // key -> position of the group, + 1
    size_t of_crossing = 0;
    *g = (struct ct_incident_groups){.list = NULL};
    for (size_t k = 0; k < n->count; k++) {
        const struct ct_oom_event *o = ct_incidents_head(n, k);
        uint64_t *at = ct_map_add(&known, group_key(&n->list[k], o));
        if (!*at) {
            begin_group(g, k);
            *at = g->count;
        }
        add(&g->list[*at - 1], k, o);
        if (o == crossing)
            of_crossing = *at;
    }
    ct_map_free(&known);
    if (of_crossing)
        put_first(g, of_crossing - 1, crossing->incident);
}

void ct_incident_groups_free(struct ct_incident_groups *g) {
    free(g->list);
    *g = (struct ct_incident_groups){.list = NULL};
}
