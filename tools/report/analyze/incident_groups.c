// SPDX-License-Identifier: Apache-2.0
#include "analyze/incident_groups.h"

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
