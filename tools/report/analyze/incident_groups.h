// SPDX-License-Identifier: Apache-2.0
// Incidents that are alike: the same call failed from one call site on one device, with the same
// outcome. A program that tries again and again has thousands of incidents, and a few groups.
#ifndef CT_INCIDENT_GROUPS_H
#define CT_INCIDENT_GROUPS_H

#include "analyze/incidents.h"

struct ct_incident_group {
    size_t shown;               // the incident that stands for them: the crossing, or the first
    size_t first, last, count;  // incidents of the list; how many
    uint64_t smallest, largest; // bytes asked for, where known; smallest > largest: nowhere
};

struct ct_incident_groups {
    struct ct_incident_group *list; // that of the crossing, then in the order of their first ones
    size_t count, room;
};

// After ct_incidents_finish. `crossing`: its head, or NULL.
void ct_incident_groups_find(struct ct_incident_groups *g, const struct ct_incidents *n,
                             const struct ct_oom_event *crossing);
void ct_incident_groups_free(struct ct_incident_groups *g);

#endif
