// SPDX-License-Identifier: Apache-2.0
// Holdings summed by kind and call site: the label of the first frame of a stack that is not
// hidden.
#ifndef CT_SITE_GROUPS_H
#define CT_SITE_GROUPS_H

#include "analyze/live_at.h"
#include "symbols/call_sites.h"

struct ct_site_group {
    enum ct_holding_kind kind;
    char *label;
    uint32_t stack; // the first stack that was added
    uint64_t stacks, bytes, count;
    uint64_t more[4]; // sums of the caller's own
};

struct ct_site_groups {
    struct ct_site_group *list;
    size_t count, capacity;
    struct ct_id_set set;
};

// Where one label stands for more than a fifth of the holdings and its callers differ (a program's
// own allocation function), lets the labels of those stacks show as many callers as it takes to
// tell them apart.
void ct_site_groups_refine(struct ct_call_sites *s, const struct ct_holding *holdings, size_t n);
// Returns the group of a stack and kind, a new one if need be; valid until the next call.
struct ct_site_group *ct_site_groups_get(struct ct_site_groups *g, struct ct_call_sites *s,
                                         enum ct_holding_kind kind, uint32_t stack);
// The label of a holding: that of its call site, or what it is if it has none.
void ct_site_groups_label(struct ct_call_sites *s, enum ct_holding_kind kind, uint32_t stack,
                          char *to, size_t size);
// Makes sorted groups of holdings. Where the holdings are sorted too, a group's `stack` is the one
// that holds the most.
void ct_site_groups_build(struct ct_site_groups *g, struct ct_call_sites *s,
                          const struct ct_holding *holdings, size_t n);
// Sorts the groups, the most bytes first. No group can be added afterwards.
void ct_site_groups_sort(struct ct_site_groups *g);
void ct_site_groups_free(struct ct_site_groups *g);

#endif
